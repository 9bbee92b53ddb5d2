//! Tool calls over the stateless revision of MCP, the one protocol that reports progress during a
//! call.

use std::{num::NonZeroUsize, time::Duration};

use anyhow::Context as _;
use reqwest::{
    Method, RequestBuilder, Response, StatusCode,
    header::{ACCEPT, CONTENT_TYPE},
};
use serde::Deserialize;
use serde_json::{Map, Value, json, value::RawValue};
use tokio::time::timeout;
use toolcrib_core::call::{Outcome, Progress};
use toolcrib_mcp::{
    code, header,
    message::{self, IncomingMessage, RpcError},
    meta::{CLIENT_CAPABILITIES, META, PROGRESS_TOKEN, PROTOCOL_VERSION, toolcrib as key},
    method, param_header,
    revision::MODERN,
    sse::SseParser,
};

use super::{Client, MAX_ANSWER, READ_LIMIT, bounded, refused};
use crate::failure::advised;

/// The outcome of a call.
#[derive(Debug)]
pub(crate) enum CallEnd {
    /// The tool returned a result.
    Answered {
        /// The run that contains the call's events.
        run_id: Option<String>,
        outcome: Outcome,
    },
    /// The tool did not run, or its source failed.
    Refused {
        /// The run that contains the call's events.
        run_id: Option<String>,
        /// The stable error code.
        code: String,
        /// The message for people.
        message: String,
        /// Details that depend on the code.
        details: Value,
    },
}

/// A tool in the server's list.
#[derive(Debug, Deserialize)]
pub(crate) struct ListedTool {
    pub(crate) name: String,
    #[serde(default, rename = "inputSchema")]
    input_schema: Value,
    #[serde(default, rename = "_meta")]
    meta: Map<String, Value>,
}

/// The list of a server.
#[derive(Debug, Default)]
pub(crate) struct McpList {
    pub(crate) tools: Vec<ListedTool>,
    /// The number of tools on the first page; `None` if the list is empty.
    pub(crate) first_page: Option<NonZeroUsize>,
}

/// A page of a list.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Page {
    #[serde(default)]
    tools: Vec<ListedTool>,
    next_cursor: Option<String>,
}

/// The response to a request.
enum Reply {
    Result(Box<RawValue>),
    /// An error; `None` if the response is neither a result nor an error.
    Error(Option<RpcError>),
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

/// Limit of tools read from a list.
const MAX_LISTED: usize = 1_000_000;
/// Timeout of a silent stream; a server sends data at least every 15 seconds.
const SILENCE: Duration = Duration::from_secs(60);

impl ListedTool {
    pub(crate) fn tool_id(&self) -> Option<&str> {
        self.meta.get(key::TOOL_ID)?.as_str()
    }

    pub(crate) fn source_id(&self) -> Option<&str> {
        self.meta.get(key::SOURCE_ID)?.as_str()
    }

    pub(crate) fn input_schema(&self) -> &Value {
        &self.input_schema
    }

    /// The OTC id with its version.
    pub(crate) fn otc_id(&self) -> Option<&str> {
        self.meta.get(key::OTC_ID)?.as_str()
    }

    /// Finds a tool by tool id, wire name or OTC id, with or without a version.
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
    /// Lists the tools that the key may use. Fails if there are more than [`MAX_LISTED`].
    pub(crate) async fn mcp_tools(&self) -> anyhow::Result<Vec<ListedTool>> {
        Ok(self.mcp_list().await?.tools)
    }

    /// As [`mcp_tools`](Self::mcp_tools), with the number of tools on the first page.
    pub(crate) async fn mcp_list(&self) -> anyhow::Result<McpList> {
        let (mut tools, mut params, mut first_page) = (Vec::new(), json!({}), None);
        loop {
            let request = self.mcp(method::LIST_TOOLS, None, params)?.timeout(READ_LIMIT);
            let response = self.sent(request).await?;
            let status = response.status();
            let result = match whole(response).await? {
                Reply::Result(result) => result,
                Reply::Error(error) => return Err(rejected(status, error)),
            };
            let page: Page = serde_json::from_str(result.get())?;
            first_page = first_page.or_else(|| NonZeroUsize::new(page.tools.len()));
            tools.extend(page.tools);
            match page.next_cursor {
                Some(cursor) if tools.len() <= MAX_LISTED => params = json!({ "cursor": cursor }),
                Some(_) => {
                    return Err(advised(
                        "the server lists more tools than this command reads",
                        "use a toolset, or a key that may use fewer",
                    ));
                }
                None => return Ok(McpList { tools, first_page }),
            }
        }
    }

    /// Calls tool `name` without a timeout. `listed` is its entry in the list, if it has one;
    /// `progress` receives the progress notifications of the call.
    pub(crate) async fn mcp_call(
        &self,
        name: &str,
        listed: Option<&ListedTool>,
        arguments: &Value,
        progress: impl Fn(Progress),
    ) -> anyhow::Result<CallEnd> {
        let params = json!({
            "name": name, "arguments": arguments, META: { PROGRESS_TOKEN: 1 },
        });
        let mut request = self.mcp(method::CALL_TOOL, Some(name), params)?;
        let schema = listed.and_then(|listed| listed.input_schema.as_object());
        if let (Some(schema), Some(arguments)) = (schema, arguments.as_object()) {
            request = request.headers(param_header::headers(schema, arguments));
        }
        let response = self.sent(request).await?;
        let status = response.status();
        let kind = response.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
        let is_stream = kind.is_some_and(|kind| kind.starts_with("text/event-stream"));
        let reply = match is_stream {
            true => last(response, progress).await?,
            false => whole(response).await?,
        };
        match reply {
            Reply::Result(result) => answered(&result),
            Reply::Error(Some(error)) if status.is_success() => Ok(error.into()),
            Reply::Error(error) => Err(rejected(status, error)),
        }
    }

    fn mcp(
        &self,
        method: &str,
        name: Option<&str>,
        mut params: Value,
    ) -> anyhow::Result<RequestBuilder> {
        let own = json!({ PROTOCOL_VERSION: MODERN, CLIENT_CAPABILITIES: {} });
        if let (Some(params), Value::Object(own)) = (params.as_object_mut(), own) {
            let meta = params.entry(META).or_insert_with(|| json!({}));
            meta.as_object_mut().into_iter().for_each(|meta| meta.extend(own.clone()));
        }
        let mut request = self
            .request(Method::POST, self.path(&["mcp"])?)?
            .header(ACCEPT, header::ACCEPT_BOTH)
            .header(header::PROTOCOL_VERSION, MODERN)
            .header(header::METHOD, method)
            .header(CONTENT_TYPE, "application/json")
            .body(message::request(1, method, &params));
        if let Some(name) = name.and_then(header::encode) {
            request = request.header(header::NAME, name);
        }
        Ok(request)
    }
}

impl From<RpcError> for CallEnd {
    fn from(error: RpcError) -> Self {
        let RpcError { code, message, data } = error;
        let message = message.into_owned();
        // The error codes of the gateway, as in the event log and the other protocols.
        let (code, message) = match code {
            code::toolcrib::FORBIDDEN => ("forbidden".to_owned(), message),
            code::toolcrib::RATE_LIMITED => ("rate_limited".to_owned(), message),
            code::toolcrib::NOT_ACCOUNTABLE => ("unavailable".to_owned(), message),
            code::MISSING_CAPABILITY => ("capability_required".to_owned(), message),
            code::INTERNAL => ("internal_error".to_owned(), message),
            code::INVALID_PARAMS if message == "Unknown tool" => {
                ("not_found".to_owned(), "no such tool".to_owned())
            }
            code => (format!("rpc{code}"), message),
        };
        Self::Refused { run_id: None, code, message, details: *data.unwrap_or_default() }
    }
}

fn answered(result: &RawValue) -> anyhow::Result<CallEnd> {
    let result: ToolResult =
        serde_json::from_str(result.get()).context("the server's response is malformed")?;
    let member = |name: &str| result.meta.get(name).and_then(Value::as_str).map(str::to_owned);
    let (run_id, refused) = (member(key::RUN_ID), member(key::ERROR));
    let ToolResult { content, structured_content, is_error, .. } = result;
    let Some(code) = refused else {
        let outcome =
            Outcome { content, structured: structured_content, is_error, retry_after: None };
        return Ok(CallEnd::Answered { run_id, outcome });
    };
    let blocks: Vec<Value> = serde_json::from_str(content.get())?;
    let texts: Vec<&str> = blocks.iter().filter_map(|block| block.get("text")?.as_str()).collect();
    let details: Map<String, Value> =
        [("approvalId", key::APPROVAL_ID), ("link", key::LINK), ("expiresAt", key::EXPIRES_AT)]
            .into_iter()
            .filter_map(|(name, member_key)| Some((name.to_owned(), json!(member(member_key)?))))
            .collect();
    let details = if details.is_empty() { Value::Null } else { Value::Object(details) };
    Ok(CallEnd::Refused { run_id, code, message: texts.join("\n"), details })
}

/// Reads a response of one JSON document.
async fn whole(response: Response) -> anyhow::Result<Reply> {
    let status = response.status();
    let bytes = bounded(response).await?;
    let incoming = serde_json::from_slice::<IncomingMessage<'_>>(&bytes).ok();
    match incoming.and_then(|incoming| reply(&incoming)) {
        Some(reply) => Ok(reply),
        None if status.is_success() => Err(not_ours()),
        None => Err(rejected(status, None)),
    }
}

/// Reads a stream up to its response; reports the progress notifications before it.
async fn last(mut response: Response, progress: impl Fn(Progress)) -> anyhow::Result<Reply> {
    let mut parser = SseParser::new(MAX_ANSWER);
    loop {
        let piece = timeout(SILENCE, response.chunk())
            .await
            .context("the server stopped sending during the call")?
            .context("the response is incomplete")?
            .context("the server closed the call without a response")?;
        let mut events = Vec::new();
        parser
            .push(&piece, &mut |event| events.push(event.to_vec()))
            .map_err(|_| anyhow::anyhow!("the response is larger than 64 MiB"))?;
        for event in events {
            let incoming: IncomingMessage<'_> =
                serde_json::from_slice(&event).map_err(|_| not_ours())?;
            match incoming.method.as_deref() {
                None => return reply(&incoming).ok_or_else(not_ours),
                Some(method::PROGRESS) => {
                    let params = incoming.params.map(RawValue::get).unwrap_or_default();
                    if let Ok(report) = serde_json::from_str::<message::Progress<'_>>(params) {
                        let message::Progress { progress: at, total, message, .. } = report;
                        progress(Progress { progress: at, total, message });
                    }
                }
                Some(_) => {}
            }
        }
    }
}

/// `None` if the error of the message is not a JSON-RPC error.
fn reply(incoming: &IncomingMessage<'_>) -> Option<Reply> {
    Some(match (incoming.result, incoming.error) {
        (_, Some(error)) => Reply::Error(Some(serde_json::from_str(error.get()).ok()?)),
        (Some(result), None) => Reply::Result(result.to_owned()),
        (None, None) => Reply::Error(None),
    })
}

fn not_ours() -> anyhow::Error {
    advised("the response of the server is not MCP", "is this the address of a toolcrib server?")
}

/// Creates the error for a request that failed at the HTTP level.
fn rejected(status: StatusCode, error: Option<RpcError>) -> anyhow::Error {
    let error = error.map(|rpc| json!({ "message": rpc.message, "details": rpc.data }));
    match (status, error) {
        (StatusCode::NOT_FOUND, None) => advised(
            "the server has no MCP endpoint, which calls require",
            "is this the address of a toolcrib server, and is [mcp] enabled there?",
        ),
        (status, error) => refused(status, &error.unwrap_or_default(), &[]),
    }
}
