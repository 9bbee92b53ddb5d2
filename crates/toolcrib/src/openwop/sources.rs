//! `GET /v1/sources`: the status of the sources, for operators.

use axum::{extract::State, response::Response};
use http::StatusCode;
use serde::Serialize;
use toolcrib_core::source::StderrLine;
use toolcrib_gateway::{
    QuotaReport, SourceReport, StderrRefusal, ToolsetReport, scopes::RouteScope,
};
use utoipa::ToSchema;

use super::error::{self, ErrorEnvelope};
use crate::{
    middleware::{Caller, Refusal, Segment, require},
    respond,
    state::AppState,
};

#[derive(Serialize, ToSchema)]
pub(super) struct Sources {
    /// In the order of the configuration.
    #[schema(value_type = Vec<Object>)]
    sources: Vec<SourceReport>,
    /// The toolsets, by name.
    #[schema(value_type = Vec<Object>)]
    toolsets: Vec<ToolsetReport>,
    /// The use of the caller's quota today; absent when it has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    quota: Option<QuotaReport>,
}

/// Lines that children of a source wrote to stderr.
#[derive(Serialize, ToSchema)]
pub(super) struct SourceLog {
    /// The last lines, the oldest first.
    #[schema(value_type = Vec<Object>)]
    lines: Vec<StderrLine>,
}

/// The last lines (at most 100) that the children of a source wrote to stderr. They may hold arguments
/// of calls. Of a source that other tenants have called, none are shown.
#[utoipa::path(
    get,
    path = "/v1/sources/{sourceId}/logs",
    operation_id = "getSourceLogs",
    tag = "OpenWOP",
    params(("sourceId" = String, Path, description = "The source's id")),
    responses(
        (status = 200, description = "The lines", body = SourceLog),
        (status = 401, description = "No valid key", body = ErrorEnvelope),
        (status = 403, description = "The scope `sources:logs` is missing, or other tenants have called the source", body = ErrorEnvelope),
        (status = 404, description = "The caller's tenant has no such source", body = ErrorEnvelope),
    )
)]
pub(super) async fn logs(
    State(state): State<AppState>,
    Caller(caller): Caller,
    source: Segment,
) -> Result<Response, Refusal> {
    require(&state.gateway, &caller, RouteScope::SourcesLogs, "/v1/sources/{sourceId}/logs")?;
    Ok(match state.gateway.supply().stderr(Some(&caller.tenant), source.as_str()) {
        Ok(lines) => respond::json(StatusCode::OK, &SourceLog { lines }),
        Err(StderrRefusal::Unknown) => error::not_found(),
        Err(StderrRefusal::Shared) => error::error(
            StatusCode::FORBIDDEN,
            "forbidden",
            "other tenants have called this source, and its lines may hold their arguments; \
             with `stderr = \"log\"` the operator has them in the server's log",
            None,
        ),
    })
}

/// Every source of the caller's tenant: its kind, state, number of tools and problems, the calls
/// that limits refused (of all tenants), and the state of its breaker. Also every toolset: the
/// number of its tools that the caller may use, and of entries in its allow-list that match no
/// tool.
#[utoipa::path(
    get,
    path = "/v1/sources",
    operation_id = "listSources",
    tag = "OpenWOP",
    responses(
        (status = 200, description = "The sources", body = Sources),
        (status = 401, description = "No valid key", body = ErrorEnvelope),
        (status = 403, description = "The scope `sources:read` is missing", body = ErrorEnvelope),
    )
)]
pub(super) async fn list(
    State(state): State<AppState>,
    Caller(caller): Caller,
) -> Result<Response, Refusal> {
    require(&state.gateway, &caller, RouteScope::SourcesRead, "/v1/sources")?;
    let sources = state.gateway.supply().reports_for(&caller.tenant);
    let snapshot = state.gateway.snapshot();
    let toolsets = snapshot.toolsets(&caller);
    let quota = state.gateway.quotas().report(&snapshot.gate, &caller).await;
    let quota = quota.unwrap_or_else(|error| {
        tracing::warn!(%error, "the calls under a quota cannot be read");
        None
    });
    Ok(respond::json(StatusCode::OK, &Sources { sources, toolsets, quota }))
}
