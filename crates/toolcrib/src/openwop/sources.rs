//! `GET /v1/sources`: how the sources are doing, for operators.

use axum::{extract::State, response::Response};
use http::StatusCode;
use serde::Serialize;
use toolcrib_gateway::{SourceReport, toolsets::ToolsetReport};
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
    /// The toolsets, by name.
    #[schema(value_type = Vec<Object>)]
    toolsets: Vec<ToolsetReport>,
}

/// Every source of the caller's tenant: its kind, state, number of tools and problems; and every
/// toolset: how many of its tools the caller may use, and how many entries of its allow-list reach no
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
    require(&state, &caller, "sources:read", "/v1/sources")?;
    let sources = state.gateway.sources_of(&caller.tenant);
    let toolsets = state.gateway.toolsets(&caller);
    Ok(respond::json(StatusCode::OK, &Sources { sources, toolsets }))
}
