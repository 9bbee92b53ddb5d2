//! One call: its input to a source, its outcome, and every way it can fail.

pub mod input;
mod operation;

use std::{fmt, sync::Arc, time::Duration};

use async_trait::async_trait;
use serde_json::{Map, Value, value::RawValue};

pub use self::{
    input::{CallInput, CallerInput, InputRequired, Question, Round},
    operation::{Operation, Reply},
};
use crate::{
    arguments::Violation,
    clock::Timestamp,
    credential::{CredentialProblem, CredentialRefusal, RefusalCause, ResolvedCredential, Secret},
    egress::EgressTrail,
    id::{ApprovalId, CallId, RunId, SourceId, ToolId},
    scope::Scope,
};

/// The input of one call to a source. The permit passed with it names the tool and the caller.
#[derive(Clone)]
pub struct Invocation {
    /// Pairs the two events of the call.
    pub call_id: CallId,
    /// The run the events belong to.
    pub run_id: RunId,
    /// The validated arguments.
    pub arguments: Map<String, Value>,
    /// The source's deadline; the gateway enforces it by dropping the future.
    pub timeout: Duration,
    /// Largest result, in bytes of JSON, that the source may return.
    pub max_result_bytes: usize,
    /// Receives progress, in order, when the caller requested it.
    pub progress: Option<Arc<dyn ProgressSink>>,
    /// Members of the caller's `_meta` that are forwarded upstream (trace context).
    pub meta: Map<String, Value>,
    /// Receives the egress decisions of a source that sends requests.
    pub egress: EgressTrail,
    /// The caller's input capabilities and answers; `None` when the caller accepts no input
    /// requests.
    pub input: Option<CallerInput>,
    /// The credential that the gate resolved, if the source [needs](crate::credential::CredentialNeed)
    /// one.
    pub credential: Option<Arc<ResolvedCredential>>,
    /// Checks the call again before it is sent, if it may have waited at its source.
    pub recheck: Option<Arc<dyn Recheck>>,
}

/// Checks a call again that has waited since it was authorized: its caller may have lost the right
/// to make it.
#[async_trait]
pub trait Recheck: Send + Sync {
    /// # Errors
    /// The call must not be sent.
    async fn check(&self, call: &Invocation) -> Result<(), UpstreamError>;
}

impl Invocation {
    /// Whether the call may still be sent. A source asks this after the last wait before it sends
    /// the call.
    ///
    /// # Errors
    /// The call must not be sent.
    pub async fn check_again(&self) -> Result<(), UpstreamError> {
        match &self.recheck {
            Some(recheck) => recheck.check(self).await,
            None => Ok(()),
        }
    }
}

/// The output leaves out the arguments and the other inputs of the caller.
impl fmt::Debug for Invocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Invocation")
            .field("call_id", &self.call_id)
            .field("run_id", &self.run_id)
            .field("credential", &self.credential)
            .finish_non_exhaustive()
    }
}

/// Receives a call's progress, in the order in which the upstream sent it.
pub trait ProgressSink: Send + Sync {
    /// Must not block; may drop reports when the receiver is slow.
    fn report(&self, progress: Progress);
}

/// One progress report.
#[derive(Debug, Clone, PartialEq)]
pub struct Progress {
    /// The progress so far, as the JSON number that the upstream sent.
    pub progress: serde_json::Number,
    /// The total, when known.
    pub total: Option<serde_json::Number>,
    /// The upstream's status message.
    pub message: Option<String>,
}

/// A tool's result. The JSON is the upstream's own text, checked but not rewritten.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// JSON array of MCP content blocks.
    pub content: Box<RawValue>,
    /// Any JSON value, if the tool gives structured output.
    pub structured: Option<Box<RawValue>>,
    /// Whether the tool itself reports a failure.
    pub is_error: bool,
    /// When to retry, if the service refused the call because it is busy (`Retry-After`).
    pub retry_after: Option<Duration>,
}

impl Outcome {
    /// Creates an outcome of MCP content blocks, without structured content.
    pub fn blocks(blocks: Vec<Value>, is_error: bool) -> Self {
        let content = raw(&Value::Array(blocks));
        Self { content, structured: None, is_error, retry_after: None }
    }

    /// Creates an outcome of one text block.
    pub fn text(text: &str, is_error: bool) -> Self {
        Self::blocks(vec![text_block(text)], is_error)
    }

    /// The size of the JSON in bytes.
    pub fn len(&self) -> usize {
        self.content.get().len() + self.structured.as_ref().map_or(0, |s| s.get().len())
    }

    /// Checks that the JSON has at most `max` bytes, the `max_result` of the gate.
    ///
    /// # Errors
    /// Names both numbers, and the parts: many servers repeat structured content as text.
    pub fn check_size(&self, max: usize) -> Result<(), UpstreamError> {
        let size = self.len();
        if size <= max {
            return Ok(());
        }
        let parts = match &self.structured {
            Some(structured) => {
                let (content, structured) = (self.content.get().len(), structured.get().len());
                format!(" ({content} of content and {structured} of structured content)")
            }
            None => String::new(),
        };
        let detail = format!("it has {size} bytes{parts}, and `[gate] max_result` is {max}");
        Err(UpstreamError::new(UpstreamErrorKind::TooLarge, detail))
    }

    /// Whether there is no content at all.
    pub fn is_empty(&self) -> bool {
        self.content.get() == "[]" && self.structured.is_none()
    }
}

/// Creates an MCP content block of `text`.
pub fn text_block(text: &str) -> Value {
    serde_json::json!({ "type": "text", "text": text })
}

/// Converts `value` to raw JSON.
pub fn raw(value: &Value) -> Box<RawValue> {
    // A `Value` always serialises: its keys are strings and its numbers finite.
    serde_json::value::to_raw_value(value).unwrap_or_else(|_| RawValue::NULL.to_owned())
}

/// Why a source returned no [`Reply`]. `Display` is safe for the caller. `detail` is for the
/// operator's log, and may name hosts or quote the upstream. The detail of a result over the size
/// limit has only sizes and limits, and that of a scope that was not granted names this scope: both
/// are for the caller too.
#[derive(Debug, Clone)]
pub struct UpstreamError {
    /// The kind of failure.
    pub kind: UpstreamErrorKind,
    /// The cause, for the log only.
    pub detail: String,
    /// When to retry, if known.
    pub retry_after: Option<Duration>,
}

/// The ways an upstream fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UpstreamErrorKind {
    /// Not connected now; the call was not sent.
    Unavailable,
    /// Now offers the tool in another form than the caller was offered; the call was not sent.
    Changed,
    /// Disconnected during the call; whether the call had an effect is unknown.
    Died,
    /// Our own process stopped during the call; whether the call had an effect is unknown.
    Interrupted,
    /// Did not answer in time.
    Timeout,
    /// Sent a message that violates the protocol.
    Protocol,
    /// Returned a protocol-level error.
    Refused,
    /// Returned more than the size limit.
    TooLarge,
    /// The credential of the call was not usable, so the call was not sent.
    Credential(CredentialProblem),
    /// The egress guard refused the target, so the call was not sent.
    EgressRefused,
    /// The upstream redirected the call to a target that the egress guard refused.
    RedirectRefused,
    /// Requires input of a kind that the caller does not accept requests for.
    InputRequired,
    /// Requires a caller that accepts input requests.
    CapabilityRequired,
}

impl UpstreamErrorKind {
    /// The stable code for events and error bodies.
    pub fn code(self) -> &'static str {
        match self {
            Self::Unavailable | Self::Changed => "upstream_unavailable",
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
        }
    }

    /// Whether the call may have started to run upstream.
    pub fn started(self) -> bool {
        !matches!(
            self,
            Self::Unavailable | Self::Changed | Self::Credential(_) | Self::EgressRefused
        )
    }

    /// Whether a retry can help and cannot repeat an effect.
    pub fn retryable(self) -> bool {
        let is_replaced = self == Self::Credential(CredentialProblem::Replaced);
        is_replaced || matches!(self, Self::Unavailable | Self::Changed)
    }
}

impl UpstreamError {
    /// Creates an error of `kind` with `detail` for the log.
    pub fn new(kind: UpstreamErrorKind, detail: impl Into<String>) -> Self {
        Self { kind, detail: detail.into(), retry_after: None }
    }

    /// Sets when to retry.
    #[must_use]
    pub fn retry_after(self, wait: Duration) -> Self {
        Self { retry_after: Some(wait), ..self }
    }

    /// Creates the error of a call that is not sent because its credential is refused. `what` names
    /// the credential for the operator.
    pub fn without_credential(what: impl fmt::Display, refusal: &CredentialRefusal) -> Self {
        let (kind, detail) = match &refusal.cause {
            RefusalCause::Credential(problem) => {
                (UpstreamErrorKind::Credential(*problem), problem.to_string())
            }
            RefusalCause::Unavailable(why) => (UpstreamErrorKind::Unavailable, why.clone()),
        };
        Self::new(kind, format!("{what}: {detail}"))
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
        if self.kind == UpstreamErrorKind::TooLarge {
            return write!(f, "the tool's result is larger than the limit: {}", self.detail);
        }
        if self.kind == UpstreamErrorKind::Credential(CredentialProblem::NotGranted) {
            return f.write_str(&self.detail);
        }
        f.write_str(match self.kind {
            UpstreamErrorKind::Unavailable => "the tool's source is not available right now; try again later",
            UpstreamErrorKind::Changed => "the tool has changed at its source, so the call was not sent; list the tools again",
            UpstreamErrorKind::Died => {
                "the tool's source went away during the call; whether the call took effect is unknown"
            }
            UpstreamErrorKind::Interrupted => {
                "this host was interrupted during the call; whether the call took effect is unknown, and it was not made again"
            }
            UpstreamErrorKind::Timeout => "the tool did not answer in time and was cancelled",
            UpstreamErrorKind::Protocol => "the tool's source did not return a valid tool result",
            UpstreamErrorKind::Refused => "the tool's source refused the call",
            UpstreamErrorKind::TooLarge => "the tool's result is larger than the limit",
            UpstreamErrorKind::Credential(problem) => return problem.fmt(f),
            UpstreamErrorKind::EgressRefused => "the call was not sent: this host does not allow connections to its target",
            UpstreamErrorKind::RedirectRefused => "the tool's source redirected the call to a target that this host does not allow",
            UpstreamErrorKind::InputRequired => input::REQUIRES_INPUT,
            UpstreamErrorKind::CapabilityRequired => input::REQUIRES_CAPABILITIES,
        })
    }
}

impl std::error::Error for UpstreamError {}

/// Why a call gave no outcome. Each dialect maps these errors to its own statuses in one table.
#[derive(Debug, Clone, thiserror::Error)]
pub enum CallError {
    /// Unknown, or in a tenant the caller does not belong to; the two look the same to the caller.
    #[error("no such tool")]
    NoSuchTool,
    /// The caller lacks a scope, or the decision could not be made.
    #[error("the caller may not use this tool")]
    Forbidden {
        /// The tool; the caller's tenant may know that it exists.
        tool: ToolId,
        /// All scopes that the tool requires.
        required: Vec<Scope>,
    },
    /// The caller's bucket for this tool is empty, or its daily quota is used up.
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
        /// Whether the daily quota is used up; otherwise the bucket is empty.
        daily: bool,
    },
    /// The arguments violate the tool's input schema; lists all violations.
    #[error("the arguments do not fit the tool's input schema")]
    InvalidArguments(Vec<Violation>),
    /// The tool requires an approval that is missing.
    #[error("approval required: this tool does not run without a grant")]
    ApprovalRequired {
        /// The tool.
        tool: ToolId,
        /// The pending approval; `None` if approval cannot be requested now.
        pending: Option<Box<PendingApproval>>,
    },
    /// The approval of the call was rejected.
    #[error(
        "the approval of this call was rejected; the same call cannot request approval again before {}",
        .until.format("%Y-%m-%dT%H:%M:%SZ")
    )]
    ApprovalRejected {
        /// The tool.
        tool: ToolId,
        /// The rejected approval.
        approval: ApprovalId,
        /// When the same call can request approval again.
        until: Timestamp,
    },
    /// The caller has to connect an account to the source first. The call did not run.
    #[error("{0}")]
    ConnectionRequired(Box<ConnectionRequired>),
    /// The record or the limiter failed; the call did not run.
    #[error("the call was refused because it could not be {0}; the tool did not run")]
    NotAccountable(&'static str),
    /// The source failed.
    #[error("{0}")]
    Upstream(UpstreamError),
    /// The source requires input before it continues; this round of the call is complete.
    #[error("{0}")]
    NeedsInput(Box<Question>),
    /// The caller disconnected or cancelled.
    #[error("the call was cancelled")]
    Cancelled,
    /// A fault of this host; the log has the cause.
    #[error("internal error")]
    Internal,
}

/// A pending approval. The same call may be made again once it is decided.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PendingApproval {
    /// The approval.
    pub approval: ApprovalId,
    /// When to call again.
    pub retry_after: Duration,
    /// Until when it can be approved.
    pub expires_at: Timestamp,
    /// The address of the page that shows it, if any.
    pub link: Option<String>,
}

/// A call whose caller has no usable account at the source. `Display` has no link.
#[derive(Debug, Clone, thiserror::Error)]
#[error(
    "{} `{source_id}`",
    match (.of_tenant, .lack) {
        (false, Lack::Account) => {
            "connect your account first: this tool acts with your own account at"
        }
        (false, Lack::Consent) => "connect your account again: the service no longer accepts it at",
        (false, Lack::Scopes) => {
            "connect your account again: this tool needs more access than you gave at"
        }
        (true, Lack::Account) => {
            "an administrator has to connect the account of this tool's source,"
        }
        (true, Lack::Consent) => {
            "an administrator has to connect the account again of this tool's source,"
        }
        (true, Lack::Scopes) => {
            "an administrator has to connect the account again: this tool needs more access at"
        }
    }
)]
pub struct ConnectionRequired {
    /// The tool.
    pub tool: ToolId,
    /// The source.
    pub source_id: SourceId,
    /// Whether the account is that of the tenant, which only an administrator connects.
    pub of_tenant: bool,
    /// The missing part.
    pub lack: Lack,
    /// The address at which the caller connects it. It is in no event and no log.
    pub link: Option<Secret>,
    /// Until when the link works.
    pub expires_at: Timestamp,
}

/// The part of a call that its caller gets by connecting an account.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lack {
    /// No account is connected.
    Account,
    /// The service no longer accepts the account.
    Consent,
    /// The account works, but has not the scopes of this call.
    Scopes,
}

impl ConnectionRequired {
    /// The message for the caller, with the link.
    pub fn words(&self) -> String {
        match &self.link {
            Some(link) => format!(
                "{self}. Open {} in a browser before {}, then make the same call again",
                link.expose(),
                self.expires_at.format("%H:%M UTC")
            ),
            None => self.to_string(),
        }
    }
}

impl CallError {
    /// The stable code for events and error bodies.
    pub fn code(&self) -> &'static str {
        match self {
            Self::NoSuchTool => "not_found",
            Self::Forbidden { .. } => "forbidden",
            Self::RateLimited { .. } => "rate_limited",
            Self::InvalidArguments(_) => "validation_error",
            Self::ApprovalRequired { .. } => "approval_required",
            Self::ApprovalRejected { .. } => "approval_rejected",
            Self::ConnectionRequired(_) => "connection_required",
            Self::NotAccountable(_) => "unavailable",
            Self::Upstream(error) => error.kind.code(),
            Self::NeedsInput(question) => question.code(),
            Self::Cancelled => "cancelled",
            Self::Internal => "internal_error",
        }
    }

    /// The message for the caller: the error and the next step. It can have a link that only the
    /// caller may see: not for events and logs.
    pub fn words(&self) -> String {
        let pending = match self {
            Self::ApprovalRequired { pending: Some(pending), .. } => pending,
            Self::ConnectionRequired(required) => return required.words(),
            _ => return self.to_string(),
        };
        let link = pending.link.as_ref().map(|link| format!(" at {link}")).unwrap_or_default();
        format!(
            "{self}. Approval {} is pending{link}; make the same call again once it \
             is granted",
            pending.approval
        )
    }

    /// Whether a retry can help and cannot repeat an effect.
    pub fn retryable(&self) -> bool {
        match self {
            Self::RateLimited { .. } | Self::NotAccountable(_) => true,
            // The tool did not run, and the same call may run after it is approved.
            Self::ApprovalRequired { pending, .. } => pending.is_some(),
            Self::Upstream(error) => error.kind.retryable(),
            Self::NoSuchTool
            | Self::Forbidden { .. }
            | Self::InvalidArguments(_)
            | Self::ApprovalRejected { .. }
            | Self::ConnectionRequired(_)
            | Self::NeedsInput(_)
            | Self::Cancelled
            | Self::Internal => false,
        }
    }
}
