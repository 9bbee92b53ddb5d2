//! Parses one file of an OpenAPI document from JSON or YAML.
//!
//! Invariant: nesting and the number of nodes are bounded before the result is processed. A
//! duplicate key is an error in both languages.

mod exact;

use serde_json::Value;
use toolcrib_core::json::parse_strict;

/// Largest size of all files of a document in bytes. The largest published ones (Microsoft Graph,
/// Cloudflare) have some 30 MB, GitHub's has 12 MB.
pub(super) const MAX_DOCUMENT: usize = 48 << 20;
/// Largest nesting depth of a file.
const MAX_DEPTH: usize = 100;
/// The nodes of all YAML files of a document. Aliases make a large value of a small text, so the
/// bytes of the files do not bound them.
const MAX_NODES: usize = 4_000_000;

/// The remaining budget for the YAML files of one document.
#[derive(Debug)]
pub(super) struct YamlBudget {
    nodes: usize,
    text: usize,
}

// === impl YamlBudget ===

impl Default for YamlBudget {
    fn default() -> Self {
        Self { nodes: MAX_NODES, text: MAX_DOCUMENT }
    }
}

impl YamlBudget {
    fn spend(&mut self, value: &Value) {
        match value {
            Value::String(text) => self.text = self.text.saturating_sub(text.len()),
            Value::Array(items) => items.iter().for_each(|item| self.spend(item)),
            Value::Object(members) => members.iter().for_each(|(key, member)| {
                self.nodes = self.nodes.saturating_sub(1);
                self.text = self.text.saturating_sub(key.len());
                self.spend(member);
            }),
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
        self.nodes = self.nodes.saturating_sub(1);
    }
}

/// Parses `bytes`: as JSON when they start with an object, otherwise as YAML. An error completes a
/// sentence such as "the file is not …".
pub(super) fn parse(bytes: &[u8], budget: &mut YamlBudget) -> Result<Value, String> {
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    let value = match bytes.trim_ascii_start().first() {
        Some(b'{') => parse_strict(bytes).map_err(|error| format!("JSON: {}", error.problem))?,
        _ => {
            let value = yaml(bytes, budget)?;
            budget.spend(&value);
            value
        }
    };
    match is_within(&value, MAX_DEPTH) {
        true => Ok(value),
        false => Err(format!("usable: it is nested deeper than {MAX_DEPTH} levels")),
    }
}

/// Parses YAML with the JSON schema of YAML 1.2, as OpenAPI requires; `no` is a string.
fn yaml(bytes: &[u8], budget: &YamlBudget) -> Result<Value, String> {
    let options = serde_saphyr::options! {
        strict_booleans: true,
        with_snippet: false,
        duplicate_keys: serde_saphyr::options::DuplicateKeyPolicy::Error,
        budget: serde_saphyr::budget! {
            max_depth: MAX_DEPTH,
            max_events: budget.nodes,
            max_nodes: budget.nodes,
            max_total_scalar_bytes: budget.text,
            max_documents: 1,
        },
    };
    let problem = |error: serde_saphyr::Error| {
        let at = error.location().map(|at| format!(" at line {}", at.line())).unwrap_or_default();
        format!("YAML or breaks its limits{at}")
    };
    let text = std::str::from_utf8(bytes).ok().filter(|text| exact::is_needed(text));
    match text {
        None => serde_saphyr::from_slice_with_options(bytes, options).map_err(problem),
        Some(text) => {
            let node: exact::Node =
                serde_saphyr::from_str_with_options(text, options).map_err(problem)?;
            node.into_value(text)
        }
    }
}

fn is_within(value: &Value, depth: usize) -> bool {
    let Some(left) = depth.checked_sub(1) else { return false };
    match value {
        Value::Array(items) => items.iter().all(|item| is_within(item, left)),
        Value::Object(members) => members.values().all(|member| is_within(member, left)),
        _ => true,
    }
}
