//! `GET /v1/record/…`: the signed checkpoints of the caller's tenant, and the status of forwarders
//! and anchors.

use axum::response::Response;
use http::StatusCode;
use serde::Serialize;
use toolcrib_config::scopes::RouteScope::{AuditRead, MetricsAll};
use toolcrib_core::{
    clock::Timestamp,
    record::{Checkpoint, RecordStore},
    store::StoreError,
};
use toolcrib_gateway::Gateway;
use utoipa::ToSchema;

use crate::{
    respond,
    v1::{
        error::{ErrorEnvelope, Failure},
        request::Context,
        values::Position,
    },
};

#[derive(Serialize, ToSchema)]
pub(super) struct Checkpoints {
    /// In ascending order of their numbers.
    #[schema(value_type = Vec<Object>)]
    checkpoints: Vec<Checkpoint>,
}

#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct Forwarders {
    /// The number of events that were ever recorded.
    last_position: u64,
    /// The forwarders and anchors, in the order of the configuration.
    forwarders: Vec<Forwarder>,
}

/// A receiver of the record or of its checkpoints.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct Forwarder {
    /// The name in the configuration.
    name: String,
    /// `forward` or `anchor`.
    kind: &'static str,
    /// The number of delivered events or checkpoints.
    delivered: u64,
    /// The number of events that are not delivered yet.
    #[serde(skip_serializing_if = "Option::is_none")]
    behind: Option<u64>,
    /// The time of the last delivery.
    #[schema(value_type = Option<String>)]
    delivered_at: Option<Timestamp>,
    /// The time since which deliveries fail.
    #[schema(value_type = Option<String>)]
    failing_since: Option<Timestamp>,
    /// The number of failed attempts since then.
    failures: u64,
    /// The reason of the last failure.
    problem: Option<String>,
}

/// Lists the signed checkpoints of the caller's tenant, the oldest first.
#[utoipa::path(
    get,
    path = "/v1/record/checkpoints",
    operation_id = "listCheckpoints",
    params(("after" = inline(Option<Position>), Query, description = "Only checkpoints with greater numbers; 0 by default")),
    responses(
        (status = 200, description = "At most 1000 checkpoints", body = Checkpoints),
        (status = 403, description = "The scope `audit:read` is missing", body = ErrorEnvelope),
    )
)]
pub(super) async fn checkpoints(context: Context) -> Result<Response, Failure> {
    context.require(AuditRead)?;
    let after = context.parameter("after")?.map_or(0, |position: Position| position.0);
    let checkpoints = match context.gateway.audit().store() {
        Some(store) => store.checkpoints(&context.caller.tenant, after).await?,
        None => Vec::new(),
    };
    Ok(respond::json(StatusCode::OK, &Checkpoints { checkpoints }))
}

/// Returns the status of forwarders and anchors. They receive the record of all tenants, so this
/// requires the scope `metrics:all`.
#[utoipa::path(
    get,
    path = "/v1/record/forwarders",
    operation_id = "listForwarders",
    responses(
        (status = 200, description = "The forwarders and anchors", body = Forwarders),
        (status = 403, description = "The scope `metrics:all` is missing", body = ErrorEnvelope),
    )
)]
pub(super) async fn forwarders(context: Context) -> Result<Response, Failure> {
    context.require(MetricsAll)?;
    let report = match context.gateway.audit().store() {
        Some(store) => read_forwarders(&context.gateway, &**store).await?,
        None => Forwarders { last_position: 0, forwarders: Vec::new() },
    };
    Ok(respond::json(StatusCode::OK, &report))
}

async fn read_forwarders(
    gateway: &Gateway,
    store: &dyn RecordStore,
) -> Result<Forwarders, StoreError> {
    let last_position = store.last_position().await?;
    let cursors = store.cursors().await?;
    let config = gateway.config();
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
    let forwards =
        config.record.forwards.iter().map(|forward| forwarder(forward.name.clone(), "forward"));
    let anchors = (1..=config.record.anchors.len())
        .map(|number| forwarder(format!("anchor-{number}"), "anchor"));
    Ok(Forwarders { last_position, forwarders: forwards.chain(anchors).collect() })
}
