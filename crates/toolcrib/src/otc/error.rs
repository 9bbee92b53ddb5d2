//! `ServerErrorResponse`, `ValidationErrorResponse`, and the mapping of failures to them.
//!
//! | Case | Response |
//! |---|---|
//! | not a call; unknown, foreign or (with `denied_calls = "not_found"`) denied tool or version | 400 |
//! | no valid key | 401 |
//! | the caller lacks a scope of a tool of its tenant | 403, `details` with the scopes |
//! | invalid arguments | 422, `parameter_errors` |
//! | the rate limit is exceeded | 429, `Retry-After`, `details` |
//! | the call could not be recorded or limited, and did not run | 503 |
//! | the tool requires approval | 200, `success: false`, not retryable |
//! | the caller has to connect an account | 200, `success: false` with the link, not retryable |
//! | the source is unavailable, and the tool did not run | 400, `can_retry: true` |
//! | the tool failed | 200, `success: false`; retryable if its service is busy and a second call does no harm |
//! | its source disconnected or timed out | 200, `success: false`; retryable if a second call does no harm |
//! | `call_id` belongs to another call | 400 |
//! | `Idempotency-Key` belongs to another call | 422 |
//! | the response under `Idempotency-Key` cannot be replayed, or its call runs elsewhere | 409 |
//!
//! The protocol itself defines 400, 401, 422 and 200. 403 and 429 follow RFC 0064, so that a client
//! of both protocols gets the same status from both.

use std::{collections::BTreeMap, time::Duration};

use axum::response::Response;
use http::StatusCode;
use serde::Serialize;
use serde_json::Value;
use toolcrib_core::{arguments::Violation, call::CallError};
use toolcrib_gateway::idempotency::IdempotencyError;
use utoipa::ToSchema;

use super::{dialect::Marker, result::RETRY_AFTER};
use crate::{call_error, idempotency, middleware::Refusal, respond};

/// An error.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct ServerError {
    /// The version of the response, in the family of names that the caller used.
    #[serde(rename = "$schema")]
    schema: &'static str,
    /// The problem in words, for users and models.
    message: String,
    /// Details for developers of the client.
    #[serde(skip_serializing_if = "Option::is_none")]
    developer_message: Option<String>,
    /// Details for programs, such as missing scopes or limits.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    details: Option<Value>,
    /// Set when a retry of the same request may succeed.
    #[serde(skip_serializing_if = "Option::is_none")]
    can_retry: Option<bool>,
    /// How long to wait before a retry.
    #[serde(skip_serializing_if = "Option::is_none")]
    retry_after_ms: Option<u64>,
}

/// The violations of the tool's schema by the arguments.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct ValidationError {
    /// The version of the response, in the family of names that the caller used.
    #[serde(rename = "$schema")]
    schema: &'static str,
    /// The problem in words.
    message: String,
    /// The violations by top-level parameter; all others are in `message`.
    parameter_errors: BTreeMap<String, String>,
}

impl ServerError {
    fn new(marker: Marker, message: impl Into<String>) -> Self {
        Self {
            schema: marker.as_str(),
            message: message.into(),
            developer_message: None,
            details: None,
            can_retry: None,
            retry_after_ms: None,
        }
    }

    fn developers(self, message: impl Into<String>) -> Self {
        Self { developer_message: Some(message.into()), ..self }
    }

    /// Allows a retry after `wait`, if there is one.
    fn retry(self, wait: Option<Duration>) -> Self {
        let Some(wait) = wait else { return self };
        Self { can_retry: Some(true), retry_after_ms: Some(millis(wait)), ..self }
    }

    fn answer(&self, status: StatusCode) -> Response {
        respond::json(status, self)
    }
}

/// Builds the response to a request that violates the protocol.
pub(super) fn bad_request(marker: Marker, message: impl Into<String>) -> Response {
    ServerError::new(marker, message).answer(StatusCode::BAD_REQUEST)
}

/// Formats a refusal of the middleware.
pub(super) fn refused(marker: Marker, refusal: &Refusal) -> Response {
    let body = ServerError::new(marker, refusal.to_string());
    body.retry(refusal.retry_after()).answer(refusal.status())
}

/// Builds the response to a call whose `call_id` was rejected. The protocol's only status for it is
/// 400.
pub(super) fn refused_call_id(marker: Marker, error: IdempotencyError) -> Response {
    let wait = idempotency::retry_after(error);
    let status = wait.map_or(StatusCode::BAD_REQUEST, |_| StatusCode::TOO_MANY_REQUESTS);
    let body = ServerError::new(marker, format!("`call_id` {error}"));
    respond::with_retry_after(body.retry(wait).answer(status), wait)
}

/// Builds the response to a call whose `Idempotency-Key` was rejected. A 422 has the shape that the
/// protocol defines for that status.
pub(super) fn refused_key(marker: Marker, error: IdempotencyError) -> Response {
    let message = format!("`Idempotency-Key` {error}");
    let (status, wait) = (idempotency::status(error), idempotency::retry_after(error));
    match status {
        StatusCode::UNPROCESSABLE_ENTITY => invalid(marker, message, &[]),
        _ => {
            let body = ServerError::new(marker, message).retry(wait);
            respond::with_retry_after(body.answer(status), wait)
        }
    }
}

/// Builds the response for an unknown tool or version; `versions` are those that the caller may
/// use.
pub(super) fn no_such_tool(marker: Marker, versions: &[String]) -> Response {
    let body = match versions {
        [] => ServerError::new(marker, CallError::NoSuchTool.to_string()).developers(
            "no tool with this id is available to this caller; GET /tools lists the available tools",
        ),
        versions => {
            let offered = versions.join(", ");
            ServerError::new(marker, "the tool is not offered in that version")
                .developers(format!("it is offered in version {offered}"))
        }
    };
    body.answer(StatusCode::BAD_REQUEST)
}

/// Builds the response to a call that reached no tool.
pub(super) fn refused_call(marker: Marker, error: &CallError) -> Response {
    let body = ServerError::new(marker, error.to_string());
    let status = call_error::status(error);
    match error {
        CallError::NoSuchTool => no_such_tool(marker, &[]),
        CallError::InvalidArguments(violations) => invalid(marker, error.to_string(), violations),
        CallError::Upstream(upstream) => {
            let wait = upstream.retry_after.unwrap_or(RETRY_AFTER);
            body.developers(upstream.kind.code()).retry(Some(wait)).answer(StatusCode::BAD_REQUEST)
        }
        CallError::Forbidden { .. } | CallError::RateLimited { .. } => {
            let details = call_error::details(error);
            let response = ServerError { details, ..body }.answer(status);
            respond::with_retry_after(response, call_error::retry_after(error))
        }
        CallError::NotAccountable(_)
        | CallError::ApprovalRequired { .. }
        | CallError::ApprovalRejected { .. }
        | CallError::ConnectionRequired(_)
        | CallError::NeedsInput(_)
        | CallError::Cancelled
        | CallError::Internal => body.answer(status),
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

fn invalid(marker: Marker, mut message: String, violations: &[Violation]) -> Response {
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
    let body = ValidationError { schema: marker.as_str(), message, parameter_errors };
    respond::json(StatusCode::UNPROCESSABLE_ENTITY, &body)
}

/// Splits `pointer` into the top-level parameter and the rest.
fn parameter(pointer: &str) -> Option<(String, &str)> {
    let rest = pointer.strip_prefix('/')?;
    let (first, below) = match rest.find('/') {
        Some(at) => rest.split_at(at),
        None => (rest, ""),
    };
    Some((first.replace("~1", "/").replace("~0", "~"), below))
}
