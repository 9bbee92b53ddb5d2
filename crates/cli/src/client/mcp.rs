//! MCP of the stateless revision, for calls: the one dialect that tells progress as it happens.

use std::time::Duration;

use anyhow::Context as _;
use base64::Engine as _;
use reqwest::{
    Method, RequestBuilder, Response, StatusCode,
    header::{ACCEPT, CONTENT_TYPE},
};
use serde::Deserialize;
use serde_json::{Map, Value, json, value::RawValue};
use tokio::time::timeout;
use toolcrib_core::call::{Outcome, Progress};

use super::{Client, READ_LIMIT, bounded, events::Events, refused};
use crate::failure::advised;

/// How a call ended.
#[derive(Debug)]
pub(crate) enum CallEnd {
    /// The tool answered.
    Answered {
        /// The run that holds the call's events.
        run_id: Option<String>,
        /// What it answered.
        outcome: Outcome,
    },
    /// The tool did not run, or its source failed.
    Refused {
        /// The run that holds the call's events.
        run_id: Option<String>,
        /// Stable code of the reason.
        code: String,
        /// For people.
        message: String,
        /// More about it, by the kind of reason.
        details: Value,
    },
}

/// A tool as the server lists it.
#[derive(Debug, Deserialize)]
pub(crate) struct Listed {
    pub(crate) name: String,
    #[serde(default, rename = "inputSchema")]
    input_schema: Value,
    #[serde(default, rename = "_meta")]
    meta: Map<String, Value>,
}

/// A page of a list.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Page {
    #[serde(default)]
    tools: Vec<Listed>,
    next_cursor: Option<String>,
}

/// A message of the server.
#[derive(Debug, Deserialize)]
struct Message {
    method: Option<String>,
    #[serde(default)]
    params: Value,
    result: Option<Box<RawValue>>,
    error: Option<RpcError>,
}

#[derive(Debug, Deserialize)]
struct RpcError {
    code: i64,
    message: String,
    #[serde(default)]
    data: Value,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct ToolResult {
    content: Box<RawValue>,
    structured_content: Option<Box<RawValue>>,
    #[serde(default)]
    is_error: bool,
    #[serde(default, rename = "_meta")]
    meta: Map<String, Value>,
}

const VERSION: &str = "2026-07-28";
/// Tools that are read of a list.
const MAX_LISTED: usize = 1_000_000;
/// Silence of a stream after which the server is given up: it says something every 15 seconds.
const SILENCE: Duration = Duration::from_secs(60);
/// The members of `_meta` by which the server says what MCP has no place for.
const TOOL_ID: &str = "dev.toolcrib/toolId";
const SOURCE_ID: &str = "dev.toolcrib/sourceId";
const OTC_ID: &str = "dev.toolcrib/otcId";
const RUN_ID: &str = "dev.toolcrib/runId";
const ERROR: &str = "dev.toolcrib/error";
const APPROVAL_ID: &str = "dev.toolcrib/approvalId";
const EXPIRES_AT: &str = "dev.toolcrib/expiresAt";

impl Listed {
    /// The id of the tool.
    pub(crate) fn tool_id(&self) -> Option<&str> {
        self.meta.get(TOOL_ID)?.as_str()
    }

    /// The id of its source.
    pub(crate) fn source_id(&self) -> Option<&str> {
        self.meta.get(SOURCE_ID)?.as_str()
    }

    /// What it takes.
    pub(crate) fn input_schema(&self) -> &Value {
        &self.input_schema
    }

    /// Its OTC id, with the version.
    pub(crate) fn otc_id(&self) -> Option<&str> {
        self.meta.get(OTC_ID)?.as_str()
    }

    /// The tool of `tools` with this tool id, wire name or OTC id, with or without a version.
    pub(crate) fn find<'a>(tools: &'a [Self], name: &str) -> Option<&'a Self> {
        let bare = |id: &str| id.split_once('@').is_some_and(|(bare, _)| bare == name);
        let by = |is_it: &dyn Fn(&Self) -> bool| tools.iter().find(|tool| is_it(tool));
        by(&|tool| tool.tool_id() == Some(name))
            .or_else(|| by(&|tool| tool.name == name))
            .or_else(|| by(&|tool| tool.otc_id() == Some(name)))
            .or_else(|| by(&|tool| tool.otc_id().is_some_and(bare)))
    }
}

impl Client {
    /// The tools that the key may use.
    pub(crate) async fn mcp_tools(&self) -> anyhow::Result<Vec<Listed>> {
        let (mut tools, mut params) = (Vec::new(), json!({}));
        loop {
            let request = self.mcp("tools/list", None, params)?.timeout(READ_LIMIT);
            let response = self.sent(request).await?;
            let status = response.status();
            let message = whole(response).await?;
            let (Some(result), None) = (message.result, &message.error) else {
                return Err(rejected(status, message.error));
            };
            let page: Page = serde_json::from_str(result.get())?;
            tools.extend(page.tools);
            match page.next_cursor {
                Some(cursor) if tools.len() <= MAX_LISTED => params = json!({ "cursor": cursor }),
                Some(_) => {
                    return Err(advised(
                        "the server lists more tools than this command reads",
                        "use a toolset, or a key that may use fewer",
                    ));
                }
                None => return Ok(tools),
            }
        }
    }

    /// Calls tool `name`, whose entry in the list is `listed` if it is there; `progress` hears what
    /// the tool tells while it runs. It takes as long as the tool takes.
    pub(crate) async fn mcp_call(
        &self,
        name: &str,
        listed: Option<&Listed>,
        arguments: &Value,
        progress: impl Fn(Progress),
    ) -> anyhow::Result<CallEnd> {
        let params = json!({
            "name": name, "arguments": arguments, "_meta": { "progressToken": 1 },
        });
        let mut request = self.mcp("tools/call", Some(name), params)?;
        if let Some(listed) = listed {
            request = repeated(request, &listed.input_schema, arguments);
        }
        let response = self.sent(request).await?;
        let status = response.status();
        let kind = response.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
        let is_stream = kind.is_some_and(|kind| kind.starts_with("text/event-stream"));
        let message = match is_stream {
            true => last(response, progress).await?,
            false => whole(response).await?,
        };
        match (message.result, message.error) {
            (Some(result), None) => answered(&result),
            (_, Some(error)) if status.is_success() => Ok(error.into()),
            (_, error) => Err(rejected(status, error)),
        }
    }

    fn mcp(
        &self,
        method: &str,
        name: Option<&str>,
        mut params: Value,
    ) -> anyhow::Result<RequestBuilder> {
        let own = json!({
            "io.modelcontextprotocol/protocolVersion": VERSION,
            "io.modelcontextprotocol/clientCapabilities": {},
        });
        if let (Some(params), Value::Object(own)) = (params.as_object_mut(), own) {
            let meta = params.entry("_meta").or_insert_with(|| json!({}));
            meta.as_object_mut().into_iter().for_each(|meta| meta.extend(own.clone()));
        }
        let mut request = self
            .request(Method::POST, self.path(&["mcp"])?)?
            .header(ACCEPT, "application/json, text/event-stream")
            .header("MCP-Protocol-Version", VERSION)
            .header("Mcp-Method", method)
            .json(&json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params }));
        if let Some(name) = name {
            request = request.header("Mcp-Name", header(name));
        }
        Ok(request)
    }
}

impl From<RpcError> for CallEnd {
    fn from(error: RpcError) -> Self {
        let RpcError { code, message, data } = error;
        // The names of the gateway, which the record and the other dialects use.
        let (code, message) = match code {
            -31403 => ("forbidden".to_owned(), message),
            -31429 => ("rate_limited".to_owned(), message),
            -31503 => ("unavailable".to_owned(), message),
            -32021 => ("capability_required".to_owned(), message),
            -32603 => ("internal_error".to_owned(), message),
            -32602 if message == "Unknown tool" => {
                ("not_found".to_owned(), "no such tool".to_owned())
            }
            code => (format!("rpc{code}"), message),
        };
        Self::Refused { run_id: None, code, message, details: data }
    }
}

fn answered(result: &RawValue) -> anyhow::Result<CallEnd> {
    let result: ToolResult =
        serde_json::from_str(result.get()).context("the server's answer makes no sense")?;
    let member = |name: &str| result.meta.get(name).and_then(Value::as_str).map(str::to_owned);
    let (run_id, refused) = (member(RUN_ID), member(ERROR));
    let ToolResult { content, structured_content, is_error, .. } = result;
    let Some(code) = refused else {
        let outcome = Outcome { content, structured: structured_content, is_error };
        return Ok(CallEnd::Answered { run_id, outcome });
    };
    let blocks: Vec<Value> = serde_json::from_str(content.get())?;
    let texts: Vec<&str> = blocks.iter().filter_map(|block| block.get("text")?.as_str()).collect();
    let details: Map<String, Value> = [("approvalId", APPROVAL_ID), ("expiresAt", EXPIRES_AT)]
        .into_iter()
        .filter_map(|(name, key)| Some((name.to_owned(), json!(member(key)?))))
        .collect();
    let details = if details.is_empty() { Value::Null } else { Value::Object(details) };
    Ok(CallEnd::Refused { run_id, code, message: texts.join("\n"), details })
}

/// The one message of an answer that is no stream.
async fn whole(response: Response) -> anyhow::Result<Message> {
    let status = response.status();
    let bytes = bounded(response).await?;
    match serde_json::from_slice(&bytes) {
        Ok(message) => Ok(message),
        Err(_) if status.is_success() => Err(not_ours()),
        Err(_) => Err(rejected(status, None)),
    }
}

/// The answer at the end of a stream.
async fn last(mut response: Response, progress: impl Fn(Progress)) -> anyhow::Result<Message> {
    let mut events = Events::default();
    loop {
        let piece = timeout(SILENCE, response.chunk())
            .await
            .context("the server fell silent during the call")?
            .context("the answer broke off")?
            .context("the server ended the call without an answer")?;
        let complete =
            events.push(&piece).map_err(|_| anyhow::anyhow!("the answer is larger than 64 MiB"))?;
        for event in complete {
            let message: Message = serde_json::from_slice(&event).map_err(|_| not_ours())?;
            match message.method.as_deref() {
                None => return Ok(message),
                Some("notifications/progress") => {
                    if let Some(told) = told(message.params) {
                        progress(told);
                    }
                }
                Some(_) => {}
            }
        }
    }
}

fn told(params: Value) -> Option<Progress> {
    let number = |name: &str| params.get(name)?.as_number().cloned();
    let message = params.get("message").and_then(Value::as_str).map(str::to_owned);
    Some(Progress { progress: number("progress")?, total: number("total"), message })
}

fn not_ours() -> anyhow::Error {
    advised(
        "the server answered something that is not MCP",
        "is this the address of a toolcrib server?",
    )
}

/// What a request that MCP did not answer is told.
fn rejected(status: StatusCode, error: Option<RpcError>) -> anyhow::Error {
    let error = error.map(|it| json!({ "message": it.message, "details": it.data }));
    match (status, error) {
        (StatusCode::NOT_FOUND, None) => advised(
            "the server has no MCP endpoint, which calls go through",
            "is this the address of a toolcrib server, and does it have [mcp] switched on?",
        ),
        (status, error) => refused(status, &error.unwrap_or_default(), &[]),
    }
}

/// Repeats what the tool's schema wants repeated in headers.
fn repeated(mut request: RequestBuilder, schema: &Value, arguments: &Value) -> RequestBuilder {
    let properties = schema.get("properties").and_then(Value::as_object);
    for (name, schema) in properties.into_iter().flatten() {
        let Some(value) = arguments.get(name) else { continue };
        let text = match value {
            Value::String(text) => text.clone(),
            Value::Number(number) => number.to_string(),
            Value::Bool(truth) => truth.to_string(),
            Value::Object(_) => {
                request = repeated(request, schema, value);
                continue;
            }
            Value::Null | Value::Array(_) => continue,
        };
        if let Some(wanted) = schema.get("x-mcp-header").and_then(Value::as_str) {
            request = request.header(format!("Mcp-Param-{wanted}"), header(&text));
        }
    }
    request
}

/// `text` as the value of a header; what no header may hold is coded.
fn header(text: &str) -> String {
    let plain = text.bytes().all(|byte| matches!(byte, b' '..=b'~'))
        && text.trim() == text
        && !text.starts_with("=?base64?");
    match plain {
        true => text.to_owned(),
        false => {
            format!("=?base64?{}?=", base64::engine::general_purpose::STANDARD.encode(text))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_schema_wants_repeated_stands_in_headers() {
        let schema = json!({ "properties": {
            "region": { "type": "string", "x-mcp-header": "Region" },
            "at": { "properties": { "n": { "type": "integer", "x-mcp-header": "N" } } },
            "plain": { "type": "string" },
        } });
        let arguments = json!({ "region": "größe", "at": { "n": 7 }, "plain": "x" });
        // Another test of this process may have been first.
        rustls::crypto::aws_lc_rs::default_provider().install_default().ok();
        #[expect(clippy::disallowed_methods, reason = "nothing is sent")]
        let request = reqwest::Client::new().post("http://127.0.0.1/");
        let request = repeated(request, &schema, &arguments).build().unwrap();
        let value = |name: &str| request.headers()[name].to_str().unwrap().to_owned();
        assert_eq!(value("mcp-param-region"), "=?base64?Z3LDtsOfZQ==?=");
        assert_eq!(value("mcp-param-n"), "7");
        assert_eq!(request.headers().len(), 2);
    }
}
