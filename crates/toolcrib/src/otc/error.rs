//! `ServerErrorResponse`, `ValidationErrorResponse`, and which failure is which.
//!
//! | What happened | Answer |
//! |---|---|
//! | not a call; unknown, foreign or (with `denied_calls = "not_found"`) denied tool or version | 400 |
//! | no valid key | 401 |
//! | the caller lacks a scope of a tool of its tenant | 403, `details` with the scopes |
//! | the arguments do not fit | 422, `parameter_errors` |
//! | the bucket is empty | 429, `Retry-After`, `details` |
//! | the call could not be recorded or limited; nothing ran | 503 |
//! | the tool wants approval | 200, `success: false`, not to be retried |
//! | the source is not there; nothing ran | 200, `success: false`, `can_retry: true` |
//! | the tool or its source failed, or went away meanwhile | 200, `success: false`, not to be retried |
//!
//! The protocol itself knows 400, 401, 422 and 200; 403 and 429 are RFC 0064's, so that a client
//! that speaks both hears the same from both.

use std::collections::BTreeMap;

use axum::response::Response;
use http::StatusCode;
use serde::Serialize;
use serde_json::{Value, json};
use toolcrib_core::{arguments::Violation, call::CallError};
use utoipa::ToSchema;

use super::version::DIALECT;
use crate::{middleware::Refusal, respond};

/// What was wrong with a request.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct ServerError {
    /// The dialect of this answer.
    #[serde(rename = "$schema")]
    schema: &'static str,
    /// In words, fit for users and models.
    message: String,
    /// For whoever wrote the client.
    #[serde(skip_serializing_if = "Option::is_none")]
    developer_message: Option<String>,
    /// Scopes, limits and the like, where a refusal has some.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    details: Option<Value>,
}

/// How the arguments break the tool's schema.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct ValidationError {
    /// The dialect of this answer.
    #[serde(rename = "$schema")]
    schema: &'static str,
    /// In words.
    message: String,
    /// By top-level parameter; what concerns none of them is in `message`.
    parameter_errors: BTreeMap<String, String>,
}

/// A request that reached no tool.
pub(super) fn server_error(
    status: StatusCode,
    message: impl Into<String>,
    developer_message: Option<&str>,
    details: Option<Value>,
) -> Response {
    let body = ServerError {
        schema: DIALECT,
        message: message.into(),
        developer_message: developer_message.map(str::to_owned),
        details,
    };
    respond::json(status, &body)
}

/// A request that is not what the protocol asks for.
pub(super) fn bad_request(message: impl Into<String>) -> Response {
    server_error(StatusCode::BAD_REQUEST, message, None, None)
}

/// A refusal in this dialect.
pub(crate) fn refuse(refusal: &Refusal) -> Response {
    server_error(refusal.status(), refusal.to_string(), None, None)
}

/// The answer to a call that no tool was run for; `None` when the failure is the tool's, which the
/// protocol reports in a result.
pub(super) fn refused_call(error: &CallError) -> Option<Response> {
    let message = error.to_string();
    Some(match error {
        CallError::NoSuchTool => server_error(
            StatusCode::BAD_REQUEST,
            message,
            Some("no tool of that id and version is offered to this caller; GET /tools lists them"),
            None,
        ),
        CallError::Forbidden { tool, required } => {
            let details =
                json!({ "scope": "tool", "toolName": tool.as_str(), "requiredScopes": required });
            server_error(StatusCode::FORBIDDEN, message, None, Some(details))
        }
        CallError::RateLimited { tool, retry_after, limit } => {
            let millis = toolcrib_core::limit::wait_millis(*retry_after);
            let details = json!({
                "scope": "tool", "toolName": tool.as_str(), "retryAfterMs": millis, "limit": limit,
            });
            let response =
                server_error(StatusCode::TOO_MANY_REQUESTS, message, None, Some(details));
            respond::with_retry_after(response, *retry_after)
        }
        CallError::InvalidArguments(violations) => invalid(message, violations),
        CallError::NotAccountable(_) => {
            server_error(StatusCode::SERVICE_UNAVAILABLE, message, None, None)
        }
        CallError::ApprovalRequired { .. }
        | CallError::Upstream(_)
        | CallError::Cancelled
        | CallError::Internal => return None,
    })
}

fn invalid(mut message: String, violations: &[Violation]) -> Response {
    let mut parameter_errors: BTreeMap<String, String> = BTreeMap::new();
    for violation in violations {
        match parameter(&violation.pointer) {
            Some((name, below)) => {
                let text = parameter_errors.entry(name).or_default();
                if !text.is_empty() {
                    text.push_str("; ");
                }
                if !below.is_empty() {
                    text.push_str(&format!("at {below}: "));
                }
                text.push_str(&violation.message);
            }
            None => {
                message.push_str(": ");
                message.push_str(&violation.message);
            }
        }
    }
    let body = ValidationError { schema: DIALECT, message, parameter_errors };
    respond::json(StatusCode::UNPROCESSABLE_ENTITY, &body)
}

/// The top-level parameter that `pointer` leads to, and the rest of the way.
fn parameter(pointer: &str) -> Option<(String, &str)> {
    let rest = pointer.strip_prefix('/')?;
    let (first, below) = match rest.find('/') {
        Some(at) => rest.split_at(at),
        None => (rest, ""),
    };
    Some((first.replace("~1", "/").replace("~0", "~"), below))
}
