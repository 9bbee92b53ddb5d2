//! The hints of RFC 0204, derived from the operator's classification: never from the claims of a
//! server (I-13), nor from the defaults of MCP.

use serde::Serialize;
use toolcrib_core::descriptor::{Egress, ReplayPolicy, SafetyTier, ToolDescriptor};
use utoipa::ToSchema;

/// The hints of a tool, in the words of MCP. All four are always present.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct ToolHints {
    /// Whether a call has no effects: the safety tier is `pure` or `read`.
    read_only_hint: bool,
    /// Whether a call may destroy something: the safety tier is `write` or `exec`.
    destructive_hint: bool,
    /// Whether a repeated call has no further effect: the replay policy is `deterministic` or
    /// `idempotent`.
    idempotent_hint: bool,
    /// Whether a call reaches something outside of this host: egress is not `none`.
    open_world_hint: bool,
}

impl ToolHints {
    /// Derives the hints of `tool`.
    pub(super) fn of(tool: &ToolDescriptor) -> Self {
        let read_only = match tool.safety_tier {
            SafetyTier::Pure | SafetyTier::Read => true,
            SafetyTier::Write | SafetyTier::Exec => false,
        };
        let idempotent = match tool.replay_policy {
            Some(ReplayPolicy::Deterministic | ReplayPolicy::Idempotent) => true,
            Some(ReplayPolicy::NonDeterministic) | None => false,
        };
        Self {
            read_only_hint: read_only,
            destructive_hint: !read_only,
            idempotent_hint: idempotent,
            open_world_hint: tool.egress != Some(Egress::None),
        }
    }
}
