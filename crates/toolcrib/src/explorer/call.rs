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
//! | the call could not be recorded or limited; nothing ran | 503 |
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
use serde::Serialize;
use serde_json::{Map, Value, value::RawValue};
use toolcrib_core::{call::Outcome, json::parse_strict};
use toolcrib_gateway::provider::ToolAnswer;
use utoipa::ToSchema;

use super::{
    Explorer,
    context::Call,
    error::{self, Problem},
    offer::OfferExt as _,
};
use crate::{
    idempotency::IdempotencyKeyText,
    middleware::{Payload, Refusal, Segment},
    respond,
};

/// The result of a tool.
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
    /// Absent when nothing records the call.
    #[serde(rename = "_meta", skip_serializing_if = "Option::is_none")]
    meta: Option<TraceMeta>,
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
    operation_id = "explorerCall",
    tag = "Explorer",
    params(
        ("name" = String, Path, description = "The tool's name, percent-encoded"),
        ("Idempotency-Key" = inline(Option<IdempotencyKeyText>), Header, description = "Names the call: sent again, it is not made again, and has the same answer"),
    ),
    request_body(content = Object, content_type = "application/json"),
    responses(
        (status = 200, description = "The tool's answer", body = CallToolResult),
        (status = 400, description = "`Idempotency-Key` is malformed, or the body ended early", body = Problem),
        (status = 401, description = "No valid key", body = Problem),
        (status = 403, description = "Tools may not be run from here, the caller lacks a scope, or the tool wants approval", body = Problem),
        (status = 404, description = "Unknown to this caller, for whatever reason", body = Problem),
        (status = 409, description = "The answer under `Idempotency-Key` cannot be given again, or its call runs in another process", body = Problem),
        (status = 413, description = "The body is too large", body = Problem),
        (status = 422, description = "`Idempotency-Key` stands for another call", body = Problem),
        (status = 429, description = "Too many calls of the tool; see Retry-After", body = Problem),
        (status = 500, description = "The tool failed, or the arguments do not fit", body = CallToolResult),
        (status = 503, description = "The call could not be recorded, so nothing ran", body = Problem),
    )
)]
pub(super) async fn call(
    State(explorer): State<Arc<Explorer>>,
    name: Segment,
    request: Request,
) -> Result<Response, Refusal> {
    let (head, body) = request.into_parts();
    let known = explorer.caller_first(&head).await?;
    if !explorer.allow_execute {
        return Ok(error::problem(StatusCode::FORBIDDEN, "Tool execution is disabled."));
    }
    let in_the_order_of_the_specification = known.is_none();
    let mut visitor = match known {
        Some(visitor) => visitor,
        None => explorer.reader(&head).await?,
    };
    let offer = explorer.provider.tools(visitor.principal.as_ref()).await;
    if in_the_order_of_the_specification && !visitor.proven {
        if offer.find(name.as_str()).is_none() {
            return Ok(error::no_such_tool(name.as_str()));
        }
        visitor = explorer.caller_last(&head).await?;
    }
    let Payload(body) = Payload::read_of(&head, body, explorer.max_body, visitor.proven).await?;
    let arguments = arguments(&body);
    let name = name.as_str().to_owned();
    Ok(explorer.host.call(Call { visitor, offer, name, arguments, head }).await)
}

/// Parses the arguments in `body`. Text that is not JSON counts as no arguments, as the protocol
/// requires. JSON that is ambiguous (a duplicate key) or not an object is refused by the gate:
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

/// Converts `outcome` to this protocol; `trace` is the id of the call's run, if there is one.
pub(super) fn outcome(outcome: Outcome, trace: Option<&str>) -> CallToolResult {
    let Outcome { content, structured, is_error } = outcome;
    let trace = trace.filter(|trace| !trace.is_empty()).map(str::to_owned);
    let meta = trace.map(|trace_id| TraceMeta { trace_id });
    CallToolResult { content, is_error, structured, meta }
}

impl CallToolResult {
    /// Returns the HTTP status for this result.
    pub(super) fn status(&self) -> StatusCode {
        match self.is_error {
            true => StatusCode::INTERNAL_SERVER_ERROR,
            false => StatusCode::OK,
        }
    }
}

/// Returns `result` as a response with its status.
pub(super) fn answer(result: CallToolResult) -> Response {
    respond::json(result.status(), &result)
}

impl From<ToolAnswer> for CallToolResult {
    fn from(mut answer: ToolAnswer) -> Self {
        let trace = answer.trace_id.take();
        outcome(answer.into(), trace.as_deref())
    }
}
