//! `GET /v1/sources`: the status of the sources, for operators.

use axum::response::Response;
use http::StatusCode;
use serde::Serialize;
use toolcrib_config::scopes::RouteScope::{SourcesLogs, SourcesRead, SourcesRefresh};
use toolcrib_core::source::StderrLine;
use toolcrib_gateway::{QuotaReport, RefreshRefusal, SourceReport, StderrRefusal, ToolsetReport};
use utoipa::ToSchema;

use crate::{
    middleware::Segment,
    respond,
    v1::{
        error::{ErrorEnvelope, Failure},
        request::Context,
    },
};

#[derive(Serialize, ToSchema)]
pub(super) struct Sources {
    /// In the order of the configuration.
    #[schema(value_type = Vec<Object>)]
    sources: Vec<SourceReport>,
    /// The toolsets, sorted by name.
    #[schema(value_type = Vec<Object>)]
    toolsets: Vec<ToolsetReport>,
    /// The use of the caller's quota today, if it has a quota.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    quota: Option<QuotaReport>,
}

/// Lines that child processes of a source wrote to stderr.
#[derive(Serialize, ToSchema)]
pub(super) struct SourceLog {
    /// The last lines, the oldest first.
    #[schema(value_type = Vec<Object>)]
    lines: Vec<StderrLine>,
}

/// Returns the last lines (at most 100) that the child processes of a source wrote to stderr. They
/// may contain arguments of calls, so the lines of a source that other tenants have called are not
/// available.
#[utoipa::path(
    get,
    path = "/v1/sources/{sourceId}/logs",
    operation_id = "getSourceLogs",
    params(("sourceId" = String, Path, description = "The id of the source")),
    responses(
        (status = 200, description = "The lines", body = SourceLog),
        (status = 403, description = "The scope `sources:logs` is missing, or other tenants have called the source", body = ErrorEnvelope),
        (status = 404, description = "The source is unknown in the caller's tenant", body = ErrorEnvelope),
    )
)]
pub(super) async fn logs(context: Context, source: Segment) -> Result<Response, Failure> {
    context.require(SourcesLogs)?;
    match context.gateway.supply().stderr(Some(&context.caller.tenant), source.as_str()) {
        Ok(lines) => Ok(respond::json(StatusCode::OK, &SourceLog { lines })),
        Err(StderrRefusal::Unknown) => Err(Failure::not_found()),
        Err(StderrRefusal::Shared) => Err(Failure::forbidden(
            "other tenants have called this source, and its lines may contain their arguments; \
             with `stderr = \"log\"` the operator finds them in the server's log",
            None,
        )),
    }
}

/// A requested discovery.
#[derive(Serialize, ToSchema)]
pub(super) struct RequestedRefresh {
    /// Always `true`.
    requested: bool,
}

/// Requests a discovery of the tools of a source. Its result is in `GET /v1/sources`: `discoveredAt` or
/// `lastError`. A source accepts one request every ten seconds, from all callers together.
#[utoipa::path(
    post,
    path = "/v1/sources/{sourceId}/refresh",
    operation_id = "refreshSource",
    params(("sourceId" = String, Path, description = "The id of the source")),
    responses(
        (status = 202, description = "The discovery starts soon", body = RequestedRefresh),
        (status = 403, description = "The scope `sources:refresh` is missing", body = ErrorEnvelope),
        (status = 404, description = "The source is unknown in the caller's tenant", body = ErrorEnvelope),
        (status = 429, description = "It was requested within the last ten seconds", body = ErrorEnvelope),
    )
)]
pub(super) async fn refresh(context: Context, source: Segment) -> Result<Response, Failure> {
    context.require(SourcesRefresh)?;
    match context.gateway.supply().refresh_now(&context.caller.tenant, source.as_str()) {
        Ok(()) => Ok(respond::json(StatusCode::ACCEPTED, &RequestedRefresh { requested: true })),
        Err(RefreshRefusal::Unknown) => Err(Failure::not_found()),
        Err(RefreshRefusal::TooSoon(left)) => Err(Failure::too_soon(
            "this source was refreshed a moment ago; try again in a few seconds",
            left,
        )),
    }
}

/// Lists the sources of the caller's tenant: kind, state, number of tools, problems, notes, the
/// parts of an MCP server that are not offered, circuit breaker, and its calls: how many run, how
/// many limits refused, and how long they ran. The figures of calls are absent while other tenants
/// call the source too. Also lists the toolsets: the number of tools that the caller may use, and
/// of allow-list entries that match no tool.
#[utoipa::path(
    get,
    path = "/v1/sources",
    operation_id = "listSources",
    responses(
        (status = 200, description = "The sources", body = Sources),
        (status = 403, description = "The scope `sources:read` is missing", body = ErrorEnvelope),
    )
)]
pub(super) async fn list(context: Context) -> Result<Response, Failure> {
    context.require(SourcesRead)?;
    let sources = context.gateway.supply().reports_for(&context.caller.tenant);
    let snapshot = context.gateway.snapshot();
    let toolsets = snapshot.toolsets(&context.caller);
    let quota = context.gateway.quotas().report(&snapshot.gate, &context.caller).await;
    let quota = quota.unwrap_or_else(|error| {
        tracing::warn!(%error, "the use of a quota could not be read");
        None
    });
    Ok(respond::json(StatusCode::OK, &Sources { sources, toolsets, quota }))
}
