//! Hosts with one fault each, which prove that every check can fail (I-33).
//!
//! Each protocol has a small host, written from the specification, with a switch per fault; without
//! a fault it conforms. The hosts listen on a real socket. Only tests enable this module.
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a fixture that cannot do its work must fail loudly"
)]

mod explorer;
mod mcp;
mod open_tool_calling;
mod openwop;

use std::{convert::Infallible, sync::Arc};

use axum::{body::Body, extract::Request, response::Response};
use bytes::Bytes;
use http::{HeaderMap, Method, StatusCode};
use serde_json::Value;
use tokio::{net::TcpListener, task::JoinHandle};

pub use explorer::{ExplorerFault, ExplorerSetup};
pub use mcp::{McpEras, McpFault};
pub use open_tool_calling::OpenToolCallingFault;
pub use openwop::OpenwopFault;

/// Size limit of a request body.
const MAX_REQUEST: usize = 1 << 20;

/// The key that sees all tools.
pub const KEY: &str = "broken-host-first-key-0001";
/// The key of another principal, which sees fewer tools.
pub const SECOND_KEY: &str = "broken-host-second-key-0002";

/// A running host. It stops when it is dropped.
pub struct BrokenHost {
    /// `http://127.0.0.1:PORT`.
    pub url: String,
    server: JoinHandle<()>,
}

/// The principal of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Principal {
    First,
    Second,
}

/// The faults of a host, each with the check that it fails (`area.requirement`).
macro_rules! faults {
    ($(#[$doc:meta])* $name:ident {
        $($(#[$variant_doc:meta])* $variant:ident = $check:literal),+ $(,)?
    }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum $name { $($(#[$variant_doc])* $variant),+ }

        impl $name {
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// Returns the id of the check that fails, without the protocol.
            pub fn check(self) -> &'static str {
                match self { $(Self::$variant => $check),+ }
            }
        }
    };
}
use faults;

/// A host without its socket.
trait Host: Send + Sync + 'static {
    fn answer(&self, req: &HttpRequest) -> Reply;
}

#[derive(Debug)]
struct HttpRequest {
    method: Method,
    /// Not decoded.
    path: String,
    query: String,
    headers: HeaderMap,
    body: Bytes,
}

#[derive(Debug, Clone)]
struct Reply {
    status: u16,
    headers: Vec<(&'static str, String)>,
    body: Vec<u8>,
}

impl BrokenHost {
    pub async fn openwop(fault: Option<OpenwopFault>) -> Self {
        Self::start(openwop::Host::new(fault)).await
    }

    /// Starts a host of Open Tool Calling that requires a key if `locked`.
    pub async fn otc(locked: bool, fault: Option<OpenToolCallingFault>) -> Self {
        use open_tool_calling::{Dialect, Host};
        Self::start(Host::new(Dialect::Otc, locked, fault)).await
    }

    /// Starts a host of OXP that requires a key if `locked`.
    pub async fn oxp(locked: bool, fault: Option<OpenToolCallingFault>) -> Self {
        use open_tool_calling::{Dialect, Host};
        Self::start(Host::new(Dialect::Oxp, locked, fault)).await
    }

    pub async fn mcp(eras: McpEras, fault: Option<McpFault>) -> Self {
        Self::start(mcp::Host::new(eras, fault)).await
    }

    /// Starts an explorer at `/explorer`.
    pub async fn explorer(setup: ExplorerSetup, fault: Option<ExplorerFault>) -> Self {
        Self::start(explorer::Host::new(setup, fault)).await
    }

    async fn start(host: impl Host) -> Self {
        let host = Arc::new(host);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let service = tower::service_fn(move |request: Request| {
            let host = Arc::clone(&host);
            async move {
                let (head, body) = request.into_parts();
                let body = axum::body::to_bytes(body, MAX_REQUEST).await.unwrap_or_default();
                let is_head = head.method == Method::HEAD;
                let reply = host.answer(&HttpRequest {
                    method: head.method,
                    path: head.uri.path().to_owned(),
                    query: head.uri.query().unwrap_or_default().to_owned(),
                    headers: head.headers,
                    body,
                });
                Ok::<_, Infallible>(reply.into_response(is_head))
            }
        });
        let server = tokio::spawn(async move {
            axum::serve(listener, tower::make::Shared::new(service)).await.unwrap();
        });
        Self { url, server }
    }
}

impl Drop for BrokenHost {
    fn drop(&mut self) {
        self.server.abort();
    }
}

impl HttpRequest {
    fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    /// Returns the bearer token; the scheme is case-insensitive.
    fn bearer(&self) -> Option<&str> {
        let (scheme, token) = self.header("authorization")?.split_once(' ')?;
        scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
    }

    fn parameter(&self, name: &str) -> Option<&str> {
        self.query.split('&').find_map(|pair| pair.strip_prefix(name)?.strip_prefix('='))
    }

    fn json(&self) -> Option<Value> {
        serde_json::from_slice(&self.body).ok()
    }
}

impl Reply {
    fn json(status: u16, body: &Value) -> Self {
        Self {
            status,
            headers: vec![("content-type", "application/json".to_owned())],
            body: body.to_string().into_bytes(),
        }
    }

    #[must_use]
    fn with(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.set(name, value);
        self
    }

    fn set(&mut self, name: &'static str, value: impl Into<String>) {
        self.remove(name);
        self.headers.push((name, value.into()));
    }

    fn remove(&mut self, name: &str) {
        self.headers.retain(|(own, _)| *own != name);
    }

    fn into_response(self, is_head: bool) -> Response {
        let mut response = Response::builder().status(StatusCode::from_u16(self.status).unwrap());
        for (name, value) in &self.headers {
            response = response.header(*name, value);
        }
        let body = if is_head { Body::empty() } else { Body::from(self.body) };
        response.body(body).unwrap()
    }
}
