//! `GET /v1/sources`: how the sources are doing, for operators.

use axum::{extract::State, response::Response};
use http::StatusCode;
use serde::Serialize;
use toolcrib_core::{catalog::Catalog, id::TenantId};
use toolcrib_gateway::SourceReport;
use utoipa::ToSchema;

use super::error::ErrorEnvelope;
use crate::{
    middleware::{Caller, Refusal, require},
    respond,
    state::AppState,
};

#[derive(Serialize, ToSchema)]
pub(super) struct Sources {
    /// In the order of the configuration.
    #[schema(value_type = Vec<Object>)]
    sources: Vec<SourceReport>,
}

/// Every source of the caller's tenant: its kind, state, number of tools and problems.
#[utoipa::path(
    get,
    path = "/v1/sources",
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
    require(&caller, "sources:read")?;
    let snapshot = state.gateway.snapshot();
    let sources = state
        .gateway
        .sources()
        .into_iter()
        .filter(|report| concerns(&snapshot.catalog, report, &caller.tenant))
        .collect();
    Ok(respond::json(StatusCode::OK, &Sources { sources }))
}

/// Whether `tenant` may know of the source: some tool of it exists for the tenant (I-9). A source
/// that offers nothing is shown to every operator, because finding out why is what they are here for.
fn concerns(catalog: &Catalog, report: &SourceReport, tenant: &TenantId) -> bool {
    let mut entries = catalog.entries().iter().filter(|entry| entry.source == report.id).peekable();
    entries.peek().is_none() || entries.any(|entry| entry.tenants.admits(tenant))
}
