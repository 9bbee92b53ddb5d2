//! The answer of a handler.

use std::fmt;

use serde_json::Value;
use toolcrib_core::call::{self, Outcome, text_block};

/// The answer of a tool.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ToolAnswer {
    /// MCP content blocks, passed on unchanged.
    pub content: Vec<Value>,
    /// The structured content, if any.
    pub structured: Option<Value>,
    /// Whether the tool reports a failure.
    pub is_error: bool,
    /// The id of the call in the handler's records. A gateway replaces it with the id of the run.
    pub trace_id: Option<String>,
}

/// Why a handler has no answer. The text is shown to the caller.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct HandlerError(String);

impl ToolAnswer {
    /// Creates an answer of one text block.
    pub fn text(text: impl Into<String>) -> Self {
        Self { content: vec![text_block(&text.into())], ..Self::default() }
    }

    /// Creates an answer of one text block that describes the failure.
    pub fn error(text: impl Into<String>) -> Self {
        Self { is_error: true, ..Self::text(text) }
    }

    /// Sets the handler's id of the answer.
    #[must_use]
    pub fn traced(mut self, id: impl Into<String>) -> Self {
        self.trace_id = Some(id.into());
        self
    }
}

/// Content blocks, whether they describe a failure, and the trace id.
impl From<(Vec<Value>, bool, Option<String>)> for ToolAnswer {
    fn from((content, is_error, trace_id): (Vec<Value>, bool, Option<String>)) -> Self {
        Self { content, structured: None, is_error, trace_id }
    }
}

impl From<String> for ToolAnswer {
    fn from(text: String) -> Self {
        Self::text(text)
    }
}

impl From<&str> for ToolAnswer {
    fn from(text: &str) -> Self {
        Self::text(text)
    }
}

impl From<ToolAnswer> for Outcome {
    fn from(answer: ToolAnswer) -> Self {
        Self {
            content: call::raw(&Value::Array(answer.content)),
            structured: answer.structured.as_ref().map(call::raw),
            is_error: answer.is_error,
            retry_after: None,
        }
    }
}

impl HandlerError {
    /// Creates an error with `text`.
    pub fn new(text: impl fmt::Display) -> Self {
        Self(text.to_string())
    }
}
