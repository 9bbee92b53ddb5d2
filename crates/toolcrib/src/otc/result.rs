//! `CallToolResponse`: the result of a call in the protocol's format.

use std::{borrow::Cow, time::Duration};

use serde::{Deserialize, Serialize};
use serde_json::{Value, value::RawValue};
use toolcrib_core::{
    call::{CallError, Outcome, raw},
    catalog::Entry,
    limit::wait_millis,
};
use toolcrib_gateway::{
    CallReport,
    idempotency::{is_repeatable, may_repeat},
};
use utoipa::ToSchema;

/// The result of a call, in its envelope.
#[derive(Serialize, ToSchema)]
pub(super) struct CallReply<'a> {
    /// The version of the response, in the family of names that the caller used.
    #[serde(rename = "$schema")]
    pub(super) schema: &'static str,
    #[schema(value_type = CallToolResponse<'static>)]
    pub(super) result: &'a RawValue,
}

#[derive(Serialize, ToSchema)]
pub(super) struct CallToolResponse<'a> {
    call_id: &'a str,
    /// How long the tool ran, in milliseconds; absent if it did not run.
    #[serde(skip_serializing_if = "Option::is_none")]
    duration: Option<f64>,
    success: bool,
    /// The result of a successful call.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    value: Option<Cow<'a, RawValue>>,
    /// The reason of a failure.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<ToolError>,
}

/// The reason of a failed call.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct ToolError {
    /// The problem in words, for users and models.
    message: String,
    /// A stable code, for developers of the client.
    #[serde(skip_serializing_if = "Option::is_none")]
    developer_message: Option<String>,
    /// Whether a retry of the same call is safe and may succeed.
    can_retry: bool,
    /// How long to wait before a retry.
    #[serde(skip_serializing_if = "Option::is_none")]
    retry_after_ms: Option<u64>,
}

/// How long to wait for a disconnected source: it restarts after about this time.
pub(super) const RETRY_AFTER: Duration = Duration::from_secs(1);

/// Writes the result of `called` as JSON; `None` if the call was refused before it reached a tool.
pub(super) fn written(called: &CallReport, call_id: &str) -> Option<Box<RawValue>> {
    let entry = called.entry.as_deref();
    let (value, error) = match &called.result {
        Ok(outcome) if outcome.is_error => (None, Some(failure(outcome, entry))),
        Ok(outcome) => {
            let structured = entry.is_some_and(|entry| entry.tool.output_schema.is_some());
            (Some(value(outcome, structured)), None)
        }
        Err(error) if is_refusal(error) => return None,
        Err(error) => (None, Some(fault(error, entry))),
    };
    let answer = CallToolResponse {
        call_id,
        duration: called.duration.map(|ran| (ran.as_secs_f64() * 1e6).round() / 1e3),
        success: error.is_none(),
        value,
        error,
    };
    serde_json::value::to_raw_value(&answer)
        .inspect_err(|error| tracing::error!(%error, "a call's result could not be serialised"))
        .ok()
}

/// Whether `error` says that the call reached no tool.
pub(super) fn is_refusal(error: &CallError) -> bool {
    match error {
        CallError::Upstream(error) => error.kind.retryable(),
        CallError::ApprovalRequired { .. }
        | CallError::ApprovalRejected { .. }
        | CallError::ConnectionRequired(_)
        | CallError::NeedsInput(_)
        | CallError::Cancelled
        | CallError::Internal => false,
        _ => true,
    }
}

fn fault(error: &CallError, entry: Option<&Entry>) -> ToolError {
    // A call with a pending approval has not run, and may be retried.
    let approval_wait = match error {
        CallError::ApprovalRequired { pending: Some(pending), .. } => Some(pending.retry_after),
        _ => None,
    };
    let wait = approval_wait.or_else(|| may_repeat(error, entry).then_some(RETRY_AFTER));
    ToolError {
        message: error.words(),
        developer_message: Some(error.code().to_owned()),
        can_retry: wait.is_some(),
        retry_after_ms: wait.map(wait_millis),
    }
}

#[derive(Deserialize)]
struct Block<'a> {
    #[serde(rename = "type", borrow)]
    kind: Cow<'a, str>,
    #[serde(borrow)]
    text: Option<Cow<'a, str>>,
}

/// The texts in the content of `outcome`, and the number of blocks.
fn texts(outcome: &Outcome) -> (Vec<String>, usize) {
    let blocks: Vec<&RawValue> = serde_json::from_str(outcome.content.get()).unwrap_or_default();
    let text = |block: &&RawValue| match serde_json::from_str::<Block<'_>>(block.get()) {
        Ok(Block { kind, text }) if kind == "text" => text.map(Cow::into_owned),
        Ok(_) | Err(_) => None,
    };
    (blocks.iter().filter_map(text).collect(), blocks.len())
}

/// The failure that a tool reports in its result.
fn failure(outcome: &Outcome, entry: Option<&Entry>) -> ToolError {
    let (texts, _) = texts(outcome);
    let message = match texts.join("\n") {
        text if text.trim().is_empty() => "the tool reported a failure".to_owned(),
        text => text,
    };
    let wait = outcome.retry_after.filter(|_| entry.is_some_and(is_repeatable));
    ToolError {
        message,
        developer_message: None,
        can_retry: wait.is_some(),
        retry_after_ms: wait.map(wait_millis),
    }
}

/// Returns the single value that this protocol has for a result. It is the structured content; else
/// the text of a single text block, parsed as JSON if the tool has an output schema; else the
/// blocks; `null` for no content.
fn value(outcome: &Outcome, has_output_schema: bool) -> Cow<'_, RawValue> {
    if let Some(structured) = &outcome.structured {
        return Cow::Borrowed(structured);
    }
    match texts(outcome) {
        (_, 0) => Cow::Borrowed(RawValue::NULL),
        (mut texts, 1) => match texts.pop() {
            Some(text) => {
                let json = has_output_schema.then(|| RawValue::from_string(text.clone()).ok());
                Cow::Owned(json.flatten().unwrap_or_else(|| raw(&Value::String(text))))
            }
            None => Cow::Borrowed(&outcome.content),
        },
        (_, _) => Cow::Borrowed(&outcome.content),
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
                retry_after: None,
            };
            serde_json::from_str::<Value>(value(&outcome, schema).get()).unwrap()
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
}
