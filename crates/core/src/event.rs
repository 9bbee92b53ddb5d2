//! The event log: RunEvents with a closed envelope, and the storage trait for them.
//!
//! Payloads are content-free by construction: no type here has a field for arguments or results.

mod account;
mod approval;
mod client;
mod filter;
mod key;
mod pin;
mod saved;
mod sign_in;

use async_trait::async_trait;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    clock::Timestamp,
    egress::EgressDecided,
    id::{AgentId, CallId, EventId, PrincipalId, RunId, SessionId, TenantId, ToolId},
    record::{Link, StoredEvent},
    store::StoreError,
};

pub use self::{
    account::{AccountConnected, AccountDisconnected, AccountRefused},
    approval::{
        ApprovalGranted, ApprovalOverridden, ApprovalRejected, GateData, InterruptKind,
        InterruptRequested, QuorumProgress,
    },
    client::{ClientEnd, ClientSignedIn, ClientSignedOut},
    filter::{
        Condition, EventFilter, Fact, InvalidFilter, MAX_TERMS, RunTime, StatusFilter, Term,
        TextPattern, Word,
    },
    key::{KeyAction, KeyChanged},
    pin::{ToolPinApproved, ToolPinDrifted},
    saved::{SavedAction, SavedChanged},
    sign_in::{SignInEnded, SignInStarted},
};

/// One event as read and exported (`run-event.schema.json`). The format is closed.
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
    #[serde(with = "crate::clock::millis")]
    pub timestamp: Timestamp,
    /// Per run, from 0, without gaps; assigned by the store inside the append.
    pub sequence: u64,
    /// The event that caused this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub causation_id: Option<EventId>,
}

/// An event without a sequence yet.
#[derive(Debug, Clone, PartialEq)]
pub struct NewEvent {
    /// Unique.
    pub event_id: EventId,
    /// The tenant whose log it belongs to.
    pub tenant: TenantId,
    /// The run.
    pub run_id: RunId,
    /// Type and payload.
    pub body: EventBody,
    /// When it occurred.
    pub timestamp: Timestamp,
    /// The event that caused this one.
    pub causation_id: Option<EventId>,
}

impl NewEvent {
    /// Whether it only completes the record of a call whose opening event is stored: the return of
    /// the call, or a decision about its destination.
    pub fn completes_call(&self) -> bool {
        matches!(self.body, EventBody::ToolReturned(_) | EventBody::EgressDecided(_))
            && self.causation_id.is_some()
    }
}

/// Defines [`EventBody`] from its types: `Payload = "name on the wire"`. A variant has the name of
/// its payload.
macro_rules! event_types {
    ($($(#[$doc:meta])* $payload:ident = $kind:tt,)*) => {
        /// Type and payload of an event.
        #[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
        #[serde(tag = "type", content = "payload")]
        pub enum EventBody {
            $($(#[$doc])* #[serde(rename = $kind)] $payload($payload),)*
        }

        impl EventBody {
            /// The types, as on the wire. Stores save indexes into this list.
            pub const KINDS: &[&str] = &[$($kind),*];

            /// The event's type as it appears on the wire.
            pub fn kind(&self) -> &'static str {
                match self {
                    $(Self::$payload(_) => $kind,)*
                }
            }

            /// The payload as JSON text, as it is stored and hashed.
            ///
            /// # Errors
            /// Never in practice: every payload has a JSON form.
            pub fn payload_text(&self) -> Result<String, serde_json::Error> {
                match self {
                    $(Self::$payload(payload) => serde_json::to_string(payload),)*
                }
            }

            /// Reads an event of the type `kind` from the text of its payload. `None` if the type
            /// is unknown or the payload is malformed.
            pub fn from_text(kind: &str, payload: &str) -> Option<Self> {
                match kind {
                    $($kind => serde_json::from_str(payload).map(Self::$payload).ok(),)*
                    _ => None,
                }
            }
        }
    };
}

// Stores save the places of the types, so their order is fixed and new types go last.
event_types! {
    /// A call of a tool (RFC 0064 §B). Durable before anything runs.
    ToolCalled = "agent.toolCalled",
    /// The result of the call.
    ToolReturned = "agent.toolReturned",
    /// A denial (RFC 0049).
    AuthorizationDecided = "authorization.decided",
    /// Whether a request of a call left this host, and to which host (RFC 0079).
    EgressDecided = "egress.decided",
    /// An interaction starts to use a tool (RFC 0078 §D). Durable before the first call.
    ToolSessionOpened = "tool.session.opened",
    /// The session is over; no event of it follows.
    ToolSessionClosed = "tool.session.closed",
    /// A tool differs from its approved form, or has no approved form. Recorded once per form.
    ToolPinDrifted = "tool.pin.drifted",
    /// A form of a tool was approved.
    ToolPinApproved = "tool.pin.approved",
    /// A call requires an approval (RFC 0051). Durable before anyone can approve it.
    InterruptRequested = "interrupt.requested",
    /// A principal approved the call.
    ApprovalGranted = "approval.granted",
    /// A principal rejected the call, or the approval expired.
    ApprovalRejected = "approval.rejected",
    /// A principal approved the call, bypassing the quorum.
    ApprovalOverridden = "approval.overridden",
    /// The operator accepted a record that does not continue the signed one.
    RecordAccepted = "record.accepted",
    /// A principal changed the configuration file, or had a new source connected for a preview.
    /// Durable before the action.
    ConfigEdited = "config.edited",
    /// Events can be stored again.
    RecordResumed = "record.resumed",
    /// A browser session started. Durable before it exists.
    SignInStarted = "sign-in.started",
    /// A browser session was closed before its expiry.
    SignInEnded = "sign-in.ended",
    /// A principal saved or removed a view or a call of its tenant.
    SavedChanged = "saved.changed",
    /// A key was created or revoked. Durable before a new key works, and after a revocation.
    KeyChanged = "key.changed",
    /// A principal connected an account to a source. Durable before calls use it.
    AccountConnected = "account.connected",
    /// An account was disconnected.
    AccountDisconnected = "account.disconnected",
    /// A service no longer accepts an account. Recorded once per grant and server.
    AccountRefused = "account.refused",
    /// A client may act for a person from now on. Durable before it gets a code or a token.
    ClientSignedIn = "client.signed-in",
    /// A client may no longer act for a person, before the grant expired.
    ClientSignedOut = "client.signed-out",
}

/// Payload of `agent.toolCalled`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ToolCalled {
    /// The agent, or `core.system`.
    pub agent_id: AgentId,
    /// The tool's id.
    pub tool_name: String,
    /// Pairs the two events.
    pub call_id: CallId,
    /// SHA-256, lower hex, over the RFC 8785 form of the redacted arguments. Absent when they have
    /// no canonical form. Also absent when the caller may not use the tool, because arguments are
    /// not read before that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub args_hash: Option<String>,
    /// The caller.
    pub principal: PrincipalId,
    /// Who acts for the caller, as the claim `act` of its token says (RFC 8693, section 4.1): at
    /// most 4 ids, the present actor first. An actor without a readable id is `core.unreadable`,
    /// and so is the fourth one of a longer chain.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub actors: Vec<PrincipalId>,
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
    pub agent_id: AgentId,
    /// The tool's id.
    pub tool_name: String,
    /// Pairs the two events.
    pub call_id: CallId,
    /// The result of the call.
    pub status: CallStatus,
    /// Milliseconds the tool ran; absent if it never started, or if its end was not observed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<u64>,
    /// Present on every status but `ok`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<EventError>,
    /// The caller. Absent without a call (a reference that was refused at load).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub principal: Option<PrincipalId>,
}

impl ToolReturned {
    /// Creates the payload without its optional members, for `..` in a literal that sets some of
    /// them.
    pub fn new(
        agent_id: AgentId,
        tool_name: impl Into<String>,
        call_id: CallId,
        status: CallStatus,
    ) -> Self {
        let tool_name = tool_name.into();
        Self {
            agent_id,
            tool_name,
            call_id,
            status,
            duration_ms: None,
            error: None,
            principal: None,
        }
    }
}

/// Outcome of a call (RFC 0064 §B `status`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CallStatus {
    /// The tool succeeded.
    Ok,
    /// The tool or its source failed.
    Error,
    /// The caller may not use it, or its target is not allowed on this host; it never started.
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

impl EventError {
    /// Creates an error from its code and its fixed text.
    pub fn new(code: impl Into<String>, message: impl Into<String>) -> Self {
        Self { code: code.into(), message: message.into() }
    }
}

/// Payload of `authorization.decided` (RFC 0049). Written for denials.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AuthorizationDecided {
    /// The caller; `anonymous` without credentials.
    pub principal: PrincipalId,
    /// The denied action, for example `tools:read` or `tools:call`.
    pub action: String,
    /// The resource: a tool id, a route template, `unknown`, or `*` for several.
    pub resource: String,
    /// The decision.
    pub allowed: bool,
    /// The reason: `unauthenticated`, `tenant`, `scope`, `unlabelled`, `policy`, `undecided` or
    /// `unknown`. For calls refused by a later step that are counted together, the code of the
    /// refusal. For a browser that comes back from a service or an identity provider: what does not
    /// fit, such as `other_browser`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// With the reason `scope`: the scopes that the principal did not have. Absent for calls that are
    /// counted together.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missing: Vec<String>,
    /// The number of repetitions in addition to this event, so the total is one more. Refusals beyond
    /// the individually recorded ones are counted together in one event.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repeated: Option<u64>,
}

/// Payload of `tool.session.opened`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ToolSessionOpened {
    /// The same in all events of the session.
    pub session_id: SessionId,
    /// The tool.
    pub tool_id: ToolId,
}

/// Payload of `tool.session.closed`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ToolSessionClosed {
    /// The same as in `tool.session.opened`.
    pub session_id: SessionId,
    /// The tool.
    pub tool_id: ToolId,
    /// The outcome of the session.
    pub outcome: SessionOutcome,
}

/// The outcome of a tool session. It describes the interaction, not its calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum SessionOutcome {
    /// Its holder closed it.
    Completed,
    /// It expired, or the process that ran it exited first.
    Failed,
    /// Its holder disconnected without closing it.
    Cancelled,
}

/// Payload of `record.accepted`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RecordAccepted {
    /// The accepting principal.
    pub principal: PrincipalId,
    /// The problem found in the record.
    pub problem: String,
    /// Number of the last signed checkpoint; absent if unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checkpoint: Option<u64>,
    /// The operator's reason.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// Payload of `record.resumed`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RecordResumed {
    /// When the first event could not be stored.
    #[schemars(with = "String")]
    pub since: Timestamp,
    /// The number of failed attempts of calls and other requests.
    pub failed: u64,
}

/// Payload of `config.edited`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ConfigEdited {
    /// The editing principal.
    pub principal: PrincipalId,
    /// What happened.
    pub action: ConfigAction,
    /// SHA-256 of the file before.
    pub before: String,
    /// SHA-256 of the file after, or of the proposed one.
    pub after: String,
}

/// What a principal did with the configuration file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum ConfigAction {
    /// Had the sources of a proposal connected to see their tools. The file is unchanged.
    Previewed,
    /// Wrote the file.
    Written,
    /// The file could not be put in place after `written` was recorded; the one before is in force.
    Failed,
}

impl EventBody {
    /// The principal whose request the event records. Principals that answer an approval request of
    /// another one do not count.
    pub fn actor(&self) -> Option<&PrincipalId> {
        match self {
            Self::ToolCalled(called) => Some(&called.principal),
            Self::AuthorizationDecided(decided) => Some(&decided.principal),
            Self::ToolPinApproved(approved) => approved.principal.as_ref(),
            Self::RecordAccepted(accepted) => Some(&accepted.principal),
            Self::ConfigEdited(edited) => Some(&edited.principal),
            Self::SignInStarted(started) => Some(&started.principal),
            Self::SignInEnded(ended) => ended.by.as_ref().or(Some(&ended.principal)),
            Self::SavedChanged(changed) => Some(&changed.principal),
            Self::KeyChanged(changed) => Some(&changed.principal),
            Self::AccountConnected(connected) => Some(&connected.principal),
            Self::AccountDisconnected(disconnected) => Some(&disconnected.principal),
            Self::AccountRefused(refused) => Some(&refused.principal),
            Self::ClientSignedIn(started) => Some(&started.principal),
            Self::ClientSignedOut(ended) => ended.by.as_ref().or(Some(&ended.principal)),
            Self::ToolReturned(_)
            | Self::ToolPinDrifted(_)
            | Self::EgressDecided(_)
            | Self::ToolSessionOpened(_)
            | Self::ToolSessionClosed(_)
            | Self::InterruptRequested(_)
            | Self::ApprovalGranted(_)
            | Self::ApprovalRejected(_)
            | Self::ApprovalOverridden(_)
            | Self::RecordResumed(_) => None,
        }
    }
}

/// An event with its position in the log.
#[derive(Debug, Clone, PartialEq)]
pub struct LoggedEvent {
    /// A cursor for readers, strictly increasing. For a query with a tenant: the position in that
    /// tenant's own log, 1, 2, 3… without gaps, so that it reveals nothing about other tenants
    /// (I-9). For a query without one: the position in the whole log.
    pub position: u64,
    /// The tenant.
    pub tenant: TenantId,
    /// The link to the previous event in its tenant's log.
    pub link: Link,
    /// The event.
    pub event: RunEvent,
}

impl RunEvent {
    /// The event as stored at `position` of the log of `tenant`, without link and global position.
    ///
    /// # Errors
    /// See [`EventBody::payload_text`].
    pub fn stored(&self, tenant: &str, position: u64) -> Result<StoredEvent, serde_json::Error> {
        Ok(StoredEvent {
            tenant: tenant.to_owned(),
            tenant_position: position,
            event_id: self.event_id.to_string(),
            run_id: self.run_id.to_string(),
            sequence: self.sequence,
            kind: self.body.kind().to_owned(),
            timestamp: crate::clock::millis::text(&self.timestamp),
            causation_id: self.causation_id.as_ref().map(ToString::to_string),
            payload: self.body.payload_text()?,
            ..StoredEvent::default()
        })
    }
}

impl LoggedEvent {
    /// The event as it is stored and exported.
    ///
    /// # Errors
    /// See [`EventBody::payload_text`].
    pub fn stored(&self) -> Result<StoredEvent, serde_json::Error> {
        let Self { position, tenant, link, event } = self;
        Ok(StoredEvent {
            position: *position,
            prev: Some(link.prev),
            hash: Some(link.hash),
            ..event.stored(tenant.as_str(), link.position)?
        })
    }
}

/// Which events to read.
#[derive(Debug, Clone, Default)]
pub struct EventQuery {
    /// Only this tenant's.
    pub tenant: Option<TenantId>,
    /// Only this run's.
    pub run: Option<RunId>,
    /// Only events at positions greater than this: in the log of `tenant` when set, else in the
    /// whole log. A cursor of one kind is invalid for the other.
    pub after: Option<u64>,
    /// The most to return; 0 means the store's own cap (1 000).
    pub limit: usize,
    /// Selects the newest `limit` events in place of the oldest, still in ascending order.
    pub newest: bool,
}

/// The durable, append-only event log.
///
/// An implementation passes `toolcrib_store::conformance`.
#[async_trait]
pub trait EventLog: Send + Sync + 'static {
    /// Stores `events` in order, atomically, and returns their positions in the whole log once they
    /// are durable. Sequences per run and positions per tenant are assigned inside the same
    /// transaction.
    ///
    /// # Errors
    /// [`StoreError`]; in that case no event of this append is stored. [`StoreError::Conflict`] if
    /// this process recently appended an event with the same id.
    async fn append(&self, events: &[NewEvent]) -> Result<Vec<u64>, StoreError>;

    /// Reads events in ascending position.
    async fn read(&self, query: EventQuery) -> Result<Vec<LoggedEvent>, StoreError>;

    /// Returns the events at these positions in the whole log, in ascending position, without those
    /// that were removed. At most 1 000 positions.
    async fn at(&self, positions: &[u64]) -> Result<Vec<LoggedEvent>, StoreError>;
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
    fn events_are_read_and_written_in_their_wire_form() {
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
    fn malformed_events_are_refused() {
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
            "actors",
            "after",
            "agentId",
            "allowed",
            "approved",
            "argsHash",
            "artifactId",
            "artifactType",
            "before",
            "by",
            "callId",
            "cause",
            "checkpoint",
            "clientId",
            "code",
            "credentialId",
            "data",
            "decision",
            "destination",
            "durationMs",
            "error",
            "expiresAt",
            "failed",
            "gateId",
            "grantId",
            "granted",
            "holder",
            "keepsEarlier",
            "key",
            "keyId",
            "kind",
            "message",
            "missing",
            "of",
            "outcome",
            "payload",
            "principal",
            "problem",
            "quarantined",
            "quorum",
            "quorumProgress",
            "reason",
            "repeated",
            "replaces",
            "required",
            "requiredRole",
            "requiredScope",
            "resource",
            "roles",
            "savedId",
            "scopes",
            "seen",
            "sessionId",
            "since",
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
        // The `outcome` of a call would be its result; that of a session is one of three words.
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
