//! How a child exited.

use std::{fmt, os::unix::process::ExitStatusExt as _, process::ExitStatus};

/// How a child exited, or why it did not start.
#[derive(Debug, Clone)]
pub(crate) enum Exit {
    Ended(ExitStatus),
    /// The program was never executed.
    NotStarted(String),
    /// The process that supervised it was killed, so its status is unknown.
    Lost,
}

impl fmt::Display for Exit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ended(status) => match (status.code(), status.signal()) {
                (Some(code), _) => write!(f, "exited with status {code}"),
                (None, Some(signal)) => write!(f, "was killed by signal {signal}"),
                (None, None) => f.write_str("exited"),
            },
            Self::NotStarted(why) => f.write_str(why),
            Self::Lost => f.write_str("was lost: the process that supervised it was killed"),
        }
    }
}
