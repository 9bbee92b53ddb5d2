//! The one table of JSON-RPC errors: codes, and what becomes of a call that the gate refused.
//!
//! Tool failures are not here: they are results with `isError`, so that a model can correct itself.

use std::{borrow::Cow, time::Duration};

use axum::http::StatusCode;
use serde_json::{Value, json};
use toolcrib_core::call::{Ask, CallError, InputRequired, UpstreamError};

use super::era::{self, Era};

/// Codes. Those below -32768 are ours: outside every range that JSON-RPC and MCP reserve.
pub(super) mod code {
    pub(in super::super) const PARSE: i64 = -32700;
    pub(in super::super) const INVALID_REQUEST: i64 = -32600;
    pub(in super::super) const METHOD_NOT_FOUND: i64 = -32601;
    pub(in super::super) const INVALID_PARAMS: i64 = -32602;
    pub(in super::super) const INTERNAL: i64 = -32603;
    pub(in super::super) const HEADER_MISMATCH: i64 = -32020;
    pub(in super::super) const MISSING_CAPABILITY: i64 = -32021;
    pub(in super::super) const UNSUPPORTED_VERSION: i64 = -32022;
    /// Of the handshake revisions alone: somebody has to go somewhere first.
    pub(in super::super) const URL_ELICITATION: i64 = -32042;
    /// No valid credentials.
    pub(in super::super) const UNAUTHENTICATED: i64 = -31401;
    /// The caller lacks a scope.
    pub(in super::super) const FORBIDDEN: i64 = -31403;
    /// The caller's bucket for the tool is empty.
    pub(in super::super) const RATE_LIMITED: i64 = -31429;
    /// The call could not be recorded or limited, so nothing ran.
    pub(in super::super) const NOT_ACCOUNTABLE: i64 = -31503;
}

/// A JSON-RPC error.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct RpcError {
    pub(super) code: i64,
    /// Never repeats what the caller sent.
    pub(super) message: Cow<'static, str>,
    /// Boxed because errors are rare and results are not.
    pub(super) data: Option<Box<Value>>,
    /// For the header of that name.
    pub(super) retry_after: Option<Duration>,
}

/// The code of a request that was refused with `status` before it reached the protocol.
pub(super) fn of_status(status: StatusCode) -> i64 {
    match status {
        StatusCode::UNAUTHORIZED => code::UNAUTHENTICATED,
        StatusCode::SERVICE_UNAVAILABLE => code::NOT_ACCOUNTABLE,
        StatusCode::INTERNAL_SERVER_ERROR => code::INTERNAL,
        _ => code::INVALID_REQUEST,
    }
}

/// How a refused call is told.
#[derive(Debug)]
pub(super) enum Refusal<'a> {
    /// No refusal: the client is asked for more, which it said that it can be.
    Input(&'a InputRequired),
    /// A JSON-RPC error: the model cannot do anything about it.
    Error(RpcError),
    /// A result with `isError`: this text is for the model.
    Tool(String),
}

// === impl RpcError ===

impl RpcError {
    pub(super) fn new(code: i64, message: impl Into<Cow<'static, str>>) -> Self {
        Self { code, message: message.into(), data: None, retry_after: None }
    }

    pub(super) fn parse(message: String) -> Self {
        Self::new(code::PARSE, message)
    }

    pub(super) fn invalid_request(message: &'static str) -> Self {
        Self::new(code::INVALID_REQUEST, message)
    }

    pub(super) fn invalid_params(message: &'static str) -> Self {
        Self::new(code::INVALID_PARAMS, message)
    }

    pub(super) fn method_not_found() -> Self {
        Self::new(code::METHOD_NOT_FOUND, "method not found; this server offers tools only")
    }

    /// Of something of which a caller may have so many at once.
    pub(super) fn too_many(message: &'static str) -> Self {
        Self::new(code::RATE_LIMITED, message)
    }

    /// For a caller that was somebody when it asked.
    pub(super) fn unauthenticated() -> Self {
        Self::new(code::UNAUTHENTICATED, "the credentials are not valid any more")
    }

    /// The same for a session that never was, has ended, or is another principal's (I-9).
    pub(super) fn no_session() -> Self {
        Self::invalid_request("there is no such session; send `initialize` again")
    }

    /// Which toolsets there are is the operator's configuration and no secret; what is in them is.
    pub(super) fn no_toolset() -> Self {
        Self::invalid_request("there is no such toolset")
    }

    pub(super) fn header_mismatch(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(code::HEADER_MISMATCH, message)
    }

    /// `requested` goes back because the specification asks for it; it is cut to a version's size.
    pub(super) fn unsupported_version(requested: &str) -> Self {
        let requested: String = requested.chars().take(32).collect();
        Self {
            data: Some(Box::new(json!({ "supported": era::SUPPORTED, "requested": requested }))),
            ..Self::new(code::UNSUPPORTED_VERSION, "unsupported protocol version")
        }
    }

    /// The same for a name that nobody offers and for a foreign tenant's tool (I-9).
    pub(super) fn unknown_tool() -> Self {
        Self::new(code::INVALID_PARAMS, "Unknown tool")
    }

    /// The status of an error that a method gave; a rejected message is always a 400.
    pub(super) fn status(&self, era: Era) -> StatusCode {
        match (self.code, era) {
            (code::METHOD_NOT_FOUND, Era::Modern) => StatusCode::NOT_FOUND,
            (code::HEADER_MISMATCH | code::MISSING_CAPABILITY | code::UNSUPPORTED_VERSION, _) => {
                StatusCode::BAD_REQUEST
            }
            _ => StatusCode::OK,
        }
    }
}

impl<'a> Refusal<'a> {
    /// What `error` is to an MCP client.
    pub(super) fn of(error: &'a CallError) -> Self {
        let message = error.to_string();
        match error {
            CallError::Upstream(UpstreamError { ask: Some(ask), .. }) => match &**ask {
                Ask::Input(input) => Self::Input(input),
                Ask::Capabilities(wanted) => Self::Error(RpcError {
                    data: Some(Box::new(json!({ "requiredCapabilities": wanted }))),
                    ..RpcError::new(code::MISSING_CAPABILITY, message)
                }),
                Ask::Rejected(words) => {
                    Self::Error(RpcError::new(code::INVALID_PARAMS, words.clone()))
                }
            },
            CallError::NoSuchTool => Self::Error(RpcError::unknown_tool()),
            CallError::Forbidden { tool, required } => Self::Error(RpcError {
                data: Some(Box::new(json!({
                    "scope": "tool", "toolName": tool.as_str(), "requiredScopes": required,
                }))),
                ..RpcError::new(code::FORBIDDEN, "forbidden: the caller may not use this tool")
            }),
            CallError::RateLimited { tool, retry_after, limit, daily: _ } => {
                let millis = toolcrib_core::limit::wait_millis(*retry_after);
                Self::Error(RpcError {
                    data: Some(Box::new(json!({
                        "scope": "tool", "toolName": tool.as_str(),
                        "retryAfterMs": millis, "limit": limit,
                    }))),
                    retry_after: Some(*retry_after),
                    ..RpcError::new(code::RATE_LIMITED, message)
                })
            }
            CallError::NotAccountable(_) => {
                Self::Error(RpcError::new(code::NOT_ACCOUNTABLE, message))
            }
            CallError::Cancelled | CallError::Internal => {
                Self::Error(RpcError::new(code::INTERNAL, message))
            }
            CallError::InvalidArguments(violations) => {
                let mut text = format!("{message}:");
                for violation in violations {
                    // An empty pointer is the arguments as a whole.
                    text.push_str(&format!(
                        "\n- at \"{}\": {}",
                        violation.pointer, violation.message
                    ));
                }
                Self::Tool(text)
            }
            CallError::ApprovalRequired { .. } => Self::Tool(error.words()),
            CallError::ApprovalRejected { .. } | CallError::Upstream(_) => Self::Tool(message),
        }
    }
}

#[cfg(test)]
mod tests {
    use toolcrib_core::{
        arguments::Violation,
        call::{UpstreamError, UpstreamErrorKind},
        id::ToolId,
    };

    use super::*;

    #[test]
    fn every_refusal_has_its_form() {
        let tool = ToolId::parse("mcp:a.b").unwrap();
        let violation = |pointer: &str| Violation {
            pointer: pointer.to_owned(),
            message: "is required".to_owned(),
            verbatim: String::new(),
            keyword: "required".to_owned(),
        };
        let upstream = UpstreamError::new(UpstreamErrorKind::Died, "http://secret.example/");
        let retry_after = Duration::from_millis(1500);
        for (error, expected) in [
            (CallError::NoSuchTool, Err(-32602)),
            (CallError::Forbidden { tool: tool.clone(), required: vec![] }, Err(-31403)),
            (
                CallError::RateLimited { tool: tool.clone(), retry_after, limit: 3, daily: false },
                Err(-31429),
            ),
            (CallError::NotAccountable("recorded"), Err(-31503)),
            (CallError::Cancelled, Err(-32603)),
            (CallError::Internal, Err(-32603)),
            (
                CallError::InvalidArguments(vec![violation("/a"), violation("/b/0")]),
                Ok(
                    "the arguments do not fit the tool's input schema:\n- at \"/a\": is required\n- at \"/b/0\": is required",
                ),
            ),
            (
                CallError::ApprovalRequired { tool, asked: None },
                Ok("approval required: this tool does not run without a grant"),
            ),
            (
                CallError::Upstream(upstream),
                Ok(
                    "the tool's source went away during the call; whether the call took effect is unknown",
                ),
            ),
        ] {
            match (Refusal::of(&error), expected) {
                (Refusal::Error(error), Err(code)) => assert_eq!(error.code, code),
                (Refusal::Tool(text), Ok(expected)) => assert_eq!(text, expected),
                (refusal, expected) => panic!("{refusal:?} is not {expected:?}"),
            }
        }
    }
}
