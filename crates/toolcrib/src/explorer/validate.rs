//! `POST tools/{name}/validate` (F7): every way in which the arguments break the tool's schema.
//!
//! Nothing is run, so this neither asks whether tools may be run from here nor takes from a bucket.

use axum::{extract::State, response::Response};
use http::StatusCode;
use serde::Serialize;
use toolcrib_core::{arguments::Violation, json::parse_strict};
use toolcrib_gateway::list::ToolRef;
use utoipa::ToSchema;

use super::error::{self, Problem};
use crate::{
    middleware::{Caller, Payload, Segment},
    respond,
    state::AppState,
};

/// What is wrong with the arguments.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct ValidateResult {
    valid: bool,
    /// At least one when not valid, absent otherwise.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    errors: Vec<ValidationFailure>,
}

/// One thing that is wrong.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct ValidationFailure {
    /// RFC 6901 pointer; `""` for the whole.
    path: String,
    /// In the validator's own words, which may quote the arguments.
    message: String,
    /// The keyword of the schema.
    #[serde(skip_serializing_if = "String::is_empty")]
    keyword: String,
}

impl From<Violation> for ValidationFailure {
    fn from(violation: Violation) -> Self {
        Self { path: violation.pointer, message: violation.verbatim, keyword: violation.keyword }
    }
}

/// Checks arguments against a tool's schema without calling it.
#[utoipa::path(
    post,
    path = "/tools/{name}/validate",
    tag = "Explorer",
    params(("name" = String, Path, description = "The tool's name, percent-encoded")),
    request_body(content = Object, content_type = "application/json"),
    responses(
        (status = 200, description = "Whether they fit", body = ValidateResult),
        (status = 400, description = "Not JSON", body = ValidateResult),
        (status = 401, description = "No valid key", body = Problem),
        (status = 404, description = "Unknown to this caller, for whatever reason", body = Problem),
        (status = 413, description = "The body is too large", body = Problem),
    )
)]
pub(super) async fn validate(
    State(state): State<AppState>,
    Caller(caller): Caller,
    name: Segment,
    Payload(body): Payload,
) -> Response {
    let Some(entry) = state.gateway.find(&caller, ToolRef::Wire(name.as_str())) else {
        return error::no_such_tool(name.as_str());
    };
    let arguments = match parse_strict(&body) {
        Ok(arguments) => arguments,
        Err(problem) => {
            let failure = ValidationFailure {
                path: String::new(),
                message: format!("Invalid JSON: {problem}"),
                keyword: "format".to_owned(),
            };
            let result = ValidateResult { valid: false, errors: vec![failure] };
            return respond::json(StatusCode::BAD_REQUEST, &result);
        }
    };
    let violations = entry.arguments.check(&arguments).err().unwrap_or_default();
    let errors: Vec<_> = violations.into_iter().map(ValidationFailure::from).collect();
    respond::json(StatusCode::OK, &ValidateResult { valid: errors.is_empty(), errors })
}
