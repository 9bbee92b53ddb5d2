//! `{"error": …}`, the body of every response except the result of a tool.

use axum::response::Response;
use http::StatusCode;
use serde::Serialize;
use serde_json::Value;
use toolcrib_gateway::authn::AuthError;
use utoipa::ToSchema;

use crate::{middleware::Refusal, respond};

/// An error.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Problem {
    /// The problem in words.
    error: String,
    /// Details for programs, such as the missing scopes.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    details: Option<Value>,
}

/// Builds a response with `status`, a message and `details`.
pub(super) fn problem(
    status: StatusCode,
    error: impl Into<String>,
    details: Option<Value>,
) -> Response {
    respond::json(status, &Problem { error: error.into(), details })
}

/// Builds the response for a tool that does not exist for the caller. The protocol requires the
/// name in the message; the JSON content type keeps browsers from reading it as markup.
pub(super) fn no_such_tool(name: &str) -> Response {
    problem(StatusCode::NOT_FOUND, format!("Tool not found: {name}"), None)
}

/// Formats a refusal for this dialect.
pub(super) fn refuse(refusal: &Refusal) -> Response {
    let words = match refusal {
        // The protocol requires exactly this text.
        Refusal::Unauthenticated(AuthError::Missing | AuthError::Invalid) => {
            "Unauthorized".to_owned()
        }
        other => other.to_string(),
    };
    problem(refusal.status(), words, None)
}
