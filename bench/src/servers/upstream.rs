//! A minimal MCP server over streamable HTTP: 20 tools with prepared responses.
//!
//! It supports 2026-07-28 and the handshake of 2025-11-25 without sessions, so that a gateway may
//! choose. `echo` returns its argument `text`; every other tool returns the same. It serves the same
//! tools over stdio, and over HTTP a service that returns the body of a request. Its token endpoint
//! accepts every code.

use std::borrow::Cow;
use std::io::{BufRead, Write};
use std::sync::Arc;

use anyhow::Result;
use axum::Router;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderName, StatusCode};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::servers::listen;

/// How many tools the server offers.
pub(crate) const TOOLS: usize = 20;
/// The tool for calls.
pub(crate) const ECHO: &str = "echo";

/// The service that returns the body of a request.
pub(crate) const ECHO_PATH: &str = "/api/echo";

const PARAMETERS: usize = 3;

/// The answer of the token endpoint to every code.
const TOKEN: &str = r#"{"access_token":"bench","token_type":"Bearer","expires_in":86400}"#;

const JSON: [(HeaderName, &str); 1] = [(CONTENT_TYPE, "application/json")];

#[derive(Debug, Deserialize)]
struct Call<'a> {
    #[serde(borrow, default)]
    id: Option<&'a RawValue>,
    #[serde(borrow, default)]
    method: &'a str,
    #[serde(borrow, default)]
    params: Option<Params<'a>>,
}

#[derive(Debug, Default, Deserialize)]
struct Params<'a> {
    #[serde(borrow, default)]
    arguments: Option<Arguments<'a>>,
}

#[derive(Debug, Default, Deserialize)]
struct Arguments<'a> {
    #[serde(borrow, default)]
    text: Option<&'a RawValue>,
}

/// The constant results, serialised once.
#[derive(Debug)]
struct ConstantResults {
    discover: String,
    initialize: String,
    list: String,
}

impl ConstantResults {
    fn new() -> Self {
        Self {
            discover: discover().to_string(),
            initialize: initialize().to_string(),
            list: list().to_string(),
        }
    }

    /// The result of a call as JSON text; `None` if the method is unknown.
    fn result(&self, call: Call<'_>) -> Option<Cow<'_, str>> {
        Some(match call.method {
            "tools/call" => echoed(call.params.unwrap_or_default()).into(),
            "tools/list" => self.list.as_str().into(),
            "server/discover" => self.discover.as_str().into(),
            "initialize" => self.initialize.as_str().into(),
            "ping" => "{}".into(),
            _ => return None,
        })
    }
}

pub(crate) async fn serve() -> Result<()> {
    let mcp = post(answer).with_state(Arc::new(ConstantResults::new()));
    let service = post(async |body: Bytes| (JSON, body));
    let token = post(async || (JSON, TOKEN));
    let router = Router::new().route("/mcp", mcp).route(ECHO_PATH, service);
    listen(router.route("/token", token)).await
}

/// Serves the caller of this program until stdin is closed.
pub(crate) fn serve_stdio() -> Result<()> {
    let prepared = ConstantResults::new();
    let (input, mut output) = (std::io::stdin().lock(), std::io::stdout().lock());
    for line in input.lines() {
        let line = line?;
        let Ok(call) = serde_json::from_str::<Call<'_>>(&line) else { continue };
        let Some(id) = call.id else { continue };
        let answer = envelope(id, prepared.result(call).as_deref());
        output.write_all(format!("{answer}\n").as_bytes())?;
        output.flush()?;
    }
    Ok(())
}

async fn answer(State(prepared): State<Arc<ConstantResults>>, body: Bytes) -> Response {
    let Ok(call) = serde_json::from_slice::<Call<'_>>(&body) else {
        return StatusCode::BAD_REQUEST.into_response();
    };
    let Some(id) = call.id else {
        return StatusCode::ACCEPTED.into_response();
    };
    let result = prepared.result(call);
    let status = if result.is_some() { StatusCode::OK } else { StatusCode::NOT_FOUND };
    (status, JSON, envelope(id, result.as_deref())).into_response()
}

/// The answer to the request `id`; without a result, the error for an unknown method.
fn envelope(id: &RawValue, result: Option<&str>) -> String {
    let error = r#""error":{"code":-32601,"message":"method not found"}"#;
    match result {
        Some(result) => format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#),
        None => format!(r#"{{"jsonrpc":"2.0","id":{id},{error}}}"#),
    }
}

fn echoed(params: Params<'_>) -> String {
    let text = params.arguments.unwrap_or_default().text.map_or("\"\"", RawValue::get);
    format!(
        r#"{{"resultType":"complete","content":[{{"type":"text","text":{text}}}],"isError":false}}"#
    )
}

fn discover() -> Value {
    json!({
        "resultType": "complete",
        "supportedVersions": ["2026-07-28", "2025-11-25"],
        "capabilities": { "tools": {} },
        "ttlMs": 60_000,
        "cacheScope": "private",
    })
}

fn initialize() -> Value {
    json!({
        "protocolVersion": "2025-11-25",
        "capabilities": { "tools": {} },
        "serverInfo": { "name": "bench-upstream", "version": "1.0.0" },
    })
}

fn list() -> Value {
    let named = |number| match number {
        0 => ECHO.to_owned(),
        number => format!("lookup_{number:02}"),
    };
    let tools: Vec<Value> = (0..TOOLS).map(|number| tool(&named(number))).collect();
    json!({ "resultType": "complete", "tools": tools, "ttlMs": 60_000, "cacheScope": "private" })
}

/// About 500 bytes, like the tools of published servers.
fn tool(name: &str) -> Value {
    let mut properties = serde_json::Map::new();
    properties.insert("text".into(), json!({ "type": "string", "description": "Text to answer" }));
    for number in 1..=PARAMETERS {
        let about = "Narrows the answer down to the entries that carry this label";
        properties
            .insert(format!("label_{number}"), json!({ "type": "string", "description": about }));
    }
    json!({
        "name": name,
        "description": "Looks a thing up in the register of things and answers what it found",
        "inputSchema": { "type": "object", "properties": properties, "required": ["text"] },
    })
}
