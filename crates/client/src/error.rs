//! What can go wrong.

use serde_json::Value;

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The address of the host makes no sense.
    #[error("the address must be http or https, without a password or a query")]
    Address,
    /// The key cannot be sent.
    #[error("the key has characters that no key has")]
    Key,
    /// The host does not answer.
    #[error("the host does not answer")]
    Unreachable(#[source] reqwest::Error),
    /// The answer is too long.
    #[error("the answer is larger than 64 MiB")]
    TooLarge,
    /// The host says no.
    #[error("the host refused with status {}", .0.status)]
    Refused(Box<Refusal>),
    /// The answer is not JSON.
    #[error("the answer is not JSON")]
    NotJson,
    /// The answer holds no tools.
    #[error("the answer is neither an array of tools nor an object with one")]
    NotAList,
    /// A tool is not described as RFC 0078 says.
    #[error("the tool `{tool_id}` is not a descriptor: {reason}")]
    NotADescriptor {
        /// The id of the tool, if it has one.
        tool_id: String,
        /// What is wrong.
        reason: String,
    },
}

/// What a host says when it refuses.
#[derive(Debug, Clone)]
pub struct Refusal {
    /// The HTTP status.
    pub status: u16,
    /// The stable code, `error` in the envelope; empty when there is none.
    pub code: String,
    /// For people; empty when there is none.
    pub message: String,
    /// More about it, or `null`.
    pub details: Value,
}

impl Refusal {
    pub(crate) fn new(status: u16, body: &Value) -> Self {
        let text = |name: &str| body.get(name).and_then(Value::as_str).unwrap_or_default();
        Self {
            status,
            code: text("error").to_owned(),
            message: text("message").to_owned(),
            details: body.get("details").cloned().unwrap_or(Value::Null),
        }
    }
}
