//! `GET /health`.

use axum::response::Response;
use http::StatusCode;

use crate::respond;

/// Whether the server is up. Requires no credentials.
#[utoipa::path(
    get,
    path = "/health",
    tag = "Open Tool Calling",
    security(()),
    responses((status = 200, description = "It is", body = Object))
)]
pub(super) async fn health() -> Response {
    answer()
}

/// Returns the response of a running server.
pub(super) fn answer() -> Response {
    // One client of this protocol fails on an empty body.
    respond::json_bytes(StatusCode::OK, &b"{\"status\":\"OK\"}"[..])
}
