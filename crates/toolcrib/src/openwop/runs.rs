//! `GET /v1/runs/{runId}/events`: the events of one run.

use axum::response::Response;
use http::StatusCode;
use serde::Serialize;
use toolcrib_core::{
    event::{EventBody, EventQuery, RunEvent},
    id::{PrincipalId, RunId, TenantId},
    principal::Principal,
    store::StoreError,
};
use toolcrib_gateway::{Gateway, scopes::RouteScope};
use utoipa::ToSchema;

use super::{
    error::{ErrorEnvelope, Failure},
    request::Context,
    schemas,
};
use crate::{middleware::Segment, respond};

/// Number of events per read, the maximum of a store, and maximum number of reads per response.
const PAGE: usize = 1_000;
const MAX_PAGES: usize = 16;

#[derive(Serialize, ToSchema)]
pub(super) struct RunEvents {
    /// In order.
    #[schema(schema_with = schemas::run_events)]
    events: Vec<RunEvent>,
}

/// Lists the events of a run of the caller, or of any run of its tenant with the scope `audit:read`.
#[utoipa::path(
    get,
    path = "/v1/runs/{runId}/events",
    operation_id = "listRunEvents",
    params(("runId" = String, Path, description = "The run id, as in the header `toolcrib-run-id` of a call's response")),
    responses(
        (status = 200, description = "The events of the run", body = RunEvents),
        (status = 404, description = "Not found, or not visible to this caller", body = ErrorEnvelope),
    )
)]
pub(super) async fn events(context: Context, run: Segment) -> Result<Response, Failure> {
    let run = RunId::parse(run.as_str()).map_err(|_| Failure::not_found())?;
    let events = read(&context.gateway, &context.caller.tenant, run).await?;
    if events.is_empty() || !may_see(&context.caller, &events) {
        return Err(Failure::not_found());
    }
    Ok(respond::json(StatusCode::OK, &RunEvents { events }))
}

/// Returns the events of `run` in the record of `tenant`, in order; only the first ones of a very
/// long run.
pub(super) async fn read(
    gateway: &Gateway,
    tenant: &TenantId,
    run: RunId,
) -> Result<Vec<RunEvent>, StoreError> {
    let mut query = EventQuery {
        tenant: Some(tenant.clone()),
        run: Some(run),
        limit: PAGE,
        ..EventQuery::default()
    };
    let mut events = Vec::new();
    for _ in 0..MAX_PAGES {
        let page = gateway.audit().read(query.clone()).await?;
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
