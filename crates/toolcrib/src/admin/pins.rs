//! `/v1/pins`: the approved and the current forms of upstream tools, and their approval.
//!
//! A caller sees the pins of its tenant's sources. An approval is valid for every tenant of the
//! source, because they all use the same tool.

use axum::response::Response;
use http::StatusCode;
use serde::{Deserialize, Deserializer, Serialize, de::Error as _};
use serde_json::{Value, json};
use toolcrib_config::scopes::RouteScope::PinsApprove;
use toolcrib_core::pin::EarlierForms;
use toolcrib_gateway::pins::{ApprovedPin, PinError, PinReport, PinWish};
use utoipa::ToSchema;

use crate::{
    body,
    middleware::Payload,
    respond,
    v1::{
        error::{ErrorEnvelope, Failure},
        request::Context,
        values::{FormDigest, ToolName},
    },
};

/// Maximum number of tools in one request.
const MAX_TOOLS: usize = 1_000;

#[derive(Serialize, ToSchema)]
pub(super) struct Pins {
    /// Grouped by source.
    #[schema(value_type = Vec<Object>)]
    pins: Vec<PinReport>,
}

#[derive(Serialize, ToSchema)]
pub(super) struct PinApprovals {
    /// In the order of the request.
    #[schema(value_type = Vec<Object>)]
    approved: Vec<ApprovedPin>,
}

/// The forms of tools to approve.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct PinReview {
    /// Either all of them are approved, or no form is.
    #[schema(min_items = 1, max_items = 1000)]
    #[serde(deserialize_with = "tools")]
    tools: Vec<ToolForm>,
}

/// One form of one tool.
#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct ToolForm {
    /// The tool id.
    tool_id: String,
    #[schema(inline)]
    digest: FormDigest,
    /// How to treat the forms approved before. `keep` is for a tool that alternates between forms;
    /// at most seven of them remain approved.
    #[serde(default)]
    #[schema(value_type = String, pattern = "^(replace|keep)$", default = "replace")]
    earlier: EarlierForms,
}

/// Reads the tools of a review. An array in place of an object is rejected.
fn tools<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<ToolForm>, D::Error> {
    let invalid = || {
        D::Error::custom(
            "must be an array of 1 to 1000 objects {\"toolId\": …, \"digest\": …} with digests of \
             64 lower-case hexadecimal digits, and optionally \"earlier\": \"replace\" or \"keep\"",
        )
    };
    let tools = match Value::deserialize(deserializer)? {
        Value::Array(tools) if (1..=MAX_TOOLS).contains(&tools.len()) => tools,
        _ => return Err(invalid()),
    };
    let read = |tool: Value| tool.is_object().then(|| serde_json::from_value(tool).ok())?;
    tools.into_iter().map(read).collect::<Option<_>>().ok_or_else(invalid)
}

/// Lists the pins of the tools of the tenant's sources, or returns one pin with both forms of the
/// tool.
#[utoipa::path(
    get,
    path = "/v1/pins",
    operation_id = "listPins",
    params(("tool" = inline(Option<ToolName>), Query, description = "Only the pin of this tool (tool id or wire name), with both forms as the upstream defined them")),
    responses(
        (status = 200, description = "The pins", body = Pins),
        (status = 403, description = "The scope `pins:approve` is missing", body = ErrorEnvelope),
    )
)]
pub(super) async fn list(context: Context) -> Result<Response, Failure> {
    context.require(PinsApprove)?;
    let (supply, tenant) = (context.gateway.supply(), &context.caller.tenant);
    let pins = match context.parameter("tool")? {
        Some(ToolName(tool)) => supply.pin(tenant, &tool).await?.into_iter().collect(),
        None => supply.pins(tenant).await?,
    };
    Ok(respond::json(StatusCode::OK, &Pins { pins }))
}

/// Approves forms of tools by their digests, either all or none. The tools are available as soon as
/// this responds. The form that was approved last can be approved again if earlier forms are
/// approved too: their approval is then removed.
#[utoipa::path(
    post,
    path = "/v1/pins/approve",
    operation_id = "approvePins",
    request_body = PinReview,
    responses(
        (status = 200, description = "The forms are approved", body = PinApprovals),
        (status = 403, description = "The scope `pins:approve` is missing", body = ErrorEnvelope),
        (status = 404, description = "One of the tools has no pin that is visible to this caller", body = ErrorEnvelope),
        (status = 409, description = "One of the tools has changed since the review, or is already approved", body = ErrorEnvelope),
    )
)]
pub(super) async fn approve(
    context: Context,
    Payload(bytes): Payload,
) -> Result<Response, Failure> {
    context.require(PinsApprove)?;
    let PinReview { tools } = body::read(&bytes)?;
    let wish = |ToolForm { tool_id, digest, earlier }| PinWish {
        tool: tool_id,
        digest: digest.0,
        earlier,
    };
    let tools: Vec<_> = tools.into_iter().map(wish).collect();
    match context.gateway.supply().approve_pins(&context.caller, &tools).await {
        Ok(approved) => Ok(respond::json(StatusCode::OK, &PinApprovals { approved })),
        Err(PinError::Unknown(_)) => Err(Failure::not_found()),
        Err(stale @ PinError::Stale(index)) => {
            Err(Failure::conflict(stale, Some(json!({ "index": index }))))
        }
        Err(PinError::Store(error)) => Err(error.into()),
    }
}
