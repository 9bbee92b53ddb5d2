//! Converts between events and their stored texts. The hash of an event covers its texts, so every
//! engine uses the same ones.

use chrono::{DateTime, SecondsFormat, Utc};
use toolcrib_core::{
    clock::Timestamp,
    event::{EventBody, LoggedEvent, RunEvent},
    id::{EventId, RunId, TenantId},
    record::{Link, StoredEvent, genesis},
};

/// Formats as RFC 3339 in UTC with milliseconds, so that text order is time order.
pub(crate) fn time_text(at: Timestamp) -> String {
    at.to_rfc3339_opts(SecondsFormat::Millis, true)
}

/// Reads a time in RFC 3339.
pub(crate) fn time(text: &str) -> Option<Timestamp> {
    DateTime::parse_from_rfc3339(text).ok().map(|at| at.with_timezone(&Utc))
}

/// The text of the time of an event, as it is read back.
pub(crate) fn event_time(at: Timestamp) -> String {
    time_text(Timestamp::from_timestamp_millis(at.timestamp_millis()).unwrap_or(at))
}

/// The event of a row, if this program writes such events.
pub(crate) fn logged(stored: StoredEvent, position: u64) -> Option<LoggedEvent> {
    let causation_id = stored.causation_id.map(EventId::parse).transpose().ok()?;
    Some(LoggedEvent {
        position,
        tenant: TenantId::parse(stored.tenant).ok()?,
        link: Link {
            position: stored.tenant_position,
            hash: stored.hash?,
            prev: stored.prev.unwrap_or_else(genesis),
        },
        event: RunEvent {
            event_id: EventId::parse(stored.event_id).ok()?,
            run_id: RunId::parse(stored.run_id).ok()?,
            body: EventBody::from_text(&stored.kind, &stored.payload)?,
            timestamp: time(&stored.timestamp)?,
            sequence: stored.sequence,
            causation_id,
        },
    })
}
