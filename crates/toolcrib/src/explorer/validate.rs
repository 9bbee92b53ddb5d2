//! `POST tools/{name}/validate` (F7): every violation of the tool's schema by the arguments.
//!
//! Nothing runs, so `allow_execute` and rate limits do not apply.

use std::sync::Arc;

use axum::{
    extract::{Request, State},
    response::Response,
};
use http::StatusCode;
use serde::{Deserialize, Serialize};
use toolcrib_core::{
    arguments::{SchemaError, Violation},
    json::parse_strict,
};
use utoipa::ToSchema;

use super::{
    Explorer,
    error::{self, Problem},
    offer::{Found, OfferExt as _},
};
use crate::{
    middleware::{Payload, Refusal, Segment},
    respond,
};

/// The result of a check of arguments.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ValidateResult {
    /// Whether they fit.
    pub valid: bool,
    /// At least one when not valid, absent otherwise.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub errors: Vec<ValidationFailure>,
}

/// One thing that is wrong.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ValidationFailure {
    /// RFC 6901 pointer; `""` for the whole. For a missing property, to where it should be.
    pub path: String,
    /// In the validator's own words, which may quote the arguments.
    pub message: String,
    /// The keyword of the schema.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub keyword: String,
}

impl ValidationFailure {
    /// Returns the single failure for a tool with an invalid schema.
    pub(super) fn of_schema(problem: &SchemaError) -> Self {
        Self {
            path: String::new(),
            message: format!("Invalid schema: {problem}"),
            keyword: "schema".to_owned(),
        }
    }
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
    operation_id = "explorerValidate",
    tag = "Explorer",
    params(("name" = String, Path, description = "The tool's name, percent-encoded")),
    request_body(content = Value, description = "Any JSON: whether it fits is the answer", content_type = "application/json"),
    responses(
        (status = 200, description = "Whether they fit", body = ValidateResult),
        (status = 400, description = "Not JSON", body = ValidateResult),
        (status = 401, description = "No valid key", body = Problem),
        (status = 404, description = "Unknown to this caller, for whatever reason", body = Problem),
        (status = 413, description = "The body is too large", body = Problem),
        (status = 503, description = "The bodies of other requests take the memory that they may take; see Retry-After", body = Problem),
    )
)]
pub(super) async fn validate(
    State(explorer): State<Arc<Explorer>>,
    name: Segment,
    request: Request,
) -> Result<Response, Refusal> {
    let (head, body) = request.into_parts();
    let visitor = explorer.reader(&head).await?;
    let offer = explorer.provider.tools(visitor.principal.as_ref()).await;
    let Some(tool) = offer.find(name.as_str()) else {
        return Ok(error::no_such_tool(name.as_str()));
    };
    let Payload(body) = Payload::read_of(&head, body, explorer.max_body, visitor.proven).await?;
    let arguments = match parse_strict(&body) {
        Ok(arguments) => arguments,
        Err(problem) => {
            let failure = ValidationFailure {
                path: String::new(),
                message: format!("Invalid JSON: {problem}"),
                keyword: "format".to_owned(),
            };
            let result = ValidateResult { valid: false, errors: vec![failure] };
            return Ok(respond::json(StatusCode::BAD_REQUEST, &result));
        }
    };
    let errors = match &tool {
        Found::Entry(_) => tool.check(&arguments),
        // Its schema is untrusted so far and is compiled first, which can take long.
        Found::Tool(_) => tokio::task::spawn_blocking(move || tool.check(&arguments))
            .await
            .map_err(|_panicked| Refusal::Internal)?,
    };
    Ok(respond::json(StatusCode::OK, &ValidateResult { valid: errors.is_empty(), errors }))
}
