//! `POST tools/{name}/validate` (F7): every violation of the tool's schema by the arguments.
//!
//! No tool runs, so `allow_execute` and rate limits do not apply.

use std::sync::Arc;

use axum::{
    extract::{Request, State},
    response::Response,
};
use http::StatusCode;
use serde::{Deserialize, Serialize};
use toolcrib_core::json::parse_strict;
use utoipa::ToSchema;

use super::{
    error::{self, Problem},
    offer::{OfferExt as _, OfferedTool, ValidationFailure},
    state::Explorer,
};
use crate::{
    middleware::{Payload, Refusal, Segment},
    respond,
};

/// The result of a check of arguments.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ValidateResult {
    /// Whether the arguments are valid.
    pub valid: bool,
    /// The violations; absent if the arguments are valid.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub errors: Vec<ValidationFailure>,
}

/// Checks arguments against a tool's schema without calling the tool.
#[utoipa::path(
    post,
    path = "/tools/{name}/validate",
    operation_id = "explorerValidate",
    params(("name" = String, Path, description = "The name of the tool, percent-encoded")),
    request_body(content = Value, description = "The arguments, as any JSON value", content_type = "application/json"),
    responses(
        (status = 200, description = "The result of the check", body = ValidateResult),
        (status = 400, description = "The body is not JSON", body = ValidateResult),
        (status = 404, description = "Not found, or not visible to this caller", body = Problem),
    )
)]
pub(super) async fn validate(
    State(explorer): State<Arc<Explorer>>,
    name: Segment,
    request: Request,
) -> Result<Response, Refusal> {
    let (head, body) = request.into_parts();
    let sender = explorer.reader(&head).await?;
    let Some(tool) = explorer.offer(&sender).await.find(name.as_str()) else {
        return Ok(error::no_such_tool(name.as_str()));
    };
    let Payload(body) = Payload::read_of(&head, body, explorer.max_body, &sender.of_body()).await?;
    let (status, errors) = match parse_strict(&body) {
        Err(problem) => {
            let failure = ValidationFailure::new(format!("Invalid JSON: {problem}"), "format");
            (StatusCode::BAD_REQUEST, vec![failure])
        }
        Ok(arguments) => {
            let errors = match &tool {
                OfferedTool::Entry(_) => tool.check(&arguments),
                // Its schema is untrusted so far and is compiled first, which can take long.
                OfferedTool::Tool(_) => tokio::task::spawn_blocking(move || tool.check(&arguments))
                    .await
                    .map_err(|_panicked| Refusal::Internal)?,
            };
            (StatusCode::OK, errors)
        }
    };
    Ok(respond::json(status, &ValidateResult { valid: errors.is_empty(), errors }))
}
