//! `/v1/runs`: lists and cancels runs of workflows.

use axum::{
    extract::{RawQuery, State},
    response::Response,
};
use http::StatusCode;
use serde::Serialize;
use toolcrib_core::{
    id::{PrincipalId, RunId},
    principal::Principal,
    store::{RunQuery, RunRecord},
};
use toolcrib_gateway::scopes::RouteScope;
use utoipa::ToSchema;

use super::{
    error::{self, ErrorEnvelope},
    values::{self, BadParameter, Limit, StateOfRun},
};
use crate::{
    middleware::{Caller, Refusal, Segment},
    respond,
    state::AppState,
};

#[derive(Serialize, ToSchema)]
pub(super) struct Runs {
    /// The newest first.
    #[schema(value_type = Vec<Object>)]
    runs: Vec<RunRecord>,
}

#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct Cancelled {
    #[schema(value_type = String)]
    run_id: RunId,
    /// How many workflows of that run are being ended.
    cancelled: usize,
}

/// Runs of workflows: those that the caller began, or all of its tenant with the scope `audit:read`.
#[utoipa::path(
    get,
    path = "/v1/runs",
    operation_id = "listRuns",
    tag = "OpenWOP",
    params(
        ("state" = inline(Option<StateOfRun>), Query, description = "Only in this state"),
        ("runId" = Option<String>, Query, description = "Only of this run"),
        ("limit" = inline(Option<Limit>), Query, description = "At most this many; 100 when absent"),
    ),
    responses(
        (status = 200, description = "The runs", body = Runs),
        (status = 400, description = "A parameter has none of its values", body = ErrorEnvelope),
        (status = 401, description = "No valid key", body = ErrorEnvelope),
        (status = 503, description = "The runs cannot be read right now", body = ErrorEnvelope),
    )
)]
pub(super) async fn list(
    State(state): State<AppState>,
    Caller(caller): Caller,
    RawQuery(query): RawQuery,
) -> Result<Response, Refusal> {
    let read = || -> Result<_, BadParameter> {
        let state = values::read(query.as_deref(), "state")?.map(|StateOfRun(state)| state);
        Ok((state, values::read(query.as_deref(), "limit")?.unwrap_or(Limit::DEFAULT)))
    };
    let (wanted, Limit(limit)) = match read() {
        Ok(read) => read,
        Err(bad) => return Ok(bad.into_response()),
    };
    let run = match respond::query(query.as_deref(), "runId").map(|run| RunId::parse(&*run)) {
        None => None,
        Some(Ok(run)) => Some(run),
        // A run id that cannot be parsed matches no run.
        Some(Err(_)) => return Ok(respond::json(StatusCode::OK, &Runs { runs: Vec::new() })),
    };
    let principal = whose(&caller, RouteScope::AuditRead);
    let runs =
        find(&state, RunQuery { run, state: wanted, limit, ..of(&caller, principal) }).await?;
    Ok(respond::json(StatusCode::OK, &Runs { runs }))
}

/// Ends the workflows of a run that the caller began, or of any run of its tenant with the scope
/// `runs:cancel`. Answers before they have ended.
#[utoipa::path(
    post,
    path = "/v1/runs/{runId}/cancel",
    operation_id = "cancelRun",
    tag = "OpenWOP",
    params(("runId" = String, Path, description = "The run, as in the `toolcrib-run-id` header of a call")),
    responses(
        (status = 202, description = "They are being ended", body = Cancelled),
        (status = 401, description = "No valid key", body = ErrorEnvelope),
        (status = 404, description = "Unknown to this caller, for whatever reason", body = ErrorEnvelope),
        (status = 503, description = "The runs cannot be read right now", body = ErrorEnvelope),
    )
)]
pub(super) async fn cancel(
    State(state): State<AppState>,
    Caller(caller): Caller,
    run: Segment,
) -> Result<Response, Refusal> {
    let Ok(run) = RunId::parse(run.as_str()) else { return Ok(error::not_found()) };
    let principal = whose(&caller, RouteScope::RunsCancel);
    let query = RunQuery { run: Some(run.clone()), limit: 1, ..of(&caller, principal) };
    if find(&state, query).await?.is_empty() {
        return Ok(error::not_found());
    }
    let ended = state.gateway.workflows().cancel(&caller.tenant, &run).await;
    let cancelled = ended.map_err(|error| unavailable(&error))?;
    Ok(respond::json(StatusCode::ACCEPTED, &Cancelled { run_id: run, cancelled }))
}

/// Returns the principal to filter by: the caller, or `None` for all principals with `scope`.
fn whose(caller: &Principal, scope: RouteScope) -> Option<PrincipalId> {
    (!scope.is_held_by(caller)).then(|| caller.id.clone())
}

fn of(caller: &Principal, principal: Option<PrincipalId>) -> RunQuery {
    RunQuery { tenant: Some(caller.tenant.clone()), principal, ..RunQuery::default() }
}

async fn find(state: &AppState, query: RunQuery) -> Result<Vec<RunRecord>, Refusal> {
    state.gateway.workflows().runs(query).await.map_err(|error| unavailable(&error))
}

fn unavailable(error: &toolcrib_core::store::StoreError) -> Refusal {
    tracing::error!(%error, "runs could not be read");
    Refusal::Unavailable
}
