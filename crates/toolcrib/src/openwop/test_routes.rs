//! `/v1/host/sample/…`: routes by which a conformance suite drives a running host. They are
//! compiled with the feature `test-routes`, and served only if the command that starts the server
//! enables them. They require a key and are absent from `openapi.json`, because they are no part of
//! the product's interface.
//!
//! Invariant: a test route does not authorize, limit, run or record anything itself. It creates a
//! probe, passes it through the gate like any call, and returns the record of that call. Invariant:
//! no response repeats arguments; it contains only the names and scopes that were parsed from the
//! request.

use axum::{
    Router,
    extract::{RawQuery, State},
    response::Response,
    routing::{get, post},
};
use http::StatusCode;
use serde::Serialize;
use serde_json::{Map, Value, json};
use toolcrib_core::{
    call::CallError,
    event::{CallStatus, EventBody, EventError, RunEvent, ToolCalled, ToolReturned, Transport},
    id::{CallId, PrincipalId, RunId, ToolId},
    json::parse_strict,
    scope::Scope,
};
use toolcrib_gateway::probe::{Act, Probe, RUN_PREFIX};

use super::{error::BadMember, runs};
use crate::{
    call_error,
    middleware::{Caller, Payload, Refusal, Segment},
    respond,
    state::AppState,
};

/// The tool of a session when the request names none.
const SESSION_TOOL: &str = "probe.session";

pub(super) fn routes() -> Router<AppState> {
    Router::new()
        .route("/v1/host/sample/toolhooks/invoke", post(invoke))
        .route("/v1/host/sample/tools/session-run", post(session_run))
        .route("/v1/host/sample/test/runs/{runId}/events", get(events))
        .route("/v1/host/sample/test/reset", post(reset))
}

/// Calls a probe and returns its two recorded events.
async fn invoke(
    State(state): State<AppState>,
    Caller(caller): Caller,
    Payload(body): Payload,
) -> Result<Response, Refusal> {
    let request = match ProbeRequest::read(&body) {
        Ok(request) => request,
        Err(problem) => return Ok(problem.into_response()),
    };
    let ProbeRequest { principal, tool, scopes, act, arguments } = request;
    let probe = match Probe::new(tool.clone(), scopes.clone(), act) {
        Ok(probe) => probe,
        Err(problem) => return Ok(BadMember::new("toolName", problem).into_response()),
    };
    let called = state.gateway.probe(&caller, principal, &probe, arguments).await;
    let events: Vec<RunEvent> = runs::read(&state, &caller.tenant, called.run_id.clone()).await?;
    let Some((opening, closing)) = pair(&events, &called.call_id) else {
        return Err(Refusal::Unavailable);
    };
    let (status, details, wait) = match (closing.status, &called.result) {
        (CallStatus::Ok | CallStatus::Error, _) => (StatusCode::OK, None, None),
        (CallStatus::RateLimited, Err(error @ CallError::RateLimited { .. })) => {
            let (status, wait) = (call_error::status(error), call_error::retry_after(error));
            (status, call_error::details(error), wait)
        }
        (CallStatus::Forbidden | CallStatus::RateLimited, _) => {
            let details = json!({ "scope": "tool", "toolName": tool, "requiredScopes": scopes });
            (StatusCode::FORBIDDEN, Some(details), None)
        }
    };
    let answer = Hooked {
        tool_called: HookedCall {
            args_hash: opening.args_hash.as_deref(),
            principal: &opening.principal,
            transport: opening.transport,
            tool_name: &opening.tool_name,
        },
        tool_returned: HookedReturn {
            status: closing.status,
            duration_ms: closing.duration_ms,
            error: closing.error.as_ref(),
        },
        refusal: details.map(|details| HookedRefusal {
            error: closing.error.as_ref().map(|error| &*error.code),
            message: closing.error.as_ref().map(|error| &*error.message),
            details,
        }),
    };
    let mut response = respond::json(status, &answer);
    if let Some(wait) = wait {
        response = respond::with_retry_after(response, wait);
    }
    Ok(respond::with_run(response, Some(&called.run_id)))
}

/// The two events, and the members of the error envelope if the gate refused the call.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Hooked<'a> {
    tool_called: HookedCall<'a>,
    tool_returned: HookedReturn<'a>,
    #[serde(flatten)]
    refusal: Option<HookedRefusal<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct HookedCall<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    args_hash: Option<&'a str>,
    principal: &'a PrincipalId,
    transport: Transport,
    tool_name: &'a str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct HookedReturn<'a> {
    status: CallStatus,
    #[serde(skip_serializing_if = "Option::is_none")]
    duration_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<&'a EventError>,
}

#[derive(Serialize)]
struct HookedRefusal<'a> {
    error: Option<&'a str>,
    message: Option<&'a str>,
    details: Value,
}

/// Returns the two events of `call`.
fn pair<'a>(events: &'a [RunEvent], call: &CallId) -> Option<(&'a ToolCalled, &'a ToolReturned)> {
    let opening = events.iter().find_map(|event| match &event.body {
        EventBody::ToolCalled(called) if called.call_id == *call => Some(called),
        _ => None,
    })?;
    let closing = events.iter().find_map(|event| match &event.body {
        EventBody::ToolReturned(returned) if returned.call_id == *call => Some(returned),
        _ => None,
    })?;
    Some((opening, closing))
}

/// Calls a probe in a tool session of the caller, and ends the session.
async fn session_run(
    State(state): State<AppState>,
    Caller(caller): Caller,
    Payload(body): Payload,
) -> Result<Response, Refusal> {
    let tool = match object(&body).and_then(|body| tool_id(&body, "toolId")) {
        Ok(Some(tool)) => Ok(tool),
        Ok(None) => ToolId::parse(SESSION_TOOL).map_err(|_| BadMember::new("toolId", "is missing")),
        Err(problem) => Err(problem),
    };
    let probe = tool.and_then(|tool| {
        let probe = Probe::new(tool.clone(), Vec::new(), Act::Succeed);
        probe.map(|probe| (tool, probe)).map_err(|problem| BadMember::new("toolId", problem))
    });
    let (tool, probe) = match probe {
        Ok(probe) => probe,
        Err(problem) => return Ok(problem.into_response()),
    };
    match state.gateway.probe_session(&caller, &probe).await {
        Ok(session) if session.result.is_ok() => {
            let answer = json!({
                "runId": session.run_id, "sessionId": session.session_id, "toolId": tool,
            });
            Ok(respond::with_run(respond::json(StatusCode::OK, &answer), Some(&session.run_id)))
        }
        _ => Err(Refusal::Unavailable),
    }
}

/// Returns the filtered events of a run. A run that the caller may not see has no events.
async fn events(
    State(state): State<AppState>,
    Caller(caller): Caller,
    run: Segment,
    RawQuery(query): RawQuery,
) -> Result<Response, Refusal> {
    let mut events = match RunId::parse(run.as_str()) {
        Ok(run) => {
            let probed = run.as_str().starts_with(RUN_PREFIX);
            let events = runs::read(&state, &caller.tenant, run).await?;
            match probed || runs::may_see(&caller, &events) {
                true => events,
                false => Vec::new(),
            }
        }
        Err(_) => Vec::new(),
    };
    let wanted = |name: &str| respond::query(query.as_deref(), name);
    if let Some(kind) = wanted("type") {
        events.retain(|event| event.body.kind() == kind);
    }
    if let Some(cause) = wanted("causationId") {
        events.retain(|event| event.causation_id.as_ref().is_some_and(|id| id.as_str() == cause));
    }
    // No event of this host has these members, so the filter matches none.
    if wanted("correlationId").is_some() || wanted("nodeId").is_some() {
        events.clear();
    }
    Ok(respond::json(StatusCode::OK, &json!({ "events": events })))
}

/// Refills the rate limits of the caller's tenant. The test routes have no other state.
async fn reset(State(state): State<AppState>, Caller(caller): Caller) -> Result<Response, Refusal> {
    state.gateway.reset_limits(&caller.tenant).await.map_err(|error| {
        tracing::error!(%error, "the limits could not be reset");
        Refusal::Unavailable
    })?;
    Ok(respond::json(StatusCode::OK, &json!({ "reset": true })))
}

/// The request of a probe call.
struct ProbeRequest {
    principal: PrincipalId,
    tool: ToolId,
    scopes: Vec<Scope>,
    act: Act,
    arguments: Value,
}

impl ProbeRequest {
    fn read(body: &[u8]) -> Result<Self, BadMember> {
        let mut body = object(body)?;
        let principal = match body.get("principal") {
            Some(Value::String(name)) => PrincipalId::parse(name).map_err(|_| {
                BadMember::new("principal", "must be printable ASCII without spaces")
            })?,
            Some(_) => return Err(BadMember::new("principal", "must be a string")),
            None => return Err(BadMember::new("principal", "is missing")),
        };
        let tool =
            tool_id(&body, "toolName")?.ok_or_else(|| BadMember::new("toolName", "is missing"))?;
        let scopes = match body.get("requiredScopes") {
            None => Vec::new(),
            Some(Value::Array(scopes)) => scopes
                .iter()
                .map(|scope| scope.as_str().and_then(|scope| Scope::parse(scope).ok()))
                .collect::<Option<_>>()
                .ok_or_else(|| {
                    BadMember::new("requiredScopes", "must hold scopes like `db:write`")
                })?,
            Some(_) => return Err(BadMember::new("requiredScopes", "must be an array")),
        };
        let flag = |name: &'static str| match body.get(name) {
            None => Ok(false),
            Some(Value::Bool(flag)) => Ok(*flag),
            Some(_) => Err(BadMember::new(name, "must be true or false")),
        };
        let act = match (flag("simulateRateLimitExhausted")?, flag("simulateToolError")?) {
            (true, _) => Act::Exhaust,
            (false, true) => Act::Fail,
            (false, false) => Act::Succeed,
        };
        let arguments = body.remove("args").unwrap_or_else(|| Value::Object(Map::new()));
        Ok(Self { principal, tool, scopes, act, arguments })
    }
}

fn object(body: &[u8]) -> Result<Map<String, Value>, BadMember> {
    match parse_strict(body) {
        Ok(Value::Object(members)) => Ok(members),
        _ => Err(BadMember::new("", "the body must be a JSON object")),
    }
}

fn tool_id(body: &Map<String, Value>, member: &'static str) -> Result<Option<ToolId>, BadMember> {
    match body.get(member) {
        None => Ok(None),
        Some(Value::String(name)) => ToolId::parse(name).map(Some).map_err(|_| {
            BadMember::new(member, "must be 1 to 256 characters of letters, digits and ._:/-")
        }),
        Some(_) => Err(BadMember::new(member, "must be a string")),
    }
}
