//! The JSON-RPC errors of this server, and the form of refused calls.
//!
//! Failures of a tool are results with `isError`, so that a model can correct itself.

use axum::http::StatusCode;
use serde_json::json;
use toolcrib_core::call::{CallError, InputRequired, Question};
use toolcrib_mcp::{code, message::RpcError, revision::Era};

use crate::call_error;

/// Longest part of a value that an error shows, in characters.
const MAX_SHOWN: usize = 100;

/// The code for a request refused with `status` before it reached the protocol.
pub(super) fn of_status(status: StatusCode) -> i64 {
    match status {
        StatusCode::UNAUTHORIZED => code::toolcrib::UNAUTHENTICATED,
        StatusCode::SERVICE_UNAVAILABLE => code::toolcrib::NOT_ACCOUNTABLE,
        StatusCode::INTERNAL_SERVER_ERROR => code::INTERNAL,
        _ => code::INVALID_REQUEST,
    }
}

/// The form in which a refused call is reported.
#[derive(Debug)]
pub(super) enum Refusal<'a> {
    /// A request for more input, which the client supports.
    Input(&'a InputRequired),
    /// A JSON-RPC error, for refusals that the model cannot resolve.
    Error(RpcError),
    /// A result with `isError` and a text for the model.
    Tool(String),
}

/// The error for an unknown method.
pub(super) fn method_not_found() -> RpcError {
    RpcError::new(code::METHOD_NOT_FOUND, "method not found; this server offers tools only")
}

/// The error for a caller at a limit on open resources.
pub(super) fn too_many(message: &'static str) -> RpcError {
    RpcError::new(code::toolcrib::RATE_LIMITED, message)
}

/// The error for credentials that expired or were revoked during the connection.
pub(super) fn unauthenticated() -> RpcError {
    RpcError::new(code::toolcrib::UNAUTHENTICATED, "the credentials have become invalid")
}

/// The error for a session that is unknown, closed, or belongs to another principal (I-9).
pub(super) fn no_session() -> RpcError {
    RpcError::invalid_request("unknown session; send `initialize` again")
}

/// The error while the store cannot be read.
pub(super) fn unavailable() -> RpcError {
    RpcError::new(
        code::toolcrib::NOT_ACCOUNTABLE,
        "the store is not available right now; try again",
    )
}

/// The error for an unknown toolset. The names of toolsets are no secret; their content is.
pub(super) fn no_toolset() -> RpcError {
    RpcError::invalid_request("unknown toolset")
}

/// The error for a tool that is unknown or belongs to another tenant (I-9).
pub(super) fn unknown_tool() -> RpcError {
    RpcError::new(code::INVALID_PARAMS, "Unknown tool")
}

/// Describes the difference between a header and the body of one request.
pub(super) fn differing(header: &str, body: &str) -> String {
    format!("is {}, but the body has {}", quoted(header), quoted(body))
}

/// Quotes a value of the caller, cut when long.
pub(super) fn quoted(value: &str) -> String {
    format!("{:?}", value.chars().take(MAX_SHOWN).collect::<String>())
}

/// The HTTP status of a method's error; a rejected message is always a 400.
pub(super) fn status(error: &RpcError, era: Era) -> StatusCode {
    match (error.code, era) {
        (code::METHOD_NOT_FOUND, Era::Modern) => StatusCode::NOT_FOUND,
        (code, _) if code::is_modern(code) => StatusCode::BAD_REQUEST,
        _ => StatusCode::OK,
    }
}

impl<'a> Refusal<'a> {
    /// The form in which `error` is reported to an MCP client.
    pub(super) fn of(error: &'a CallError) -> Self {
        let message = error.to_string();
        let with_details =
            |rpc| Self::Error(RpcError { data: call_error::details(error).map(Box::new), ..rpc });
        match error {
            CallError::NeedsInput(question) => match &**question {
                Question::Input(input) => Self::Input(input),
                Question::Capabilities(wanted) => Self::Error(
                    RpcError::new(code::MISSING_CAPABILITY, message)
                        .with_data(json!({ "requiredCapabilities": wanted })),
                ),
                Question::Rejected(words) => {
                    Self::Error(RpcError::new(code::INVALID_PARAMS, words.clone()))
                }
            },
            CallError::NoSuchTool => Self::Error(unknown_tool()),
            CallError::Forbidden { .. } => {
                let message = "forbidden: the caller may not use this tool";
                with_details(RpcError::new(code::toolcrib::FORBIDDEN, message))
            }
            CallError::RateLimited { .. } => {
                with_details(RpcError::new(code::toolcrib::RATE_LIMITED, message))
            }
            CallError::NotAccountable(_) => {
                Self::Error(RpcError::new(code::toolcrib::NOT_ACCOUNTABLE, message))
            }
            CallError::Cancelled | CallError::Internal => {
                Self::Error(RpcError::new(code::INTERNAL, message))
            }
            CallError::InvalidArguments(violations) => {
                let mut text = format!("{message}:");
                for violation in violations {
                    // An empty pointer means the arguments as a whole.
                    text.push_str(&format!(
                        "\n- at \"{}\": {}",
                        violation.pointer, violation.message
                    ));
                }
                Self::Tool(text)
            }
            CallError::ApprovalRequired { .. } | CallError::ConnectionRequired(_) => {
                Self::Tool(error.words())
            }
            CallError::ApprovalRejected { .. } | CallError::Upstream(_) => Self::Tool(message),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

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
                CallError::ApprovalRequired { tool, pending: None },
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
