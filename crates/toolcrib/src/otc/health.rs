//! `GET /health`.

use axum::response::Response;
use http::StatusCode;

use crate::respond;

/// Returns 200 while the server is running. Requires no credentials.
#[utoipa::path(
    get,
    path = "/health",
    operation_id = "otcHealth",
    security(()),
    responses((status = 200, description = "The server is running", body = Object))
)]
pub(super) async fn health() -> Response {
    // One client of this protocol fails on an empty body.
    respond::json_bytes(StatusCode::OK, &b"{\"status\":\"OK\"}"[..])
}
