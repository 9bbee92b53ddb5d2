//! From JSON to tools.
//!
//! Members that this version does not know are left out, so that a newer host can be read; those
//! that it knows must be as RFC 0078 says.

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
    /// What running it does to data.
    pub safety_tier: SafetyTier,
    /// Name for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// What it does, in short.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// JSON Schema of the arguments, if it could be said in the small subset of the view.
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

/// The tools of a list in either of its shapes; `None` when it is no list.
pub fn listed(body: &Value) -> Option<&Vec<Value>> {
    body.as_array().or_else(|| body.get("tools")?.as_array())
}

/// A tool of the standard view.
///
/// # Errors
/// When `value` is no ToolDescriptor.
pub fn tool(value: &Value) -> Result<ToolDescriptor, Error> {
    let Value::Object(members) = value else { return Err(wrong(value, "it is no object")) };
    let known = members.iter().filter(|(name, _)| MEMBERS.contains(&name.as_str()));
    let known: Map<String, Value> =
        known.map(|(name, member)| (name.clone(), member.clone())).collect();
    serde_json::from_value(Value::Object(known)).map_err(|error| wrong(value, &error.to_string()))
}

/// A tool of the compact view, or the compact part of a standard one.
///
/// # Errors
/// When `value` is none.
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
