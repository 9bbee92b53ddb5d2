//! One call: what goes to a source, what comes back, and every way it can fail.

pub mod input;

use std::{fmt, sync::Arc, time::Duration};

use serde_json::{Map, Value, value::RawValue};

pub use self::input::{Ask, CallerInput, InputRequired};
use crate::{
    arguments::Violation,
    clock::Timestamp,
    credential::CredentialProblem,
    egress::EgressTrail,
    id::{ApprovalId, CallId, RunId, ToolId},
    scope::Scope,
};

/// What a source needs to run one call. The permit beside it says which tool and who.
#[derive(Clone)]
pub struct Invocation {
    /// Pairs the two events of the call.
    pub call_id: CallId,
    /// The run the events belong to.
    pub run_id: RunId,
    /// The validated arguments.
    pub arguments: Map<String, Value>,
    /// How long the source has; the gateway enforces it by dropping the future.
    pub timeout: Duration,
    /// Largest result, in bytes of JSON, that the source may return.
    pub max_result_bytes: usize,
    /// Where progress goes, in order, when somebody asked for it.
    pub progress: Option<Arc<dyn ProgressSink>>,
    /// Members of the caller's `_meta` that may travel upstream (trace context).
    pub meta: Map<String, Value>,
    /// Where a source that sends requests notes what the guard decided.
    pub egress: EgressTrail,
    /// What a caller brings that can be asked for more; `None` is one that cannot.
    pub input: Option<CallerInput>,
}

/// Receives a call's progress, in the order in which the upstream sent it.
pub trait ProgressSink: Send + Sync {
    /// Must not block; may drop reports when the receiver is slow.
    fn report(&self, progress: Progress);
}

/// One progress report.
#[derive(Debug, Clone, PartialEq)]
pub struct Progress {
    /// How far, as the JSON number the upstream sent.
    pub progress: serde_json::Number,
    /// Of how much, when known.
    pub total: Option<serde_json::Number>,
    /// What is going on, when said.
    pub message: Option<String>,
}

/// What a tool answered. The JSON is the upstream's own text, checked but not rewritten.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// JSON array of MCP content blocks.
    pub content: Box<RawValue>,
    /// Any JSON value, when the tool gives structured output.
    pub structured: Option<Box<RawValue>>,
    /// Whether the tool itself says it failed.
    pub is_error: bool,
}

impl Outcome {
    /// An outcome of one text block.
    pub fn text(text: &str, is_error: bool) -> Self {
        let block = serde_json::json!([{ "type": "text", "text": text }]);
        Self { content: raw(&block), structured: None, is_error }
    }

    /// Bytes of JSON held.
    pub fn len(&self) -> usize {
        self.content.get().len() + self.structured.as_ref().map_or(0, |s| s.get().len())
    }

    /// Whether there is no content at all.
    pub fn is_empty(&self) -> bool {
        self.content.get() == "[]" && self.structured.is_none()
    }
}

/// `value` as raw JSON.
pub fn raw(value: &Value) -> Box<RawValue> {
    // A `Value` always serialises: its keys are strings and its numbers finite.
    serde_json::value::to_raw_value(value).unwrap_or_else(|_| RawValue::NULL.to_owned())
}

/// Why a source could not give an [`Outcome`]. `Display` is fit for the caller; `detail` is for
/// the operator's log and may name hosts or quote the upstream.
#[derive(Debug, Clone)]
pub struct UpstreamError {
    /// What went wrong.
    pub kind: UpstreamErrorKind,
    /// For the log only.
    pub detail: String,
    /// What the upstream asked instead, for a caller that can be asked.
    pub ask: Option<Box<Ask>>,
    /// When to try again, where that is known.
    pub retry_after: Option<Duration>,
}

/// The ways an upstream fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UpstreamErrorKind {
    /// Not connected now; the call was not sent.
    Unavailable,
    /// Went away while the call was running; whether it had an effect is unknown.
    Died,
    /// The process of ours that ran the call ended before it did; whether it had an effect is unknown.
    Interrupted,
    /// Did not answer in time.
    Timeout,
    /// Answered something that is not the protocol.
    Protocol,
    /// Answered with a protocol-level error.
    Refused,
    /// Answered more than the cap.
    TooLarge,
    /// The credential that the call needs was not sent, and so nothing was.
    Credential(CredentialProblem),
    /// The guard refused where the call was to go; nothing was sent.
    EgressRefused,
    /// The upstream sent the call on to where the guard does not let it go.
    RedirectRefused,
    /// Asks for something before it goes on; this round of the call is over.
    InputRequired,
    /// Wants a caller that can be asked.
    CapabilityRequired,
    /// Does not take what the caller answered to what was asked in an earlier round.
    InputRejected,
}

impl UpstreamErrorKind {
    /// Stable code for events and error bodies.
    pub fn code(self) -> &'static str {
        match self {
            Self::Unavailable => "upstream_unavailable",
            Self::Died => "upstream_died",
            Self::Interrupted => "interrupted",
            Self::Timeout => "upstream_timeout",
            Self::Protocol => "upstream_protocol_error",
            Self::Refused => "upstream_refused",
            Self::TooLarge => "result_too_large",
            Self::Credential(problem) => problem.code(),
            Self::EgressRefused | Self::RedirectRefused => "ssrf_blocked",
            Self::InputRequired => "input_required",
            Self::CapabilityRequired => "capability_required",
            Self::InputRejected => "input_rejected",
        }
    }

    /// Whether the call may have started to run upstream.
    pub fn started(self) -> bool {
        !matches!(self, Self::Unavailable | Self::Credential(_) | Self::EgressRefused)
    }

    /// Whether trying again later can help and cannot do harm twice.
    pub fn retryable(self) -> bool {
        matches!(self, Self::Unavailable)
    }
}

impl UpstreamError {
    /// An error of `kind` with `detail` for the log.
    pub fn new(kind: UpstreamErrorKind, detail: impl Into<String>) -> Self {
        Self { kind, detail: detail.into(), ask: None, retry_after: None }
    }

    /// The same, with when to try again.
    #[must_use]
    pub fn retry_after(self, wait: Duration) -> Self {
        Self { retry_after: Some(wait), ..self }
    }

    /// An upstream that asked something that goes to the caller.
    pub fn asking(ask: Ask) -> Self {
        let (kind, detail) = match &ask {
            Ask::Input(_) => (UpstreamErrorKind::InputRequired, "asks for input"),
            Ask::Capabilities(_) => (UpstreamErrorKind::CapabilityRequired, "wants capabilities"),
            Ask::Rejected(_) => (UpstreamErrorKind::InputRejected, "does not take the input"),
        };
        Self { ask: Some(Box::new(ask)), ..Self::new(kind, detail) }
    }
}

impl fmt::Display for UpstreamError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let (UpstreamErrorKind::Unavailable, Some(wait)) = (self.kind, self.retry_after) {
            let seconds = wait.as_secs_f64().ceil();
            return write!(
                f,
                "the tool's source is not available right now; try again in {seconds} s"
            );
        }
        f.write_str(match self.kind {
            UpstreamErrorKind::Unavailable => "the tool's source is not available right now; try again later",
            UpstreamErrorKind::Died => {
                "the tool's source went away during the call; whether the call took effect is unknown"
            }
            UpstreamErrorKind::Interrupted => {
                "this host was interrupted during the call; whether the call took effect is unknown, and it was not made again"
            }
            UpstreamErrorKind::Timeout => "the tool did not answer in time and was cancelled",
            UpstreamErrorKind::Protocol => "the tool's source answered something that is not a tool result",
            UpstreamErrorKind::Refused => "the tool's source refused the call",
            UpstreamErrorKind::TooLarge => "the tool's result is larger than the limit",
            UpstreamErrorKind::Credential(problem) => return problem.fmt(f),
            UpstreamErrorKind::EgressRefused => "the call was not sent: this host does not connect to where it leads",
            UpstreamErrorKind::RedirectRefused => "the tool's source sent the call on to where this host does not connect",
            UpstreamErrorKind::InputRequired => {
                "the tool asks for more input before it goes on; call it with an MCP client of revision 2026-07-28 that declares that it can be asked for it"
            }
            UpstreamErrorKind::CapabilityRequired => {
                "the tool works only for callers that it can ask for input; call it with an MCP client of revision 2026-07-28 that declares the capability"
            }
            UpstreamErrorKind::InputRejected => {
                "the tool's source did not take the answers or the state of an earlier round; call the tool again without them"
            }
        })
    }
}

impl std::error::Error for UpstreamError {}

/// Why a call gave no outcome. Each dialect maps these to its own statuses, in one table.
#[derive(Debug, Clone, thiserror::Error)]
pub enum CallError {
    /// Unknown, or in a tenant the caller does not belong to: the two are not distinguished.
    #[error("no such tool")]
    NoSuchTool,
    /// The caller lacks a scope, or the decision could not be made.
    #[error("the caller may not use this tool")]
    Forbidden {
        /// The tool, which the caller's tenant may know of.
        tool: ToolId,
        /// Everything the tool requires.
        required: Vec<Scope>,
    },
    /// The caller's bucket for this tool is empty, or its quota of this day is used up.
    #[error(
        "{}; try again in {} s",
        if *.daily { "the quota of this day is used up" } else { "too many calls of this tool" },
        .retry_after.as_secs_f64().ceil()
    )]
    RateLimited {
        /// The tool.
        tool: ToolId,
        /// When a call will be possible again.
        retry_after: Duration,
        /// Calls per period.
        limit: u32,
        /// Whether it is the quota of a day that is used up, and not a bucket that is empty.
        daily: bool,
    },
    /// The arguments break the tool's input schema; all violations.
    #[error("the arguments do not fit the tool's input schema")]
    InvalidArguments(Vec<Violation>),
    /// The tool runs only with a human's consent, and there is none.
    #[error("approval required: this tool does not run without a grant")]
    ApprovalRequired {
        /// The tool.
        tool: ToolId,
        /// Who has been asked; none when nobody can be asked now.
        asked: Option<Box<Asked>>,
    },
    /// Somebody was asked, and did not consent.
    #[error("the approval of this call was refused; the same call is not asked for again for now")]
    ApprovalRejected {
        /// The tool.
        tool: ToolId,
        /// The approval.
        approval: ApprovalId,
    },
    /// The record or the limiter is out of order; nothing ran.
    #[error("the call was refused because it could not be {0}; nothing was run")]
    NotAccountable(&'static str),
    /// The source failed.
    #[error("{0}")]
    Upstream(UpstreamError),
    /// The caller went away.
    #[error("the call was cancelled")]
    Cancelled,
    /// A fault of ours; the log has the cause.
    #[error("internal error")]
    Internal,
}

/// A human has been asked, and the same call may be made again once there is an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Asked {
    /// The approval.
    pub approval: ApprovalId,
    /// When it is worth calling again.
    pub retry_after: Duration,
    /// Until when somebody can answer.
    pub expires_at: Timestamp,
    /// Where people look at it, when there is such a place.
    pub link: Option<String>,
}

impl CallError {
    /// Stable code for events and error bodies.
    pub fn code(&self) -> &'static str {
        match self {
            Self::NoSuchTool => "not_found",
            Self::Forbidden { .. } => "forbidden",
            Self::RateLimited { .. } => "rate_limited",
            Self::InvalidArguments(_) => "validation_error",
            Self::ApprovalRequired { .. } => "approval_required",
            Self::ApprovalRejected { .. } => "approval_rejected",
            Self::NotAccountable(_) => "unavailable",
            Self::Upstream(error) => error.kind.code(),
            Self::Cancelled => "cancelled",
            Self::Internal => "internal_error",
        }
    }

    /// What the caller is told: the error, and what to do about it where that is more than its words.
    pub fn words(&self) -> String {
        let Self::ApprovalRequired { asked: Some(asked), .. } = self else {
            return self.to_string();
        };
        let link = asked.link.as_ref().map(|link| format!(" at {link}")).unwrap_or_default();
        format!(
            "{self}. A person has been asked (approval {}){link}; make the same call again once it \
             is granted",
            asked.approval
        )
    }

    /// Whether trying again can help and cannot do harm twice.
    pub fn retryable(&self) -> bool {
        match self {
            Self::RateLimited { .. } | Self::NotAccountable(_) => true,
            // Nothing ran, and the same call may run once somebody has consented.
            Self::ApprovalRequired { asked, .. } => asked.is_some(),
            Self::Upstream(error) => error.kind.retryable(),
            Self::NoSuchTool
            | Self::Forbidden { .. }
            | Self::InvalidArguments(_)
            | Self::ApprovalRejected { .. }
            | Self::Cancelled
            | Self::Internal => false,
        }
    }
}
