//! Exit states of commands, and errors with hints.

use std::{error::Error, process::ExitCode};

use serde_json::{Value, json};

/// The exit state of a command that ran without an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    /// Success.
    Done,
    /// The printed result is a failure: exit code 1.
    Failed,
    /// The printed result has this exit code.
    Code(u8),
}

/// An error with a hint for the user.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
struct AdvisedError {
    message: String,
    hint: String,
    source: Option<Box<dyn Error + Send + Sync>>,
}

/// A usage error: exit code 2. The command changed nothing.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct UsageError(String);

/// Creates an error with a hint.
pub(crate) fn advised(message: impl Into<String>, hint: impl Into<String>) -> anyhow::Error {
    AdvisedError { message: message.into(), hint: hint.into(), source: None }.into()
}

/// Creates an error with a hint and a cause.
pub(crate) fn advised_by(
    cause: impl Into<anyhow::Error>,
    message: impl Into<String>,
    hint: impl Into<String>,
) -> anyhow::Error {
    let source = Some(cause.into().into());
    AdvisedError { message: message.into(), hint: hint.into(), source }.into()
}

/// Creates a usage error.
pub(crate) fn usage(message: impl Into<String>) -> anyhow::Error {
    UsageError(message.into()).into()
}

/// Adds a hint to any error.
pub(crate) trait Advice<T> {
    /// Replaces the error with `message` and `hint`; the original error becomes the cause.
    fn advise(self, message: impl Into<String>, hint: impl Into<String>) -> anyhow::Result<T>;
}

impl<T, E: Into<anyhow::Error>> Advice<T> for Result<T, E> {
    fn advise(self, message: impl Into<String>, hint: impl Into<String>) -> anyhow::Result<T> {
        self.map_err(|error| advised_by(error, message, hint))
    }
}

/// Returns the exit code of `error`: 2 for a usage error, else 1.
pub(crate) fn exit_code(error: &anyhow::Error) -> ExitCode {
    match error.chain().any(|cause| cause.is::<UsageError>()) {
        true => ExitCode::from(2),
        false => ExitCode::FAILURE,
    }
}

/// Returns the JSON form of `error`: `message`, `causes` and `hint`.
pub(crate) fn to_json(error: &anyhow::Error) -> Value {
    let causes: Vec<String> = error.chain().skip(1).map(ToString::to_string).collect();
    let hints: Vec<&str> = hints(error).collect();
    let hint = (!hints.is_empty()).then(|| hints.join("; "));
    json!({ "message": error.to_string(), "causes": causes, "hint": hint })
}

/// Returns the hints of `error`, outermost first.
pub(crate) fn hints(error: &anyhow::Error) -> impl Iterator<Item = &str> {
    error
        .chain()
        .filter_map(|cause| cause.downcast_ref::<AdvisedError>())
        .map(|cause| cause.hint.as_str())
}
