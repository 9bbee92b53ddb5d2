//! The demo's MCP server over stdin and stdout, in both eras of the protocol: the handshake versions
//! and the stateless 2026-07-28.
//!
//! It reads a line, answers calls in tasks of their own, and ends with its input. It is small on
//! purpose, and it is a real server: any MCP client can start `toolcrib demo-upstream`.

mod tools;

use std::collections::HashMap;

use serde_json::{Map, Value, json};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader},
    sync::mpsc,
    task::{AbortHandle, JoinSet},
};

/// The stateless version, and the handshake versions from new to old.
const MODERN: &str = "2026-07-28";
const LEGACY: [&str; 4] = ["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"];

const META_VERSION: &str = "io.modelcontextprotocol/protocolVersion";
const META_CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";
const META_SERVER: &str = "io.modelcontextprotocol/serverInfo";

/// Messages that may wait for a slow reader.
const MAX_WAITING: usize = 64;

/// A JSON-RPC error.
pub(super) struct Refusal {
    code: i64,
    message: &'static str,
    data: Option<Value>,
}

impl Refusal {
    pub(super) fn params(message: &'static str) -> Self {
        Self { code: -32602, message, data: None }
    }
}

/// Which rules a request goes by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Era {
    Legacy,
    Modern,
}

/// Serves until the input ends.
pub(crate) async fn run() -> anyhow::Result<()> {
    let (send, mut waiting) = mpsc::channel::<Value>(MAX_WAITING);
    let writer = tokio::spawn(async move {
        let mut out = tokio::io::stdout();
        while let Some(message) = waiting.recv().await {
            let line = format!("{message}\n");
            if out.write_all(line.as_bytes()).await.is_err() || out.flush().await.is_err() {
                return;
            }
        }
    });
    let mut lines = BufReader::new(tokio::io::stdin()).lines();
    let mut calls = JoinSet::new();
    let mut running: HashMap<String, AbortHandle> = HashMap::new();
    while let Some(line) = lines.next_line().await? {
        while let Some(_ended) = calls.try_join_next() {}
        running.retain(|_, call| !call.is_finished());
        let Ok(Value::Object(message)) = serde_json::from_str::<Value>(&line) else {
            let refusal = Refusal { code: -32700, message: "not a JSON object", data: None };
            send.send(answer(&Value::Null, Err(refusal))).await?;
            continue;
        };
        let method = message.get("method").and_then(Value::as_str).unwrap_or_default().to_owned();
        let params = message.get("params").cloned().unwrap_or(Value::Null);
        match message.get("id") {
            Some(id) if !id.is_null() => {
                let (id, send) = (id.clone(), send.clone());
                let key = id.to_string();
                let call = calls.spawn(async move {
                    let result = request(&method, &params, &send).await;
                    // An error says that nobody reads any more, and then nobody misses the answer.
                    send.send(answer(&id, result)).await.ok();
                });
                running.insert(key, call);
            }
            _ if method == "notifications/cancelled" => {
                let call = params.get("requestId").and_then(|id| running.remove(&id.to_string()));
                if let Some(call) = call {
                    call.abort();
                }
            }
            _ => {}
        }
    }
    drop((calls, send));
    Ok(writer.await?)
}

fn answer(id: &Value, result: Result<Value, Refusal>) -> Value {
    match result {
        Ok(result) => json!({ "jsonrpc": "2.0", "id": id, "result": result }),
        Err(Refusal { code, message, data }) => {
            let mut error = json!({ "code": code, "message": message });
            if let (Some(error), Some(data)) = (error.as_object_mut(), data) {
                error.insert("data".to_owned(), data);
            }
            json!({ "jsonrpc": "2.0", "id": id, "error": error })
        }
    }
}

async fn request(
    method: &str,
    params: &Value,
    send: &mpsc::Sender<Value>,
) -> Result<Value, Refusal> {
    let era = era(params)?;
    let result = match (method, era) {
        ("initialize", Era::Legacy) => return Ok(handshake(params)),
        ("ping", Era::Legacy) => return Ok(json!({})),
        ("server/discover", Era::Modern) => json!({
            "supportedVersions": [MODERN, LEGACY[0]],
            "capabilities": { "tools": {} },
            "ttlMs": 60_000,
            "cacheScope": "public",
        }),
        ("tools/list", Era::Legacy) => json!({ "tools": tools::list() }),
        ("tools/list", Era::Modern) => {
            json!({ "tools": tools::list(), "ttlMs": 60_000, "cacheScope": "public" })
        }
        ("tools/call", _) => tools::call(params, send).await?,
        _ => return Err(Refusal { code: -32601, message: "no such method", data: None }),
    };
    Ok(match era {
        Era::Legacy => result,
        Era::Modern => complete(result),
    })
}

/// A request with a protocol version of its own is stateless; one without goes by the handshake.
fn era(params: &Value) -> Result<Era, Refusal> {
    let meta = params.get("_meta");
    let Some(version) = meta.and_then(|meta| meta.get(META_VERSION)) else {
        return Ok(Era::Legacy);
    };
    if version != MODERN {
        return Err(Refusal {
            code: -32022,
            message: "unsupported protocol version",
            data: Some(json!({ "supported": [MODERN, LEGACY[0]], "requested": version })),
        });
    }
    match meta.and_then(|meta| meta.get(META_CAPABILITIES)) {
        Some(Value::Object(_)) => Ok(Era::Modern),
        _ => Err(Refusal::params("_meta has no client capabilities")),
    }
}

fn handshake(params: &Value) -> Value {
    let wanted = params.get("protocolVersion").and_then(Value::as_str);
    let version = LEGACY.into_iter().find(|known| Some(*known) == wanted).unwrap_or(LEGACY[0]);
    json!({
        "protocolVersion": version,
        "capabilities": { "tools": {} },
        "serverInfo": server_info(),
    })
}

fn complete(result: Value) -> Value {
    let Value::Object(mut result) = result else { return result };
    result.insert("resultType".to_owned(), json!("complete"));
    let meta = result.entry("_meta").or_insert_with(|| Value::Object(Map::new()));
    if let Some(meta) = meta.as_object_mut() {
        meta.insert(META_SERVER.to_owned(), server_info());
    }
    Value::Object(result)
}

fn server_info() -> Value {
    json!({ "name": "toolcrib-demo", "version": env!("CARGO_PKG_VERSION") })
}
