//! `POST /tools/call`.

use std::time::Duration;

use axum::{extract::State, response::Response};
use http::StatusCode;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, value::RawValue};
use toolcrib_core::{
    call::{CallError, Outcome, raw},
    json::parse_strict,
};
use toolcrib_gateway::{
    call::{CallRequest, Called},
    list::ToolRef,
    metrics::Surface,
};
use utoipa::ToSchema;

use super::{
    error::{self, ServerError, ValidationError},
    version::{self, DIALECT},
};
use crate::{
    middleware::{Caller, Payload},
    respond,
    state::AppState,
};

/// A call.
#[derive(ToSchema)]
#[expect(dead_code, reason = "only its schema is used; requests are read by `Asked::read`")]
pub(super) struct CallBody {
    /// The dialect of the request; `otc://1.0` when absent.
    #[schema(rename = "$schema")]
    schema: Option<String>,
    request: CallToolRequest,
}

#[derive(ToSchema)]
#[expect(dead_code, reason = "only its schema is used; requests are read by `Asked::read`")]
pub(super) struct CallToolRequest {
    /// `Toolkit.Tool`, optionally `@x.y.z` or `@x` (which is `@x.0.0`); the tool's `name` is accepted
    /// too.
    tool_id: String,
    /// Comes back in the result; made up when absent.
    call_id: Option<String>,
    trace_id: Option<String>,
    /// The arguments; none when absent.
    #[schema(value_type = Option<Object>)]
    input: Option<Value>,
    #[schema(value_type = Option<Object>)]
    context: Option<Value>,
}

/// What became of a call.
#[derive(Serialize, ToSchema)]
pub(super) struct CallReply {
    /// The dialect of this answer.
    #[serde(rename = "$schema")]
    schema: &'static str,
    result: CallToolResponse,
}

#[derive(Serialize, ToSchema)]
pub(super) struct CallToolResponse {
    call_id: String,
    /// Milliseconds the tool ran; absent when it did not.
    #[serde(skip_serializing_if = "Option::is_none")]
    duration: Option<f64>,
    success: bool,
    /// What the tool answered, on success.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    value: Option<Box<RawValue>>,
    /// Why it failed, otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<ToolError>,
}

#[derive(Serialize, ToSchema)]
pub(super) struct ToolError {
    /// Fit for users and models.
    message: String,
    /// Whether the same call may be made again without harm and with hope.
    can_retry: bool,
    /// How long to wait before.
    #[serde(skip_serializing_if = "Option::is_none")]
    retry_after_ms: Option<u64>,
}

/// Calls a tool.
///
/// What the tool itself reports as a failure is a 200 with `success: false`. The header
/// `toolcrib-run-id` names the run that holds the events of the call, where there is such a tool.
#[utoipa::path(
    post,
    path = "/tools/call",
    tag = "Open Tool Calling",
    request_body(content = CallBody, content_type = "application/json"),
    responses(
        (status = 200, description = "The tool ran, or failed", body = CallReply),
        (status = 400, description = "No such tool or version, or not a call", body = ServerError),
        (status = 401, description = "No valid key", body = ServerError),
        (status = 403, description = "The caller lacks a scope of the tool", body = ServerError),
        (status = 413, description = "The body is too large", body = ServerError),
        (status = 422, description = "The arguments do not fit", body = ValidationError),
        (status = 429, description = "Too many calls of the tool; see Retry-After", body = ServerError),
        (status = 503, description = "The call could not be recorded, so nothing ran", body = ServerError),
    )
)]
pub(super) async fn call(
    State(state): State<AppState>,
    Caller(caller): Caller,
    Payload(body): Payload,
) -> Response {
    let asked = match Asked::read(&body) {
        Ok(asked) => asked,
        Err(problem) => return error::bad_request(problem),
    };
    let tool = match resolve(&asked.tool_id) {
        Some(tool) => tool,
        None => {
            return error::bad_request(
                "`tool_id` must look like Toolkit.Tool, Toolkit.Tool@1.2.3 or Toolkit.Tool@1",
            );
        }
    };
    let request = CallRequest::new(Surface::Otc, tool, Value::Object(asked.input));
    let called = state.gateway.call(&caller, request).await;
    let run = respond::run_to_tell(&called);
    respond::with_run(answer(called, asked.call_id), run.as_ref())
}

/// A call as it was asked for.
struct Asked {
    tool_id: String,
    call_id: Option<String>,
    input: Map<String, Value>,
}

impl Asked {
    /// Reads a request body. Members that the protocol does not know are ignored.
    fn read(body: &[u8]) -> Result<Self, String> {
        let mut message =
            parse_strict(body).map_err(|problem| format!("the body is not JSON: {problem}"))?;
        version::check(&message).map_err(|problem| problem.to_string())?;
        let Some(Value::Object(request)) = message.get_mut("request").map(Value::take) else {
            return Err("the body must be an object with an object `request`".to_owned());
        };
        let mut request = request;
        let tool_id = text(&mut request, "tool_id")?.ok_or("`request.tool_id` is missing")?;
        let call_id = text(&mut request, "call_id")?;
        text(&mut request, "trace_id")?;
        if request.get("context").is_some_and(|context| !context.is_object()) {
            return Err("`request.context` must be an object".to_owned());
        }
        // The prose of the protocol says `inputs`, its schema and examples say `input`.
        let input = request.remove("input").or_else(|| request.remove("inputs"));
        let input = match input {
            None => Map::new(),
            Some(Value::Object(input)) => input,
            Some(_) => return Err("`request.input` must be an object".to_owned()),
        };
        Ok(Self { tool_id, call_id, input })
    }
}

fn text(request: &mut Map<String, Value>, member: &str) -> Result<Option<String>, String> {
    match request.remove(member) {
        None => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(_) => Err(format!("`request.{member}` must be a string")),
    }
}

/// The tool that `id` asks for; `None` when `id` cannot be an id.
fn resolve(id: &str) -> Option<ToolRef<'_>> {
    let (name, version) = match id.split_once('@') {
        Some((name, version)) => (name, Some(numbers(version)?)),
        None => (id, None),
    };
    let word = |text: &str| {
        !text.is_empty() && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
    };
    match name.split_once('.') {
        Some((toolkit, tool)) if word(toolkit) && word(tool) => {
            Some(ToolRef::Otc { name, version })
        }
        // Clients that know a tool by its `name` send that.
        None if version.is_none() && !name.is_empty() && name.len() <= 64 => name
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-')
            .then_some(ToolRef::Wire(name)),
        Some(_) | None => None,
    }
}

/// `x.y.z`, or `x` for `x.0.0`.
fn numbers(version: &str) -> Option<[u64; 3]> {
    let number = |part: &str| match part.bytes().all(|byte| byte.is_ascii_digit()) {
        true => part.parse().ok(),
        false => None,
    };
    let parts: Vec<&str> = version.split('.').collect();
    match parts.as_slice() {
        [major] => Some([number(major)?, 0, 0]),
        [major, minor, patch] => Some([number(major)?, number(minor)?, number(patch)?]),
        _ => None,
    }
}

fn answer(called: Called, call_id: Option<String>) -> Response {
    let Called { call_id: made_up, entry, result, duration, .. } = called;
    let structured = entry.is_some_and(|entry| entry.tool.output_schema.is_some());
    let (value, error) = match result {
        Ok(outcome) if outcome.is_error => (None, Some(failure(&outcome))),
        Ok(outcome) => (Some(value(outcome, structured)), None),
        Err(error) => match error::refused_call(&error) {
            Some(refused) => return refused,
            None => (None, Some(not_run(&error))),
        },
    };
    let result = CallToolResponse {
        call_id: call_id.unwrap_or_else(|| made_up.to_string()),
        duration: duration.map(|ran| (Duration::as_secs_f64(&ran) * 1e6).round() / 1e3),
        success: error.is_none(),
        value,
        error,
    };
    respond::json(StatusCode::OK, &CallReply { schema: DIALECT, result })
}

fn not_run(error: &CallError) -> ToolError {
    ToolError { message: error.to_string(), can_retry: error.retryable(), retry_after_ms: None }
}

#[derive(Deserialize)]
struct Block<'a> {
    #[serde(rename = "type", borrow)]
    kind: std::borrow::Cow<'a, str>,
    #[serde(borrow)]
    text: Option<std::borrow::Cow<'a, str>>,
}

/// The texts among the content of `outcome`, and how many blocks there are.
fn texts(outcome: &Outcome) -> (Vec<String>, usize) {
    let blocks: Vec<&RawValue> = serde_json::from_str(outcome.content.get()).unwrap_or_default();
    let text = |block: &&RawValue| match serde_json::from_str::<Block<'_>>(block.get()) {
        Ok(Block { kind, text }) if kind == "text" => text.map(std::borrow::Cow::into_owned),
        Ok(_) | Err(_) => None,
    };
    (blocks.iter().filter_map(text).collect(), blocks.len())
}

/// What a tool that says it failed says.
fn failure(outcome: &Outcome) -> ToolError {
    let (texts, _) = texts(outcome);
    let message = match texts.join("\n") {
        text if text.trim().is_empty() => "the tool reported a failure".to_owned(),
        text => text,
    };
    ToolError { message, can_retry: false, retry_after_ms: None }
}

/// The one value that this protocol has for a result: the structured one; else the text of a single
/// text block, read as JSON where the tool has an output schema; else the blocks; `null` for none.
fn value(outcome: Outcome, has_output_schema: bool) -> Box<RawValue> {
    if let Some(structured) = outcome.structured {
        return structured;
    }
    match texts(&outcome) {
        (_, 0) => RawValue::NULL.to_owned(),
        (mut texts, 1) => match texts.pop() {
            Some(text) => {
                let json = has_output_schema.then(|| RawValue::from_string(text.clone()).ok());
                json.flatten().unwrap_or_else(|| raw(&Value::String(text)))
            }
            None => outcome.content,
        },
        (_, _) => outcome.content,
    }
}

/// Reads `body` and the tool id in it.
#[cfg(fuzzing)]
pub(super) fn fuzz(body: &[u8]) {
    if let Ok(asked) = Asked::read(body) {
        resolve(&asked.tool_id);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_result_becomes_one_value() {
        let of = |content: Value, structured: Option<Value>, schema: bool| {
            let outcome = Outcome {
                content: raw(&content),
                structured: structured.as_ref().map(raw),
                is_error: false,
            };
            serde_json::from_str::<Value>(value(outcome, schema).get()).unwrap()
        };
        let text = |text: &str| json!({ "type": "text", "text": text });
        let image = json!({ "type": "image", "data": "", "mimeType": "image/png" });
        assert_eq!(of(json!([text("a")]), Some(json!({ "b": 1 })), true), json!({ "b": 1 }));
        assert_eq!(of(json!([text("{\"b\":1}")]), None, true), json!({ "b": 1 }));
        assert_eq!(of(json!([text("{\"b\":1}")]), None, false), json!("{\"b\":1}"));
        assert_eq!(of(json!([text("no json")]), None, true), json!("no json"));
        assert_eq!(of(json!([]), None, true), Value::Null);
        assert_eq!(of(json!([image]), None, false), json!([image]));
        assert_eq!(of(json!([text("a"), image]), None, false), json!([text("a"), image]));
    }

    #[test]
    fn versions_are_one_or_three_numbers() {
        assert_eq!(numbers("1.2.3"), Some([1, 2, 3]));
        assert_eq!(numbers("01.2.3"), Some([1, 2, 3]));
        assert_eq!(numbers("2"), Some([2, 0, 0]));
        for bad in ["", "1.2", "v1", "1.2.3.4", "1..3", "+1", "1.2.3@4", "99999999999999999999"] {
            assert_eq!(numbers(bad), None, "{bad}");
        }
    }
}
