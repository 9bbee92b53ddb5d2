//! Faults that must not make a server grow: requests of careless and hostile callers, outages of an
//! upstream, and reloads of the configuration.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::{sleep, sleep_until, timeout};
use uuid::Uuid;

use super::relay::Relay;
use super::{ANSWER_LIMIT, SoakOptions};
use crate::http1::{Connection, request};
use crate::process::Server;

/// From one outage of the upstream to the next, and how long one takes.
const OUTAGE_EVERY: Duration = Duration::from_secs(45);
const OUTAGE: Duration = Duration::from_secs(5);
/// From one reload of the configuration to the next.
const RELOAD_EVERY: Duration = Duration::from_secs(30);
/// How long an incomplete request is left open, and the most that are open at once.
const INCOMPLETE: Duration = Duration::from_secs(20);
const MAX_INCOMPLETE: usize = 64;

/// A mistake or an attack of a caller.
#[derive(Debug, Clone, Copy)]
enum Fault {
    /// Sends a key that does not exist.
    InvalidKey,
    /// Calls a tool that does not exist, each time another one.
    UnknownTool,
    /// Calls a tool with arguments that its schema forbids.
    InvalidArguments,
    /// Sends a body that is not JSON.
    MalformedBody,
    /// Opens a session and never uses it.
    AbandonedSession,
    /// Disconnects before the response.
    HangUp,
    /// Opens a stream of changes and disconnects.
    AbandonedStream,
    /// Sends a part of a request and waits.
    IncompleteRequest,
    /// Requests an unknown path.
    UnknownPath,
    /// Sends a body that is too large for its path.
    LargeBody,
}

impl Fault {
    const ALL: [Self; 10] = [
        Self::InvalidKey,
        Self::UnknownTool,
        Self::InvalidArguments,
        Self::MalformedBody,
        Self::AbandonedSession,
        Self::HangUp,
        Self::AbandonedStream,
        Self::IncompleteRequest,
        Self::UnknownPath,
        Self::LargeBody,
    ];

    /// Whether the caller waits for the response.
    fn is_answered(self) -> bool {
        !matches!(self, Self::HangUp | Self::AbandonedStream | Self::IncompleteRequest)
    }
}

/// Sends the faulty requests while the regular calls run.
pub(crate) struct FaultyCaller {
    pub(crate) address: SocketAddr,
    /// A key of another tenant than that of the regular calls.
    pub(crate) key: String,
    /// A tool that the key may call.
    pub(crate) tool: String,
    pub(crate) end: Instant,
}

impl FaultyCaller {
    /// Causes `rate` faults a second until the run is over; returns their number.
    pub(crate) async fn run(self, rate: u32) -> Result<u64> {
        let pause = Duration::from_secs(1) / rate;
        let start = Instant::now();
        let mut incomplete = JoinSet::new();
        let mut count = 0_u32;
        for fault in Fault::ALL.into_iter().cycle() {
            let due = start + pause * count;
            if due >= self.end {
                break;
            }
            sleep_until(due.into()).await;
            let bytes = self.request(fault);
            match fault {
                Fault::IncompleteRequest => {
                    while incomplete.len() >= MAX_INCOMPLETE {
                        incomplete.join_next().await;
                    }
                    let address = self.address;
                    incomplete.spawn(async move {
                        // The server may close the connection first.
                        if let Ok(mut stream) = TcpStream::connect(address).await {
                            let part = bytes.get(..bytes.len() / 2).unwrap_or_default();
                            stream.write_all(part).await.ok();
                            sleep(INCOMPLETE).await;
                        }
                    });
                }
                fault if fault.is_answered() => self.exchange(fault, &bytes).await?,
                _ => self.disconnect(&bytes).await?,
            }
            count += 1;
        }
        Ok(count.into())
    }

    /// Sends a request and reads a response of any status.
    async fn exchange(&self, fault: Fault, bytes: &[u8]) -> Result<()> {
        let mut connection = Connection::open(self.address).await?;
        let answer = timeout(ANSWER_LIMIT, connection.exchange(bytes))
            .await
            .with_context(|| format!("{fault:?}: no response in time"))?;
        // A server may close the connection before it has read the whole body.
        match fault {
            Fault::LargeBody => Ok(()),
            _ => answer.map(drop).with_context(|| format!("{fault:?}")),
        }
    }

    async fn disconnect(&self, bytes: &[u8]) -> Result<()> {
        let mut stream = TcpStream::connect(self.address).await?;
        stream.write_all(bytes).await?;
        // Long enough for the server to start with the request.
        sleep(Duration::from_millis(2)).await;
        Ok(())
    }

    fn request(&self, fault: Fault) -> Vec<u8> {
        let call = |tool: &str, arguments: Value| {
            self.post("2026-07-28", &message("tools/call", tool, &arguments), tool)
        };
        match fault {
            Fault::InvalidKey => {
                let key = format!("Bearer tc_{}", Uuid::new_v4().simple());
                request("GET", self.address, "/v1/tools", &[("authorization", &key)], "")
            }
            Fault::UnknownTool => call(&format!("none__{}", Uuid::new_v4().simple()), json!({})),
            Fault::InvalidArguments => call(&self.tool, json!({ "text": [1, 2, 3] })),
            Fault::HangUp => call(&self.tool, json!({ "text": "hang up" })),
            Fault::MalformedBody => self.post("2026-07-28", "{\"jsonrpc\": \"2.0\", ", &self.tool),
            Fault::AbandonedSession | Fault::IncompleteRequest => {
                let initialize = json!({
                    "jsonrpc": "2.0", "id": 1, "method": "initialize",
                    "params": {
                        "protocolVersion": "2025-11-25",
                        "capabilities": {},
                        "clientInfo": { "name": Uuid::new_v4().to_string(), "version": "1" },
                    },
                });
                self.post("2025-11-25", &initialize.to_string(), "")
            }
            Fault::AbandonedStream => self.get("/v1/changes"),
            Fault::UnknownPath => self.get(&format!("/{}", Uuid::new_v4())),
            Fault::LargeBody => self.post("2026-07-28", &"[".repeat(2 << 20), &self.tool),
        }
    }

    fn get(&self, path: &str) -> Vec<u8> {
        let bearer = format!("Bearer {}", self.key);
        request("GET", self.address, path, &[("authorization", &bearer)], "")
    }

    fn post(&self, version: &str, body: &str, tool: &str) -> Vec<u8> {
        let bearer = format!("Bearer {}", self.key);
        let mut headers = vec![
            ("authorization", bearer.as_str()),
            ("content-type", "application/json"),
            ("accept", "application/json, text/event-stream"),
            ("mcp-protocol-version", version),
        ];
        if !tool.is_empty() {
            headers.extend([("mcp-method", "tools/call"), ("mcp-name", tool)]);
        }
        request("POST", self.address, "/mcp", &headers, body)
    }
}

fn message(method: &str, tool: &str, arguments: &Value) -> String {
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
        "io.modelcontextprotocol/clientInfo": { "name": "toolcrib-bench", "version": "1" },
    });
    json!({
        "jsonrpc": "2.0", "id": 1, "method": method,
        "params": { "_meta": meta, "name": tool, "arguments": arguments },
    })
    .to_string()
}

/// Closes and refuses the connections to the upstream from time to time.
pub(crate) async fn fail_upstream(relay: &Relay) {
    loop {
        sleep(OUTAGE_EVERY).await;
        relay.set_down(true);
        sleep(OUTAGE).await;
        relay.set_down(false);
    }
}

/// Has the server reload its configuration from time to time.
pub(crate) async fn reload(server: &Server) {
    loop {
        sleep(RELOAD_EVERY).await;
        server.signal("HUP");
    }
}

/// Regular requests that failed because of a fault, such as a call during an outage.
#[derive(Debug, Default)]
pub(crate) struct Failures(AtomicU64);

impl Failures {
    pub(crate) fn add(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    /// Takes the number of failures since the last time.
    pub(crate) fn take(&self) -> u64 {
        self.0.swap(0, Ordering::Relaxed)
    }
}

/// The heading of a run with faults.
pub(crate) fn heading(options: &SoakOptions) -> String {
    match options.faults {
        Some(rate) => format!(
            "; {rate} faults a second of {} kinds, an outage of the upstream of {} s every {} s, \
             a reload every {} s",
            Fault::ALL.len(),
            OUTAGE.as_secs(),
            OUTAGE_EVERY.as_secs(),
            RELOAD_EVERY.as_secs(),
        ),
        None => String::new(),
    }
}
