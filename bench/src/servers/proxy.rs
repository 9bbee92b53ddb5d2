//! The limit for a call: a reverse proxy with pooled connections.

use anyhow::{Context, Result};
use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use http::uri::{Authority, PathAndQuery, Scheme};
use http::{StatusCode, Uri, header};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;

use crate::servers::listen;

#[derive(Clone)]
struct Proxy {
    client: Client<HttpConnector, Body>,
    to: Authority,
}

/// Serves the proxy; `to` is `http://HOST:PORT`.
pub(crate) async fn serve(to: &str) -> Result<()> {
    let uri: Uri = to.parse()?;
    let to = uri.authority().context("--to needs a host")?.clone();
    let mut connector = HttpConnector::new();
    connector.set_nodelay(true);
    let client = Client::builder(TokioExecutor::new()).build(connector);
    listen(Router::new().fallback(forward).with_state(Proxy { client, to })).await
}

async fn forward(State(proxy): State<Proxy>, mut request: Request) -> Response {
    let path = request.uri().path_and_query().cloned();
    let mut uri = http::uri::Parts::default();
    uri.scheme = Some(Scheme::HTTP);
    uri.authority = Some(proxy.to.clone());
    uri.path_and_query = path.or_else(|| Some(PathAndQuery::from_static("/")));
    let Ok(uri) = Uri::from_parts(uri) else {
        return StatusCode::BAD_REQUEST.into_response();
    };
    *request.uri_mut() = uri;
    request.headers_mut().remove(header::HOST);
    match proxy.client.request(request).await {
        Ok(answer) => answer.map(Body::new),
        Err(_) => StatusCode::BAD_GATEWAY.into_response(),
    }
}
