//! The Open eXecution Protocol under `/oxp`, the successor of Open Tool Calling. The list is called
//! `items`, the input schema is not nested, and every response has its version in a header. Calls
//! have an envelope, as in its OpenAPI document, or none, as in its later draft.

use axum::{
    Extension,
    extract::{Request, State},
    response::Response,
};
use http::HeaderMap;
use utoipa::ToSchema;
use utoipa_axum::{router::OpenApiRouter, routes};

use super::{
    call::{self, CountedBody},
    definition::OxpToolDefinition,
    dialect::{self, Dialect, OXP_1_0, OXP_VERSION},
    error::{self, ServerError, ValidationError},
    health, list,
    request::CallBody,
    result::CallReply,
};
use crate::{
    idempotency::IdempotencyKeyText,
    middleware::{Caller, Hold, Payload, Refusal},
    parameters::ToolsetName,
    state::AppState,
};

/// The caller's tools.
#[derive(ToSchema)]
#[expect(dead_code, reason = "only its schema is used; the bytes are the catalog's")]
struct OxpToolList {
    /// The version of this answer, in the caller's words.
    #[schema(rename = "$schema")]
    schema: String,
    items: Vec<OxpToolDefinition>,
}

/// Returns the routes, with their description.
pub(super) fn routes() -> OpenApiRouter<AppState> {
    OpenApiRouter::new()
        .routes(routes!(oxp_health))
        .routes(routes!(oxp_list))
        .routes(routes!(oxp_call))
}

/// Formats a refusal for OXP.
pub(super) fn refuse(refusal: &Refusal) -> Response {
    versioned(error::refused(Dialect::Oxp.marker(), refusal))
}

/// Whether the server is up. Requires no credentials.
#[utoipa::path(
    get,
    path = "/oxp/health",
    operation_id = "oxpHealth",
    tag = "OXP",
    security(()),
    responses(
        (status = 200, description = "It is", body = Object),
        (status = 400, description = "`OXP-Version` names another version", body = ServerError),
    )
)]
async fn oxp_health(headers: HeaderMap) -> Response {
    match dialect::check_header(&headers) {
        Ok(()) => versioned(health::answer()),
        Err(problem) => unsupported(problem),
    }
}

/// The tools that the caller may use.
#[utoipa::path(
    get,
    path = "/oxp/tools",
    operation_id = "oxpTools",
    tag = "OXP",
    params(("toolset" = inline(Option<ToolsetName>), Query, description = "Only tools of this toolset")),
    responses(
        (status = 200, description = "The visible tools", body = OxpToolList),
        (status = 304, description = "Not modified"),
        (status = 400, description = "A body that is not JSON, another version, or no such toolset", body = ServerError),
        (status = 401, description = "No valid key", body = ServerError),
    )
)]
async fn oxp_list(
    State(state): State<AppState>,
    caller: Caller,
    request: Request,
) -> Result<Response, Refusal> {
    match dialect::check_header(request.headers()) {
        Ok(()) => list::answer(Dialect::Oxp, &state, &caller, request).await.map(versioned),
        Err(problem) => Ok(unsupported(problem)),
    }
}

/// Calls a tool.
///
/// As `POST /tools/call`. A body that is the request itself, without the envelope, is answered with
/// the result itself.
#[utoipa::path(
    post,
    path = "/oxp/tools/call",
    operation_id = "oxpCall",
    tag = "OXP",
    params(("Idempotency-Key" = inline(Option<IdempotencyKeyText>), Header, description = "Names a call without `call_id`: sent again, it is not made again, and has the same answer")),
    request_body(content = CallBody, content_type = "application/json"),
    responses(
        (status = 200, description = "The tool ran, or failed", body = CallReply),
        (status = 400, description = "Not a call, no such tool or version, its source is away, or `call_id` stands for another call", body = ServerError),
        (status = 401, description = "No valid key", body = ServerError),
        (status = 403, description = "The caller lacks a scope of the tool", body = ServerError),
        (status = 409, description = "The answer under `Idempotency-Key` cannot be given again, or its call runs in another process", body = ServerError),
        (status = 413, description = "The body is too large", body = ServerError),
        (status = 422, description = "The arguments do not fit, or `Idempotency-Key` stands for another call", body = ValidationError),
        (status = 429, description = "Too many calls of the tool; see Retry-After", body = ServerError),
        (status = 503, description = "The call could not be recorded, so nothing ran", body = ServerError),
    )
)]
async fn oxp_call(
    State(state): State<AppState>,
    Caller(caller): Caller,
    headers: HeaderMap,
    hold: Option<Extension<Hold>>,
    Payload(body): Payload,
) -> Response {
    let body = CountedBody { bytes: &body, hold };
    match dialect::check_header(&headers) {
        Ok(()) => versioned(call::answer(Dialect::Oxp, &state, &caller, &headers, body).await),
        Err(problem) => unsupported(problem),
    }
}

fn unsupported(problem: dialect::Unsupported) -> Response {
    versioned(error::bad_request(Dialect::Oxp.marker(), problem.to_string()))
}

fn versioned(mut response: Response) -> Response {
    response.headers_mut().insert(OXP_VERSION, OXP_1_0);
    response
}
