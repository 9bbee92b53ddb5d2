//! `/v1/host/sample/…`: routes by which a conformance suite drives a running host. They are
//! compiled with the feature `test-routes`, and served only if the command that starts the server
//! enables them. They require a key and are absent from `openapi.json`, because they are not part
//! of the product's interface.
//!
//! Invariant: a test route does not authorize, limit, run or record anything itself. It creates a
//! probe, passes it through the gate like any call, and returns the record of that call. Invariant:
//! no response repeats arguments; it contains only the names and scopes parsed from the request.

use axum::{
    Router,
    response::Response,
    routing::{get, post},
};
use http::StatusCode;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use toolcrib_core::{
    call::CallError,
    event::{CallStatus, EventBody, RunEvent, ToolCalled, ToolReturned},
    id::{CallId, PrincipalId, RunId, ToolId},
    scope::Scope,
};
use toolcrib_gateway::probe::{Act, Probe, RUN_PREFIX};

use crate::{
    body, call_error,
    middleware::{Payload, Refusal, Segment},
    respond,
    state::AppState,
    v1::{error::Failure, request::Context},
    visible_runs,
};

/// The default tool of a session.
const SESSION_TOOL: &str = "probe.session";

pub(super) fn routes() -> Router<AppState> {
    Router::new()
        .route("/v1/host/sample/toolhooks/invoke", post(invoke))
        .route("/v1/host/sample/tools/session-run", post(session_run))
        .route("/v1/host/sample/test/runs/{runId}/events", get(events))
        .route("/v1/host/sample/test/reset", post(reset))
}

/// The request of a probe call.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ProbeRequest {
    principal: PrincipalId,
    tool_name: ToolId,
    #[serde(default)]
    required_scopes: Vec<Scope>,
    #[serde(default)]
    simulate_rate_limit_exhausted: bool,
    #[serde(default)]
    simulate_tool_error: bool,
    #[serde(default = "no_arguments")]
    args: Value,
}

fn no_arguments() -> Value {
    Value::Object(Map::new())
}

/// Calls a probe and returns its two recorded events.
async fn invoke(context: Context, Payload(bytes): Payload) -> Result<Response, Failure> {
    let request: ProbeRequest = body::read(&bytes)?;
    let act = match (request.simulate_rate_limit_exhausted, request.simulate_tool_error) {
        (true, _) => Act::Exhaust,
        (false, true) => Act::Fail,
        (false, false) => Act::Succeed,
    };
    let ProbeRequest { principal, tool_name: tool, required_scopes: scopes, args, .. } = request;
    let probe = Probe::new(tool.clone(), scopes.clone(), act)
        .map_err(|problem| Failure::body("toolName", problem))?;
    let (gateway, caller) = (&context.gateway, &context.caller);
    let called = gateway.probe(caller, principal, &probe, args).await;
    let events = visible_runs::events(gateway, &caller.tenant, called.run_id.clone()).await?;
    let (opening, closing) = pair(&events, &called.call_id).ok_or(Refusal::Unavailable)?;
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
    let mut members = Map::new();
    let called_event = json!({
        "argsHash": opening.args_hash, "principal": opening.principal,
        "transport": opening.transport, "toolName": opening.tool_name,
    });
    let returned_event = json!({
        "status": closing.status, "durationMs": closing.duration_ms, "error": closing.error,
    });
    members.insert("toolCalled".to_owned(), without_null(called_event));
    members.insert("toolReturned".to_owned(), without_null(returned_event));
    // A refused call also has the members of the error envelope.
    if let Some(details) = details {
        let error = closing.error.as_ref();
        members.insert("error".to_owned(), json!(error.map(|error| &*error.code)));
        members.insert("message".to_owned(), json!(error.map(|error| &*error.message)));
        members.insert("details".to_owned(), details);
    }
    let response = respond::with_retry_after(respond::json(status, &members), wait);
    Ok(respond::with_run(response, Some(&called.run_id)))
}

fn without_null(mut event: Value) -> Value {
    if let Some(members) = event.as_object_mut() {
        members.retain(|_, value| !value.is_null());
    }
    event
}

/// Finds the two events of `call`.
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

/// The request of a tool session.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct SessionRequest {
    tool_id: Option<ToolId>,
}

/// Calls a probe in a tool session of the caller, and closes the session.
async fn session_run(context: Context, Payload(bytes): Payload) -> Result<Response, Failure> {
    let SessionRequest { tool_id } = body::read(&bytes)?;
    let invalid = |problem| Failure::body("toolId", problem);
    let tool = match tool_id {
        Some(tool) => tool,
        None => ToolId::parse(SESSION_TOOL).map_err(|problem| Failure::body("toolId", problem))?,
    };
    let probe = Probe::new(tool.clone(), Vec::new(), Act::Succeed).map_err(invalid)?;
    match context.gateway.probe_session(&context.caller, &probe).await {
        Ok(session) if session.result.is_ok() => {
            let answer = json!({
                "runId": session.run_id, "sessionId": session.session_id, "toolId": tool,
            });
            Ok(respond::with_run(respond::json(StatusCode::OK, &answer), Some(&session.run_id)))
        }
        _ => Err(Refusal::Unavailable.into()),
    }
}

/// Lists the filtered events of a run. A run that the caller may not see has no events.
async fn events(context: Context, run: Segment) -> Result<Response, Failure> {
    let mut events = Vec::new();
    if let Ok(run) = RunId::parse(run.as_str()) {
        let probed = run.as_str().starts_with(RUN_PREFIX);
        let (gateway, caller) = (&context.gateway, &context.caller);
        if probed || visible_runs::sight(gateway, caller, &run).await?.is_some() {
            events = visible_runs::events(gateway, &caller.tenant, run).await?;
        }
    }
    if let Some(kind) = context.text("type") {
        events.retain(|event| event.body.kind() == kind);
    }
    if let Some(cause) = context.text("causationId") {
        events.retain(|event| event.causation_id.as_ref().is_some_and(|id| id.as_str() == cause));
    }
    // No event of this host has these members, so the filter excludes all events.
    if context.text("correlationId").is_some() || context.text("nodeId").is_some() {
        events.clear();
    }
    Ok(respond::json(StatusCode::OK, &json!({ "events": events })))
}

/// Refills the rate limits of the caller's tenant. The test routes have no other state.
async fn reset(context: Context) -> Result<Response, Failure> {
    context.gateway.reset_limits(&context.caller.tenant).await?;
    Ok(respond::json(StatusCode::OK, &json!({ "reset": true })))
}
