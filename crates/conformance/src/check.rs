//! Checks and suites of checks.

use std::{future::Future, pin::Pin};

use serde::Serialize;

use crate::{protocol::Protocol, result::CheckResult, target::Target};

/// A requirement and the function that checks it.
#[derive(Debug, Serialize)]
pub struct Check {
    /// Stable name: `protocol.area.requirement`.
    pub id: &'static str,
    pub level: Level,
    /// The section of the specification that contains the requirement.
    pub section: &'static str,
    /// The requirement in one sentence, without a full stop.
    pub requirement: &'static str,
    #[serde(skip)]
    pub(crate) run: for<'a> fn(&'a Target) -> CheckFuture<'a>,
}

/// How binding a requirement is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// A host that does not meet it does not conform.
    Must,
    /// A host may have reasons not to meet it; failures are reported as warnings.
    Should,
}

/// All checks of one protocol.
pub struct Suite {
    pub protocol: Protocol,
    /// The path under which hosts usually serve the protocol.
    pub(crate) path: &'static str,
    /// Checks whether the host serves the protocol there.
    pub(crate) is_served: for<'a> fn(&'a Target) -> Pin<Box<dyn Future<Output = bool> + Send + 'a>>,
    pub(crate) checks: &'static [&'static [Check]],
}

/// A running check.
pub(crate) type CheckFuture<'a> = Pin<Box<dyn Future<Output = CheckResult> + Send + 'a>>;

/// A table of checks: id, level, section, function and requirement of each.
macro_rules! checks {
    ($($id:expr, $level:ident, $section:literal, $run:path: $requirement:literal;)*) => {
        &[$($crate::check::Check {
            id: $id,
            level: $crate::check::Level::$level,
            section: $section,
            requirement: $requirement,
            run: |target| Box::pin($run(target)),
        }),*]
    };
}
pub(crate) use checks;

impl Suite {
    pub fn all(&self) -> impl Iterator<Item = &'static Check> {
        self.checks.iter().copied().flatten()
    }
}

impl Check {
    /// Returns whether `group` is the id of this check or of a group that contains it.
    pub fn is_in(&self, group: &str) -> bool {
        let rest = self.id.strip_prefix(group);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    }
}

impl Level {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Must => "must",
            Self::Should => "should",
        }
    }
}
