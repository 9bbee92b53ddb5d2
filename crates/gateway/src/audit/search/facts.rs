//! The facts of an event for searches. They come from the stored row, so that a row changed by
//! another program hides no other.

use std::{borrow::Cow, collections::HashMap};

use serde::Deserialize;
use sha2::{Digest as _, Sha256};
use toolcrib_core::{clock::Timestamp, event::EventBody, record::StoredEvent};

/// The place of `agent.toolReturned` in [`EventBody::KINDS`].
pub(super) const RETURNED: u8 = 1;
/// The place of `authorization.decided` in [`EventBody::KINDS`].
pub(super) const DECIDED: u8 = 2;
/// The type of an event that this version does not know.
pub(super) const UNKNOWN: u8 = 31;

/// The statuses, in a fixed order. The first is for events without a status.
pub(super) const STATUSES: [&str; 6] = ["", "ok", "error", "forbidden", "rate_limited", "denied"];
pub(super) const OK: u8 = 1;
pub(super) const ERROR: u8 = 2;
pub(super) const FORBIDDEN: u8 = 3;
pub(super) const RATE_LIMITED: u8 = 4;
pub(super) const DENIED: u8 = 5;

/// The code of a call that stopped because it requires an approval. It has not failed.
const APPROVAL_REQUIRED: &str = "approval_required";

/// The place of the code `approval_required` among `codes`.
pub(super) fn approval_required(codes: &[String]) -> Option<u16> {
    let place = codes.iter().position(|code| code == APPROVAL_REQUIRED)?;
    u16::try_from(place).ok()
}

/// The facts of one event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Facts {
    pub(super) position: u64,
    pub(super) tenant: String,
    pub(super) tenant_position: u64,
    /// Milliseconds since the Unix epoch.
    pub(super) at: i64,
    /// A place in [`EventBody::KINDS`].
    pub(super) kind: u8,
    /// A place in [`STATUSES`].
    pub(super) status: u8,
    /// The principal; may be empty.
    pub(super) principal: String,
    /// The id of the tool; may be empty.
    pub(super) tool: String,
    /// An error code, or the reason of a denial; may be empty.
    pub(super) code: String,
    /// For a completed call: its run time in milliseconds. For a denial: the number of denials
    /// outside of recorded calls.
    pub(super) number: Option<u32>,
    /// The keys of the ids of the event, of its run, and of its call, session or approval.
    pub(super) ids: [u64; 3],
}

/// The principals and tools of the events of this segment and of the previous one, for the events
/// that they caused. Invariant: the keys are whole ids, so an event never gets values of another
/// cause.
#[derive(Debug, Default)]
pub(super) struct Causes {
    new: HashMap<u128, (String, String)>,
    old: HashMap<u128, (String, String)>,
}

impl Causes {
    /// Starts the next segment after a full one.
    pub(super) fn next_segment(self) -> Self {
        Self { new: HashMap::new(), old: self.new }
    }

    fn get(&self, event: &str) -> Option<&(String, String)> {
        let key = cause_key(event);
        self.new.get(&key).or_else(|| self.old.get(&key))
    }

    /// Whether the event is known.
    pub(super) fn has(&self, event: &str) -> bool {
        self.get(event).is_some()
    }
}

/// The searchable members of payloads. Unknown ones are ignored.
#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Payload<'a> {
    #[serde(borrow)]
    principal: Option<Cow<'a, str>>,
    #[serde(borrow)]
    tool_name: Option<Cow<'a, str>>,
    #[serde(borrow)]
    tool_id: Option<Cow<'a, str>>,
    #[serde(borrow)]
    resource: Option<Cow<'a, str>>,
    #[serde(borrow)]
    call_id: Option<Cow<'a, str>>,
    #[serde(borrow)]
    session_id: Option<Cow<'a, str>>,
    #[serde(borrow)]
    gate_id: Option<Cow<'a, str>>,
    #[serde(borrow)]
    key: Option<Cow<'a, str>>,
    #[serde(borrow)]
    status: Option<Cow<'a, str>>,
    #[serde(borrow)]
    reason: Option<Cow<'a, str>>,
    duration_ms: Option<u64>,
    repeated: Option<u64>,
    allowed: Option<bool>,
    error: Option<Code<'a>>,
    data: Option<Artifact<'a>>,
}

#[derive(Deserialize)]
struct Code<'a> {
    #[serde(borrow)]
    code: Cow<'a, str>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Artifact<'a> {
    #[serde(borrow)]
    artifact_id: Cow<'a, str>,
}

impl Facts {
    /// Reads the facts of `event`. An event without a principal or a tool has those of its cause.
    pub(super) fn new(event: &StoredEvent, causes: &mut Causes) -> Self {
        let payload: Payload<'_> = serde_json::from_str(&event.payload).unwrap_or_default();
        let kind = EventBody::KINDS.iter().position(|kind| *kind == event.kind);
        let kind = kind.and_then(|place| u8::try_from(place).ok()).unwrap_or(UNKNOWN);
        let status = match payload.status.as_deref() {
            _ if kind == DECIDED => (payload.allowed == Some(false)).then_some("denied"),
            status => status.filter(|_| kind == RETURNED),
        };
        let status = STATUSES.iter().position(|name| Some(*name) == status).unwrap_or(0);
        let tool = payload.tool_name.or(payload.tool_id);
        let tool = tool.or(payload.data.map(|data| data.artifact_id));
        // The resource of a denial may also be a route, `unknown` or `*`.
        let resource = payload
            .resource
            .filter(|resource| resource.contains(':') && !resource.starts_with('/'));
        let text = |text: Option<Cow<'_, str>>| text.map(Cow::into_owned).unwrap_or_default();
        let (mut principal, mut tool) = (text(payload.principal), text(tool.or(resource)));
        if let Some(cause) = event.causation_id.as_deref()
            && let Some((by, of)) = causes.get(cause)
        {
            if principal.is_empty() {
                principal.clone_from(by);
            }
            if tool.is_empty() {
                tool.clone_from(of);
            }
        }
        if !principal.is_empty() || !tool.is_empty() {
            causes.new.insert(cause_key(&event.event_id), (principal.clone(), tool.clone()));
        }
        let subject = payload.call_id.or(payload.session_id).or(payload.gate_id).or(payload.key);
        let number = if kind == DECIDED {
            // The denial of a recorded call is its status.
            let own = u64::from(event.causation_id.is_none());
            Some(payload.repeated.unwrap_or(0).saturating_add(own))
        } else {
            payload.duration_ms
        };
        let at = event.timestamp.parse::<Timestamp>().map_or(0, |at| at.timestamp_millis());
        Self {
            position: event.position,
            tenant: event.tenant.clone(),
            tenant_position: event.tenant_position,
            at,
            kind,
            status: u8::try_from(status).unwrap_or(0),
            principal,
            tool,
            code: payload
                .error
                .map(|error| error.code.into_owned())
                .or(payload.reason.map(Cow::into_owned))
                .unwrap_or_default(),
            number: number.map(|number| u32::try_from(number).unwrap_or(u32::MAX - 1)),
            ids: [
                id_key(&event.event_id),
                id_key(&event.run_id),
                subject.map_or(0, |id| id_key(&id)),
            ],
        }
    }
}

/// The source of a tool id such as `mcp:files.read`: `files`.
pub(super) fn source_of(tool: &str) -> &str {
    let name = tool.split_once(':').map_or(tool, |(_, name)| name);
    name.split_once('.').map_or("", |(source, _)| source)
}

/// The kind of a tool id: `mcp`.
pub(super) fn kind_of(tool: &str) -> &str {
    tool.split_once(':').map_or("", |(kind, _)| kind)
}

/// The name of a tool id as callers write it: `files__read`.
pub(super) fn wire_of(tool: &str) -> String {
    let name = tool.split_once(':').map_or(tool, |(_, name)| name);
    name.replacen('.', "__", 1)
}

/// A key that is unique to this id.
fn cause_key(id: &str) -> u128 {
    uuid(id).unwrap_or_else(|| {
        let digest = Sha256::digest(id);
        digest.first_chunk().map_or(0, |start| u128::from_be_bytes(*start))
    })
}

/// The bits of a UUID that its key keeps. UUIDs of one millisecond start alike, so the rest of the
/// key is a hash.
const START: u32 = 40;

/// A key of an id: for a UUID its start and a hash, otherwise the first 8 bytes of its text.
pub(super) fn id_key(id: &str) -> u64 {
    uuid(id).map_or_else(|| text_start(id).0, uuid_key)
}

/// A start of an id, as a value and a mask for each of the forms of [`id_key`].
#[derive(Debug, Clone, Copy)]
pub(super) struct IdStart {
    uuid: Option<(u64, u64)>,
    text: (u64, u64),
}

impl IdStart {
    pub(super) fn new(start: &str) -> Self {
        let whole = uuid(start).map(|id| (uuid_key(id), u64::MAX));
        Self { uuid: whole.or_else(|| uuid_start(start)), text: text_start(start) }
    }

    /// Whether an id with this key may start like this. If so, compare the ids.
    pub(super) fn may_be(self, key: u64) -> bool {
        let fits = |(value, mask): (u64, u64)| key & mask == value;
        self.uuid.is_some_and(fits) || fits(self.text)
    }
}

/// Reads a UUID in its usual form, or without hyphens.
fn uuid(text: &str) -> Option<u128> {
    let is_plain = text.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-');
    uuid::Uuid::try_parse(text).ok().filter(|_| is_plain).map(|id| id.as_u128())
}

fn uuid_key(id: u128) -> u64 {
    let bytes = id.to_be_bytes();
    let half = |part: Option<&[u8; 8]>| part.map_or(0, |part| u64::from_be_bytes(*part));
    let start = half(bytes.first_chunk()) & u64::MAX << (64 - START);
    start | half(bytes.last_chunk()).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> START
}

/// Reads the first hexadecimal digits of a UUID; hyphens are skipped. `None` for another text.
fn uuid_start(text: &str) -> Option<(u64, u64)> {
    let (mut value, mut bits) = (0_u64, 0);
    for byte in text.bytes().filter(|byte| *byte != b'-') {
        let digit = char::from(byte).to_digit(16)?;
        if bits < START {
            value = value << 4 | u64::from(digit);
            bits += 4;
        }
    }
    let shift = |number: u64| number.checked_shl(64 - bits).unwrap_or(0);
    (bits > 0).then(|| (shift(value), shift(u64::MAX)))
}

fn text_start(text: &str) -> (u64, u64) {
    let (mut value, mut mask) = ([0; 8], [0; 8]);
    for ((byte, value), mask) in text.bytes().zip(&mut value).zip(&mut mask) {
        (*value, *mask) = (byte, 0xff);
    }
    (u64::from_be_bytes(value), u64::from_be_bytes(mask))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stored(kind: &str, id: &str, cause: Option<&str>, payload: &str) -> StoredEvent {
        StoredEvent {
            position: 7,
            tenant: "acme".to_owned(),
            tenant_position: 5,
            event_id: id.to_owned(),
            run_id: "run-of-ada".to_owned(),
            sequence: 0,
            kind: kind.to_owned(),
            timestamp: "2026-11-25T10:00:00.250Z".to_owned(),
            causation_id: cause.map(str::to_owned),
            payload: payload.to_owned(),
            prev: None,
            hash: None,
        }
    }

    #[test]
    fn an_event_has_the_principal_and_the_tool_of_its_cause() {
        let mut causes = Causes::default();
        let call = r#"{"toolName":"mcp:files.read","callId":"c1","principal":"ada"}"#;
        let call = Facts::new(&stored("agent.toolCalled", "e1", None, call), &mut causes);
        assert_eq!((call.principal.as_str(), call.tool.as_str()), ("ada", "mcp:files.read"));
        assert_eq!((call.at, call.status), (1_795_600_800_250, 0));
        let egress = stored("egress.decided", "e2", Some("e1"), r#"{"reason":"ssrf-blocked"}"#);
        let egress = Facts::new(&egress, &mut causes);
        assert_eq!((egress.principal.as_str(), egress.tool.as_str()), ("ada", "mcp:files.read"));
        assert_eq!(egress.code, "ssrf-blocked");
        let granted = stored("approval.granted", "e3", Some("e1"), r#"{"principal":"bob"}"#);
        let granted = Facts::new(&granted, &mut causes);
        assert_eq!((granted.principal.as_str(), granted.tool.as_str()), ("bob", "mcp:files.read"));
    }

    #[test]
    fn a_changed_row_is_read_as_far_as_possible() {
        let facts = Facts::new(&stored("x", "e1", None, "{not JSON"), &mut Causes::default());
        assert_eq!((facts.kind, facts.status, facts.principal.as_str()), (UNKNOWN, 0, ""));
        assert_eq!(facts.tenant_position, 5);
    }

    #[test]
    fn denials_and_results_have_a_status() {
        let denied = r#"{"principal":"ada","action":"tools:call","resource":"mcp:files.read","allowed":false,"reason":"scope","repeated":4}"#;
        let denied =
            Facts::new(&stored("authorization.decided", "e", None, denied), &mut Causes::default());
        assert_eq!(
            (denied.status, denied.code.as_str(), denied.number),
            (DENIED, "scope", Some(5))
        );
        assert_eq!(denied.tool, "mcp:files.read");
        let failed = r#"{"toolName":"a","status":"error","durationMs":12,"error":{"code":"timeout","message":"m"}}"#;
        let failed =
            Facts::new(&stored("agent.toolReturned", "e", None, failed), &mut Causes::default());
        assert_eq!(
            (failed.status, failed.code.as_str(), failed.number),
            (ERROR, "timeout", Some(12))
        );
    }

    #[test]
    fn ids_are_found_by_their_start() {
        let uuid = "01a2113e-7b1c-7f00-8000-000000000001";
        for (id, start, found) in [
            (uuid, "01a2113e", true),
            (uuid, "01a2113e-7b", true),
            (uuid, "01a2113e7b1c", true),
            (uuid, uuid, true),
            (uuid, "01a2113f", false),
            ("run-of-ada", "run-of-a", true),
            ("run-of-ada", "run-of-b", false),
            ("deadbeef-x", "deadbeef", true),
            (uuid, "01a2113e-7b1d", true), // compared later
            ("abc", "abcdefgh", false),
        ] {
            assert_eq!(IdStart::new(start).may_be(id_key(id)), found, "{id} {start}");
        }
    }

    #[test]
    fn a_tool_id_has_a_kind_a_source_and_a_wire_name() {
        let id = "mcp:files.read.all";
        assert_eq!((kind_of(id), source_of(id)), ("mcp", "files"));
        assert_eq!(wire_of(id), "files__read.all");
        assert_eq!((kind_of("unknown"), source_of("unknown")), ("", ""));
    }
}
