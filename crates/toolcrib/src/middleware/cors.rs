//! What pages of other origins may read: those of `server.allowed_origins`, and nothing without
//! that setting.
//!
//! Keys travel in a header that the page itself sets, so no answer allows credentials of the
//! browser's own, and no answer is for everybody.

use axum::{body::Body, extract::Request, response::Response};
use http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use toolcrib_gateway::config::ServerConfig;

use super::origin;

/// What a page may read beside the body.
const EXPOSED: HeaderValue = HeaderValue::from_static(
    "ETag, Retry-After, WWW-Authenticate, Mcp-Session-Id, OXP-Version, Toolcrib-Run-Id, X-Request-Id, \
     Idempotent-Replayed",
);
const METHODS: HeaderValue = HeaderValue::from_static("GET, HEAD, POST, DELETE");
/// What a page may send.
const HEADERS: HeaderValue = HeaderValue::from_static(
    "Accept, Authorization, Content-Type, If-None-Match, Idempotency-Key, Last-Event-ID, \
     Mcp-Method, Mcp-Name, MCP-Protocol-Version, Mcp-Session-Id, OTC-API-Key, OXP-API-Key, \
     OXP-Version, Traceparent, X-API-Key, X-Request-Id",
);
/// Seconds for which a browser need not ask again.
const MAX_AGE: HeaderValue = HeaderValue::from_static("600");

/// The origin of the page that sent a request, if the operator lists it.
pub(super) fn listed(server: &ServerConfig, headers: &HeaderMap) -> Option<HeaderValue> {
    if server.allowed_origins.is_empty() {
        return None;
    }
    let origin = headers.get(header::ORIGIN)?;
    let text = origin.to_str().ok()?;
    origin::listed(server, text).then(|| origin.clone())
}

/// The answer to a browser that asks what a listed page may do, before it sends what the page wants.
/// It says the same of every path, so it tells nothing.
pub(super) fn preflight(server: &ServerConfig, request: &Request) -> Option<Response> {
    let headers = request.headers();
    let asks = request.method() == Method::OPTIONS
        && headers.contains_key(header::ACCESS_CONTROL_REQUEST_METHOD);
    if !asks {
        return None;
    }
    let origin = listed(server, headers)?;
    origin::check(server, request.uri(), headers).ok()?;
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::NO_CONTENT;
    let answered = response.headers_mut();
    answered.insert(header::ACCESS_CONTROL_ALLOW_METHODS, METHODS);
    answered.insert(header::ACCESS_CONTROL_ALLOW_HEADERS, HEADERS);
    answered.insert(header::ACCESS_CONTROL_MAX_AGE, MAX_AGE);
    readable(&mut response, origin);
    Some(response)
}

/// Lets pages of `origin` read `response`.
pub(super) fn readable(response: &mut Response, origin: HeaderValue) {
    let headers = response.headers_mut();
    headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin);
    headers.insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, EXPOSED);
    headers.append(header::VARY, HeaderValue::from_static("Origin"));
}
