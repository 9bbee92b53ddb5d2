//! MCP servers with many small tools, of which one can change.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use anyhow::{Context, Result};
use axum::Router;
use axum::extract::{Path, State};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use bytes::Bytes;
use http::StatusCode;
use http::header::CONTENT_TYPE;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::watch;

/// Tools that the callers of the measurements see. They are in the last source.
pub(super) const FEW: usize = 20;

/// The source that changes reads its tools again this often.
const REFRESH: &str = "1s";

/// The servers, each at a separate path.
pub(super) struct Upstreams {
    address: SocketAddr,
    shared: Arc<Shared>,
    sources: usize,
}

struct Shared {
    /// Tools of each source.
    tools: usize,
    sources: usize,
    version: AtomicU64,
    /// The version of the first source in its last read list, and the time of the read.
    read: watch::Sender<Option<(u64, Instant)>>,
}

impl Upstreams {
    /// Starts `sources` servers with `tools` tools together.
    pub(super) async fn start(tools: usize, sources: usize) -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared {
            tools: tools / sources.max(1),
            sources,
            version: AtomicU64::new(0),
            read: watch::Sender::new(None),
        });
        let router = Router::new().route("/{source}", post(answer)).with_state(Arc::clone(&shared));
        tokio::spawn(async move { axum::serve(listener, router).await });
        Ok(Self { address, shared, sources })
    }

    /// The `[[source]]` tables of all.
    pub(super) fn configuration(&self) -> String {
        let source = |number: usize| {
            let refresh = if number == 0 { REFRESH } else { "1h" };
            format!(
                "[[source]]\nid = \"s{number}\"\nkind = \"mcp\"\nurl = \"http://{}/{number}\"\n\
                 tenants = [\"*\"]\nrefresh = \"{refresh}\"\npins = \"warn\"\n\
                 [source.tools.\"*\"]\nscopes = [\"bench:all\"]\nsafety_tier = \"read\"\n\
                 [source.tools.\"few_*\"]\nscopes = [\"bench:few\"]\n\n",
                self.address
            )
        };
        (0..self.sources).map(source).collect()
    }

    /// The bytes of all tools as they are listed.
    pub(super) fn bytes(&self) -> usize {
        (0..self.sources).map(|source| self.shared.list(source, 0).to_string().len()).sum()
    }

    /// The id of the tool that changes.
    pub(super) fn changing(&self) -> &'static str {
        "mcp:s0.lookup_0"
    }

    /// Changes a tool of the first source, and waits until its list has been read.
    pub(super) async fn change(&self, version: u64) -> Result<Instant> {
        let mut read = self.shared.read.subscribe();
        self.shared.version.store(version, Ordering::SeqCst);
        let has =
            |read: &Option<(u64, Instant)>| read.is_some_and(|(current, _)| current == version);
        let (_, at) = read.wait_for(has).await?.context("read")?;
        Ok(at)
    }
}

/// The description of the tool that changes.
pub(super) fn described(version: u64) -> String {
    format!("Version {version} of the first tool")
}

impl Shared {
    fn list(&self, source: usize, version: u64) -> Value {
        let last = source + 1 == self.sources;
        let name = |number: usize| match number {
            number if last && number < FEW => format!("few_{number}"),
            number => format!("lookup_{number}"),
        };
        let tools: Vec<Value> = (0..self.tools)
            .map(|number| {
                let description = match (source, number) {
                    (0, 0) => described(version),
                    _ => "Looks a thing up in the register of things".to_owned(),
                };
                json!({
                    "name": name(number),
                    "description": description,
                    "inputSchema": {
                        "type": "object",
                        "properties": {
                            "text": { "type": "string", "description": "What to look up" },
                            "count": { "type": "integer", "minimum": 1 },
                        },
                        "required": ["text"],
                    },
                })
            })
            .collect();
        // It may be read again at once.
        let (ttl, scope) = (0, "private");
        json!({ "resultType": "complete", "tools": tools, "ttlMs": ttl, "cacheScope": scope })
    }
}

async fn answer(
    State(shared): State<Arc<Shared>>,
    Path(source): Path<usize>,
    body: Bytes,
) -> Response {
    let Ok(call) = serde_json::from_slice::<Value>(&body) else {
        return StatusCode::BAD_REQUEST.into_response();
    };
    let Some(id) = call.get("id") else { return StatusCode::ACCEPTED.into_response() };
    let version = shared.version.load(Ordering::SeqCst);
    let method = call.get("method").and_then(Value::as_str).unwrap_or_default();
    let result = match method {
        "tools/list" => shared.list(source, version),
        "server/discover" => json!({
            "resultType": "complete",
            "supportedVersions": ["2026-07-28"],
            "capabilities": { "tools": {} },
            "ttlMs": 60_000,
            "cacheScope": "private",
        }),
        _ => {
            let error = json!({ "code": -32601, "message": "method not found" });
            let body = json!({ "jsonrpc": "2.0", "id": id, "error": error }).to_string();
            return (StatusCode::NOT_FOUND, [(CONTENT_TYPE, "application/json")], body)
                .into_response();
        }
    };
    let body = json!({ "jsonrpc": "2.0", "id": id, "result": result }).to_string();
    if source == 0 && method == "tools/list" {
        shared.read.send_replace(Some((version, Instant::now())));
    }
    ([(CONTENT_TYPE, "application/json")], body).into_response()
}
