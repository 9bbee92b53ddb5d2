//! `POST tools/{name}/call` (F3). The body holds the arguments; the response is an MCP
//! `CallToolResult`, with status 500 if the tool failed.
//!
//! | Case | Response |
//! |---|---|
//! | no valid key, where the policy requires one before all other checks | 401 |
//! | `allow_execute = false` | 403 `Tool execution is disabled.` |
//! | unknown or foreign tool | 404 |
//! | no valid key, in the order of the specification | 401 |
//! | the caller lacks a scope, or the tool requires approval | 403, `details` |
//! | the rate limit is exceeded | 429, `Retry-After`, `details` |
//! | the call could not be recorded or limited, and did not run | 503 |
//! | `Idempotency-Key` belongs to another call | 422 |
//! | the response under `Idempotency-Key` cannot be replayed, or its call runs elsewhere | 409 |
//! | invalid arguments; failure of the tool or its source | 500, `isError: true` |
//!
//! A repeated call with the same `Idempotency-Key` is not executed again (I-31).

use std::sync::Arc;

use axum::{
    extract::{Request, State},
    response::Response,
};
use http::StatusCode;
use serde_json::{Map, Value};
use toolcrib_core::json::parse_strict;

use super::{
    error::{self, Problem},
    host::Call,
    offer::OfferExt as _,
    result::CallToolResult,
    state::Explorer,
};
use crate::{
    idempotency::IdempotencyKeyText,
    middleware::{Payload, Refusal, Segment},
};

/// Calls a tool.
#[utoipa::path(
    post,
    path = "/tools/{name}/call",
    operation_id = "explorerCall",
    params(
        ("name" = String, Path, description = "The name of the tool, percent-encoded"),
        ("Idempotency-Key" = inline(Option<IdempotencyKeyText>), Header, description = "Idempotency key. A repeated request with the same key and the same body returns the stored response."),
    ),
    request_body(content = Object, content_type = "application/json"),
    responses(
        (status = 200, description = "The result of the tool", body = CallToolResult),
        (status = 400, description = "`Idempotency-Key` is invalid, or the body is incomplete", body = Problem),
        (status = 403, description = "Execution is disabled, the caller lacks a scope, or the tool requires approval", body = Problem),
        (status = 404, description = "Not found, or not visible to this caller", body = Problem),
        (status = 409, description = "The response for `Idempotency-Key` cannot be replayed, or the call is running in another process", body = Problem),
        (status = 422, description = "`Idempotency-Key` was used for another call", body = Problem),
        (status = 429, description = "The rate limit of the tool is exceeded; see Retry-After", body = Problem),
        (status = 500, description = "The tool failed, or the arguments are invalid", body = CallToolResult),
        (status = 503, description = "The call could not be recorded, so the tool did not run", body = Problem),
    )
)]
pub(super) async fn call(
    State(explorer): State<Arc<Explorer>>,
    name: Segment,
    request: Request,
) -> Result<Response, Refusal> {
    let (head, body) = request.into_parts();
    let known = explorer.caller_first(&head).await?;
    if !explorer.allows_execute() {
        return Ok(error::problem(StatusCode::FORBIDDEN, "Tool execution is disabled.", None));
    }
    let in_the_order_of_the_specification = known.is_none();
    let mut sender = match known {
        Some(sender) => sender,
        None => explorer.reader(&head).await?,
    };
    let offer = explorer.offer(&sender).await;
    if in_the_order_of_the_specification && !sender.proven {
        if offer.find(name.as_str()).is_none() {
            return Ok(error::no_such_tool(name.as_str()));
        }
        sender = explorer.caller_last(&head).await?;
    }
    let Payload(body) = Payload::read_of(&head, body, explorer.max_body, &sender.of_body()).await?;
    let arguments = arguments(&body);
    let name = name.as_str().to_owned();
    Ok(explorer.host.call(Call { sender, offer, name, arguments, head }).await)
}

/// Parses the arguments in `body`. Text other than JSON counts as no arguments, as the protocol
/// requires. The gate refuses JSON with a duplicate key, or with another value than an object:
/// running anything but the sent call would be worse.
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
