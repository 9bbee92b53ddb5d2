//! Parsing of tools from JSON.
//!
//! Members that this version does not know are dropped, so that newer hosts can be read. Known
//! members must conform to RFC 0078.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use toolcrib_core::descriptor::{SafetyTier, SchemaObject, SourceKind, ToolDescriptor};

use crate::Error;

/// A tool in the compact view (RFC 0112).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CompactTool {
    /// Stable, host-unique identifier.
    pub tool_id: String,
    /// The surface that backs the tool.
    pub source: SourceKind,
    /// The tool's effect on data.
    pub safety_tier: SafetyTier,
    /// Name for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// A short description.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// JSON Schema of the arguments, if the small subset of the view can express it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input_schema: Option<SchemaObject>,
}

/// The members of a descriptor.
const MEMBERS: [&str; 13] = [
    "toolId",
    "source",
    "title",
    "description",
    "inputSchema",
    "outputSchema",
    "auth",
    "egress",
    "approval",
    "replayPolicy",
    "safetyTier",
    "costHint",
    "latencyHint",
];

/// Returns the tools of a list in either of its shapes; `None` when `body` is not a list.
pub fn listed(body: &Value) -> Option<&Vec<Value>> {
    body.as_array().or_else(|| body.get("tools")?.as_array())
}

/// Parses a tool of the standard view.
///
/// # Errors
/// Fails when `value` is not a ToolDescriptor.
pub fn tool(value: &Value) -> Result<ToolDescriptor, Error> {
    let Value::Object(members) = value else { return Err(wrong(value, "it is not an object")) };
    let known = members.iter().filter(|(name, _)| MEMBERS.contains(&name.as_str()));
    let known: Map<String, Value> =
        known.map(|(name, member)| (name.clone(), member.clone())).collect();
    serde_json::from_value(Value::Object(known)).map_err(|error| wrong(value, &error.to_string()))
}

/// Parses a tool of the compact view, or the compact part of a standard one.
///
/// # Errors
/// Fails when `value` is not a tool.
pub fn compact_tool(value: &Value) -> Result<CompactTool, Error> {
    CompactTool::deserialize(value).map_err(|error| wrong(value, &error.to_string()))
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
