//! Parsing of tools from JSON.
//!
//! Unknown members are dropped, so that newer hosts can be read. Known members must conform to RFC
//! 0078, and the hints to RFC 0204.

use serde::{Deserialize, de::DeserializeOwned};
use serde_json::Value;
use toolcrib_core::{compact::CompactToolDescriptor as CompactTool, descriptor::ToolDescriptor};

use crate::error::Error;

/// The members of a descriptor in the compact view.
const COMPACT_MEMBERS: [&str; 6] =
    ["toolId", "source", "safetyTier", "title", "description", "inputSchema"];

/// The other members of a descriptor.
const MORE_MEMBERS: [&str; 7] =
    ["outputSchema", "auth", "egress", "approval", "replayPolicy", "costHint", "latencyHint"];

/// The hints of a tool in v2, in the words of MCP (RFC 0204).
///
/// A host derives them from its own classification of the tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Annotations {
    /// Whether a call is free of changes.
    pub read_only_hint: bool,
    /// Whether a call may destroy something.
    pub destructive_hint: bool,
    /// Whether a repeated call has no further effect.
    pub idempotent_hint: bool,
    /// Whether a call reaches systems outside the host.
    pub open_world_hint: bool,
}

/// A tool of v2 with its hints.
#[derive(Debug, Clone, PartialEq)]
pub struct AnnotatedTool {
    /// The tool, as in both generations.
    pub tool: ToolDescriptor,
    /// The hints; `None` if the host sends no hints, which RFC 0204 permits.
    pub annotations: Option<Annotations>,
}

/// Returns the tools of a list in either of its shapes; `None` if `body` is not a list.
pub fn listed(body: &Value) -> Option<&Vec<Value>> {
    body.as_array().or_else(|| body.get("tools")?.as_array())
}

/// Parses a tool of the standard view.
///
/// # Errors
/// Fails if `value` is not a ToolDescriptor.
pub fn tool(value: &Value) -> Result<ToolDescriptor, Error> {
    known(value, |name| COMPACT_MEMBERS.contains(&name) || MORE_MEMBERS.contains(&name))
}

/// Parses a tool of the compact view, or the compact part of a standard one.
///
/// # Errors
/// Fails if `value` is not a tool.
pub fn compact_tool(value: &Value) -> Result<CompactTool, Error> {
    known(value, |name| COMPACT_MEMBERS.contains(&name))
}

/// Parses a tool of the standard view of v2.
///
/// # Errors
/// Fails if `value` is not a ToolDescriptor, or if its hints are not four booleans.
pub fn annotated_tool(value: &Value) -> Result<AnnotatedTool, Error> {
    let annotations = value.get("annotations").map(Annotations::deserialize).transpose();
    let annotations =
        annotations.map_err(|error| wrong(value, &format!("`annotations`: {error}")))?;
    Ok(AnnotatedTool { tool: tool(value)?, annotations })
}

fn known<T: DeserializeOwned>(value: &Value, is_known: fn(&str) -> bool) -> Result<T, Error> {
    let Value::Object(members) = value else { return Err(wrong(value, "it is not an object")) };
    let known = members.iter().filter(|(name, _)| is_known(name));
    let known = known.map(|(name, member)| (name.clone(), member.clone())).collect();
    serde_json::from_value(Value::Object(known)).map_err(|error| wrong(value, &error.to_string()))
}

fn wrong(value: &Value, reason: &str) -> Error {
    let tool_id = value.get("toolId").and_then(Value::as_str).unwrap_or_default().to_owned();
    Error::NotADescriptor { tool_id, reason: reason.to_owned() }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_newer_host_can_be_read_and_a_wrong_one_cannot() {
        let newer = json!({
            "toolId": "a", "source": "mcp", "safetyTier": "read",
            "annotations": { "readOnlyHint": true },
        });
        assert_eq!(tool(&newer).unwrap().tool_id, "a");
        let wrong = json!({ "toolId": "a", "source": "mcp" });
        assert!(
            matches!(tool(&wrong), Err(Error::NotADescriptor { tool_id, .. }) if tool_id == "a")
        );
    }

    #[test]
    fn hints_are_four_booleans_or_absent() {
        let of = |annotations: Value| {
            annotated_tool(&json!({
                "toolId": "a", "source": "mcp", "safetyTier": "read", "annotations": annotations,
            }))
        };
        let hints = json!({
            "readOnlyHint": true, "destructiveHint": false, "idempotentHint": false,
            "openWorldHint": true, "newerHint": 1,
        });
        let read = of(hints.clone()).unwrap().annotations.unwrap();
        assert!(read.read_only_hint && read.open_world_hint);
        assert!(!read.destructive_hint && !read.idempotent_hint);
        for name in ["readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint"] {
            for wrong in [json!(null), json!("true"), json!(1)] {
                let mut hints = hints.clone();
                hints[name] = wrong;
                assert!(matches!(of(hints), Err(Error::NotADescriptor { .. })), "{name}");
            }
        }
        for wrong in [json!(null), json!({}), json!("read"), json!([true, false, false, true, 1])] {
            assert!(of(wrong.clone()).is_err(), "{wrong}");
        }
        let plain = json!({ "toolId": "a", "source": "mcp", "safetyTier": "read" });
        assert_eq!(annotated_tool(&plain).unwrap().annotations, None);
    }

    #[test]
    fn both_shapes_are_lists() {
        assert_eq!(listed(&json!([1])).unwrap().len(), 1);
        assert_eq!(listed(&json!({ "tools": [1, 2] })).unwrap().len(), 2);
        assert!(listed(&json!({ "items": [] })).is_none() && listed(&json!(null)).is_none());
    }
}
