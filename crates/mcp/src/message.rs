//! JSON-RPC messages as they are on the wire.
//!
//! The client reads leniently, because an upstream in trouble is not always well formed; the server
//! has a separate, strict reader. Both write these messages.

use std::borrow::Cow;

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Number, Value, json, value::RawValue};

use crate::{code, method, scan};

/// A message with its parts still raw.
#[derive(Debug, Deserialize)]
pub struct IncomingMessage<'a> {
    /// The id of a request, or of the request that a response answers.
    #[serde(borrow, default)]
    pub id: Option<&'a RawValue>,
    /// The method of a request or notification.
    #[serde(borrow, default)]
    pub method: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    pub params: Option<&'a RawValue>,
    /// The result of a request, which may be `null`.
    #[serde(borrow, default, deserialize_with = "present")]
    pub result: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub error: Option<&'a RawValue>,
}

/// Reads a present member, even if it is `null`.
fn present<'de, D: Deserializer<'de>>(d: D) -> Result<Option<&'de RawValue>, D::Error> {
    <&RawValue>::deserialize(d).map(Some)
}

/// A JSON-RPC error.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct RpcError {
    /// One of [`code`].
    pub code: i64,
    /// The message for people. Messages of this program never repeat input of the caller.
    pub message: Cow<'static, str>,
    /// Boxed because errors are rare and results are not.
    #[serde(default)]
    pub data: Option<Box<Value>>,
}

/// The parameters of `notifications/progress`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Progress<'a> {
    /// The token that the request gave.
    #[serde(borrow)]
    pub progress_token: &'a RawValue,
    /// The progress so far.
    pub progress: Number,
    /// The value of `progress` at the end, if the sender knows it.
    #[serde(default)]
    pub total: Option<Number>,
    /// The current step, for people.
    #[serde(default)]
    pub message: Option<String>,
}

// === impl RpcError ===

impl RpcError {
    /// Creates an error without data.
    pub fn new(code: i64, message: impl Into<Cow<'static, str>>) -> Self {
        Self { code, message: message.into(), data: None }
    }

    #[must_use]
    pub fn with_data(self, data: Value) -> Self {
        Self { data: Some(Box::new(data)), ..self }
    }

    /// The message is not JSON.
    pub fn parse(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(code::PARSE, message)
    }

    /// The message is not a request.
    pub fn invalid_request(message: &'static str) -> Self {
        Self::new(code::INVALID_REQUEST, message)
    }

    /// The parameters are invalid.
    pub fn invalid_params(message: &'static str) -> Self {
        Self::new(code::INVALID_PARAMS, message)
    }

    /// A header differs from the body.
    pub fn header_mismatch(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(code::HEADER_MISMATCH, message)
    }

    /// The revision `requested` is not one of `supported`. The specification requires repeating it;
    /// it is shortened to the size of a revision.
    pub fn unsupported_version(requested: &str, supported: &[&str]) -> Self {
        let requested: String = requested.chars().take(32).collect();
        Self::new(code::UNSUPPORTED_VERSION, "unsupported protocol version")
            .with_data(json!({ "supported": supported, "requested": requested }))
    }

    /// Reads the `error` of a message leniently.
    pub fn read(raw: &RawValue) -> Self {
        let value: Value = serde_json::from_str(raw.get()).unwrap_or_default();
        Self {
            code: value.get("code").and_then(Value::as_i64).unwrap_or_default(),
            message: match value.get("message").unwrap_or(&value) {
                Value::String(text) => Cow::Owned(text.clone()),
                // Without a message, the whole error is the best description.
                _ => Cow::Owned(raw.get().to_owned()),
            },
            data: value.get("data").cloned().map(Box::new),
        }
    }
}

/// Parses `id` as a number. Some servers repeat a numeric id as a string, others as `1.0`.
pub fn numeric_id(id: &RawValue) -> Option<u64> {
    scan::number(id.get())
}

#[derive(Serialize)]
struct OutgoingMessage<'a, P> {
    jsonrpc: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<u64>,
    method: &'a str,
    params: P,
}

/// Encodes a request.
pub fn request(id: u64, method: &str, params: &impl Serialize) -> Vec<u8> {
    encode(&OutgoingMessage { jsonrpc: "2.0", id: Some(id), method, params })
}

/// Encodes a notification.
pub fn notification(method: &str, params: &impl Serialize) -> Vec<u8> {
    encode(&OutgoingMessage { jsonrpc: "2.0", id: None, method, params })
}

/// Encodes `result`, JSON text, as the answer to the request with the JSON text `id`.
pub fn result(id: &str, result: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(result.len() + id.len() + 40);
    open_result(id, &mut out);
    out.extend_from_slice(result);
    out.push(b'}');
    out
}

/// Appends the start of the answer to the request with the JSON text `id`. The result as JSON text
/// and one `}` complete it.
pub fn open_result(id: &str, out: &mut Vec<u8>) {
    for part in ["{\"jsonrpc\":\"2.0\",\"id\":", id, ",\"result\":"] {
        out.extend_from_slice(part.as_bytes());
    }
}

/// Encodes `error` as the answer to the request with the JSON text `id`, or to a message with an
/// unknown id: `null` (JSON-RPC 2.0 §5). The Python SDK drops an error without the member.
pub fn error(id: Option<&str>, error: &RpcError) -> Vec<u8> {
    let mut body = json!({ "code": error.code, "message": error.message });
    if let (Some(body), Some(data)) = (body.as_object_mut(), &error.data) {
        body.insert("data".to_owned(), Value::clone(data));
    }
    let id = id.unwrap_or("null");
    format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"error\":{body}}}").into_bytes()
}

/// Encodes a report of progress for the token with the JSON text `token`.
pub fn progress(
    token: &str,
    progress: &Number,
    total: Option<&Number>,
    message: Option<&str>,
) -> Vec<u8> {
    let mut text = format!(
        "{{\"jsonrpc\":\"2.0\",\"method\":\"{}\",\"params\":{{\"progressToken\":{token},\"progress\":{progress}",
        method::PROGRESS
    );
    if let Some(total) = total {
        text.push_str(&format!(",\"total\":{total}"));
    }
    if let Some(message) = message {
        text.push_str(&format!(",\"message\":{}", Value::from(message)));
    }
    text.push_str("}}");
    text.into_bytes()
}

/// Encodes a notification that cancels request `id`.
pub fn cancelled(id: u64) -> Vec<u8> {
    notification(method::CANCELLED, &json!({ "requestId": id, "reason": "the caller went away" }))
}

/// Encodes a notification that the list of tools has changed.
pub fn tools_changed() -> Vec<u8> {
    encode(&json!({ "jsonrpc": "2.0", "method": method::TOOLS_CHANGED }))
}

/// Encodes a notification that the elicitation `id` of mode `url` is complete.
pub fn elicited(id: &str) -> Vec<u8> {
    let params = json!({ "elicitationId": id });
    encode(&json!({ "jsonrpc": "2.0", "method": method::ELICITED, "params": params }))
}

fn encode(message: &impl Serialize) -> Vec<u8> {
    // Our own messages always serialise: their keys are strings and their numbers finite.
    serde_json::to_vec(message).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(message: Vec<u8>) -> String {
        String::from_utf8(message).unwrap()
    }

    #[test]
    fn messages_are_written_in_one_form() {
        let report = progress("\"t\"", &1.into(), Some(&3.into()), Some("one\n\"two\""));
        let error = RpcError::new(-1, "no").with_data(json!([1]));
        for (message, expected) in [
            (
                request(7, "m", &json!({ "a": 1 })),
                r#"{"jsonrpc":"2.0","id":7,"method":"m","params":{"a":1}}"#,
            ),
            (notification("m", &json!({})), r#"{"jsonrpc":"2.0","method":"m","params":{}}"#),
            (result("\"a\"", b"{}"), r#"{"jsonrpc":"2.0","id":"a","result":{}}"#),
            (
                super::error(None, &error),
                r#"{"jsonrpc":"2.0","id":null,"error":{"code":-1,"message":"no","data":[1]}}"#,
            ),
            (
                super::error(Some("1"), &RpcError::new(-1, "no")),
                r#"{"jsonrpc":"2.0","id":1,"error":{"code":-1,"message":"no"}}"#,
            ),
            (
                report,
                r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"t","progress":1,"total":3,"message":"one\n\"two\""}}"#,
            ),
            (
                cancelled(7),
                r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":7,"reason":"the caller went away"}}"#,
            ),
            (tools_changed(), r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#),
            (
                elicited("a"),
                r#"{"jsonrpc":"2.0","method":"notifications/elicitation/complete","params":{"elicitationId":"a"}}"#,
            ),
        ] {
            assert_eq!(text(message), expected);
        }
    }

    #[test]
    fn errors_are_read_however_they_are_written() {
        let read = |text: &str| RpcError::read(&RawValue::from_string(text.to_owned()).unwrap());
        let error = read(r#"{"code":-32602,"message":"bad","data":{"a":1}}"#);
        assert_eq!(error, RpcError::new(-32602, "bad").with_data(json!({ "a": 1 })));
        assert_eq!(read("\"bad\""), RpcError::new(0, "bad"));
        let odd = r#"{"code":"x","message":5}"#;
        assert_eq!(read(odd), RpcError::new(0, odd));
    }
}
