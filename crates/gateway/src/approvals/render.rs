//! Approvals as JSON.

use serde_json::{Value, json};
use toolcrib_core::{
    approval::{Approval, Verdict, Vote, VoteRefusal},
    clock::Timestamp,
    people::People,
    principal::Principal,
};

/// The JSON form of `approval` on every surface, for `reader`. `input` is the redacted input of the
/// call as JSON text, if the reader may see it.
pub fn to_json(
    approval: &Approval,
    input: Option<&str>,
    reader: &Principal,
    people: &People,
    now: Timestamp,
) -> Value {
    let may = |verdict| approval.admits(reader, people, verdict, Some("-"), now).is_ok();
    let mut input: Value =
        input.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default();
    let mut shown = |member: &str| input.get_mut(member).map(Value::take);
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
        "moreArguments": (approval.more_arguments > 0).then_some(approval.more_arguments),
        "votes": approval.votes.iter().map(vote_json).collect::<Vec<_>>(),
        "createdAt": approval.created_at,
        "expiresAt": approval.expires_at,
        "whyNot": why_not(approval, reader, people, now),
        "mayRespond": may(Verdict::Grant),
        "mayOverride": may(Verdict::Override),
        "mayWithdraw": may(Verdict::Withdraw),
        "toolDigest": approval.tool_digest,
        "keyId": approval.key,
        "requiredRole": approval.role,
        "inputResponses": approval.round.as_ref().map(|round| &round.responses),
        "moreInputResponses": approval.round.as_ref().map(|round| round.more_responses)
            .filter(|more| *more > 0),
        "requestStateBytes": approval.round.as_ref().and_then(|round| round.state_bytes),
        "inputTooLarge": shown("tooLarge"),
        "redactedArguments": shown("arguments"),
        "redactedInputResponses": shown("inputResponses"),
        "redactedRequestState": shown("requestState"),
        "decidedAt": approval.decided_at,
        "usedBy": approval.used_by,
    }))
}

/// Why `reader` cannot approve a request that others can approve.
fn why_not(
    approval: &Approval,
    reader: &Principal,
    people: &People,
    now: Timestamp,
) -> Option<String> {
    match approval.admits(reader, people, Verdict::Grant, None, now) {
        Ok(()) | Err(VoteRefusal::NotPending(_)) => None,
        Err(refused) => Some(refused.to_string()),
    }
}

/// The JSON form of a vote, without the facts of a token.
fn vote_json(vote: &Vote) -> Value {
    let Vote { principal, key, makers, token: _, verdict, comment, at } = vote;
    let makers = (!makers.is_empty()).then_some(makers);
    present(json!({
        "principal": principal, "key": key, "makers": makers, "verdict": verdict,
        "comment": comment, "at": at,
    }))
}

/// Removes the members of `json` without a value.
pub(super) fn present(mut json: Value) -> Value {
    if let Some(members) = json.as_object_mut() {
        members.retain(|_, value| !value.is_null());
    }
    json
}
