//! Approvals as JSON.

use serde_json::{Value, json};
use toolcrib_core::{
    approval::{Approval, Verdict},
    clock::Timestamp,
    principal::Principal,
};

/// The JSON form of `approval` on every surface, for `reader`. `arguments` are the redacted
/// arguments as JSON text, if the reader may see them.
pub fn to_json(
    approval: &Approval,
    arguments: Option<&str>,
    reader: &Principal,
    now: Timestamp,
) -> Value {
    let may = |verdict| approval.admits(reader, verdict, Some("-"), now).is_ok();
    let shown: Option<Value> = arguments.and_then(|text| serde_json::from_str(text).ok());
    present(json!({
        "approvalId": approval.id,
        "state": approval.state,
        "toolId": approval.tool_id,
        "principal": approval.principal,
        "runId": approval.run_id,
        "quorum": approval.quorum,
        "granted": approval.granted(),
        "requiredScope": approval.scope,
        "arguments": approval.arguments,
        "votes": approval.votes,
        "createdAt": approval.created_at,
        "expiresAt": approval.expires_at,
        "mayRespond": may(Verdict::Grant),
        "mayOverride": may(Verdict::Override),
        "toolDigest": approval.tool_digest,
        "keyId": approval.key,
        "requiredRole": approval.role,
        "redactedArguments": shown,
        "decidedAt": approval.decided_at,
        "usedBy": approval.used_by,
    }))
}

/// Removes the members of `json` that have no value.
pub(super) fn present(mut json: Value) -> Value {
    if let Some(members) = json.as_object_mut() {
        members.retain(|_, value| !value.is_null());
    }
    json
}
