//! The flat, closed error envelope `{error, message, details?}` and its codes.

use axum::response::Response;
use http::StatusCode;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value, json};
use toolcrib_gateway::authn::AuthError;
use utoipa::ToSchema;

use crate::{middleware::Refusal, respond};

/// What went wrong.
#[derive(Debug, Serialize, ToSchema, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ErrorEnvelope {
    /// A stable code.
    error: &'static str,
    /// In words; never repeats what was sent.
    message: String,
    /// More, where a code has more.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    details: Option<Value>,
}

/// Returns a response with `status` and the envelope.
pub(super) fn error(
    status: StatusCode,
    code: &'static str,
    message: impl Into<String>,
    details: Option<Value>,
) -> Response {
    respond::json(status, &ErrorEnvelope { error: code, message: message.into(), details })
}

/// Returns the response for everything that does not exist for the caller; it is always the same,
/// byte by byte.
pub(super) fn not_found() -> Response {
    error(StatusCode::NOT_FOUND, "not_found", "there is no such thing here for this caller", None)
}

/// Rejects a parameter whose value is not one of `legal`.
pub(super) fn bad_parameter(name: &str, legal: &[&str]) -> Response {
    let message = format!("the parameter `{name}` must be one of {}", legal.join(", "));
    let details = json!({ "parameter": name, "legal": legal });
    error(StatusCode::BAD_REQUEST, "validation_error", message, Some(details))
}

/// Rejects an unknown parameter; `names` are the parameters of the route.
pub(crate) fn unknown_parameter(names: &[String]) -> Response {
    let message = match names {
        [] => "unknown query parameter: this route has none".to_owned(),
        names => format!("unknown query parameter: this route has `{}`", names.join("`, `")),
    };
    let details = json!({ "legal": names });
    error(StatusCode::BAD_REQUEST, "validation_error", message, Some(details))
}

/// Rejects the parameter `name` because of `problem`.
pub(super) fn bad_request(name: &str, problem: &str) -> Response {
    let details = json!({ "parameter": name });
    error(StatusCode::BAD_REQUEST, "validation_error", problem, Some(details))
}

/// An invalid body: the problem and its member; `""` is the body itself.
pub(super) struct BadMember {
    member: &'static str,
    problem: String,
}

impl BadMember {
    pub(super) fn new(member: &'static str, problem: impl ToString) -> Self {
        Self { member, problem: problem.to_string() }
    }

    pub(super) fn into_response(self) -> Response {
        bad_body(self.member, &self.problem)
    }
}

/// Rejects a body because of a `problem` at `member`; an empty `member` means the body itself.
pub(super) fn bad_body(member: &'static str, problem: &str) -> Response {
    let (message, details) = match member {
        "" => (problem.to_owned(), None),
        member => (format!("`{member}` {problem}"), Some(json!({ "parameter": member }))),
    };
    error(StatusCode::BAD_REQUEST, "validation_error", message, details)
}

/// Formats a refusal for this dialect.
pub(crate) fn refuse(refusal: &Refusal) -> Response {
    let (code, details) = match refusal {
        Refusal::Unauthenticated(AuthError::Missing | AuthError::Invalid) => {
            ("unauthenticated", None)
        }
        Refusal::Unauthenticated(AuthError::Unavailable)
        | Refusal::Unavailable
        | Refusal::Crowded => ("internal_error", Some(json!({ "retriable": true }))),
        Refusal::Host | Refusal::Origin => ("forbidden", None),
        Refusal::MissingScope(scope) => ("forbidden", Some(json!({ "scopeRequired": scope }))),
        Refusal::NoRoute => return not_found(),
        Refusal::Method | Refusal::BrokenBody => ("validation_error", None),
        Refusal::TooLarge { limit } => {
            ("validation_error", Some(json!({ "maxRequestBodyBytes": limit })))
        }
        Refusal::Internal => ("internal_error", None),
    };
    error(refusal.status(), code, refusal.to_string(), details)
}

/// Rejects a parameter that is not a whole number in its range.
pub(super) fn bad_number(name: &str, least: u64, most: u64) -> Response {
    let message = format!("the parameter `{name}` must be a whole number from {least} to {most}");
    let details = json!({ "parameter": name, "minimum": least, "maximum": most });
    error(StatusCode::BAD_REQUEST, "validation_error", message, Some(details))
}
