//! The runs that a caller may see, the same in both generations of OpenWOP.

use toolcrib_core::{
    event::{EventBody, EventQuery, RunEvent},
    id::{PrincipalId, RunId, TenantId},
    principal::Principal,
    store::{RunQuery, StoreError},
};
use toolcrib_gateway::{Gateway, scopes::RouteScope};

/// Number of events per read, the maximum of a store, and maximum number of reads per response.
const PAGE: usize = 1_000;
const MAX_PAGES: usize = 16;

/// Returns the events of `run` in the record of `tenant`, in order; only the first ones of a very
/// long run.
pub(crate) async fn events(
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

/// Returns whether `caller` may see the events of `run`, which exists if so.
pub(crate) async fn sees_events(
    gateway: &Gateway,
    caller: &Principal,
    run: &RunId,
) -> Result<bool, StoreError> {
    let events = events(gateway, &caller.tenant, run.clone()).await?;
    Ok(!events.is_empty() && may_see(caller, &events))
}

/// Returns whether `caller` may see a run with these events: one that it took part in, or any with
/// `audit:read`.
pub(crate) fn may_see(caller: &Principal, events: &[RunEvent]) -> bool {
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

/// Returns a query for the runs of workflows that `caller` started, or for all of its tenant with
/// `scope`.
pub(crate) fn query(caller: &Principal, scope: RouteScope) -> RunQuery {
    let principal = (!scope.is_held_by(caller)).then(|| caller.id.clone());
    RunQuery { tenant: Some(caller.tenant.clone()), principal, ..RunQuery::default() }
}
