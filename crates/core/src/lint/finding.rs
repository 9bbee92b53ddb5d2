//! Findings: faults of a tool, their places, and how to fix them.

use serde::Serialize;

use crate::text_types::closed_enum;

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

closed_enum! {
    /// The severity of a finding.
    Severity {
        /// Some models or clients would work better.
        Advice = "advice",
        /// Probably a mistake.
        Warning = "warning",
        /// Must be fixed.
        Error = "error",
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
