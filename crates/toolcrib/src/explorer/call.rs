//! `POST tools/{name}/call` (F3). The body is the arguments; the answer is an MCP `CallToolResult`,
//! with status 500 where it says that the tool failed.
//!
//! | What happened | Answer |
//! |---|---|
//! | no valid key, where the operator did not open the mount | 401 |
//! | `allow_execute = false` | 403 `Tool execution is disabled.` |
//! | unknown or foreign tool | 404 |
//! | the caller lacks a scope, or the tool wants approval | 403, `details` |
//! | the bucket is empty | 429, `Retry-After`, `details` |
//! | the call could not be recorded or limited; nothing ran | 503 |
//! | the arguments do not fit; the tool or its source failed | 500, `isError: true` |

use axum::{extract::State, response::Response};
use http::StatusCode;
use serde::Serialize;
use serde_json::{Map, Value, json, value::RawValue};
use toolcrib_core::{
    call::{CallError, Outcome},
    id::RunId,
    json::parse_strict,
};
use toolcrib_gateway::{call::CallRequest, list::ToolRef, metrics::Surface};
use utoipa::ToSchema;

use super::error::{self, Problem};
use crate::{
    middleware::{Caller, Payload, Segment},
    respond,
    state::AppState,
};

/// What the tool answered.
#[derive(Serialize, ToSchema)]
pub(super) struct CallToolResult {
    /// MCP content blocks.
    #[schema(value_type = Vec<Object>)]
    content: Box<RawValue>,
    #[serde(rename = "isError")]
    is_error: bool,
    #[serde(rename = "structuredContent", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    structured: Option<Box<RawValue>>,
    #[serde(rename = "_meta")]
    meta: TraceMeta,
}

#[derive(Serialize, ToSchema)]
pub(super) struct TraceMeta {
    /// The run that holds the events of the call.
    #[serde(rename = "_trace_id")]
    trace_id: String,
}

/// Calls a tool.
#[utoipa::path(
    post,
    path = "/tools/{name}/call",
    tag = "Explorer",
    params(("name" = String, Path, description = "The tool's name, percent-encoded")),
    request_body(content = Object, content_type = "application/json"),
    responses(
        (status = 200, description = "The tool's answer", body = CallToolResult),
        (status = 401, description = "No valid key", body = Problem),
        (status = 403, description = "Tools may not be run from here, the caller lacks a scope, or the tool wants approval", body = Problem),
        (status = 404, description = "Unknown to this caller, for whatever reason", body = Problem),
        (status = 413, description = "The body is too large", body = Problem),
        (status = 429, description = "Too many calls of the tool; see Retry-After", body = Problem),
        (status = 500, description = "The tool failed, or the arguments do not fit", body = CallToolResult),
        (status = 503, description = "The call could not be recorded, so nothing ran", body = Problem),
    )
)]
pub(super) async fn call(
    State(state): State<AppState>,
    Caller(caller): Caller,
    name: Segment,
    Payload(body): Payload,
) -> Response {
    if !state.surfaces.explorer.allow_execute {
        return error::problem(StatusCode::FORBIDDEN, "Tool execution is disabled.");
    }
    let arguments = arguments(&body);
    let request = CallRequest::new(Surface::Explorer, ToolRef::Wire(name.as_str()), arguments);
    let called = state.gateway.call(&caller, request).await;
    let run = respond::run_to_tell(&called);
    let response = match called.result {
        Ok(outcome) => result(outcome, &called.run_id),
        Err(error) => refused(&error, name.as_str(), &called.run_id),
    };
    respond::with_run(response, run.as_ref())
}

/// The arguments in `body`. What is not JSON counts as none, as the protocol wants; what is JSON but
/// ambiguous (a key twice) or not an object is refused by the gate, because running something else
/// than what was sent would be worse.
fn arguments(body: &[u8]) -> Value {
    match parse_strict(body) {
        Ok(arguments) => arguments,
        Err(_) => {
            let text = String::from_utf8_lossy(body);
            match serde_json::from_str::<serde::de::IgnoredAny>(&text) {
                Ok(_) => Value::Null,
                Err(_) => Value::Object(Map::new()),
            }
        }
    }
}

fn result(outcome: Outcome, run: &RunId) -> Response {
    let status = match outcome.is_error {
        true => StatusCode::INTERNAL_SERVER_ERROR,
        false => StatusCode::OK,
    };
    let result = CallToolResult {
        content: outcome.content,
        is_error: outcome.is_error,
        structured: outcome.structured,
        meta: TraceMeta { trace_id: run.to_string() },
    };
    respond::json(status, &result)
}

/// The one table of this dialect for calls that gave no outcome.
fn refused(error: &CallError, name: &str, run: &RunId) -> Response {
    let words = error.to_string();
    match error {
        CallError::NoSuchTool => error::no_such_tool(name),
        CallError::Forbidden { tool, required } => error::problem_with(
            StatusCode::FORBIDDEN,
            words,
            json!({ "scope": "tool", "toolName": tool.as_str(), "requiredScopes": required }),
        ),
        CallError::RateLimited { tool, retry_after, limit } => {
            let millis = toolcrib_core::limit::wait_millis(*retry_after);
            let details = json!({
                "scope": "tool", "toolName": tool.as_str(), "retryAfterMs": millis, "limit": limit,
            });
            let response = error::problem_with(StatusCode::TOO_MANY_REQUESTS, words, details);
            respond::with_retry_after(response, *retry_after)
        }
        CallError::ApprovalRequired { tool } => error::problem_with(
            StatusCode::FORBIDDEN,
            words,
            json!({ "scope": "tool", "toolName": tool.as_str(), "approval": "required" }),
        ),
        CallError::NotAccountable(_) => error::problem(StatusCode::SERVICE_UNAVAILABLE, words),
        CallError::InvalidArguments(violations) => {
            let mut text = words;
            for violation in violations {
                text.push('\n');
                if !violation.pointer.is_empty() {
                    text.push_str(&violation.pointer);
                    text.push_str(": ");
                }
                text.push_str(&violation.message);
            }
            result(Outcome::text(&text, true), run)
        }
        CallError::Upstream(_) | CallError::Cancelled | CallError::Internal => {
            result(Outcome::text(&words, true), run)
        }
    }
}
