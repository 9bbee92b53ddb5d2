//! Events of the pins of tools.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::id::{PrincipalId, SourceId, ToolId};

/// Payload of `tool.pin.drifted`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ToolPinDrifted {
    /// The source.
    pub source_id: SourceId,
    /// The tool.
    pub tool_id: ToolId,
    /// SHA-256 of the approved form; absent when no form was ever approved.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approved: Option<String>,
    /// SHA-256 of the discovered form.
    pub seen: String,
    /// Whether the tool is hidden until an operator approves it.
    pub quarantined: bool,
}

/// Payload of `tool.pin.approved`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ToolPinApproved {
    /// The source.
    pub source_id: SourceId,
    /// The tool.
    pub tool_id: ToolId,
    /// SHA-256 of the form that was approved before; absent if there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<String>,
    /// SHA-256 of the approved form.
    pub approved: String,
    /// Whether the forms that were approved before remain approved.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub keeps_earlier: bool,
    /// The approving principal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub principal: Option<PrincipalId>,
}
