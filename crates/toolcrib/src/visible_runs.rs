//! The runs that a caller may see, the same in both generations of OpenWOP.

use toolcrib_config::scopes::RouteScope;
use toolcrib_core::{
    event::{EventQuery, RunEvent},
    id::{RunId, TenantId},
    principal::Principal,
    store::{RunQuery, StoreError},
};
use toolcrib_gateway::Gateway;

/// Number of events per read, the maximum of a store, and maximum number of reads per response.
const PAGE: usize = 1_000;
const MAX_PAGES: usize = 16;

/// Reads the events of `run` in the record of `tenant`, in order; only the first ones of a very
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

/// Events at the start of a run in which its caller appears. They are few, so that a long run of
/// another caller is found as fast as a short one (I-9).
const BEGINNING: usize = 16;

/// Why a caller sees the events of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RunVisibility {
    /// It started the run.
    Own,
    /// It holds `audit:read`.
    Scope,
}

/// Returns why `caller` may see the events of `run`; `None` if the run does not exist or is hidden.
pub(crate) async fn sight(
    gateway: &Gateway,
    caller: &Principal,
    run: &RunId,
) -> Result<Option<RunVisibility>, StoreError> {
    let query = EventQuery {
        tenant: Some(caller.tenant.clone()),
        run: Some(run.clone()),
        limit: BEGINNING,
        ..EventQuery::default()
    };
    let beginning = gateway.audit().read(query).await?;
    let is_own = beginning.iter().any(|logged| logged.event.body.actor() == Some(&caller.id));
    let has_scope = !beginning.is_empty() && RouteScope::AuditRead.is_held_by(caller);
    Ok(is_own.then_some(RunVisibility::Own).or(has_scope.then_some(RunVisibility::Scope)))
}

/// A query for the runs of workflows that `caller` started, or for all of its tenant with `scope`.
pub(crate) fn query(caller: &Principal, scope: RouteScope) -> RunQuery {
    let principal = (!scope.is_held_by(caller)).then(|| caller.id.clone());
    RunQuery { tenant: Some(caller.tenant.clone()), principal, ..RunQuery::default() }
}
