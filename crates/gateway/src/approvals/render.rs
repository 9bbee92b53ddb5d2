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
    let mut json = json!({
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
    });
    if let Some(members) = json.as_object_mut() {
        let shown = arguments.and_then(|text| serde_json::from_str(text).ok());
        let more = [
            ("toolDigest", approval.tool_digest.as_ref().map(|it| json!(it))),
            ("keyId", approval.key.as_ref().map(|it| json!(it))),
            ("requiredRole", approval.role.as_ref().map(|it| json!(it))),
            ("redactedArguments", shown),
            ("decidedAt", approval.decided_at.map(|it| json!(it))),
            ("usedBy", approval.used_by.as_ref().map(|it| json!(it))),
        ];
        for (name, value) in more {
            if let Some(value) = value {
                members.insert(name.to_owned(), value);
            }
        }
    }
    json
}
