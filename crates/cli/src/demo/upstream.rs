//! The demo's MCP server over stdin and stdout, in both eras of the protocol: the handshake versions
//! and the stateless 2026-07-28.
//!
//! It reads one message per line, runs each call in its own task, and exits at the end of its input.
//! Any MCP client can start it with `toolcrib demo-upstream`.

mod changes;
mod tools;

use std::{collections::HashMap, path::PathBuf, sync::Arc};

use serde_json::{Map, Value, json};
use tokio::{
    io::{AsyncWriteExt as _, BufReader},
    sync::mpsc,
    task::{AbortHandle, JoinSet},
};
use toolcrib_mcp::{
    code,
    line::{Line, Lines},
    message::{self, RpcError},
    meta::{CLIENT_CAPABILITIES, META, PROTOCOL_VERSION, SERVER_INFO},
    method::{CALL_TOOL, CANCELLED, DISCOVER, INITIALIZE, LIST_TOOLS, LISTEN, PING},
    revision::{self, Era, LATEST_LEGACY, MODERN},
};

use changes::Changes;

/// The name of the file in the demo's data directory that changes the tool `echo`.
pub(crate) const CHANGED_BY: &str = "demo-changed";

/// Capacity of the queue of outgoing messages.
const MAX_WAITING: usize = 64;
/// Size limit of a message, in bytes.
const MAX_LINE: usize = 4 << 20;
/// The revisions that `server/discover` names.
const SERVED: [&str; 2] = [MODERN, LATEST_LEGACY];

/// Serves until the input is closed. `echo` has its changed form while the file `changed_by`
/// exists.
pub(crate) async fn run(changed_by: Option<PathBuf>) -> anyhow::Result<()> {
    let changes = Arc::new(Changes::new(changed_by));
    let (send, mut waiting) = mpsc::channel::<Vec<u8>>(MAX_WAITING);
    let writer = tokio::spawn(async move {
        let mut out = tokio::io::stdout();
        while let Some(mut line) = waiting.recv().await {
            line.push(b'\n');
            if out.write_all(&line).await.is_err() || out.flush().await.is_err() {
                return;
            }
        }
    });
    let mut lines = Lines::new(BufReader::new(tokio::io::stdin()), MAX_LINE);
    let mut calls = JoinSet::new();
    let mut running: HashMap<String, AbortHandle> = HashMap::new();
    while let Some(line) = lines.next().await? {
        while let Some(_ended) = calls.try_join_next() {}
        running.retain(|_, call| !call.is_finished());
        let message = match line {
            Line::Whole(line) => serde_json::from_slice(line).ok(),
            Line::TooLong(_) => None,
        };
        let Some(Value::Object(message)) = message else {
            let refusal = RpcError::parse("not a JSON object");
            send.send(answer(&Value::Null, Err(refusal))).await?;
            continue;
        };
        let method = message.get("method").and_then(Value::as_str).unwrap_or_default().to_owned();
        let params = message.get("params").cloned().unwrap_or(Value::Null);
        match message.get("id") {
            Some(id) if !id.is_null() => {
                let (id, send, changes) = (id.clone(), send.clone(), Arc::clone(&changes));
                let key = id.to_string();
                let call = calls.spawn(async move {
                    let result = request(&method, &params, &id, &changes, &send).await;
                    // An error means that the output is closed.
                    send.send(answer(&id, result)).await.ok();
                    if method == INITIALIZE {
                        // The handshake versions have no subscriptions.
                        changes.announce(None, &send).await;
                    }
                });
                running.insert(key, call);
            }
            _ if method == CANCELLED => {
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

fn answer(id: &Value, result: Result<Value, RpcError>) -> Vec<u8> {
    let id = id.to_string();
    match result {
        Ok(result) => message::result(&id, result.to_string().as_bytes()),
        Err(error) => message::error(Some(&id), &error),
    }
}

async fn request(
    method: &str,
    params: &Value,
    id: &Value,
    changes: &Changes,
    send: &mpsc::Sender<Vec<u8>>,
) -> Result<Value, RpcError> {
    let era = era(params)?;
    let result = match (method, era) {
        (INITIALIZE, Era::Legacy) => return Ok(handshake(params, changes)),
        (PING, Era::Legacy) => return Ok(json!({})),
        (DISCOVER, Era::Modern) => json!({
            "supportedVersions": SERVED,
            "capabilities": capabilities(changes),
            "ttlMs": 60_000,
            "cacheScope": "public",
        }),
        (LIST_TOOLS, Era::Legacy) => json!({ "tools": tools::list(changes.is_changed()) }),
        (LIST_TOOLS, Era::Modern) => {
            let tools = tools::list(changes.is_changed());
            json!({ "tools": tools, "ttlMs": 60_000, "cacheScope": "public" })
        }
        (CALL_TOOL, _) => tools::call(params, changes.is_changed(), send).await?,
        (LISTEN, Era::Modern) if changes.can_happen() => changes.listen(params, id, send).await,
        _ => return Err(RpcError::new(code::METHOD_NOT_FOUND, "method not found")),
    };
    Ok(match era {
        Era::Legacy => result,
        Era::Modern => complete(result),
    })
}

/// The era of a request: stateless if its `_meta` has a protocol version, else handshake.
fn era(params: &Value) -> Result<Era, RpcError> {
    let meta = params.get(META);
    let Some(version) = meta.and_then(|meta| meta.get(PROTOCOL_VERSION)) else {
        return Ok(Era::Legacy);
    };
    if version != MODERN {
        let data = json!({ "supported": SERVED, "requested": version });
        let message = "unsupported protocol version";
        return Err(RpcError::new(code::UNSUPPORTED_VERSION, message).with_data(data));
    }
    match meta.and_then(|meta| meta.get(CLIENT_CAPABILITIES)) {
        Some(Value::Object(_)) => Ok(Era::Modern),
        _ => Err(RpcError::invalid_params("_meta has no client capabilities")),
    }
}

fn capabilities(changes: &Changes) -> Value {
    match changes.can_happen() {
        true => json!({ "tools": { "listChanged": true } }),
        false => json!({ "tools": {} }),
    }
}

fn handshake(params: &Value, changes: &Changes) -> Value {
    let requested = params.get("protocolVersion").and_then(Value::as_str);
    json!({
        "protocolVersion": revision::negotiate(revision::ALL, requested),
        "capabilities": capabilities(changes),
        "serverInfo": server_info(),
    })
}

fn complete(result: Value) -> Value {
    let Value::Object(mut result) = result else { return result };
    result.insert("resultType".to_owned(), json!("complete"));
    let meta = result.entry(META).or_insert_with(|| Value::Object(Map::new()));
    if let Some(meta) = meta.as_object_mut() {
        meta.insert(SERVER_INFO.to_owned(), server_info());
    }
    Value::Object(result)
}

fn server_info() -> Value {
    json!({ "name": "toolcrib-demo", "version": env!("CARGO_PKG_VERSION") })
}
