//! The requests to a source, and its replies.

use super::{Invocation, Outcome, Question, UpstreamError, UpstreamErrorKind};
use crate::offer::Offer;

/// One request to a source. The permit passed with it names the offer and the caller.
#[derive(Clone)]
pub enum Operation {
    /// Calls a tool (MCP `tools/call`).
    CallTool(Invocation),
    /// Renders a prompt (MCP `prompts/get`).
    GetPrompt(Invocation),
    /// Reads a resource (MCP `resources/read`).
    ReadResource(Invocation),
}

/// The reply of a source that was reached.
#[derive(Debug, Clone)]
pub enum Reply {
    /// The operation is complete.
    Done(Outcome),
    /// The upstream requires input before it continues. The caller repeats the operation with its
    /// answer; this host keeps no state in between.
    NeedsInput(Question),
}

// === impl Operation ===

impl Operation {
    /// The operation that uses `offer`.
    pub fn on(offer: &Offer, call: Invocation) -> Self {
        match offer {
            Offer::Tool => Self::CallTool(call),
            Offer::Prompt => Self::GetPrompt(call),
            Offer::Resource(_) => Self::ReadResource(call),
        }
    }

    /// Its input, limits and identity.
    pub fn invocation(&self) -> &Invocation {
        match self {
            Self::CallTool(call) | Self::GetPrompt(call) | Self::ReadResource(call) => call,
        }
    }

    /// The call of a tool, for a source that offers only tools.
    ///
    /// # Errors
    /// [`UpstreamErrorKind::Unavailable`] for every other operation: the source does not offer it,
    /// so nothing was sent.
    pub fn into_tool_call(self) -> Result<Invocation, UpstreamError> {
        match self {
            Self::CallTool(call) => Ok(call),
            Self::GetPrompt(_) | Self::ReadResource(_) => {
                let detail = "the source offers only tools";
                Err(UpstreamError::new(UpstreamErrorKind::Unavailable, detail))
            }
        }
    }
}

// === impl Reply ===

impl From<Outcome> for Reply {
    fn from(outcome: Outcome) -> Self {
        Self::Done(outcome)
    }
}
