//! Events in the names, the envelope and the payloads of v2 (events.md), made from the stored form.
//!
//! Payloads are closed. A fact without a member there is carried in a member with the prefix `x-`,
//! or in a text, and is never dropped. An event without a name in the registry is an event of this
//! product, with its stored payload.

use std::borrow::Cow;

use chrono::SecondsFormat;
use serde::Serialize;
use serde_json::{Map, Value, json};
use toolcrib_core::{
    event::{EventBody, RunEvent},
    id::{ApprovalId, KeyId, PrincipalId, TenantId},
};

use super::ids;

/// The version of the payloads.
const SCHEMA_VERSION: u32 = 1;

/// The name of an event.
pub(super) fn name(body: &EventBody) -> Cow<'static, str> {
    let registered = match body {
        EventBody::ToolCalled(_) => "agent.tool-called",
        EventBody::ToolReturned(_) => "agent.tool-returned",
        EventBody::ToolSessionOpened(_) => "tool.session-opened",
        EventBody::ToolSessionClosed(_) => "tool.session-closed",
        EventBody::AuthorizationDecided(_)
        | EventBody::EgressDecided(_)
        | EventBody::InterruptRequested(_)
        | EventBody::ApprovalGranted(_)
        | EventBody::ApprovalRejected(_)
        | EventBody::ApprovalOverridden(_) => body.kind(),
        EventBody::ToolPinDrifted(_) => "toolcrib.pin-drifted",
        EventBody::ToolPinApproved(_) => "toolcrib.pin-approved",
        _ => return format!("toolcrib.{}", body.kind().replace('.', "-")).into(),
    };
    registered.into()
}

/// Whether the stream mode `updates` has the event; `debug` has all.
pub(super) fn in_updates(body: &EventBody) -> bool {
    matches!(
        body,
        EventBody::InterruptRequested(_)
            | EventBody::ApprovalGranted(_)
            | EventBody::ApprovalRejected(_)
            | EventBody::ApprovalOverridden(_)
    )
}

/// Converts `event` of `tenant` to its envelope.
pub(super) fn document(tenant: &TenantId, event: &RunEvent) -> Value {
    let mut document = json!({
        "eventId": event.event_id,
        "runId": ids::bound(tenant, event.run_id.as_str()),
        "type": name(&event.body),
        "payload": payload(tenant, &event.body),
        "timestamp": event.timestamp.to_rfc3339_opts(SecondsFormat::Millis, true),
        "sequence": event.sequence,
        "schemaVersion": SCHEMA_VERSION,
    });
    if let (Some(document), Some(cause)) = (document.as_object_mut(), &event.causation_id) {
        document.insert("causationId".to_owned(), json!(cause));
    }
    document
}

fn payload(tenant: &TenantId, body: &EventBody) -> Value {
    match body {
        EventBody::ToolCalled(called) => {
            let mut payload = members(called);
            payload.insert("agentId".to_owned(), ids::authored(called.agent_id.as_str()).into());
            payload.into()
        }
        EventBody::ToolReturned(returned) => {
            let mut payload = members(returned);
            payload.insert("agentId".to_owned(), ids::authored(returned.agent_id.as_str()).into());
            rename(&mut payload, "principal", "x-principal");
            payload.into()
        }
        EventBody::AuthorizationDecided(decided) => {
            let mut payload = members(decided);
            payload.remove("missing");
            if let Some(repeated) = payload.remove("repeated") {
                let reason = decided.reason.as_deref().unwrap_or("refused");
                let reason = format!("{reason}, repeated {repeated} times");
                payload.insert("reason".to_owned(), reason.into());
            }
            payload.into()
        }
        EventBody::InterruptRequested(requested) => {
            let data = &requested.data;
            let role = data.required_role.as_ref().map(|role| format!(" and the role `{role}`"));
            let role = role.unwrap_or_default();
            json!({
                "kind": requested.kind,
                "key": requested.key,
                "timeoutMs": requested.timeout_ms,
                "data": {
                    "artifactId": data.artifact_id,
                    "artifactType": data.artifact_type,
                    "title": data.title,
                    "actions": data.actions,
                    "requiredApprovals": data.quorum.max(1),
                    "description": format!("needs the scope `{}`{role}", data.required_scope),
                },
            })
        }
        EventBody::ApprovalGranted(granted) => {
            let decision = Decision { gate: &granted.gate_id, by: &granted.principal };
            let progress =
                granted.quorum_progress.map(|quorum| ("x-quorum-progress", json!(quorum)));
            decision.payload(tenant, "granted", progress)
        }
        EventBody::ApprovalRejected(rejected) => {
            let decision = Decision { gate: &rejected.gate_id, by: &rejected.principal };
            let reason = rejected.reason.as_ref().map(|text| ("reason", json!(text)));
            decision.payload(tenant, "rejected", reason)
        }
        EventBody::ApprovalOverridden(overridden) => {
            let decision = Decision { gate: &overridden.gate_id, by: &overridden.principal };
            decision.payload(tenant, "overridden", Some(("reason", json!(overridden.reason))))
        }
        _ => members(body).remove("payload").unwrap_or_default(),
    }
}

/// A decision on an approval.
struct Decision<'a> {
    gate: &'a ApprovalId,
    by: &'a PrincipalId,
}

impl Decision<'_> {
    fn payload(
        &self,
        tenant: &TenantId,
        decision: &str,
        more: Option<(&'static str, Value)>,
    ) -> Value {
        let gate = ids::escaped(self.gate.as_str(), ids::in_ids);
        let mut payload = json!({
            // A call has no node, so this is the id of the approval.
            "nodeId": gate,
            "interruptId": format!("{}/{gate}", ids::tenant_id(tenant)),
            "kind": "approval",
            "decision": decision,
            "resolvedBy": subject(tenant, self.by, None),
        });
        if let (Some(payload), Some((name, value))) = (payload.as_object_mut(), more) {
            payload.insert(name.to_owned(), value);
        }
        payload
    }
}

/// The subject for `principal`. Without a known key, the record does not say how it was
/// authenticated, so the rule for such subjects applies (identity.md, section 1.2).
pub(super) fn subject(tenant: &TenantId, principal: &PrincipalId, key: Option<&KeyId>) -> Value {
    let issuer = match key {
        Some(_) => "urn:toolcrib:api-key",
        None => "urn:openwop:legacy",
    };
    json!({
        "issuer": issuer,
        "subjectId": ids::escaped(principal.as_str(), |byte| byte.is_ascii_graphic() && !b"/~".contains(&byte)),
        "tenant": ids::tenant_id(tenant),
        "lane": "api-key",
        "kind": "user",
    })
}

fn members(payload: &impl Serialize) -> Map<String, Value> {
    match serde_json::to_value(payload) {
        Ok(Value::Object(members)) => members,
        // Every payload is an object.
        Ok(_) | Err(_) => Map::new(),
    }
}

fn rename(payload: &mut Map<String, Value>, from: &str, to: &str) {
    if let Some(value) = payload.remove(from) {
        payload.insert(to.to_owned(), value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_outside_of_the_registry_are_of_this_product_and_keep_their_payload() {
        let ended = json!({ "principal": "ann", "sessionId": "s1", "by": "bob" });
        let accepted = json!({ "principal": "ann", "problem": "a gap" });
        let drifted = json!({
            "sourceId": "files", "toolId": "mcp:files.read", "seen": "ab", "quarantined": true,
        });
        let tenant = TenantId::parse("acme").unwrap();
        for (kind, stored, expected) in [
            ("sign-in.ended", ended, "toolcrib.sign-in-ended"),
            ("record.accepted", accepted, "toolcrib.record-accepted"),
            ("tool.pin.drifted", drifted, "toolcrib.pin-drifted"),
        ] {
            let body = EventBody::from_text(kind, &stored.to_string()).unwrap();
            assert_eq!((&*name(&body), payload(&tenant, &body)), (expected, stored));
        }
    }
}
