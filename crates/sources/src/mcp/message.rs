//! Requests to an upstream, and what answers them.

use serde::Serialize;
use serde_json::{Map, Value, value::RawValue};
use toolcrib_mcp::{
    code,
    message::{self, RpcError},
    method,
};

use super::era::Meta;

/// The answer to a request.
#[derive(Debug)]
pub(crate) enum Reply {
    Result(Box<RawValue>),
    Error(RpcError),
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

/// Parameters of a list.
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
