//! `GET /v1/record/…`: the signed checkpoints of the caller's tenant, and the status of forwarders
//! and anchors.

use axum::{
    extract::{RawQuery, State},
    response::{IntoResponse as _, Response},
};
use http::StatusCode;
use serde::Serialize;
use toolcrib_core::{
    clock::Timestamp,
    record::{Checkpoint, RecordStore},
    store::StoreError,
};
use toolcrib_gateway::scopes::RouteScope;
use utoipa::ToSchema;

use super::{
    error::ErrorEnvelope,
    values::{self, Position},
};
use crate::{
    middleware::{Caller, Refusal, require},
    respond,
    state::AppState,
};

#[derive(Serialize, ToSchema)]
pub(super) struct Checkpoints {
    /// In ascending number.
    #[schema(value_type = Vec<Object>)]
    checkpoints: Vec<Checkpoint>,
}

#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct Forwarders {
    /// Events that were ever recorded.
    last_position: u64,
    /// Forwarders and anchors, in the order of the configuration.
    forwarders: Vec<Forwarder>,
}

/// A receiver of the record or of its checkpoints.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct Forwarder {
    /// Its name.
    name: String,
    /// `forward` or `anchor`.
    kind: &'static str,
    /// Number of delivered events or checkpoints.
    delivered: u64,
    /// Events that are not delivered yet.
    #[serde(skip_serializing_if = "Option::is_none")]
    behind: Option<u64>,
    /// The time of the last delivery.
    #[schema(value_type = Option<String>)]
    delivered_at: Option<Timestamp>,
    /// The time since which deliveries fail.
    #[schema(value_type = Option<String>)]
    failing_since: Option<Timestamp>,
    /// Failed attempts since then.
    failures: u64,
    /// The reason of the last failure.
    problem: Option<String>,
}

/// The signed checkpoints of the caller's tenant, oldest first.
#[utoipa::path(
    get,
    path = "/v1/record/checkpoints",
    operation_id = "listCheckpoints",
    tag = "OpenWOP",
    params(("after" = inline(Option<Position>), Query, description = "Only checkpoints with greater numbers; 0 when absent")),
    responses(
        (status = 200, description = "At most 1000 checkpoints", body = Checkpoints),
        (status = 400, description = "`after` is not a number", body = ErrorEnvelope),
        (status = 401, description = "No valid key", body = ErrorEnvelope),
        (status = 403, description = "The scope `audit:read` is missing", body = ErrorEnvelope),
        (status = 503, description = "The record cannot be read right now", body = ErrorEnvelope),
    )
)]
pub(super) async fn checkpoints(
    State(state): State<AppState>,
    Caller(caller): Caller,
    RawQuery(query): RawQuery,
) -> Result<Response, Refusal> {
    require(&state.gateway, &caller, RouteScope::AuditRead, "/v1/record/checkpoints")?;
    let after = match values::read(query.as_deref(), "after") {
        Ok(after) => after.map_or(0, |Position(after)| after),
        Err(bad) => return Ok(bad.into_response()),
    };
    let found = match state.gateway.audit().store() {
        Some(store) => store.checkpoints(&caller.tenant, after).await,
        None => Ok(Vec::new()),
    };
    match found {
        Ok(checkpoints) => Ok(respond::json(StatusCode::OK, &Checkpoints { checkpoints })),
        Err(error) => Ok(unavailable(&error)),
    }
}

/// The status of forwarders and anchors. They receive the record of all tenants, so this requires
/// the scope `metrics:read`.
#[utoipa::path(
    get,
    path = "/v1/record/forwarders",
    operation_id = "listForwarders",
    tag = "OpenWOP",
    responses(
        (status = 200, description = "The forwarders and anchors", body = Forwarders),
        (status = 401, description = "No valid key", body = ErrorEnvelope),
        (status = 403, description = "The scope `metrics:read` is missing", body = ErrorEnvelope),
        (status = 503, description = "The record cannot be read right now", body = ErrorEnvelope),
    )
)]
pub(super) async fn forwarders(
    State(state): State<AppState>,
    Caller(caller): Caller,
) -> Result<Response, Refusal> {
    require(&state.gateway, &caller, RouteScope::MetricsRead, "/v1/record/forwarders")?;
    let report = match state.gateway.audit().store() {
        Some(store) => read_forwarders(&state, &**store).await,
        None => Ok(Forwarders { last_position: 0, forwarders: Vec::new() }),
    };
    match report {
        Ok(report) => Ok(respond::json(StatusCode::OK, &report)),
        Err(error) => Ok(unavailable(&error)),
    }
}

async fn read_forwarders(
    state: &AppState,
    store: &dyn RecordStore,
) -> Result<Forwarders, StoreError> {
    let last_position = store.last_position().await?;
    let cursors = store.cursors().await?;
    let config = state.gateway.config();
    let forwarder = |name: String, kind: &'static str| {
        let cursor = cursors.iter().find(|cursor| cursor.name == name);
        let delivered = cursor.map_or(0, |cursor| cursor.position);
        Forwarder {
            kind,
            delivered,
            behind: (kind == "forward").then(|| last_position.saturating_sub(delivered)),
            delivered_at: cursor.and_then(|cursor| cursor.moved_at),
            failing_since: cursor.and_then(|cursor| cursor.failing_since),
            failures: cursor.map_or(0, |cursor| cursor.failures),
            problem: cursor.and_then(|cursor| cursor.problem.clone()),
            name,
        }
    };
    let forwards = config.record.forwards.iter().map(|it| forwarder(it.name.clone(), "forward"));
    let anchors =
        (1..=config.record.anchors.len()).map(|it| forwarder(format!("anchor-{it}"), "anchor"));
    Ok(Forwarders { last_position, forwarders: forwards.chain(anchors).collect() })
}

fn unavailable(error: &StoreError) -> Response {
    tracing::error!(%error, "the record could not be read");
    Refusal::Unavailable.into_response()
}
