//! Parsing of tools from JSON.
//!
//! Members that this version does not know are dropped, so that newer hosts can be read. Known
//! members must conform to RFC 0078.

use serde::de::DeserializeOwned;
use serde_json::Value;
use toolcrib_core::{compact::CompactToolDescriptor as CompactTool, descriptor::ToolDescriptor};

use crate::Error;

/// The members of a descriptor in the compact view.
const COMPACT_MEMBERS: [&str; 6] =
    ["toolId", "source", "safetyTier", "title", "description", "inputSchema"];

/// The other members of a descriptor.
const MORE_MEMBERS: [&str; 7] =
    ["outputSchema", "auth", "egress", "approval", "replayPolicy", "costHint", "latencyHint"];

/// Returns the tools of a list in either of its shapes; `None` when `body` is not a list.
pub fn listed(body: &Value) -> Option<&Vec<Value>> {
    body.as_array().or_else(|| body.get("tools")?.as_array())
}

/// Parses a tool of the standard view.
///
/// # Errors
/// Fails when `value` is not a ToolDescriptor.
pub fn tool(value: &Value) -> Result<ToolDescriptor, Error> {
    known(value, |name| COMPACT_MEMBERS.contains(&name) || MORE_MEMBERS.contains(&name))
}

/// Parses a tool of the compact view, or the compact part of a standard one.
///
/// # Errors
/// Fails when `value` is not a tool.
pub fn compact_tool(value: &Value) -> Result<CompactTool, Error> {
    known(value, |name| COMPACT_MEMBERS.contains(&name))
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
    fn both_shapes_are_lists() {
        assert_eq!(listed(&json!([1])).unwrap().len(), 1);
        assert_eq!(listed(&json!({ "tools": [1, 2] })).unwrap().len(), 2);
        assert!(listed(&json!({ "items": [] })).is_none() && listed(&json!(null)).is_none());
    }
}
