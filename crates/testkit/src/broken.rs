//! Hosts that do one thing wrong, for the proof that every conformance check can fail.
//!
//! Each protocol has a small host of its own, written from its specification, with a switch per
//! fault; without a fault it does everything right. It answers on a real socket.
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a fixture that cannot do its work must fail loudly"
)]

mod calling;
mod explorer;
mod mcp;
mod openwop;

use std::{convert::Infallible, future::Future};

use axum::{body::Body, extract::Request, response::Response};
use bytes::Bytes;
use http::{HeaderMap, Method, StatusCode};
use serde_json::Value;
use tokio::{net::TcpListener, task::JoinHandle};

pub use calling::CallingFault;
pub use explorer::{ExplorerFault, ExplorerSetup};
pub use mcp::{McpEras, McpFault};
pub use openwop::OpenwopFault;

/// Largest request that is read.
const MAX_REQUEST: usize = 1 << 20;

/// The key that sees everything.
pub const KEY: &str = "broken-host-first-key-0001";
/// The key of another principal, which sees less.
pub const SECOND_KEY: &str = "broken-host-second-key-0002";

/// A running host. Ends with it.
pub struct BrokenHost {
    /// `http://127.0.0.1:PORT`.
    pub url: String,
    server: JoinHandle<()>,
}

/// A switch per fault, with everything that it is called.
macro_rules! faults {
    ($(#[$doc:meta])* $name:ident { $($(#[$vdoc:meta])* $variant:ident),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum $name { $($(#[$vdoc])* $variant),+ }

        impl $name {
            /// Every fault.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];
        }
    };
}
use faults;

/// A request that has been read.
#[derive(Debug)]
struct Asked {
    method: Method,
    /// As it came, not decoded.
    path: String,
    query: String,
    headers: HeaderMap,
    body: Bytes,
}

/// An answer that can still be changed.
#[derive(Debug, Clone)]
struct Reply {
    status: u16,
    headers: Vec<(&'static str, String)>,
    body: Vec<u8>,
}

impl BrokenHost {
    /// An OpenWOP host with one fault, or without.
    pub async fn openwop(fault: Option<OpenwopFault>) -> Self {
        let host = openwop::Host::new(fault);
        Self::start(move |asked| {
            let reply = host.answer(&asked);
            async move { reply }
        })
        .await
    }

    /// A host of Open Tool Calling with one fault, or without; `locked` says whether it wants a key.
    pub async fn otc(locked: bool, fault: Option<CallingFault>) -> Self {
        Self::calling(calling::Host::new(calling::Dialect::Otc, locked, fault)).await
    }

    /// As [`otc`](Self::otc), of OXP.
    pub async fn oxp(locked: bool, fault: Option<CallingFault>) -> Self {
        Self::calling(calling::Host::new(calling::Dialect::Oxp, locked, fault)).await
    }

    /// An MCP server of `eras` with one fault, or without.
    pub async fn mcp(eras: McpEras, fault: Option<McpFault>) -> Self {
        let host = mcp::Host::new(eras, fault);
        Self::start(move |asked| {
            let reply = host.answer(&asked);
            async move { reply }
        })
        .await
    }

    /// An explorer at `/explorer` with one fault, or without.
    pub async fn explorer(setup: ExplorerSetup, fault: Option<ExplorerFault>) -> Self {
        let host = explorer::Host::new(setup, fault);
        Self::start(move |asked| {
            let reply = host.answer(&asked);
            async move { reply }
        })
        .await
    }

    async fn calling(host: calling::Host) -> Self {
        Self::start(move |asked| {
            let reply = host.answer(&asked);
            async move { reply }
        })
        .await
    }

    async fn start<F, A>(answer: F) -> Self
    where
        F: Fn(Asked) -> A + Clone + Send + Sync + 'static,
        A: Future<Output = Reply> + Send + 'static,
    {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let service = tower::service_fn(move |request: Request| {
            let answer = answer.clone();
            async move {
                let (head, body) = request.into_parts();
                let body = axum::body::to_bytes(body, MAX_REQUEST).await.unwrap_or_default();
                let is_head = head.method == Method::HEAD;
                let asked = Asked {
                    method: head.method,
                    path: head.uri.path().to_owned(),
                    query: head.uri.query().unwrap_or_default().to_owned(),
                    headers: head.headers,
                    body,
                };
                let reply = answer(asked).await;
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

impl Asked {
    fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    /// The bearer token, whatever the case of the scheme.
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
