//! Findings: what is wrong with a tool, where, and how to fix it.

use serde::Serialize;

/// The most findings kept per tool.
pub const MAX_FINDINGS: usize = 100;

/// One finding about a tool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Finding {
    /// The tool's id.
    pub tool: String,
    /// The place in the descriptor: an RFC 6901 pointer.
    pub pointer: String,
    /// Stable name, `group/rule`.
    pub rule: &'static str,
    /// How bad it is.
    pub severity: Severity,
    /// The problem.
    pub message: String,
    /// How to fix it.
    pub advice: &'static str,
}

/// The severity of a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Some models or clients would work better.
    Advice,
    /// Probably a mistake.
    Warning,
    /// Must be fixed.
    Error,
}

impl Severity {
    /// Returns the severity as it appears in reports.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Advice => "advice",
            Self::Warning => "warning",
            Self::Error => "error",
        }
    }
}

/// Findings about one tool.
pub(super) struct Findings<'a> {
    pub(super) tool: &'a str,
    pub(super) list: Vec<Finding>,
}

impl Findings<'_> {
    pub(super) fn push(
        &mut self,
        pointer: &str,
        rule: &'static str,
        severity: Severity,
        message: impl Into<String>,
        advice: &'static str,
    ) {
        // Enough to find the worst; a hostile schema gets no more.
        if self.list.len() >= 10 * MAX_FINDINGS {
            return;
        }
        self.list.push(Finding {
            tool: self.tool.to_owned(),
            pointer: pointer.to_owned(),
            rule,
            severity,
            message: message.into(),
            advice,
        });
    }
}
