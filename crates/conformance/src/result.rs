//! The result of a check, and the ways to end one early.

use std::sync::Arc;

use serde::{Serialize, Serializer};

use crate::http::Response;

/// The result of a check, or of one step of it.
pub(crate) type CheckResult<T = ()> = Result<T, CheckError>;

/// Why a check did not pass.
#[derive(Debug)]
pub(crate) enum CheckError {
    /// The host does not meet the requirement.
    Failed(Box<Failure>),
    /// The check does not apply or lacks input, with the reason.
    Skipped(String),
}

/// A requirement that the host does not meet.
#[derive(Debug, Serialize)]
pub struct Failure {
    pub expected: String,
    pub seen: String,
    /// The requests and responses that show it.
    #[serde(serialize_with = "exchanges")]
    pub(crate) exchanges: Vec<Response>,
}

impl Failure {
    pub(crate) fn message(&self) -> String {
        format!("expected {}; seen: {}", self.expected, self.seen)
    }
}

/// Skips the check because it does not apply or lacks input.
pub(crate) fn skip<T>(reason: impl Into<String>) -> CheckResult<T> {
    Err(CheckError::Skipped(reason.into()))
}

/// Fails the check; `exchanges` show why.
pub(crate) fn fail<T>(
    expected: impl Into<String>,
    seen: impl Into<String>,
    exchanges: &[&Response],
) -> CheckResult<T> {
    let exchanges = exchanges.iter().map(|&response| Arc::clone(response)).collect();
    let failure = Failure { expected: expected.into(), seen: seen.into(), exchanges };
    Err(CheckError::Failed(Box::new(failure)))
}

/// Fails the check unless `holds`.
pub(crate) fn require(
    holds: bool,
    expected: impl Into<String>,
    seen: impl Into<String>,
    exchanges: &[&Response],
) -> CheckResult {
    if holds { Ok(()) } else { fail(expected, seen, exchanges) }
}

/// Skips the check unless `applies`.
pub(crate) fn skip_unless(applies: bool, reason: impl Into<String>) -> CheckResult {
    if applies { Ok(()) } else { skip(reason) }
}

fn exchanges<S: Serializer>(exchanges: &[Response], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(exchanges.iter().map(|exchange| exchange.to_json()))
}
