//! Cross-origin access (CORS) for pages of `server.allowed_origins`; disabled without that setting.
//!
//! A page sends its key in a header that it sets itself. So no response allows browser credentials
//! or every origin.

use axum::{body::Body, extract::Request, response::Response};
use http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use toolcrib_config::ServerConfig;

use super::origin;

/// The headers that a page may read.
const EXPOSED: HeaderValue = HeaderValue::from_static(
    "ETag, Retry-After, WWW-Authenticate, Mcp-Session-Id, OpenWOP-Version, OXP-Version, Toolcrib-Run-Id, \
     X-Request-Id, Idempotent-Replayed",
);
const METHODS: HeaderValue = HeaderValue::from_static("GET, HEAD, POST, DELETE");
/// The headers that a page may send.
const HEADERS: HeaderValue = HeaderValue::from_static(
    "Accept, Authorization, Content-Type, If-None-Match, Idempotency-Key, Last-Event-ID, \
     Mcp-Method, Mcp-Name, MCP-Protocol-Version, Mcp-Session-Id, OpenWOP-Client-Version, \
     OpenWOP-Version, OTC-API-Key, OXP-API-Key, OXP-Version, Traceparent, X-API-Key, X-Request-Id",
);
/// Seconds for which a browser may cache a preflight response.
const MAX_AGE: HeaderValue = HeaderValue::from_static("600");

/// The origin of the requesting page, if the operator allows it.
pub(super) fn listed(server: &ServerConfig, headers: &HeaderMap) -> Option<HeaderValue> {
    if server.allowed_origins.is_empty() {
        return None;
    }
    let origin = headers.get(header::ORIGIN)?;
    let text = origin.to_str().ok()?;
    origin::listed(server, text).then(|| origin.clone())
}

/// Answers a preflight request of an allowed page; `None` for other requests. The response is the
/// same for every path, so it reveals no paths.
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

/// Allows pages of `origin` to read `response`.
pub(super) fn readable(response: &mut Response, origin: HeaderValue) {
    let headers = response.headers_mut();
    headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin);
    headers.insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, EXPOSED);
    headers.append(header::VARY, HeaderValue::from_static("Origin"));
}
