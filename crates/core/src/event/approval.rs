//! The events of an approval (RFC 0051): an interrupt of kind `approval`, and its result.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::id::{ApprovalId, PrincipalId, ToolId};

/// Payload of `interrupt.requested`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct InterruptRequested {
    /// The kind of interrupt.
    pub kind: InterruptKind,
    /// Names the interrupt: the id of the approval.
    pub key: ApprovalId,
    /// How long the approval can be decided.
    pub timeout_ms: u64,
    /// The call and its possible approvers.
    pub data: GateData,
}

/// Kinds of interrupts that are recorded here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum InterruptKind {
    /// A call requires an approval.
    Approval,
}

/// The call to approve and its possible approvers, without the call's content.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GateData {
    /// The approval.
    pub gate_id: ApprovalId,
    /// The tool.
    pub artifact_id: ToolId,
    /// Always `tool-call`.
    pub artifact_type: String,
    /// Fixed text.
    pub title: String,
    /// The possible answers.
    pub actions: Vec<String>,
    /// The role that an approver must have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub required_role: Option<String>,
    /// The scope that an approver must hold.
    pub required_scope: String,
    /// The number of approvals required.
    pub quorum: u32,
}

/// Payload of `approval.granted`. The call may be made once when the quorum is reached.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ApprovalGranted {
    /// The approval.
    pub gate_id: ApprovalId,
    /// The approver.
    pub principal: PrincipalId,
    /// The progress towards the quorum.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quorum_progress: Option<QuorumProgress>,
}

/// The progress towards a quorum.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct QuorumProgress {
    /// The number of approvals so far.
    pub granted: u32,
    /// The number required.
    pub required: u32,
}

/// Payload of `approval.rejected`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ApprovalRejected {
    /// The approval.
    pub gate_id: ApprovalId,
    /// The rejecting principal; `core.system` when the approval expired.
    pub principal: PrincipalId,
    /// `rejected` or `timeout`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// Payload of `approval.overridden`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ApprovalOverridden {
    /// The approval.
    pub gate_id: ApprovalId,
    /// The overriding principal.
    pub principal: PrincipalId,
    /// A code; the comment is stored with the approval.
    pub reason: String,
}
