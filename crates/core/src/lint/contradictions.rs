//! Contradictions in the operator's settings of a tool (RFC 0078 §C, RFC 0069).

use super::finding::{Findings, Severity};
use crate::{
    descriptor::{Approval, Egress, ReplayPolicy, SafetyTier, ToolDescriptor},
    names,
};

pub(super) fn check(tool: &ToolDescriptor, found: &mut Findings<'_>) {
    let egress = tool.egress.unwrap_or(Egress::None);
    let reaches_out = egress != Egress::None;
    let approval = tool.approval.unwrap_or(Approval::Never);
    if tool.safety_tier == SafetyTier::Pure && reaches_out {
        found.push(
            "/egress",
            "contradiction/pure-with-egress",
            Severity::Error,
            "a pure tool depends only on its arguments, but this one has egress",
            "set `safety_tier` to read or more, or `egress` to `none`",
        );
    }
    if tool.replay_policy == Some(ReplayPolicy::Deterministic) {
        let changes = matches!(tool.safety_tier, SafetyTier::Write | SafetyTier::Exec);
        if changes {
            found.push(
                "/replayPolicy",
                "contradiction/deterministic-with-effects",
                Severity::Error,
                "a tool that changes something is not deterministic",
                "set `replay_policy` to idempotent where repeating is safe, else to non-deterministic",
            );
        } else if reaches_out {
            found.push(
                "/replayPolicy",
                "contradiction/deterministic-with-egress",
                Severity::Warning,
                "outside data can change, so the answer can, too",
                "set `replay_policy` to idempotent, unless the outside data never changes",
            );
        }
    }
    if tool.safety_tier == SafetyTier::Exec {
        if approval == Approval::Never {
            found.push(
                "/approval",
                "contradiction/exec-without-approval",
                Severity::Warning,
                "the tool runs a program without approval",
                "set `approval` to always, unless it is harmless with any arguments",
            );
        }
        if !matches!(egress, Egress::None | Egress::HostOwned) {
            found.push(
                "/egress",
                "contradiction/exec-egress",
                Severity::Warning,
                "the host owns the network access of a command",
                "set `egress` to host-owned, or to `none` if the command is confined",
            );
        }
    }
    let auth = tool.auth.as_ref();
    if tool.required_scopes().is_none() {
        found.push(
            "/auth",
            "auth/unlabelled",
            Severity::Warning,
            "the tool has no scopes, so no caller can see it",
            "set `scopes`; an empty list shows it to every caller with a key",
        );
    }
    if auth.is_some_and(|auth| auth.credential_ref == Some(true)) && !reaches_out {
        found.push(
            "/auth/credentialRef",
            "contradiction/credential-without-egress",
            Severity::Warning,
            "the tool needs a credential but has no egress",
            "set `egress`, or remove the credential",
        );
    }
    name(tool, found);
}

/// Names that promise to run commands, on tools that cannot be exec tools.
fn name(tool: &ToolDescriptor, found: &mut Findings<'_>) {
    if tool.source.traits().runs_commands || !names::promises_exec(&tool.tool_id) {
        return;
    }
    let protocol = ["openwop:", "openwop.", "core."];
    let severity = match protocol.iter().any(|prefix| tool.tool_id.starts_with(prefix)) {
        true => Severity::Error,
        false => Severity::Warning,
    };
    found.push(
        "/toolId",
        "exec/name",
        severity,
        "the name promises to run commands, which only a host extension may do",
        "make sure that the tool does not, and rename it; or offer it as a host extension of tier exec",
    );
}
