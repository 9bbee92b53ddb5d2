//! Opens the connections of a source's HTTP clients.
//!
//! The resolver checks the addresses of names. Addresses in a URL never reach it, so they are
//! checked before each request (`Guard::judge`).

use std::{
    io,
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use futures_util::future::BoxFuture;
use http::Uri;
use http_body_util::Full;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder, MaybeHttpsStream};
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::{TokioExecutor, TokioIo, TokioTimer},
};
use tokio::net::TcpStream;
use toolcrib_tasks::cores::PerCore;
use tower::{BoxError, Service};

use super::resolve::GuardedResolver;

/// How long opening a connection (DNS, TCP, TLS) may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// How long an unused connection is kept open.
const IDLE_TIMEOUT: Duration = Duration::from_secs(90);

/// An HTTP client with a pool of connections.
pub(super) type HttpClient = Client<Connector, Full<Bytes>>;

/// HTTP clients with the same connector: one for each of the
/// [cores](toolcrib_tasks::cores::Cores), so that a request stays on its thread, and one for all other
/// threads.
pub(super) struct HttpClients {
    connector: Connector,
    shared: HttpClient,
    cores: PerCore<HttpClient>,
}

/// Opens connections to the addresses that its resolver lets through.
#[derive(Clone)]
pub(super) struct Connector(HttpsConnector<HttpConnector<GuardedResolver>>);

// === impl HttpClients ===

impl HttpClients {
    /// Creates clients that ignore proxy settings of the environment and follow no redirects.
    pub(super) fn new(resolver: GuardedResolver, tls: rustls::ClientConfig) -> Self {
        let mut tcp = HttpConnector::new_with_resolver(resolver);
        tcp.enforce_http(false);
        tcp.set_nodelay(true);
        tcp.set_keepalive(Some(Duration::from_secs(60)));
        tcp.set_connect_timeout(Some(CONNECT_TIMEOUT));
        let connector = HttpsConnectorBuilder::new()
            .with_tls_config(tls)
            .https_or_http()
            .enable_all_versions()
            .wrap_connector(tcp);
        let connector = Connector(connector);
        Self { shared: client(connector.clone()), connector, cores: PerCore::new() }
    }

    /// The client of the current thread.
    pub(super) fn here(&self) -> &HttpClient {
        self.cores.here(|| client(self.connector.clone())).unwrap_or(&self.shared)
    }
}

#[expect(clippy::disallowed_methods, reason = "this is the module that the rule points to")]
fn client(connector: Connector) -> HttpClient {
    Client::builder(TokioExecutor::new())
        .timer(TokioTimer::new())
        .pool_timer(TokioTimer::new())
        .pool_idle_timeout(IDLE_TIMEOUT)
        .build(connector)
}

impl Service<Uri> for Connector {
    type Response = MaybeHttpsStream<TokioIo<TcpStream>>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Self::Response, BoxError>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.0.poll_ready(context)
    }

    fn call(&mut self, destination: Uri) -> Self::Future {
        let connecting = self.0.call(destination);
        Box::pin(async move {
            let late = |_| io::Error::new(io::ErrorKind::TimedOut, "no connection in time");
            tokio::time::timeout(CONNECT_TIMEOUT, connecting).await.map_err(late)?
        })
    }
}
