//! `GET /v1/runs/{runId}/events`: what happened in one run.

use axum::{extract::State, response::Response};
use http::StatusCode;
use serde::Serialize;
use toolcrib_core::{
    event::{EventBody, EventQuery, LoggedEvent, RunEvent},
    id::{PrincipalId, RunId},
};
use utoipa::ToSchema;

use super::{
    error::{self, ErrorEnvelope},
    events::RunEventSchema,
};
use crate::{
    middleware::{Caller, Refusal, Segment, holds},
    respond,
    state::AppState,
};

#[derive(Serialize, ToSchema)]
pub(super) struct RunEvents {
    /// In order.
    #[schema(value_type = Vec<RunEventSchema>)]
    events: Vec<RunEvent>,
}

/// The events of a run of the caller, or of any run of its tenant with the scope `audit:read`.
#[utoipa::path(
    get,
    path = "/v1/runs/{runId}/events",
    tag = "OpenWOP",
    params(("runId" = String, Path, description = "The run, as in the `toolcrib-run-id` header of a call")),
    responses(
        (status = 200, description = "The run's events", body = RunEvents),
        (status = 401, description = "No valid key", body = ErrorEnvelope),
        (status = 404, description = "Unknown to this caller, for whatever reason", body = ErrorEnvelope),
        (status = 503, description = "The record cannot be read right now", body = ErrorEnvelope),
    )
)]
pub(super) async fn events(
    State(state): State<AppState>,
    Caller(caller): Caller,
    run: Segment,
) -> Result<Response, Refusal> {
    let Ok(run) = RunId::parse(run.as_str()) else { return Ok(error::not_found()) };
    let query =
        EventQuery { tenant: Some(caller.tenant.clone()), run: Some(run), ..EventQuery::default() };
    let logged = state.gateway.log().read(query).await.map_err(|error| {
        tracing::error!(%error, "a run could not be read");
        Refusal::Unavailable
    })?;
    let own = logged.iter().any(|logged| concerns(logged, &caller.id));
    if logged.is_empty() || !(own || holds(&caller, "audit:read")) {
        return Ok(error::not_found());
    }
    let events = logged.into_iter().map(|logged| logged.event).collect();
    Ok(respond::json(StatusCode::OK, &RunEvents { events }))
}

/// Whether `logged` says that `principal` acted.
fn concerns(logged: &LoggedEvent, principal: &PrincipalId) -> bool {
    match &logged.event.body {
        EventBody::ToolCalled(called) => called.principal == *principal,
        EventBody::AuthorizationDecided(decided) => decided.principal == *principal,
        EventBody::ToolReturned(_)
        | EventBody::ToolSessionOpened(_)
        | EventBody::ToolSessionClosed(_) => false,
    }
}
