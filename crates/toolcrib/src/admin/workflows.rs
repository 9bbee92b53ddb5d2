//! `/v1/runs`: lists and cancels runs of workflows.

use axum::response::Response;
use http::StatusCode;
use serde::Serialize;
use toolcrib_config::scopes::RouteScope;
use toolcrib_core::{
    id::RunId,
    store::{RunQuery, RunRecord},
};
use utoipa::ToSchema;

use crate::{
    middleware::Segment,
    respond,
    v1::{
        error::{ErrorEnvelope, Failure},
        request::Context,
        values::{Limit, StateOfRun},
    },
    visible_runs,
};

#[derive(Serialize, ToSchema)]
pub(super) struct Runs {
    /// The newest first.
    #[schema(value_type = Vec<Object>)]
    runs: Vec<RunRecord>,
}

#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct CancelReport {
    #[schema(value_type = String)]
    run_id: RunId,
    /// The number of workflows of the run that are being cancelled.
    cancelled: usize,
}

/// Lists runs of workflows: those that the caller started, or all of its tenant with the scope
/// `audit:read`.
#[utoipa::path(
    get,
    path = "/v1/runs",
    operation_id = "listRuns",
    params(
        ("state" = inline(Option<StateOfRun>), Query, description = "Only runs in this state"),
        ("runId" = Option<String>, Query, description = "Only this run"),
        ("limit" = inline(Option<Limit>), Query, description = "The maximum number of runs; 100 by default"),
    ),
    responses((status = 200, description = "The runs", body = Runs))
)]
pub(super) async fn list(context: Context) -> Result<Response, Failure> {
    let state = context.parameter("state")?.map(|StateOfRun(state)| state);
    let limit = context.parameter("limit")?.unwrap_or(Limit::DEFAULT).size();
    let run = match context.text("runId").map(|run| RunId::parse(&*run)) {
        None => None,
        Some(Ok(run)) => Some(run),
        // A run id that cannot be parsed matches no run.
        Some(Err(_)) => return Ok(respond::json(StatusCode::OK, &Runs { runs: Vec::new() })),
    };
    let query = RunQuery {
        run,
        state,
        limit,
        ..visible_runs::query(&context.caller, RouteScope::AuditRead)
    };
    let runs = context.gateway.workflows().runs(query).await?;
    Ok(respond::json(StatusCode::OK, &Runs { runs }))
}

/// Cancels the workflows of a run that the caller started, or of any run of its tenant with the
/// scope `runs:cancel`. Responds before they have stopped.
#[utoipa::path(
    post,
    path = "/v1/runs/{runId}/cancel",
    operation_id = "cancelRun",
    params(("runId" = String, Path, description = "The run id, as in the header `toolcrib-run-id` of a call's response")),
    responses(
        (status = 202, description = "The workflows are being cancelled", body = CancelReport),
        (status = 404, description = "Not found, or not visible to this caller", body = ErrorEnvelope),
    )
)]
pub(super) async fn cancel(context: Context, run: Segment) -> Result<Response, Failure> {
    let run = RunId::parse(run.as_str()).map_err(|_| Failure::not_found())?;
    let workflows = context.gateway.workflows();
    let own = visible_runs::query(&context.caller, RouteScope::RunsCancel);
    let query = RunQuery { run: Some(run.clone()), limit: 1, ..own };
    if workflows.runs(query).await?.is_empty() {
        return Err(Failure::not_found());
    }
    let cancelled = workflows.cancel(&context.caller.tenant, &run).await?;
    Ok(respond::json(StatusCode::ACCEPTED, &CancelReport { run_id: run, cancelled }))
}
