//! The events of a human's consent (RFC 0051): an interrupt of kind `approval`, and what became of it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::id::{ApprovalId, PrincipalId, ToolId};

/// Payload of `interrupt.requested`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct InterruptRequested {
    /// What kind of interrupt it is.
    pub kind: InterruptKind,
    /// Names the interrupt: the id of the approval.
    #[schemars(with = "String")]
    pub key: ApprovalId,
    /// How long somebody has to answer.
    pub timeout_ms: u64,
    /// Who has to.
    pub data: GateData,
}

/// Kinds of interrupts that are recorded here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum InterruptKind {
    /// A call waits for consent.
    Approval,
}

/// What the consent is for and who can give it. What the call says is no part of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GateData {
    /// The approval.
    #[schemars(with = "String")]
    pub gate_id: ApprovalId,
    /// The tool.
    #[schemars(with = "String")]
    pub artifact_id: ToolId,
    /// Always `tool-call`.
    pub artifact_type: String,
    /// Fixed text.
    pub title: String,
    /// What can be answered.
    pub actions: Vec<String>,
    /// The role that whoever answers has to have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub required_role: Option<String>,
    /// The scope that whoever answers has to hold.
    pub required_scope: String,
    /// How many have to consent.
    pub quorum: u32,
}

/// Payload of `approval.granted`. The call may pass once as many as are required have consented.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ApprovalGranted {
    /// The approval.
    #[schemars(with = "String")]
    pub gate_id: ApprovalId,
    /// Who consented.
    #[schemars(with = "String")]
    pub principal: PrincipalId,
    /// How many have by now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quorum_progress: Option<QuorumProgress>,
}

/// How many have consented of how many that have to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct QuorumProgress {
    /// Have.
    pub granted: u32,
    /// Have to.
    pub required: u32,
}

/// Payload of `approval.rejected`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ApprovalRejected {
    /// The approval.
    #[schemars(with = "String")]
    pub gate_id: ApprovalId,
    /// Who refused; `core.system` when nobody answered in time.
    #[schemars(with = "String")]
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
    #[schemars(with = "String")]
    pub gate_id: ApprovalId,
    /// Who took it upon themselves.
    #[schemars(with = "String")]
    pub principal: PrincipalId,
    /// A code; what was written about it stands with the approval.
    pub reason: String,
}
