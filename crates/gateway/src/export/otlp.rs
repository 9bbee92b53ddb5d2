//! OTLP logs, in the JSON encoding of OTLP/HTTP: 64-bit integers are texts, names are in
//! lowerCamelCase.

use chrono::DateTime;
use serde_json::{Value, json};
use toolcrib_core::record::StoredEvent;

/// `SEVERITY_NUMBER_INFO` and `SEVERITY_NUMBER_WARN`.
const INFO: u64 = 9;
const WARN: u64 = 13;

pub(super) fn write(events: &[StoredEvent], out: &mut Vec<u8>) -> usize {
    let records: Vec<Value> = events.iter().filter_map(record).collect();
    let left_out = events.len() - records.len();
    let request = json!({
        "resourceLogs": [{
            "resource": { "attributes": [attribute("service.name", "toolcrib")] },
            "scopeLogs": [{
                "scope": { "name": "toolcrib.record", "version": env!("CARGO_PKG_VERSION") },
                "logRecords": records,
            }],
        }],
    });
    match serde_json::to_writer(&mut *out, &request) {
        Ok(()) => left_out,
        Err(_) => events.len(),
    }
}

fn record(event: &StoredEvent) -> Option<Value> {
    let payload: Value = serde_json::from_str(&event.payload).ok()?;
    let time = DateTime::parse_from_rfc3339(&event.timestamp).ok()?;
    let nanos = time.timestamp_nanos_opt()?.to_string();
    let refused = payload.get("error").is_some()
        || payload.get("allowed") == Some(&Value::Bool(false))
        || payload.get("decision").is_some_and(|decision| decision != "allowed");
    let (number, text) = if refused { (WARN, "WARN") } else { (INFO, "INFO") };
    let mut attributes = vec![
        attribute("toolcrib.event.id", &event.event_id),
        attribute("toolcrib.tenant", &event.tenant),
        attribute("toolcrib.run.id", &event.run_id),
        integer("toolcrib.run.sequence", event.sequence),
        integer("toolcrib.chain.position", event.tenant_position),
    ];
    for (name, hash) in
        [("toolcrib.chain.prev_hash", event.prev), ("toolcrib.chain.hash", event.hash)]
    {
        attributes.extend(hash.map(|hash| attribute(name, &hash.to_string())));
    }
    if let Some(cause) = &event.causation_id {
        attributes.push(attribute("toolcrib.causation.id", cause));
    }
    for (name, member) in [
        ("enduser.id", "principal"),
        ("gen_ai.tool.name", "toolName"),
        ("gen_ai.tool.call.id", "callId"),
        ("gen_ai.agent.id", "agentId"),
    ] {
        let text = payload.get(member).and_then(Value::as_str);
        attributes.extend(text.map(|text| attribute(name, text)));
    }
    let code = payload.pointer("/error/code").and_then(Value::as_str);
    attributes.extend(code.map(|code| attribute("error.type", code)));
    Some(json!({
        "timeUnixNano": nanos,
        "observedTimeUnixNano": nanos,
        "severityNumber": number,
        "severityText": text,
        "eventName": event.kind,
        "body": { "stringValue": event.payload },
        "attributes": attributes,
    }))
}

fn attribute(key: &str, value: &str) -> Value {
    json!({ "key": key, "value": { "stringValue": value } })
}

fn integer(key: &str, value: u64) -> Value {
    json!({ "key": key, "value": { "intValue": value.to_string() } })
}

#[cfg(test)]
mod tests {
    use toolcrib_core::record::RecordFormat;

    use super::super::tests::written;

    /// The shape of `ExportLogsServiceRequest` in the JSON mapping of OTLP 1.x.
    #[test]
    fn a_request_is_one_that_a_collector_takes() {
        let requests = written(RecordFormat::Otlp);
        assert_eq!(requests.len(), 1);
        let scope = &requests[0]["resourceLogs"][0]["scopeLogs"][0];
        let records = scope["logRecords"].as_array().unwrap();
        assert_eq!(records.len(), 6);
        for record in records {
            assert_eq!(record["timeUnixNano"], "1795168800120000000");
            assert!([9, 13].contains(&record["severityNumber"].as_u64().unwrap()));
            assert!(record["eventName"].is_string() && record["body"]["stringValue"].is_string());
            for attribute in record["attributes"].as_array().unwrap() {
                let value = attribute["value"].as_object().unwrap();
                assert!(attribute["key"].is_string() && value.len() == 1);
                assert!(value.values().all(serde_json::Value::is_string), "64 bits are a text");
            }
        }
        for record in &records[..3] {
            let user = record["attributes"].as_array().unwrap().iter();
            let user = user.filter(|attribute| attribute["key"] == "enduser.id");
            let values: Vec<_> = user.map(|attribute| &attribute["value"]["stringValue"]).collect();
            assert_eq!(values, ["ann"], "{record}");
        }
        assert_eq!(records[0]["severityText"], "INFO");
        assert_eq!(records[1]["severityText"], "WARN");
    }
}
