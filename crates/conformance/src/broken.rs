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
mod host;
mod mcp;
mod open_tool_calling;
mod openwop;
mod openwop2;
mod openwop_catalog;

use std::{convert::Infallible, sync::Arc};

use axum::extract::Request;
use http::Method;
use tokio::{net::TcpListener, task::JoinHandle};

pub use explorer::{ExplorerFault, ExplorerSetup};
pub use host::{KEY, SECOND_KEY};
pub use mcp::{McpEras, McpFault};
pub use open_tool_calling::OpenToolCallingFault;
pub use openwop::OpenwopFault;
pub use openwop2::{ORIGIN, Openwop2Fault};

use host::{Host, HttpRequest};

/// Size limit of a request body.
const MAX_REQUEST: usize = 1 << 20;

/// A running host. It stops when it is dropped.
pub struct BrokenHost {
    /// `http://127.0.0.1:PORT`.
    pub url: String,
    server: JoinHandle<()>,
}

impl BrokenHost {
    pub async fn openwop(fault: Option<OpenwopFault>) -> Self {
        Self::start(openwop::Host::new(fault)).await
    }

    pub async fn openwop2(fault: Option<Openwop2Fault>) -> Self {
        Self::start(openwop2::Host::new(fault)).await
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
