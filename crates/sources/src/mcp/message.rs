//! Requests to an upstream, and their answers.

use std::borrow::Cow;

use serde::Serialize;
use serde_json::{Map, Value, value::RawValue};
use toolcrib_mcp::{
    code,
    message::{self, RpcError},
    method, scan,
};

use super::{
    era::Meta,
    failure::{Failure, MalformedAnswer},
};

/// The answer to a request.
#[derive(Debug)]
pub(crate) enum Reply {
    Result(RpcResult),
    Error(RpcError),
}

#[derive(Debug)]
pub(crate) struct RpcResult {
    pub(crate) json: Box<RawValue>,
    /// The problem of the answer, although its result could be read.
    pub(crate) problem: Option<String>,
}

/// The problem of an answer with invalid UTF-8.
const NOT_UTF8: &str = "its answer is not valid UTF-8; each invalid part is replaced by U+FFFD";

/// Decodes a message without its byte order mark, and describes the problem of its encoding.
pub(crate) fn decode(message: &[u8]) -> (Cow<'_, str>, Option<&'static str>) {
    let message = message.strip_prefix(b"\xef\xbb\xbf").unwrap_or(message);
    match String::from_utf8_lossy(message) {
        text @ Cow::Borrowed(_) => (text, None),
        text @ Cow::Owned(_) => (text, Some(NOT_UTF8)),
    }
}

/// Reads an invalid JSON-RPC answer, as far as possible. `problem` describes it.
pub(crate) fn read_malformed(answer: &str, problem: &str) -> Result<Reply, Failure> {
    let error = scan::member(answer, "error").filter(|error| *error != "null");
    let part = error.or_else(|| scan::member(answer, "result"));
    let json = part.and_then(|part| RawValue::from_string(part.to_owned()).ok());
    let problem = problem.to_owned();
    match json {
        Some(json) if error.is_some() => Ok(Reply::Error(RpcError::read(&json))),
        Some(json) => Ok(Reply::Result(RpcResult { json, problem: Some(problem) })),
        None => {
            let text = part.unwrap_or(answer).trim().to_owned();
            Err(Failure::Malformed(MalformedAnswer { text, is_error: error.is_some(), problem }))
        }
    }
}

// === impl RpcResult ===

impl RpcResult {
    pub(crate) fn get(&self) -> &str {
        self.json.get()
    }
}

/// Encodes the answer to an upstream's own request: `ping` is answered, everything else refused,
/// since no capability was declared that would allow it.
pub(crate) fn encode_answer(id: &RawValue, method: &str) -> Vec<u8> {
    if method == method::PING {
        return message::result(id.get(), b"{}");
    }
    let error = RpcError::new(code::METHOD_NOT_FOUND, "method not found");
    message::error(Some(id.get()), &error)
}

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
