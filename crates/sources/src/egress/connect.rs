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
use tower::{BoxError, Service};

use super::resolve::GuardedResolver;

/// How long opening a connection (DNS, TCP, TLS) may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// How long an unused connection is kept open.
const IDLE_TIMEOUT: Duration = Duration::from_secs(90);

/// An HTTP client with a pool of connections; clones share the pool.
pub(super) type HttpClient = Client<Connector, Full<Bytes>>;

/// Opens connections to the addresses that its resolver lets through.
#[derive(Clone)]
pub(super) struct Connector(HttpsConnector<HttpConnector<GuardedResolver>>);

/// Creates a client that ignores proxy settings of the environment and follows no redirects.
#[expect(clippy::disallowed_methods, reason = "this is the module that the rule points to")]
pub(super) fn client(resolver: GuardedResolver, tls: rustls::ClientConfig) -> HttpClient {
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
    Client::builder(TokioExecutor::new())
        .timer(TokioTimer::new())
        .pool_timer(TokioTimer::new())
        .pool_idle_timeout(IDLE_TIMEOUT)
        .build(Connector(connector))
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
