//! OCSF 1.3, class API Activity (6003) of the category Application Activity (6).
//!
//! A call of a tool differs from create, read, update and delete, so every activity is "Other" with
//! an `activity_name`. The record does not contain the machine of a caller, so the required
//! endpoint is this gateway.

use chrono::DateTime;
use serde_json::{Map, Value, json};
use toolcrib_core::record::StoredEvent;

const OTHER: u64 = 99;
const CLASS: u64 = 6003;

pub(super) fn event(event: &StoredEvent) -> Option<Value> {
    let payload: Value = serde_json::from_str(&event.payload).ok()?;
    let text = |member: &str| payload.get(member).and_then(Value::as_str);
    let time = DateTime::parse_from_rfc3339(&event.timestamp).ok()?;
    let verdict = verdict(&event.kind, &payload);
    let operation = text("toolName").or(text("toolId")).or(text("action")).unwrap_or(&event.kind);
    let metadata = json!({
        "version": "1.3.0",
        "product": {
            "name": "toolcrib",
            "vendor_name": "toolcrib",
            "version": env!("CARGO_PKG_VERSION"),
        },
        "uid": event.event_id,
        "correlation_uid": event.run_id,
        "event_code": event.kind,
        "sequence": event.tenant_position,
        "tenant_uid": event.tenant,
        "original_time": event.timestamp,
    });
    let mut line = json!({
        "category_uid": 6,
        "category_name": "Application Activity",
        "class_uid": CLASS,
        "class_name": "API Activity",
        "activity_id": OTHER,
        "activity_name": event.kind,
        "type_uid": CLASS * 100 + OTHER,
        "type_name": "API Activity: Other",
        "severity_id": verdict.severity,
        "severity": match verdict.severity { 1 => "Informational", 2 => "Low", _ => "Medium" },
        "status_id": verdict.status,
        "status": match verdict.status { 1 => "Success", 2 => "Failure", _ => "Unknown" },
        "time": time.timestamp_millis(),
        "metadata": metadata,
        "actor": actor(text("principal"), text("agentId")),
        "api": api(operation, text("callId"), &verdict),
        "src_endpoint": { "svc_name": "toolcrib" },
    });
    let members = line.as_object_mut()?;
    if let Some(code) = &verdict.code {
        members.insert("status_code".to_owned(), json!(code));
    }
    if let Some(detail) = payload.pointer("/error/message") {
        members.insert("status_detail".to_owned(), detail.clone());
    }
    if let Some(duration) = payload.get("durationMs") {
        members.insert("duration".to_owned(), duration.clone());
    }
    if let Some(destination) = text("destination") {
        members.insert("dst_endpoint".to_owned(), json!({ "hostname": destination }));
    }
    if let Some(resource) = text("resource") {
        members.insert("resources".to_owned(), json!([{ "name": resource }]));
    }
    members.insert("unmapped".to_owned(), unmapped(event, payload));
    Some(line)
}

/// The outcome of an event, in the numbers of OCSF.
struct Verdict {
    /// 1 success, 2 failure, 0 unknown.
    status: u64,
    /// 1 informational, 2 low, 3 medium.
    severity: u64,
    code: Option<String>,
}

fn verdict(kind: &str, payload: &Value) -> Verdict {
    let text = |member: &str| payload.get(member).and_then(Value::as_str);
    let code = payload.pointer("/error/code").and_then(Value::as_str).map(str::to_owned);
    let (status, severity, code) = match kind {
        "agent.toolReturned" => match text("status") {
            Some("ok") => (1, 1, None),
            Some("forbidden") => (2, 3, code),
            _ => (2, 2, code),
        },
        "authorization.decided" => match payload.get("allowed").and_then(Value::as_bool) {
            Some(true) => (1, 1, None),
            _ => (2, 3, text("reason").map(str::to_owned)),
        },
        "egress.decided" => match text("decision") {
            Some("allowed") => (1, 1, None),
            _ => (2, 3, text("reason").map(str::to_owned)),
        },
        "approval.granted" => (1, 1, None),
        // An approver has bypassed the quorum.
        "approval.overridden" => (1, 3, None),
        "approval.rejected" => (2, 2, None),
        "tool.pin.drifted" => (0, 3, None),
        _ => (0, 1, None),
    };
    Verdict { status, severity, code }
}

fn actor(principal: Option<&str>, agent: Option<&str>) -> Value {
    let mut actor = Map::new();
    if let Some(principal) = principal {
        actor.insert("user".to_owned(), json!({ "uid": principal, "name": principal }));
    }
    // The class requires at least one of them.
    if agent.is_some() || principal.is_none() {
        actor.insert("app_name".to_owned(), json!(agent.unwrap_or("toolcrib")));
    }
    Value::Object(actor)
}

fn api(operation: &str, call: Option<&str>, verdict: &Verdict) -> Value {
    let mut api = json!({ "operation": operation, "service": { "name": "toolcrib" } });
    if let Some(members) = api.as_object_mut() {
        if let Some(call) = call {
            members.insert("request".to_owned(), json!({ "uid": call }));
        }
        if let Some(code) = &verdict.code {
            members.insert("response".to_owned(), json!({ "error": code }));
        }
    }
    api
}

/// The fields without a place in OCSF.
fn unmapped(event: &StoredEvent, payload: Value) -> Value {
    json!({
        "sequence": event.sequence,
        "causation_id": event.causation_id,
        "payload": payload,
        "chain": {
            "position": event.tenant_position,
            "prev_hash": event.prev.map(|hash| hash.to_string()),
            "hash": event.hash.map(|hash| hash.to_string()),
        },
    })
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use toolcrib_core::record::RecordFormat;

    use super::super::tests::written;

    /// What schema 1.3.0 marks as required in the class, in `metadata`, `product`, `api` and
    /// `service`, and the "at least one of" of `actor`, `user`, `network_endpoint`.
    #[test]
    fn every_event_has_what_the_class_requires() {
        for event in written(RecordFormat::Ocsf) {
            let at = |pointer: &str| {
                event.pointer(pointer).unwrap_or_else(|| panic!("{pointer}: {event}"))
            };
            for number in [
                "/activity_id",
                "/category_uid",
                "/class_uid",
                "/severity_id",
                "/time",
                "/type_uid",
            ] {
                assert!(at(number).is_u64(), "{number}");
            }
            assert_eq!(at("/class_uid"), 6003);
            assert_eq!(at("/category_uid"), 6);
            let type_uid =
                at("/class_uid").as_u64().unwrap() * 100 + at("/activity_id").as_u64().unwrap();
            assert_eq!(at("/type_uid").as_u64(), Some(type_uid));
            for text in [
                "/metadata/version",
                "/metadata/product/vendor_name",
                "/api/operation",
                "/api/service/name",
            ] {
                assert!(!at(text).as_str().unwrap().is_empty(), "{text}");
            }
            let one_of = |pointer: &str, names: &[&str]| {
                let found = at(pointer);
                assert!(names.iter().any(|name| found.get(*name).is_some()), "{pointer}: {event}");
            };
            one_of("/actor", &["process", "user", "invoked_by", "session", "app_name", "app_uid"]);
            one_of("/src_endpoint", &["ip", "uid", "name", "hostname", "svc_name"]);
            if event.pointer("/actor/user").is_some() {
                one_of("/actor/user", &["account", "name", "uid"]);
            }
            assert!([0, 1, 2].contains(&at("/status_id").as_u64().unwrap()));
            // Captions belong to their numbers.
            let severity = match at("/severity_id").as_u64() {
                Some(1) => "Informational",
                Some(2) => "Low",
                _ => "Medium",
            };
            assert_eq!(at("/severity"), severity);
        }
    }

    #[test]
    fn what_failed_or_was_denied_can_be_told_from_what_was_not() {
        let of: Vec<_> = written(RecordFormat::Ocsf)
            .iter()
            .map(|record| {
                (record["status_id"].as_u64().unwrap(), record.get("status_code").cloned())
            })
            .collect();
        let code = |text: &str| Some(Value::from(text));
        assert_eq!(
            of,
            [(0, None), (2, code("timeout")), (2, code("scope")), (1, None), (0, None), (0, None)]
        );
        let events = written(RecordFormat::Ocsf);
        for with_user in &events[..3] {
            assert_eq!(with_user["actor"]["user"]["uid"], "ann", "{with_user}");
        }
        assert_eq!(events[0]["api"]["operation"], "mcp:files.read");
        assert_eq!(events[1]["duration"], 12);
        assert_eq!(events[3]["dst_endpoint"]["hostname"], "api.example");
    }
}
