//! Lint rules for tools: errors, risks and obstacles that are visible in the descriptor alone. Each
//! finding has a place and an advice.
//!
//! The rules are pure decisions over descriptors. Two crates need them: the gateway for the offers
//! of upstreams, and the program for `toolcrib tools lint`.
//!
//! Invariant: a finding never repeats a text of the tool, which may be a secret or an attack.
//!
//! Invariant: the work is bounded for every schema.

mod contradictions;
mod finding;
mod poison;
mod schema;
mod text;

use self::finding::Findings;
pub use self::finding::{Finding, MAX_FINDINGS, Severity};
use crate::{compact, descriptor::ToolDescriptor, schema::Schema, source::DiscoveredOffer};

/// Checks `tool`, and returns the findings, worst first, at most [`MAX_FINDINGS`].
pub fn lint(tool: &ToolDescriptor) -> Vec<Finding> {
    let mut found = Findings { tool: &tool.tool_id, list: Vec::new() };
    contradictions::check(tool, &mut found);
    text::check(tool, &mut found);
    let input = tool.input_schema.as_ref().map(Schema::to_object);
    let output = tool.output_schema.as_ref().map(Schema::to_object);
    for (pointer, schema) in [("/inputSchema", &input), ("/outputSchema", &output)] {
        if let Some(schema) = schema {
            schema::check(pointer, schema, &mut found);
        }
    }
    if let Some(schema) = &input {
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

/// Checks the tool `id` as its upstream describes it, for invisible characters (which are removed
/// before callers see them) and instructions to a model.
pub fn upstream(id: &str, tool: &DiscoveredOffer) -> Vec<Finding> {
    let mut found = Findings { tool: id, list: Vec::new() };
    poison::check(tool, &mut found);
    worst(found.list)
}

fn worst(mut list: Vec<Finding>) -> Vec<Finding> {
    list.sort_by_key(|found| std::cmp::Reverse(found.severity));
    list.truncate(MAX_FINDINGS);
    list
}

#[cfg(test)]
mod tests;
