//! Failures of steps and runs.

use serde::{Deserialize, Serialize};
use toolcrib_core::call::{CallError, ConnectionRequired, Outcome, UpstreamErrorKind};

use crate::workflow_definition::{template::UnresolvedReference, value::StepValue};

/// The result of a step's call.
pub(super) type StepOutcome = Result<StepValue, Failure>;

/// Why there is no result. The message is for the caller.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Failure {
    pub(super) code: String,
    pub(super) message: String,
    /// Whether another attempt could succeed.
    #[serde(default)]
    pub(super) again: bool,
    /// The account that the caller has to connect. Its link is never stored.
    #[serde(skip)]
    pub(super) connection: Option<Box<ConnectionRequired>>,
}

/// A stored [`StepOutcome`], until the run finishes.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum StoredStepOutcome {
    Ok(StepValue),
    Failed(Failure),
}

/// Longest message of a failed tool to pass on, in characters.
const MAX_WORDS: usize = 2_000;

impl Failure {
    pub(super) fn new(code: &str, message: impl Into<String>) -> Self {
        Self { code: code.to_owned(), message: message.into(), again: false, connection: None }
    }

    /// The process that ran it has stopped.
    pub(super) fn interrupted() -> Self {
        Self::new(
            "interrupted",
            "the process stopped during the call; whether it took effect is unknown",
        )
    }

    /// Whether the process stopped while it ran.
    pub(super) fn is_interrupted(&self) -> bool {
        self.code == "interrupted"
    }

    /// The same failure, for the step `id`.
    pub(super) fn of_step(self, id: &str) -> Self {
        Self { message: format!("step `{id}` failed: {}", self.message), ..self }
    }

    fn of_error(error: &CallError) -> Self {
        let again = match error {
            CallError::RateLimited { .. } => true,
            CallError::Upstream(error) => matches!(
                error.kind,
                UpstreamErrorKind::Unavailable
                    | UpstreamErrorKind::Changed
                    | UpstreamErrorKind::Died
                    | UpstreamErrorKind::Timeout
                    | UpstreamErrorKind::Protocol
                    | UpstreamErrorKind::Refused
            ),
            CallError::NoSuchTool
            | CallError::Forbidden { .. }
            | CallError::InvalidArguments(_)
            | CallError::ApprovalRequired { .. }
            | CallError::ApprovalRejected { .. }
            | CallError::ConnectionRequired(_)
            | CallError::NotAccountable(_)
            | CallError::NeedsInput(_)
            | CallError::Cancelled
            | CallError::Internal => false,
        };
        let message = match error {
            // The caller needs the id of the approval.
            CallError::ApprovalRequired { .. } | CallError::ApprovalRejected { .. } => {
                error.words()
            }
            CallError::InvalidArguments(violations) => match violations.first() {
                Some(first) => format!("{error}: {} {}", first.pointer, first.message),
                None => error.to_string(),
            },
            _ => error.to_string(),
        };
        let connection = match error {
            CallError::ConnectionRequired(required) => Some(required.clone()),
            _ => None,
        };
        Self { code: error.code().to_owned(), message, again, connection }
    }
}

impl From<UnresolvedReference> for Failure {
    fn from(UnresolvedReference(reference): UnresolvedReference) -> Self {
        Self::new("unresolved_reference", format!("{reference} has no value"))
    }
}

/// The result of a call, for the following steps.
pub(super) fn ended(result: Result<&Outcome, &CallError>) -> StepOutcome {
    match result {
        Ok(outcome) if outcome.is_error => {
            let words = StepValue::of(outcome).text;
            let words = words.chars().take(MAX_WORDS).collect::<String>();
            Err(Failure { again: true, ..Failure::new("tool_execution_failed", words) })
        }
        Ok(outcome) => Ok(StepValue::of(outcome)),
        Err(error) => Err(Failure::of_error(error)),
    }
}

impl From<StepOutcome> for StoredStepOutcome {
    fn from(ended: StepOutcome) -> Self {
        match ended {
            Ok(value) => Self::Ok(value),
            Err(failure) => Self::Failed(failure),
        }
    }
}

impl From<StoredStepOutcome> for StepOutcome {
    fn from(kept: StoredStepOutcome) -> Self {
        match kept {
            StoredStepOutcome::Ok(value) => Ok(value),
            StoredStepOutcome::Failed(failure) => Err(failure),
        }
    }
}
