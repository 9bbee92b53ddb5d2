//! Events as lines of text for people.

use chrono::SecondsFormat;
use serde::Serialize;
use serde_json::Value;
use toolcrib_core::{
    egress::{EgressDecided, EgressReason},
    event::{ApprovalRejected, CallStatus, EventBody, KeyChanged, RunEvent, ToolReturned},
    id::TenantId,
};

use crate::text::counted;

/// An event as one line of text, with `tenant` if it is given.
pub(crate) fn event_line(event: &RunEvent, tenant: Option<&TenantId>) -> String {
    let at = event.timestamp.to_rfc3339_opts(SecondsFormat::Millis, true);
    let tenant = tenant.map(|tenant| format!("{tenant:<12}  ")).unwrap_or_default();
    format!("{at}  {tenant}{:<21}  {}", event.body.kind(), describe(&event.body))
}

fn describe(body: &EventBody) -> String {
    match body {
        EventBody::ToolCalled(called) => {
            let acting: Vec<String> = called.actors.iter().map(|id| format!(" via {id}")).collect();
            let (tool, by, call) = (&called.tool_name, &called.principal, &called.call_id);
            format!("{tool} by {by}{} (call {call})", acting.concat())
        }
        EventBody::ToolReturned(returned) => describe_return(returned),
        EventBody::AuthorizationDecided(decided) => format!(
            "{} of {} by {}: {}{}",
            decided.action,
            decided.resource,
            decided.principal,
            if decided.allowed { "allowed" } else { "denied" },
            optional(decided.reason.as_ref(), |reason| format!(" ({reason})")),
        ),
        EventBody::EgressDecided(decided) => describe_egress(decided),
        EventBody::InterruptRequested(requested) => {
            format!("{} is pending (approval {})", requested.data.artifact_id, requested.key)
        }
        EventBody::ApprovalGranted(granted) => {
            let progress = optional(granted.quorum_progress.as_ref(), |quorum| {
                format!(", {} of {}", quorum.granted, quorum.required)
            });
            format!("by {}{progress} (approval {})", granted.principal, granted.gate_id)
        }
        EventBody::ApprovalRejected(rejected) => describe_rejection(rejected),
        EventBody::ApprovalOverridden(overridden) => {
            format!("by {} (approval {})", overridden.principal, overridden.gate_id)
        }
        EventBody::ConfigEdited(edited) => {
            let short = |hash: &str| hash.chars().take(12).collect::<String>();
            let (before, after) = (short(&edited.before), short(&edited.after));
            format!("{} by {}: {before} to {after}", word(edited.action), edited.principal)
        }
        EventBody::SignInStarted(started) => {
            let until = started.expires_at.to_rfc3339_opts(SecondsFormat::Millis, true);
            format!("session {} of {} until {until}", started.session_id, started.principal)
        }
        EventBody::SignInEnded(ended) => {
            let by = optional(ended.by.as_ref(), |by| format!(" by {by}"));
            format!("session {} of {}{by}", ended.session_id, ended.principal)
        }
        EventBody::SavedChanged(changed) => {
            let tool = optional(changed.tool_id.as_ref(), |tool| format!(" of {tool}"));
            let (action, id) = (word(changed.action), &changed.saved_id);
            format!("{}{tool} {action} by {} (saved {id})", changed.kind, changed.principal)
        }
        EventBody::KeyChanged(changed) => {
            let KeyChanged { principal, key_id, action, holder, replaces, .. } = changed;
            let grants: Vec<String> = [("roles", &changed.roles), ("scopes", &changed.scopes)]
                .iter()
                .filter(|(_, grants)| !grants.is_empty())
                .map(|(name, grants)| format!(", {name} {}", grants.join(" ")))
                .collect();
            let grants = grants.concat();
            let replaced = optional(replaces.as_ref(), |old| format!(" in place of {old}"));
            format!("{key_id} of {holder} {}{replaced} by {principal}{grants}", word(*action))
        }
        EventBody::AccountConnected(connected) => {
            let (of, by) = (connected.of.word(), &connected.principal);
            format!("account of the {of} at {} connected by {by}", connected.source_id)
        }
        EventBody::AccountDisconnected(ended) => {
            let holder = optional(ended.holder.as_ref(), |holder| format!(" {holder}"));
            let (of, by) = (ended.of.word(), &ended.principal);
            format!("account of the {of}{holder} at {} disconnected by {by}", ended.source_id)
        }
        EventBody::AccountRefused(refused) => {
            let (of, source) = (refused.of.word(), &refused.source_id);
            format!("account of the {of} at {source} refused in a call by {}", refused.principal)
        }
        EventBody::ClientSignedIn(started) => {
            let (client, person) = (&started.client_id, &started.principal);
            format!("client {client} of {person} by {}", started.by.word())
        }
        EventBody::ClientSignedOut(ended) => {
            let by = optional(ended.by.as_ref(), |by| format!(" by {by}"));
            let (client, person) = (&ended.client_id, &ended.principal);
            format!("client {client} of {person} {}{by}", ended.cause.word())
        }
        EventBody::RecordAccepted(accepted) => {
            let reason = optional(accepted.reason.as_ref(), |reason| format!(" ({reason})"));
            format!("by {}: {}{reason}", accepted.principal, accepted.problem)
        }
        EventBody::RecordResumed(resumed) => {
            let since = resumed.since.to_rfc3339_opts(SecondsFormat::Millis, true);
            let failed = counted(resumed.failed, "attempt");
            format!("{failed} failed since {since}")
        }
        EventBody::ToolSessionOpened(opened) => {
            format!("{} (session {})", opened.tool_id, opened.session_id)
        }
        EventBody::ToolSessionClosed(closed) => {
            format!("{} {} (session {})", closed.tool_id, word(closed.outcome), closed.session_id)
        }
        EventBody::ToolPinDrifted(drifted) => {
            let change = if drifted.approved.is_some() { "changed" } else { "is new" };
            let effect = if drifted.quarantined { "quarantined" } else { "offered" };
            format!("{} {change}, {effect}", drifted.tool_id)
        }
        EventBody::ToolPinApproved(approved) => {
            let by = optional(approved.principal.as_ref(), |by| format!(" by {by}"));
            let forms = if approved.keeps_earlier { " in one more form" } else { "" };
            format!("{} approved{forms}{by}", approved.tool_id)
        }
    }
}

fn describe_return(returned: &ToolReturned) -> String {
    let failed = returned.error.as_ref().filter(|_| returned.status == CallStatus::Error);
    let code = optional(failed, |error| format!(" {}", error.code));
    let took = optional(returned.duration_ms, |ms| format!(" after {ms} ms"));
    let (name, call) = (&returned.tool_name, &returned.call_id);
    format!("{name} {}{code}{took} (call {call})", word(returned.status))
}

fn describe_egress(decided: &EgressDecided) -> String {
    let reason = decided.reason.filter(|reason| *reason != EgressReason::Ok);
    let reason = optional(reason, |reason| format!(" ({})", word(reason)));
    let credential =
        optional(decided.credential_id.as_ref(), |id| format!(" with credential {id}"));
    let decision = word(decided.decision).replace('-', " ");
    format!("{} {decision}{reason}{credential}", decided.destination)
}

fn describe_rejection(rejected: &ApprovalRejected) -> String {
    match rejected.reason.as_deref() {
        Some("timeout") => format!("by timeout (approval {})", rejected.gate_id),
        _ => format!("by {} (approval {})", rejected.principal, rejected.gate_id),
    }
}

fn optional<T>(value: Option<T>, text: impl FnOnce(T) -> String) -> String {
    value.map(text).unwrap_or_default()
}

/// The name that `value`, of an enumeration, has in JSON.
fn word(value: impl Serialize) -> String {
    match serde_json::to_value(value) {
        Ok(Value::String(word)) => word,
        Ok(_) | Err(_) => String::new(),
    }
}
