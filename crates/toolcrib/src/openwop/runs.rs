//! `GET /v1/runs/{runId}/events`: the events of one run.

use axum::{extract::State, response::Response};
use http::StatusCode;
use serde::Serialize;
use toolcrib_core::{
    event::{EventBody, EventQuery, RunEvent},
    id::{PrincipalId, RunId, TenantId},
    principal::Principal,
};
use toolcrib_gateway::scopes::RouteScope;
use utoipa::ToSchema;

use super::{
    error::{self, ErrorEnvelope},
    events::RunEventSchema,
};
use crate::{
    middleware::{Caller, Refusal, Segment},
    respond,
    state::AppState,
};

/// Number of events per read, the maximum of a store, and maximum number of reads per response.
const PAGE: usize = 1_000;
const MAX_PAGES: usize = 16;

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
    operation_id = "listRunEvents",
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
    let events = read(&state, &caller.tenant, run).await?;
    if events.is_empty() || !may_see(&caller, &events) {
        return Ok(error::not_found());
    }
    Ok(respond::json(StatusCode::OK, &RunEvents { events }))
}

/// Returns the events of `run` in the record of `tenant`, in order; only the first ones of a very
/// long run.
pub(super) async fn read(
    state: &AppState,
    tenant: &TenantId,
    run: RunId,
) -> Result<Vec<RunEvent>, Refusal> {
    let mut query = EventQuery {
        tenant: Some(tenant.clone()),
        run: Some(run),
        limit: PAGE,
        ..EventQuery::default()
    };
    let mut events = Vec::new();
    for _ in 0..MAX_PAGES {
        let page = state.gateway.audit().read(query.clone()).await.map_err(|error| {
            tracing::error!(%error, "a run could not be read");
            Refusal::Unavailable
        })?;
        query.after = page.last().map(|last| last.position);
        let full = page.len() >= PAGE;
        events.extend(page.into_iter().map(|logged| logged.event));
        if !full {
            break;
        }
    }
    Ok(events)
}

/// Returns whether `caller` may see a run with these events: one that it took part in, or any with
/// `audit:read`.
pub(super) fn may_see(caller: &Principal, events: &[RunEvent]) -> bool {
    RouteScope::AuditRead.is_held_by(caller)
        || events.iter().any(|event| concerns(event, &caller.id))
}

/// Returns whether `principal` is the actor of `event`.
fn concerns(event: &RunEvent, principal: &PrincipalId) -> bool {
    match &event.body {
        EventBody::ToolCalled(called) => called.principal == *principal,
        EventBody::AuthorizationDecided(decided) => decided.principal == *principal,
        EventBody::ToolPinApproved(approved) => approved.principal.as_ref() == Some(principal),
        EventBody::RecordAccepted(accepted) => accepted.principal == *principal,
        EventBody::ToolReturned(_)
        | EventBody::ToolPinDrifted(_)
        | EventBody::EgressDecided(_)
        | EventBody::ToolSessionOpened(_)
        | EventBody::ToolSessionClosed(_)
        | EventBody::InterruptRequested(_)
        | EventBody::ApprovalGranted(_)
        | EventBody::ApprovalRejected(_)
        | EventBody::ApprovalOverridden(_) => false,
    }
}
