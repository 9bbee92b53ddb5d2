//! `{"error": …}`, the body of everything that is not a tool's own answer.

use axum::response::Response;
use http::StatusCode;
use serde::Serialize;
use serde_json::Value;
use toolcrib_gateway::authn::AuthError;
use utoipa::ToSchema;

use crate::{middleware::Refusal, respond};

/// What went wrong.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Problem {
    /// In words.
    error: String,
    /// Scopes and the like, where a refusal has some.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    details: Option<Value>,
}

/// `status` with the words.
pub(super) fn problem(status: StatusCode, error: impl Into<String>) -> Response {
    respond::json(status, &Problem { error: error.into(), details: None })
}

/// `status` with the words and `details`.
pub(super) fn problem_with(
    status: StatusCode,
    error: impl Into<String>,
    details: Option<Value>,
) -> Response {
    respond::json(status, &Problem { error: error.into(), details })
}

/// The answer for a tool that does not exist for the caller. The protocol wants the name in it; the
/// type of the answer keeps it from being read as markup.
pub(super) fn no_such_tool(name: &str) -> Response {
    problem(StatusCode::NOT_FOUND, format!("Tool not found: {name}"))
}

/// A refusal in this dialect.
pub(crate) fn refuse(refusal: &Refusal) -> Response {
    let words = match refusal {
        // To the byte as the protocol has it.
        Refusal::Unauthenticated(AuthError::Missing | AuthError::Invalid) => {
            "Unauthorized".to_owned()
        }
        other => other.to_string(),
    };
    problem(refusal.status(), words)
}
