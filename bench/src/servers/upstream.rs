//! A minimal MCP server over streamable HTTP: 20 tools with prepared responses.
//!
//! It supports 2026-07-28 and the handshake of 2025-11-25 without sessions, so that a gateway may
//! choose. `echo` returns its argument `text`; every other tool returns the same.

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
/// The tool that is called.
pub(crate) const ECHO: &str = "echo";

const PARAMETERS: usize = 3;

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
struct Prepared {
    discover: String,
    initialize: String,
    list: String,
}

pub(crate) async fn serve() -> Result<()> {
    let prepared = Prepared {
        discover: discover().to_string(),
        initialize: initialize().to_string(),
        list: list().to_string(),
    };
    listen(Router::new().route("/mcp", post(answer)).with_state(Arc::new(prepared))).await
}

async fn answer(State(prepared): State<Arc<Prepared>>, body: Bytes) -> Response {
    let Ok(call) = serde_json::from_slice::<Call<'_>>(&body) else {
        return StatusCode::BAD_REQUEST.into_response();
    };
    let Some(id) = call.id else {
        return StatusCode::ACCEPTED.into_response();
    };
    let id = id.get();
    let result: &str = match call.method {
        "tools/call" => &echoed(call.params.unwrap_or_default()),
        "tools/list" => &prepared.list,
        "server/discover" => &prepared.discover,
        "initialize" => &prepared.initialize,
        "ping" => "{}",
        _ => {
            let error = r#"{"code":-32601,"message":"no such method"}"#;
            let body = format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{error}}}"#);
            return (StatusCode::NOT_FOUND, JSON, body).into_response();
        }
    };
    (JSON, format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#)).into_response()
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
