//! The record: RunEvents with a closed envelope, and the seam behind which they are kept.
//!
//! Payloads are content-free by construction: no type here has a place for arguments or results.

mod approval;

use async_trait::async_trait;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    clock::Timestamp,
    egress::EgressDecided,
    id::{AgentId, CallId, EventId, PrincipalId, RunId, SessionId, SourceId, TenantId, ToolId},
    record::Link,
    store::StoreError,
};

pub use self::approval::{
    ApprovalGranted, ApprovalOverridden, ApprovalRejected, GateData, InterruptKind,
    InterruptRequested, QuorumProgress,
};

/// One event as it is read and exported (`run-event.schema.json`). Nothing may be added to it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct RunEvent {
    /// Unique.
    pub event_id: EventId,
    /// The run.
    pub run_id: RunId,
    /// Type and payload, as the two members `type` and `payload`.
    #[serde(flatten)]
    pub body: EventBody,
    /// RFC 3339, UTC, milliseconds.
    #[serde(with = "millis")]
    pub timestamp: Timestamp,
    /// Per run, from 0, without gaps; assigned by the store inside the append.
    pub sequence: u64,
    /// The event that caused this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub causation_id: Option<EventId>,
}

/// An event that has no sequence yet.
#[derive(Debug, Clone, PartialEq)]
pub struct NewEvent {
    /// Unique.
    pub event_id: EventId,
    /// Whose log it goes to.
    pub tenant: TenantId,
    /// The run.
    pub run_id: RunId,
    /// Type and payload.
    pub body: EventBody,
    /// When it happened.
    pub timestamp: Timestamp,
    /// The event that caused this one.
    pub causation_id: Option<EventId>,
}

/// Type and payload of an event.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", content = "payload")]
pub enum EventBody {
    /// A caller asked for a tool (RFC 0064 §B). Durable before anything runs.
    #[serde(rename = "agent.toolCalled")]
    ToolCalled(ToolCalled),
    /// What became of it.
    #[serde(rename = "agent.toolReturned")]
    ToolReturned(ToolReturned),
    /// A denial (RFC 0049).
    #[serde(rename = "authorization.decided")]
    AuthorizationDecided(AuthorizationDecided),
    /// Whether a request left this host during a call, and where to (RFC 0079).
    #[serde(rename = "egress.decided")]
    EgressDecided(EgressDecided),
    /// An interaction begins to use a tool (RFC 0078 §D). Durable before the first call.
    #[serde(rename = "tool.session.opened")]
    ToolSessionOpened(ToolSessionOpened),
    /// It is over; nothing of that session follows.
    #[serde(rename = "tool.session.closed")]
    ToolSessionClosed(ToolSessionClosed),
    /// A tool is not as it was approved, or nobody has approved it. Once per form.
    #[serde(rename = "tool.pin.drifted")]
    ToolPinDrifted(ToolPinDrifted),
    /// Somebody approved a form of a tool.
    #[serde(rename = "tool.pin.approved")]
    ToolPinApproved(ToolPinApproved),
    /// A call waits for a human's consent (RFC 0051). Durable before anybody can give it.
    #[serde(rename = "interrupt.requested")]
    InterruptRequested(InterruptRequested),
    /// Somebody consented.
    #[serde(rename = "approval.granted")]
    ApprovalGranted(ApprovalGranted),
    /// Somebody did not, or nobody did in time.
    #[serde(rename = "approval.rejected")]
    ApprovalRejected(ApprovalRejected),
    /// Somebody let the call pass whoever else would have had to consent.
    #[serde(rename = "approval.overridden")]
    ApprovalOverridden(ApprovalOverridden),
    /// The operator accepted a record that does not continue what was signed.
    #[serde(rename = "record.accepted")]
    RecordAccepted(RecordAccepted),
}

/// Payload of `agent.toolCalled`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ToolCalled {
    /// The agent, or `core.system`.
    #[schemars(with = "String")]
    pub agent_id: AgentId,
    /// The tool's id.
    pub tool_name: String,
    /// Pairs the two events.
    #[schemars(with = "String")]
    pub call_id: CallId,
    /// SHA-256, lower hex, over the RFC 8785 form of the redacted arguments. Absent when they have no
    /// canonical form, and when the caller may not use the tool: nobody looks at arguments before that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub args_hash: Option<String>,
    /// Who called.
    #[schemars(with = "String")]
    pub principal: PrincipalId,
    /// How the tool is reached.
    pub transport: Transport,
}

/// How a tool is reached (RFC 0064 §B `transport`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Transport {
    /// An MCP server.
    Mcp,
    /// An HTTP service.
    Http,
    /// This process or this machine.
    Native,
}

/// Payload of `agent.toolReturned`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ToolReturned {
    /// The agent, or `core.system`.
    #[schemars(with = "String")]
    pub agent_id: AgentId,
    /// The tool's id.
    pub tool_name: String,
    /// Pairs the two events.
    #[schemars(with = "String")]
    pub call_id: CallId,
    /// What became of the call.
    pub status: CallStatus,
    /// Milliseconds the tool ran; absent when it never started, or when nobody saw the end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<u64>,
    /// Present on every status but `ok`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<EventError>,
    /// Who called. Absent when there was no call (a reference that
    /// was refused at load).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub principal: Option<PrincipalId>,
}

/// Outcome of a call (RFC 0064 §B `status`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CallStatus {
    /// The tool succeeded.
    Ok,
    /// It did not.
    Error,
    /// The caller may not use it, or it leads where this host does not connect; it never started.
    Forbidden,
    /// The bucket was empty; it never started.
    RateLimited,
}

/// Code and neutral message of a failure.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct EventError {
    /// Stable code.
    pub code: String,
    /// Fixed text: never a tool's own words.
    pub message: String,
}

/// Payload of `authorization.decided` (RFC 0049). Written for denials.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AuthorizationDecided {
    /// Who asked; `anonymous` when nobody proved anything.
    #[schemars(with = "String")]
    pub principal: PrincipalId,
    /// What was asked for, for example `tools:read` or `tools:call`.
    pub action: String,
    /// On what: a tool id, a route template, `unknown`, or `*` for several.
    pub resource: String,
    /// The decision.
    pub allowed: bool,
    /// Why: `unauthenticated`, `tenant`, `scope`, `unlabelled`, `policy`, `undecided` or `unknown`; for
    /// calls refused by a later step that are counted together, the code of the refusal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// How often the same happened in addition to this once, so the total is one more. Refusals beyond
    /// what a caller may have recorded one by one are counted together in one event.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repeated: Option<u64>,
}

/// Payload of `tool.session.opened`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ToolSessionOpened {
    /// The same in all events of the session.
    #[schemars(with = "String")]
    pub session_id: SessionId,
    /// The tool.
    #[schemars(with = "String")]
    pub tool_id: ToolId,
}

/// Payload of `tool.session.closed`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ToolSessionClosed {
    /// The same as when it was opened.
    #[schemars(with = "String")]
    pub session_id: SessionId,
    /// The tool.
    #[schemars(with = "String")]
    pub tool_id: ToolId,
    /// How it ended.
    pub outcome: SessionOutcome,
}

/// How a tool session ended. It tells of the interaction, not of the calls in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum SessionOutcome {
    /// Whoever held it ended it.
    Completed,
    /// It expired, or what ran it ended first.
    Failed,
    /// Whoever held it went away without ending it.
    Cancelled,
}

/// Payload of `tool.pin.drifted`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ToolPinDrifted {
    /// The source.
    #[schemars(with = "String")]
    pub source_id: SourceId,
    /// The tool.
    #[schemars(with = "String")]
    pub tool_id: ToolId,
    /// SHA-256 of the approved form; absent when none was ever approved.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approved: Option<String>,
    /// SHA-256 of the form that was seen.
    pub seen: String,
    /// Whether the tool is left out until somebody approves it.
    pub quarantined: bool,
}

/// Payload of `tool.pin.approved`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ToolPinApproved {
    /// The source.
    #[schemars(with = "String")]
    pub source_id: SourceId,
    /// The tool.
    #[schemars(with = "String")]
    pub tool_id: ToolId,
    /// SHA-256 of the form that was approved before; absent when none was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<String>,
    /// SHA-256 of the form that is approved now.
    pub approved: String,
    /// Who approved it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub principal: Option<PrincipalId>,
}

/// Payload of `record.accepted`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RecordAccepted {
    /// Who accepted it.
    #[schemars(with = "String")]
    pub principal: PrincipalId,
    /// What was wrong with the record.
    pub problem: String,
    /// Number of the checkpoint that was signed last; absent when that is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checkpoint: Option<u64>,
    /// Why the operator accepted it, in the operator's words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

impl EventBody {
    /// The event's type as it stands on the wire.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::ToolCalled(_) => "agent.toolCalled",
            Self::ToolReturned(_) => "agent.toolReturned",
            Self::AuthorizationDecided(_) => "authorization.decided",
            Self::EgressDecided(_) => "egress.decided",
            Self::ToolSessionOpened(_) => "tool.session.opened",
            Self::ToolSessionClosed(_) => "tool.session.closed",
            Self::ToolPinDrifted(_) => "tool.pin.drifted",
            Self::ToolPinApproved(_) => "tool.pin.approved",
            Self::InterruptRequested(_) => "interrupt.requested",
            Self::ApprovalGranted(_) => "approval.granted",
            Self::ApprovalRejected(_) => "approval.rejected",
            Self::ApprovalOverridden(_) => "approval.overridden",
            Self::RecordAccepted(_) => "record.accepted",
        }
    }

    /// The payload alone, as it stands in the event's `payload` member and is kept and hashed.
    ///
    /// # Errors
    /// None in practice: every payload has a JSON form.
    pub fn payload_text(&self) -> Result<String, serde_json::Error> {
        match self {
            Self::ToolCalled(payload) => serde_json::to_string(payload),
            Self::ToolReturned(payload) => serde_json::to_string(payload),
            Self::AuthorizationDecided(payload) => serde_json::to_string(payload),
            Self::EgressDecided(payload) => serde_json::to_string(payload),
            Self::ToolSessionOpened(payload) => serde_json::to_string(payload),
            Self::ToolSessionClosed(payload) => serde_json::to_string(payload),
            Self::ToolPinDrifted(payload) => serde_json::to_string(payload),
            Self::ToolPinApproved(payload) => serde_json::to_string(payload),
            Self::InterruptRequested(payload) => serde_json::to_string(payload),
            Self::ApprovalGranted(payload) => serde_json::to_string(payload),
            Self::ApprovalRejected(payload) => serde_json::to_string(payload),
            Self::ApprovalOverridden(payload) => serde_json::to_string(payload),
            Self::RecordAccepted(payload) => serde_json::to_string(payload),
        }
    }
}

/// An event together with where it stands in the log that was read.
#[derive(Debug, Clone, PartialEq)]
pub struct LoggedEvent {
    /// A cursor for readers, strictly increasing. For a query with a tenant: the position in that
    /// tenant's own log, 1, 2, 3… without gaps, so that it tells nothing of other tenants (I-9).
    /// For one without: the position in the whole log.
    pub position: u64,
    /// Whose it is.
    pub tenant: TenantId,
    /// What ties it to the event before it in its tenant's log.
    pub link: Link,
    /// The event.
    pub event: RunEvent,
}

/// Which events to read.
#[derive(Debug, Clone, Default)]
pub struct EventQuery {
    /// Only this tenant's.
    pub tenant: Option<TenantId>,
    /// Only this run's.
    pub run: Option<RunId>,
    /// Only events at positions greater than this: in the log of `tenant` when there is one, else in
    /// the whole log. A cursor of the one kind means nothing to the other.
    pub after: Option<u64>,
    /// At most this many; 0 means the store's own cap (1 000).
    pub limit: usize,
    /// The newest `limit` events instead of the oldest, still in ascending order.
    pub newest: bool,
}

/// Durable, append-only record.
///
/// An implementation passes `toolcrib_store::conformance`.
#[async_trait]
pub trait EventLog: Send + Sync + 'static {
    /// Stores `events` in order, atomically, and returns their positions in the whole log once they
    /// are durable. Sequences per run and positions per tenant are assigned inside the same
    /// transaction.
    ///
    /// # Errors
    /// [`StoreError`]: nothing of this append was stored.
    async fn append(&self, events: Vec<NewEvent>) -> Result<Vec<u64>, StoreError>;

    /// Reads events in ascending position.
    async fn read(&self, query: EventQuery) -> Result<Vec<LoggedEvent>, StoreError>;
}

/// RFC 3339 with exactly three decimals and `Z`.
mod millis {
    use chrono::{DateTime, SecondsFormat, Utc};
    use serde::{Deserialize, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(at: &DateTime<Utc>, s: S) -> Result<S::Ok, S::Error> {
        s.serialize_str(&at.to_rfc3339_opts(SecondsFormat::Millis, true))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(d: D) -> Result<DateTime<Utc>, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(d)?;
        DateTime::parse_from_rfc3339(&text)
            .map(|at| at.with_timezone(&Utc))
            .map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn returned() -> Value {
        json!({
            "eventId": "e2",
            "runId": "r1",
            "type": "agent.toolReturned",
            "payload": {
                "agentId": "core.system",
                "toolName": "mcp:files.read",
                "callId": "c1",
                "status": "rate_limited",
                "durationMs": 12,
                "error": { "code": "upstream_died", "message": "gone" },
            },
            "timestamp": "2026-11-20T10:00:00.120Z",
            "sequence": 1,
            "causationId": "e1",
        })
    }

    #[test]
    fn events_are_read_and_written_as_they_stand_on_the_wire() {
        let called = json!({
            "eventId": "e1",
            "runId": "r1",
            "type": "agent.toolCalled",
            "payload": {
                "agentId": "core.system",
                "toolName": "mcp:files.read",
                "callId": "c1",
                "argsHash": "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a",
                "principal": "ann",
                "transport": "mcp",
            },
            "timestamp": "2026-11-20T10:00:00.000Z",
            "sequence": 0,
        });
        let decided = json!({
            "eventId": "e3",
            "runId": "r1",
            "type": "authorization.decided",
            "payload": {
                "principal": "ann",
                "action": "tools:call",
                "resource": "unknown",
                "allowed": false,
                "reason": "tenant",
            },
            "timestamp": "2026-11-20T10:00:00.999Z",
            "sequence": 2,
        });
        let opened = json!({
            "eventId": "e4",
            "runId": "r1",
            "type": "tool.session.opened",
            "payload": { "sessionId": "s1", "toolId": "mcp:files.read" },
            "timestamp": "2026-11-20T10:00:01.000Z",
            "sequence": 3,
        });
        let mut closed = opened.clone();
        closed["type"] = json!("tool.session.closed");
        closed["payload"]["outcome"] = json!("cancelled");
        closed["causationId"] = json!("e4");
        let egress = json!({
            "eventId": "e5",
            "runId": "r1",
            "type": "egress.decided",
            "payload": {
                "decision": "denied",
                "destination": "169.254.169.254",
                "reason": "ssrf-blocked",
                "credentialId": "k1",
            },
            "timestamp": "2026-11-20T10:00:01.000Z",
            "sequence": 4,
            "causationId": "e1",
        });
        let in_run = |kind: &str, payload: Value| {
            json!({
                "eventId": "e6",
                "runId": "r1",
                "type": kind,
                "payload": payload,
                "timestamp": "2026-11-20T10:00:01.000Z",
                "sequence": 5,
            })
        };
        let requested = in_run(
            "interrupt.requested",
            json!({
                "kind": "approval",
                "key": "a1",
                "timeoutMs": 900_000,
                "data": {
                    "gateId": "a1",
                    "artifactId": "mcp:files.write",
                    "artifactType": "tool-call",
                    "title": "consent to a call",
                    "actions": ["accept", "reject"],
                    "requiredScope": "approvals:respond",
                    "quorum": 2,
                },
            }),
        );
        let granted = json!({
            "gateId": "a1", "principal": "bob", "quorumProgress": { "granted": 1, "required": 2 },
        });
        let rejected = json!({ "gateId": "a1", "principal": "bob", "reason": "rejected" });
        let granted = in_run("approval.granted", granted);
        let overridden = in_run("approval.overridden", rejected.clone());
        let rejected = in_run("approval.rejected", rejected);
        let mut by_ann = returned();
        by_ann["payload"]["principal"] = json!("ann");
        let of_approvals = [requested, granted, rejected, overridden];
        let others = [called, returned(), by_ann, decided, opened, closed, egress];
        for document in others.into_iter().chain(of_approvals) {
            let event: RunEvent = serde_json::from_value(document.clone()).unwrap();
            assert_eq!(event.body.kind(), document["type"]);
            assert_eq!(serde_json::to_value(&event).unwrap(), document);
            let text = document.to_string();
            assert_eq!(serde_json::from_str::<RunEvent>(&text).unwrap(), event, "from text, too");
        }
    }

    #[test]
    fn what_is_not_an_event_is_refused() {
        for (member, value) in [
            ("type", json!("agent.somethingElse")),
            ("timestamp", json!("yesterday")),
            ("sequence", json!(-1)),
            ("eventId", json!("")),
            ("payload", json!({})),
        ] {
            let mut document = returned();
            document[member] = value;
            assert!(serde_json::from_value::<RunEvent>(document).is_err(), "{member}");
        }
        let mut open = returned();
        open["tenant"] = json!("acme");
        assert!(serde_json::from_value::<RunEvent>(open).is_err(), "the envelope is closed");
    }

    // I-20
    #[test]
    fn the_payloads_have_no_place_for_content() {
        let schema = schemars::schema_for!(EventBody).to_value();
        let mut members = std::collections::BTreeSet::new();
        collect_members(&schema, &mut members);
        let known = [
            "action",
            "actions",
            "agentId",
            "allowed",
            "approved",
            "argsHash",
            "artifactId",
            "artifactType",
            "before",
            "callId",
            "checkpoint",
            "code",
            "credentialId",
            "data",
            "decision",
            "destination",
            "durationMs",
            "error",
            "gateId",
            "granted",
            "key",
            "kind",
            "message",
            "outcome",
            "payload",
            "principal",
            "problem",
            "quarantined",
            "quorum",
            "quorumProgress",
            "reason",
            "repeated",
            "required",
            "requiredRole",
            "requiredScope",
            "resource",
            "seen",
            "sessionId",
            "sourceId",
            "status",
            "timeoutMs",
            "title",
            "toolId",
            "toolName",
            "transport",
            "type",
        ];
        assert_eq!(members.into_iter().collect::<Vec<_>>(), known);
        // `outcome` of a call would be its result; that of a session is one of three words.
        let outcome = schemars::schema_for!(SessionOutcome).to_value();
        let words = outcome["oneOf"].as_array().unwrap().iter().map(|word| word["const"].clone());
        assert_eq!(words.collect::<Vec<_>>(), ["completed", "failed", "cancelled"]);
    }

    fn collect_members(schema: &Value, out: &mut std::collections::BTreeSet<String>) {
        if let Some(properties) = schema.get("properties").and_then(Value::as_object) {
            out.extend(properties.keys().cloned());
        }
        match schema {
            Value::Object(members) => members.values().for_each(|m| collect_members(m, out)),
            Value::Array(items) => items.iter().for_each(|item| collect_members(item, out)),
            _ => {}
        }
    }
}
