//! `/v1/pins`: the approved and the current forms of upstream tools, and their approval.
//!
//! A caller sees the pins of its tenant's sources. An approval is valid for every tenant of the
//! source, because they all use the same tool.

use axum::{
    extract::{RawQuery, State},
    response::Response,
};
use http::StatusCode;
use serde::Serialize;
use serde_json::{Value, json};
use toolcrib_core::{canonical::Digest, json::parse_strict};
use toolcrib_gateway::{
    pins::{ApprovedPin, PinError, PinReport},
    scopes::RouteScope,
};
use utoipa::ToSchema;

use super::{
    error::{self, ErrorEnvelope},
    values::{self, ToolName},
};
use crate::{
    middleware::{Caller, Payload, Refusal, require},
    respond,
    state::AppState,
};

/// Maximum number of tools in one request.
const MAX_TOOLS: usize = 1_000;

#[derive(Serialize, ToSchema)]
pub(super) struct Pins {
    /// Source by source.
    #[schema(value_type = Vec<Object>)]
    pins: Vec<PinReport>,
}

#[derive(Serialize, ToSchema)]
pub(super) struct Approved {
    /// In the order of the request.
    #[schema(value_type = Vec<Object>)]
    approved: Vec<ApprovedPin>,
}

/// The forms of tools to approve.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Approval {
    /// All of them are approved, or none.
    #[schema(min_items = 1, max_items = 1000)]
    tools: Vec<ApprovalOfTool>,
}

/// One form of one tool.
#[derive(ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct ApprovalOfTool {
    /// The tool.
    tool_id: String,
    /// `seen.digest` of the reviewed pin.
    #[schema(value_type = String, pattern = "^[0-9a-f]{64}$")]
    digest: Digest,
}

impl Approval {
    /// Parses a body strictly: unknown members are rejected, in the body and in its items.
    fn read(body: &[u8]) -> Result<Self, &'static str> {
        let shape = "must be a list of 1 to 1000 objects {\"toolId\": …, \"digest\": …} with digests \
                     of 64 lower-case hex digits";
        let body = parse_strict(body).map_err(|_| shape)?;
        let tools = body.get("tools").and_then(Value::as_array).ok_or(shape)?;
        if tools.is_empty() || tools.len() > MAX_TOOLS || !has_members(&body, 1) {
            return Err(shape);
        }
        let tools = tools.iter().map(ApprovalOfTool::read).collect::<Option<_>>().ok_or(shape)?;
        Ok(Self { tools })
    }
}

impl ApprovalOfTool {
    fn read(tool: &Value) -> Option<Self> {
        let tool = Some(tool).filter(|tool| has_members(tool, 2))?;
        let tool_id = tool.get("toolId")?.as_str()?.to_owned();
        Some(Self { tool_id, digest: Digest::parse(tool.get("digest")?.as_str()?)? })
    }
}

fn has_members(value: &Value, count: usize) -> bool {
    value.as_object().is_some_and(|members| members.len() == count)
}

/// The pins of the tools of the tenant's sources, or of one tool with both forms of it.
#[utoipa::path(
    get,
    path = "/v1/pins",
    operation_id = "listPins",
    tag = "OpenWOP",
    params(("tool" = inline(Option<ToolName>), Query, description = "Only this tool (tool id or wire name), with both forms as its upstream wrote them")),
    responses(
        (status = 200, description = "The pins", body = Pins),
        (status = 400, description = "`tool` is no name of a tool", body = ErrorEnvelope),
        (status = 401, description = "No valid key", body = ErrorEnvelope),
        (status = 403, description = "The scope `pins:approve` is missing", body = ErrorEnvelope),
        (status = 503, description = "The pins cannot be read right now", body = ErrorEnvelope),
    )
)]
pub(super) async fn list(
    State(state): State<AppState>,
    Caller(caller): Caller,
    RawQuery(query): RawQuery,
) -> Result<Response, Refusal> {
    require(&state.gateway, &caller, RouteScope::PinsApprove, "/v1/pins")?;
    let tool = match values::read(query.as_deref(), "tool") {
        Ok(tool) => tool,
        Err(bad) => return Ok(bad.into_response()),
    };
    let pins = match tool {
        Some(ToolName(tool)) => {
            let pin = state.gateway.supply().pin(&caller.tenant, &tool).await;
            pin.map(|pin| pin.into_iter().collect())
        }
        None => state.gateway.supply().pins(&caller.tenant).await,
    };
    let pins = pins.map_err(|error| {
        tracing::error!(%error, "pins could not be read");
        Refusal::Unavailable
    })?;
    Ok(respond::json(StatusCode::OK, &Pins { pins }))
}

/// Approves forms of tools, each named by its digest, either all or none. They are offered when
/// this responds.
#[utoipa::path(
    post,
    path = "/v1/pins/approve",
    operation_id = "approvePins",
    tag = "OpenWOP",
    request_body = Approval,
    responses(
        (status = 200, description = "They are approved", body = Approved),
        (status = 400, description = "The body is not as it should be", body = ErrorEnvelope),
        (status = 401, description = "No valid key", body = ErrorEnvelope),
        (status = 403, description = "The scope `pins:approve` is missing", body = ErrorEnvelope),
        (status = 413, description = "The body is longer than `server.max_body`", body = ErrorEnvelope),
        (status = 404, description = "One of the tools has no pin that this caller may see", body = ErrorEnvelope),
        (status = 409, description = "One of the tools is not in that form any more, or approved already", body = ErrorEnvelope),
        (status = 503, description = "The pins cannot be changed right now", body = ErrorEnvelope),
    )
)]
pub(super) async fn approve(
    State(state): State<AppState>,
    Caller(caller): Caller,
    Payload(body): Payload,
) -> Result<Response, Refusal> {
    require(&state.gateway, &caller, RouteScope::PinsApprove, "/v1/pins/approve")?;
    let wanted: Vec<_> = match Approval::read(&body) {
        Ok(approval) => approval.tools.into_iter().map(|it| (it.tool_id, it.digest)).collect(),
        Err(problem) => return Ok(error::bad_body("tools", problem)),
    };
    match state.gateway.supply().approve_pins(&caller, &wanted).await {
        Ok(approved) => Ok(respond::json(StatusCode::OK, &Approved { approved })),
        Err(PinError::Unknown(_)) => Ok(error::not_found()),
        Err(stale @ PinError::Stale(index)) => {
            let details = json!({ "index": index });
            let message = stale.to_string();
            Ok(error::error(StatusCode::CONFLICT, "conflict", message, Some(details)))
        }
        Err(PinError::Store(error)) => {
            tracing::error!(%error, "pins could not be changed");
            Err(Refusal::Unavailable)
        }
    }
}
