//! The record in the formats of other systems: JSON lines with their hashes, OCSF, CloudEvents and
//! OTLP logs.
//!
//! Invariant (I-20): an export contains only fields of the record, so it contains no content of
//! calls.

mod cloudevents;
mod ocsf;
mod otlp;

use toolcrib_core::record::{ExportedEvent, RecordFormat, StoredEvent};

/// Appends `events`, which were read with their [`StoredEvent::prev`], to `out`. Returns the
/// number of malformed events, which are left out: another program has changed the store.
pub fn write(format: RecordFormat, events: &[StoredEvent], out: &mut Vec<u8>) -> usize {
    if format == RecordFormat::Otlp {
        return otlp::write(events, out);
    }
    let mut left_out = 0;
    for event in events {
        let written = match format {
            RecordFormat::Jsonl => ExportedEvent::new(event)
                .and_then(|line| serde_json::to_writer(&mut *out, &line).ok()),
            RecordFormat::Ocsf => {
                ocsf::event(event).and_then(|line| serde_json::to_writer(&mut *out, &line).ok())
            }
            RecordFormat::CloudEvents | RecordFormat::Otlp => cloudevents::event(event)
                .and_then(|line| serde_json::to_writer(&mut *out, &line).ok()),
        };
        match written {
            Some(()) => out.push(b'\n'),
            None => left_out += 1,
        }
    }
    left_out
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use toolcrib_core::{
        canonical::Digest,
        egress::EgressDecided,
        event::{
            AuthorizationDecided, CallStatus, EventBody, EventError, SessionOutcome, ToolCalled,
            ToolReturned, ToolSessionClosed, ToolSessionOpened, Transport,
        },
    };

    use super::*;

    /// One of every type, as it is stored.
    pub(super) fn stored() -> Vec<StoredEvent> {
        let session = "s1".parse().unwrap();
        let bodies = [
            EventBody::ToolCalled(ToolCalled {
                agent_id: "bot".parse().unwrap(),
                tool_name: "mcp:files.read".to_owned(),
                call_id: "c1".parse().unwrap(),
                args_hash: Some("ab".repeat(32)),
                principal: "ann".parse().unwrap(),
                actors: vec!["id|agent".parse().unwrap()],
                transport: Transport::Mcp,
            }),
            EventBody::ToolReturned(ToolReturned {
                duration_ms: Some(12),
                error: Some(EventError::new("timeout", "slow")),
                principal: Some("ann".parse().unwrap()),
                ..ToolReturned::new(
                    "bot".parse().unwrap(),
                    "mcp:files.read",
                    "c1".parse().unwrap(),
                    CallStatus::Error,
                )
            }),
            EventBody::AuthorizationDecided(AuthorizationDecided {
                principal: "ann".parse().unwrap(),
                action: "tools:call".to_owned(),
                resource: "mcp:files.write".to_owned(),
                allowed: false,
                reason: Some("scope".to_owned()),
                missing: Vec::new(),
                repeated: None,
            }),
            EventBody::EgressDecided(EgressDecided::allowed("api.example".to_owned())),
            EventBody::ToolSessionOpened(ToolSessionOpened {
                session_id: session,
                tool_id: "mcp:files.read".parse().unwrap(),
            }),
            EventBody::ToolSessionClosed(ToolSessionClosed {
                session_id: "s1".parse().unwrap(),
                tool_id: "mcp:files.read".parse().unwrap(),
                outcome: SessionOutcome::Completed,
            }),
        ];
        let stored = bodies.iter().zip(1..).map(|(body, position)| StoredEvent {
            position,
            tenant: "acme".to_owned(),
            tenant_position: position,
            event_id: format!("e{position}"),
            run_id: "r1".to_owned(),
            sequence: position - 1,
            kind: body.kind().to_owned(),
            timestamp: "2026-11-20T10:00:00.120Z".to_owned(),
            causation_id: (position > 1).then(|| "e1".to_owned()),
            payload: body.payload_text().unwrap(),
            prev: Some(Digest([1; 32])),
            hash: Some(Digest([2; 32])),
        });
        stored.collect()
    }

    pub(super) fn written(format: RecordFormat) -> Vec<Value> {
        let mut out = Vec::new();
        assert_eq!(write(format, &stored(), &mut out), 0);
        let text = String::from_utf8(out).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    #[test]
    fn a_json_line_is_the_event_with_its_links() {
        let lines = written(RecordFormat::Jsonl);
        assert_eq!(lines.len(), 6);
        assert_eq!(lines[1]["payload"]["error"]["code"], "timeout");
        assert_eq!(
            lines[1]["chain"],
            json!({
                "tenant": "acme",
                "position": 2,
                "prevHash": "01".repeat(32),
                "hash": "02".repeat(32),
            })
        );
    }

    #[test]
    fn what_is_no_event_is_left_out_and_counted() {
        let mut events = stored();
        events[2].payload = "{".to_owned();
        for format in
            [RecordFormat::Jsonl, RecordFormat::Ocsf, RecordFormat::CloudEvents, RecordFormat::Otlp]
        {
            let mut out = Vec::new();
            assert_eq!(write(format, &events, &mut out), 1, "{format:?}");
        }
    }
}
