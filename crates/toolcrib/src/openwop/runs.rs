//! `GET /v1/runs/{runId}/events`: the events of one run.

use axum::response::Response;
use http::StatusCode;
use serde::Serialize;
use toolcrib_core::{event::RunEvent, id::RunId};
use utoipa::ToSchema;

use crate::{
    middleware::Segment,
    respond,
    v1::{
        error::{ErrorEnvelope, Failure},
        request::Context,
        schemas,
    },
    visible_runs,
};

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
    if visible_runs::sight(&context.gateway, &context.caller, &run).await?.is_none() {
        return Err(Failure::not_found());
    }
    let events = visible_runs::events(&context.gateway, &context.caller.tenant, run).await?;
    Ok(respond::json(StatusCode::OK, &RunEvents { events }))
}
