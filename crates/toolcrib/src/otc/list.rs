//! `GET /tools`: the caller's tools as `ToolDefinition`s.

use axum::{
    body::Body,
    extract::{Request, State},
    response::Response,
};
use http::request::Parts;
use http_body::Body as _;
use serde_json::Value;
use toolcrib_core::json::parse_strict;

use super::{
    definition,
    dialect::{Dialect, Marker},
    error::{self, ServerError},
};
use crate::{
    middleware::{Caller, Payload, Refusal},
    parameters::ToolsetName,
    respond::{self, PRIVATE},
    state::AppState,
};

/// Lists the tools that the caller may use.
///
/// The request may have a JSON body with `$schema`; the body may be empty.
#[utoipa::path(
    get,
    path = "/tools",
    operation_id = "otcTools",
    params(("toolset" = inline(Option<ToolsetName>), Query, description = "Only tools of this toolset")),
    responses(
        (status = 200, description = "The visible tools", body = ref("#/components/schemas/ToolList")),
        (status = 304, description = "Not modified"),
        (status = 400, description = "The body is not JSON, the version is unsupported, or the toolset is unknown", body = ServerError),
    )
)]
pub(super) async fn list(
    State(state): State<AppState>,
    caller: Caller,
    request: Request,
) -> Result<Response, Refusal> {
    answer(Dialect::Otc, &state, &caller, request).await
}

pub(super) async fn answer(
    dialect: Dialect,
    state: &AppState,
    Caller(caller): &Caller,
    request: Request,
) -> Result<Response, Refusal> {
    let (head, body) = request.into_parts();
    let marker = match body.is_end_stream() {
        true => dialect.marker(),
        false => match marker_of(dialect, state, &head, body).await? {
            Ok(marker) => marker,
            Err(problem) => return Ok(error::bad_request(dialect.marker(), problem)),
        },
    };
    let format = definition::format(dialect, marker);
    Ok(match state.gateway.snapshot().list(caller, &respond::within(&head.uri), format, None) {
        Some(list) => respond::tagged(&head.headers, &list, "application/json", PRIVATE),
        None => error::bad_request(marker, respond::NO_TOOLSET),
    })
}

/// Selects the marker for the response to a request with `body`. Fails with the problem of the
/// body.
async fn marker_of(
    dialect: Dialect,
    state: &AppState,
    head: &Parts,
    body: Body,
) -> Result<Result<Marker, String>, Refusal> {
    let Payload(bytes) = Payload::read(head, body, state.config.server.max_body_bytes).await?;
    if bytes.is_empty() {
        return Ok(Ok(dialect.marker()));
    }
    Ok(match parse_strict(&bytes) {
        Ok(message @ Value::Object(_)) => {
            dialect.answer_to(&message).map_err(|problem| problem.to_string())
        }
        Ok(_) => Err("the body must be a JSON object".to_owned()),
        Err(problem) => Err(format!("the body is not JSON: {problem}")),
    })
}
