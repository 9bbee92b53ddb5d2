//! Responses outside the protocol: errors without a result, and `Allow`.

use axum::response::{IntoResponse as _, Response};
use http::{HeaderValue, StatusCode, header};
use toolcrib_mcp::message::RpcError;

use crate::{
    mcp::{answer, error, protocol::Id},
    middleware::Refusal,
    respond,
};

/// Builds an error response to `id`.
pub(super) fn fail(status: StatusCode, id: Option<&Id>, error: &RpcError) -> Response {
    respond::json_bytes(status, answer::error(id, error))
}

/// Builds an error response to a request with an invalid part.
pub(super) fn invalid(status: StatusCode, id: Option<&Id>, problem: &'static str) -> Response {
    fail(status, id, &RpcError::invalid_request(problem))
}

/// The response for a session that does not exist for the caller.
pub(super) fn no_session(id: Option<&Id>) -> Response {
    fail(StatusCode::NOT_FOUND, id, &error::no_session())
}

/// The response while the store cannot identify the owner of a session.
pub(super) fn unavailable(id: Option<&Id>) -> Response {
    fail(StatusCode::SERVICE_UNAVAILABLE, id, &error::unavailable())
}

/// A 405 with the header `Allow`.
pub(super) fn not_allowed(allow: &'static str) -> Response {
    let mut response = Refusal::Method.into_response();
    response.headers_mut().insert(header::ALLOW, HeaderValue::from_static(allow));
    response
}
