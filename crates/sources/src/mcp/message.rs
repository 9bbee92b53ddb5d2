//! JSON-RPC messages as they stand on the wire.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, value::RawValue};

use super::era::Meta;

/// An unknown method, and the answer to every request of an upstream but `ping`.
pub(crate) const METHOD_NOT_FOUND: i64 = -32601;

/// Parameters that cannot be used.
pub(crate) const INVALID_PARAMS: i64 = -32602;

/// Error codes that only a server of the 2026-07-28 era answers.
pub(crate) const HEADER_MISMATCH: i64 = -32020;
pub(crate) const MISSING_CAPABILITY: i64 = -32021;
pub(crate) const UNSUPPORTED_VERSION: i64 = -32022;

/// A message from an upstream, with its parts still raw.
#[derive(Debug, Deserialize)]
pub(crate) struct Incoming<'a> {
    #[serde(borrow, default)]
    pub(crate) id: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(crate) method: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    pub(crate) params: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(crate) result: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(crate) error: Option<&'a RawValue>,
}

/// What a request was answered with.
#[derive(Debug)]
pub(crate) enum Reply {
    Result(Box<RawValue>),
    Error(RpcError),
}

/// A JSON-RPC error, read leniently: an upstream in trouble is not always well formed.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct RpcError {
    pub(crate) code: i64,
    pub(crate) message: String,
    pub(crate) data: Option<Value>,
}

impl RpcError {
    pub(crate) fn read(raw: &RawValue) -> Self {
        let value: Value = serde_json::from_str(raw.get()).unwrap_or_default();
        Self {
            code: value.get("code").and_then(Value::as_i64).unwrap_or_default(),
            message: match value.get("message").unwrap_or(&value) {
                Value::String(text) => text.clone(),
                _ => "no message".to_owned(),
            },
            data: value.get("data").cloned(),
        }
    }

    /// Whether only a server of the 2026-07-28 era answers this.
    pub(crate) fn is_modern(&self) -> bool {
        matches!(self.code, HEADER_MISMATCH | MISSING_CAPABILITY | UNSUPPORTED_VERSION)
    }
}

/// `id` as one of ours. Some upstreams echo a numeric id as a string.
pub(crate) fn own_id(id: &RawValue) -> Option<u64> {
    let text = id.get();
    text.strip_prefix('"').and_then(|t| t.strip_suffix('"')).unwrap_or(text).parse().ok()
}

#[derive(Serialize)]
struct Outgoing<'a, P> {
    jsonrpc: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<u64>,
    method: &'a str,
    params: P,
}

/// A request, or with no `id` a notification.
pub(crate) fn encode(id: Option<u64>, method: &str, params: &impl Serialize) -> Vec<u8> {
    bytes(&Outgoing { jsonrpc: "2.0", id, method, params })
}

/// Asks an upstream to stop working on request `id`.
pub(crate) fn encode_cancelled(id: u64) -> Vec<u8> {
    let params = serde_json::json!({ "requestId": id, "reason": "the caller went away" });
    encode(None, "notifications/cancelled", &params)
}

/// The answer to an upstream's own request: `ping` is answered, everything else refused, since no
/// capability was declared that would allow it.
pub(crate) fn encode_answer(id: &RawValue, method: &str) -> Vec<u8> {
    let answer = if method == "ping" {
        serde_json::json!({ "jsonrpc": "2.0", "id": id, "result": {} })
    } else {
        let error = serde_json::json!({ "code": METHOD_NOT_FOUND, "message": "method not found" });
        serde_json::json!({ "jsonrpc": "2.0", "id": id, "error": error })
    };
    bytes(&answer)
}

/// Parameters of `tools/list`.
#[derive(Serialize)]
pub(crate) struct ListParams<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) cursor: Option<&'a str>,
    #[serde(rename = "_meta", skip_serializing_if = "Meta::is_empty")]
    pub(crate) meta: Meta<'a>,
}

/// Parameters of `tools/call`.
#[derive(Serialize)]
pub(crate) struct CallParams<'a> {
    pub(crate) name: &'a str,
    pub(crate) arguments: &'a Map<String, Value>,
    #[serde(rename = "inputResponses", skip_serializing_if = "Option::is_none")]
    pub(crate) responses: Option<&'a Map<String, Value>>,
    #[serde(rename = "requestState", skip_serializing_if = "Option::is_none")]
    pub(crate) state: Option<&'a str>,
    #[serde(rename = "_meta")]
    pub(crate) meta: Meta<'a>,
}

fn bytes(message: &impl Serialize) -> Vec<u8> {
    // Our own messages always serialise: their keys are strings and their numbers finite.
    serde_json::to_vec(message).unwrap_or_default()
}
