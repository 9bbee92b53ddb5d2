//! CloudEvents 1.0, JSON event format.
//!
//! Names of extensions are lower case letters and digits alone; positions are texts, because an
//! Integer of CloudEvents has 32 bits.

use serde_json::{Value, json};
use toolcrib_core::record::StoredEvent;

pub(super) fn event(event: &StoredEvent) -> Option<Value> {
    let payload: Value = serde_json::from_str(&event.payload).ok()?;
    let mut line = json!({
        "specversion": "1.0",
        "id": event.event_id,
        "source": format!("/toolcrib/tenants/{}", segment(&event.tenant)),
        "type": format!("toolcrib.{}", event.kind),
        "subject": event.run_id,
        "time": event.timestamp,
        "datacontenttype": "application/json",
        "tenant": event.tenant,
        "sequence": event.sequence.to_string(),
        "chainposition": event.tenant_position.to_string(),
        "data": payload,
    });
    let members = line.as_object_mut()?;
    if let Some(cause) = &event.causation_id {
        members.insert("causationid".to_owned(), json!(cause));
    }
    if let (Some(prev), Some(hash)) = (event.prev, event.hash) {
        members.insert("chainprevhash".to_owned(), json!(prev.to_string()));
        members.insert("chainhash".to_owned(), json!(hash.to_string()));
    }
    Some(line)
}

/// `text` as one segment of a URI reference.
fn segment(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                out.push(char::from(byte));
            }
            _ => out.push_str(&format!("%{byte:02X}")),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use toolcrib_core::record::RecordFormat;

    use super::super::tests::written;

    /// The requirements of the specification for every event, §3.1 and §3.2, and for extension
    /// names.
    #[test]
    fn every_event_has_what_cloudevents_requires() {
        const KNOWN: [&str; 8] =
            ["specversion", "id", "source", "type", "subject", "time", "datacontenttype", "data"];
        for event in written(RecordFormat::CloudEvents) {
            let members = event.as_object().unwrap();
            assert_eq!(members["specversion"], "1.0");
            for required in ["id", "source", "type", "subject"] {
                assert!(!members[required].as_str().unwrap().is_empty(), "{required}");
            }
            let time = members["time"].as_str().unwrap();
            chrono::DateTime::parse_from_rfc3339(time).unwrap();
            assert!(members["data"].is_object());
            for (name, value) in members.iter().filter(|(name, _)| !KNOWN.contains(&&***name)) {
                let good = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
                assert!(name.chars().all(good) && name.len() <= 20, "{name}");
                assert!(value.is_string(), "{name}");
            }
        }
    }

    #[test]
    fn a_source_is_a_uri_whatever_the_tenant_is_called() {
        assert_eq!(super::segment("a/b ü%"), "a%2Fb%20%C3%BC%25");
    }
}
