//! Lint rules for tools: errors, risks and obstacles that are visible in the descriptor alone. Each
//! finding has a place and an advice.
//!
//! Invariant: a finding never repeats a text of the tool, which may be a secret or an attack.
//!
//! Invariant: the work is bounded for every schema.

mod contradictions;
mod poison;
mod schema;
mod text;

use serde::Serialize;

use crate::{
    compact,
    descriptor::{SchemaObject, ToolDescriptor},
    source::DiscoveredTool,
};

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

/// Returns the findings about `tool`, worst first, at most [`MAX_FINDINGS`].
pub fn lint(tool: &ToolDescriptor) -> Vec<Finding> {
    let mut found = Findings { tool: &tool.tool_id, list: Vec::new() };
    contradictions::check(tool, &mut found);
    text::check(tool, &mut found);
    let schemas: [(&str, Option<&SchemaObject>); 2] = [
        ("/inputSchema", tool.input_schema.as_ref()),
        ("/outputSchema", tool.output_schema.as_ref()),
    ];
    for (pointer, schema) in schemas {
        if let Some(schema) = schema {
            schema::check(pointer, schema, &mut found);
        }
    }
    if let Some(schema) = &tool.input_schema {
        schema::portable("/inputSchema", schema, &mut found);
        if let Err(why) = compact::reduce(schema) {
            found.push(
                "/inputSchema",
                "compact/omitted",
                Severity::Advice,
                format!("the compact view shows no arguments: {why}"),
                "describe the arguments as one plain object, without alternatives",
            );
        }
    }
    worst(found.list)
}

/// Returns the findings about the tool `id` as its upstream describes it: invisible characters
/// (which are removed before callers see them) and instructions to a model.
pub fn upstream(id: &str, tool: &DiscoveredTool) -> Vec<Finding> {
    let mut found = Findings { tool: id, list: Vec::new() };
    poison::check(tool, &mut found);
    worst(found.list)
}

fn worst(mut list: Vec<Finding>) -> Vec<Finding> {
    list.sort_by_key(|found| std::cmp::Reverse(found.severity));
    list.truncate(MAX_FINDINGS);
    list
}

/// Findings about one tool.
struct Findings<'a> {
    tool: &'a str,
    list: Vec<Finding>,
}

impl Findings<'_> {
    fn push(
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

#[cfg(test)]
mod tests;
