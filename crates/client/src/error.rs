//! The errors of the client.

use serde_json::Value;

/// Why a request failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The address of the host is invalid.
    #[error("the address must be http or https, without a password or a query")]
    Address,
    /// The key cannot be sent in a header.
    #[error("the API key contains invalid characters")]
    Key,
    /// The host cannot be reached.
    #[error("the host is unreachable")]
    Unreachable(#[source] reqwest::Error),
    /// The response is too large.
    #[error("the response is larger than 64 MiB")]
    TooLarge,
    /// The host refused the request.
    #[error("the host refused with status {}", .0.status)]
    Refused(Box<Refusal>),
    /// The response is not JSON.
    #[error("the response is not JSON")]
    NotJson,
    /// The response contains no list of tools.
    #[error("the response is neither an array of tools nor an object with one")]
    NotAList,
    /// A tool violates RFC 0078.
    #[error("the tool `{tool_id}` is not a descriptor: {reason}")]
    NotADescriptor {
        /// The id of the tool, if it has one.
        tool_id: String,
        /// The violation.
        reason: String,
    },
}

/// The error envelope of a host that refused a request.
#[derive(Debug, Clone)]
pub struct Refusal {
    /// The HTTP status.
    pub status: u16,
    /// The stable code, `error` in the envelope; empty when absent.
    pub code: String,
    /// The message for people; empty when absent.
    pub message: String,
    /// The details, or `null`.
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
