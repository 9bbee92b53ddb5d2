//! How a command ends, and errors that say what to do.

use std::{error::Error, fmt, process::ExitCode};

use serde_json::{Value, json};

/// How a command ended when it could do its work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    /// As wished.
    Done,
    /// The answer is bad news, and it has been printed.
    Failed,
    /// The answer has been printed, and the code says which one it is.
    Code(u8),
}

/// An error together with what to do about it.
#[derive(Debug)]
pub(crate) struct Advised {
    message: String,
    hint: String,
    cause: Option<Box<dyn Error + Send + Sync>>,
}

/// The command was asked for something that makes no sense; nothing was done.
#[derive(Debug)]
pub(crate) struct Usage(pub(crate) String);

/// An error with a hint.
pub(crate) fn advised(message: impl Into<String>, hint: impl Into<String>) -> anyhow::Error {
    Advised { message: message.into(), hint: hint.into(), cause: None }.into()
}

/// An error with a hint, and what caused it.
pub(crate) fn advised_by(
    cause: impl Into<anyhow::Error>,
    message: impl Into<String>,
    hint: impl Into<String>,
) -> anyhow::Error {
    let cause: Box<dyn Error + Send + Sync> = cause.into().into();
    Advised { message: message.into(), hint: hint.into(), cause: Some(cause) }.into()
}

/// A wrong request.
pub(crate) fn usage(message: impl Into<String>) -> anyhow::Error {
    Usage(message.into()).into()
}

/// Adds a hint to any error.
pub(crate) trait Advise<T> {
    /// Says what to do when this fails.
    fn advise(self, message: impl Into<String>, hint: impl Into<String>) -> anyhow::Result<T>;
}

impl<T, E: Into<anyhow::Error>> Advise<T> for Result<T, E> {
    fn advise(self, message: impl Into<String>, hint: impl Into<String>) -> anyhow::Result<T> {
        self.map_err(|error| advised_by(error, message, hint))
    }
}

/// The exit code of `error`.
pub(crate) fn exit_code(error: &anyhow::Error) -> ExitCode {
    match error.chain().any(|cause| cause.is::<Usage>()) {
        true => ExitCode::from(2),
        false => ExitCode::FAILURE,
    }
}

/// `error` as it stands in JSON, under the name `error`.
pub(crate) fn told(error: &anyhow::Error) -> Value {
    let causes: Vec<String> = error.chain().skip(1).map(ToString::to_string).collect();
    let hints: Vec<&str> = hints(error).collect();
    let hint = (!hints.is_empty()).then(|| hints.join("; "));
    json!({ "message": error.to_string(), "causes": causes, "hint": hint })
}

/// The hints of `error`, outermost first.
pub(crate) fn hints(error: &anyhow::Error) -> impl Iterator<Item = &str> {
    error.chain().filter_map(|cause| cause.downcast_ref::<Advised>()).map(|it| it.hint.as_str())
}

impl fmt::Display for Advised {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl Error for Advised {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.cause.as_deref().map(|cause| cause as &(dyn Error + 'static))
    }
}

impl fmt::Display for Usage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Error for Usage {}
