//! A line of an export: the event in its wire form, with the data to verify it without the store.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::StoredEvent;
use crate::canonical::Digest;

/// The format of an export.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RecordFormat {
    /// A `RunEvent` a line, with the links of the chain in the member `chain`.
    Jsonl,
    /// OCSF 1.3 API Activity (class 6003), one a line.
    Ocsf,
    /// CloudEvents 1.0 in JSON, one a line.
    CloudEvents,
    /// An OTLP/HTTP request in JSON with all events as log records.
    Otlp,
}

/// A line of an export.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ExportedEvent<'a> {
    event_id: Cow<'a, str>,
    run_id: Cow<'a, str>,
    #[serde(rename = "type")]
    kind: Cow<'a, str>,
    payload: Cow<'a, RawValue>,
    timestamp: Cow<'a, str>,
    sequence: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    causation_id: Option<Cow<'a, str>>,
    chain: ExportedLink<'a>,
}

/// The position of the event in its tenant's chain.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct ExportedLink<'a> {
    tenant: Cow<'a, str>,
    position: u64,
    prev_hash: String,
    hash: String,
}

impl RecordFormat {
    /// The format as it is configured.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Jsonl => "jsonl",
            Self::Ocsf => "ocsf",
            Self::CloudEvents => "cloudevents",
            Self::Otlp => "otlp",
        }
    }

    /// The media type of an export.
    pub fn content_type(self) -> &'static str {
        match self {
            Self::Jsonl | Self::Ocsf | Self::CloudEvents => "application/x-ndjson",
            Self::Otlp => "application/json",
        }
    }
}

impl<'a> ExportedEvent<'a> {
    /// Creates the line of `event`, which must have been read with [`StoredEvent::prev`]. Returns
    /// `None` if the stored event is malformed.
    pub fn new(event: &'a StoredEvent) -> Option<Self> {
        // `RawValue` borrows the payload, which is valid JSON unless it was tampered with.
        let payload: &'a RawValue = serde_json::from_str(&event.payload).ok()?;
        Some(Self {
            event_id: Cow::Borrowed(&event.event_id),
            run_id: Cow::Borrowed(&event.run_id),
            kind: Cow::Borrowed(&event.kind),
            payload: Cow::Borrowed(payload),
            timestamp: Cow::Borrowed(&event.timestamp),
            sequence: event.sequence,
            causation_id: event.causation_id.as_deref().map(Cow::Borrowed),
            chain: ExportedLink {
                tenant: Cow::Borrowed(&event.tenant),
                position: event.tenant_position,
                prev_hash: event.prev?.to_string(),
                hash: event.hash?.to_string(),
            },
        })
    }

    /// Converts it to the stored event; `None` if its hashes are malformed.
    pub fn stored(self) -> Option<StoredEvent> {
        Some(StoredEvent {
            position: 0,
            tenant: self.chain.tenant.into_owned(),
            tenant_position: self.chain.position,
            event_id: self.event_id.into_owned(),
            run_id: self.run_id.into_owned(),
            sequence: self.sequence,
            kind: self.kind.into_owned(),
            timestamp: self.timestamp.into_owned(),
            causation_id: self.causation_id.map(Cow::into_owned),
            payload: self.payload.get().to_owned(),
            prev: Some(Digest::parse(&self.chain.prev_hash)?),
            hash: Some(Digest::parse(&self.chain.hash)?),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_exported_line_reproduces_the_stored_event_to_the_byte() {
        let stored = StoredEvent {
            position: 0,
            tenant: "t".to_owned(),
            tenant_position: 4,
            event_id: "e".to_owned(),
            run_id: "r".to_owned(),
            sequence: 3,
            kind: "agent.toolCalled".to_owned(),
            timestamp: "2026-11-20T10:00:00.000Z".to_owned(),
            causation_id: Some("c".to_owned()),
            payload: r#"{"b":1.0,"a":"\u00e9 é","n":12345678901234567890}"#.to_owned(),
            prev: Some(Digest([1; 32])),
            hash: Some(Digest([2; 32])),
        };
        let line = serde_json::to_string(&ExportedEvent::new(&stored).unwrap()).unwrap();
        let read: ExportedEvent<'_> = serde_json::from_str(&line).unwrap();
        assert_eq!(read.stored().unwrap(), stored);
        let tampered = StoredEvent { payload: "{".to_owned(), ..stored };
        assert!(ExportedEvent::new(&tampered).is_none());
    }
}
