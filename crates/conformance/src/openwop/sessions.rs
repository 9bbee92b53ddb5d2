//! Tool sessions, observed through the test routes `tools/session-run` and `test/runs/…/events`.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::{
    common::{ids, listed, paths, require_facet},
    hooks::send_to_seam,
};
use crate::{
    Check, CheckResult, Target, checks, fail,
    http::{Request, Response},
    require, skip,
    target::encode_segment,
    value::{array, text},
};

pub(super) const CHECKS: &[Check] = checks! {
    "openwop.sessions.order", Must, "RFC 0078 §D", order:
        "a session opens before its first call and closes after its last, with one `sessionId`, \
         for the same tool";
    "openwop.sessions.outcome", Must, "run-event-payloads.schema.json", outcome:
        "it closes as completed, failed or cancelled";
    "openwop.sessions.content-free", Must, "RFC 0078 §D", content_free:
        "its events contain no arguments, results or secrets";
    "openwop.sessions.pairs", Must, "RFC 0064 §B", pairs:
        "a call and its return have the same `callId`, and the return has the call as its cause";
    "openwop.sessions.envelope", Must, "run-event.schema.json", envelope:
        "every event is a RunEvent: unique id, run, type, payload, time, and a sequence from 0";
    "openwop.seams.unknown-run", Must, "host-sample-test-seams", unknown_run:
        "the events of an unknown run are an empty list";
    "openwop.seams.filter", Must, "host-sample-test-seams", filter:
        "`?type=` returns exactly the events of that type";
    "openwop.seams.foreign-run", Must, "host-sample-test-seams, CTI-1", foreign_run:
        "a run of another tenant returns the response for an unknown run";
};

const RUN: &str = "/v1/host/sample/tools/session-run";
const ABSENT: &str = "conformance-absent";

async fn order(target: &Target) -> CheckResult {
    const EXPECTED: &str = "opened, called, returned, closed";
    let (response, events) = session(target).await?;
    let first = |name: &str| events.iter().position(|event| has_type(event, name));
    let last = |name: &str| events.iter().rposition(|event| has_type(event, name));
    let (Some(opened), Some(called), Some(returned), Some(closed)) = (
        first("tool.session.opened"),
        first("agent.toolCalled"),
        last("agent.toolReturned"),
        last("tool.session.closed"),
    ) else {
        let seen: Vec<&str> = events.iter().map(|event| text(event, "type")).collect();
        return fail(EXPECTED, seen.join(", "), &[&response]);
    };
    let is_ordered = opened < called && called < returned && returned < closed;
    response.expect(is_ordered, EXPECTED, "another order")?;
    for member in ["sessionId", "toolId"] {
        let of = |at: usize| events.get(at).map(|event| text(payload(event), member));
        let is_same = of(opened) == of(closed) && of(opened).is_some_and(|value| !value.is_empty());
        response.expect(is_same, format!("one `{member}` in both"), "no value, or two")?;
    }
    Ok(())
}

async fn outcome(target: &Target) -> CheckResult {
    let (response, events) = session(target).await?;
    let closed = events.iter().find(|event| has_type(event, "tool.session.closed"));
    let seen = closed.map(|event| text(payload(event), "outcome")).unwrap_or_default();
    let is_known = ["completed", "failed", "cancelled"].contains(&seen);
    response.expect(is_known, "`outcome` completed, failed or cancelled", format!("`{seen}`"))
}

async fn content_free(target: &Target) -> CheckResult {
    #[rustfmt::skip]
    const CONTENT: [&str; 9] = [
        "inputs", "input", "args", "arguments", "result", "results", "output", "secret", "credential",
    ];
    let (response, events) = session(target).await?;
    for event in &events {
        if let Some(name) = CONTENT.iter().find(|name| payload(event).get(**name).is_some()) {
            let seen = format!("`{name}` in `{}`", text(event, "type"));
            return fail("no content", seen, &[&response]);
        }
    }
    Ok(())
}

async fn pairs(target: &Target) -> CheckResult {
    let (response, events) = session(target).await?;
    let of_type = |name: &'static str| events.iter().filter(move |event| has_type(event, name));
    for returned in of_type("agent.toolReturned") {
        let call = payload(returned).get("callId");
        let same = of_type("agent.toolCalled").find(|event| payload(event).get("callId") == call);
        let Some(called) = same.filter(|_| call.is_some()) else {
            return fail("a call with the return's `callId`", "none", &[&response]);
        };
        let cause = returned.get("causationId");
        let is_cause = cause.is_some() && cause == called.get("eventId");
        response.expect(is_cause, "`causationId` is the call's `eventId`", "something else")?;
    }
    let has_return = of_type("agent.toolReturned").next().is_some();
    response.expect(has_return, "at least one call", "none")
}

async fn envelope(target: &Target) -> CheckResult {
    let id = json!({ "type": "string", "minLength": 1, "maxLength": 128 });
    // `contentTrust` belongs to the seam.
    let schema = json!({
        "type": "object",
        "required": ["eventId", "runId", "type", "payload", "timestamp", "sequence"],
        "additionalProperties": false,
        "properties": {
            "eventId": id, "runId": id, "causationId": id,
            "type": { "type": "string", "minLength": 1 },
            "payload": {},
            "timestamp": {
                "type": "string",
                "pattern": "^[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt][0-9]{2}:[0-9]{2}:[0-9]{2}(\\.[0-9]+)?([Zz]|[+-][0-9]{2}:[0-9]{2})$",
            },
            "sequence": { "type": "integer", "minimum": 0 },
            "nodeId": { "type": "string" },
            "schemaVersion": { "type": "integer", "minimum": 0 },
            "engineVersion": { "type": "string" },
            "contentTrust": { "type": "string" },
        },
    });
    let (response, events) = session(target).await?;
    let mut ids = BTreeSet::new();
    let mut last: Option<u64> = None;
    for event in &events {
        let expected = format!("`{}` as a valid RunEvent", text(event, "type"));
        response.expect_valid(event, &schema, expected)?;
        let is_new = ids.insert(text(event, "eventId"));
        response.expect(is_new, "unique `eventId`s", "one of them twice")?;
        let sequence = event.get("sequence").and_then(Value::as_u64);
        let rises = match last {
            None => sequence == Some(0),
            Some(last) => sequence.is_some_and(|number| number > last),
        };
        let seen = sequence.unwrap_or_default().to_string();
        response.expect(rises, "a `sequence` that starts at 0 and rises", seen)?;
        last = sequence;
    }
    Ok(())
}

async fn unknown_run(target: &Target) -> CheckResult {
    let response = events_of(target, ABSENT, "").await?;
    let count = response.json()?.get("events").and_then(Value::as_array).map(Vec::len);
    let seen = count.map_or_else(|| "no `events`".to_owned(), |count| format!("{count} events"));
    response.expect(count == Some(0), "`events`, empty", seen)
}

async fn filter(target: &Target) -> CheckResult {
    let (_, events) = session(target).await?;
    let wanted = events.iter().filter(|event| has_type(event, "agent.toolCalled"));
    let wanted: Vec<&Value> = wanted.collect();
    let response = events_of(target, run_of(&events), "?type=agent.toolCalled").await?;
    let seen: Vec<&Value> = array(response.json()?, "events").iter().collect();
    let expected = format!("{} events of that type", wanted.len());
    response.expect(seen == wanted, expected, format!("{} events", seen.len()))
}

async fn foreign_run(target: &Target) -> CheckResult {
    let (_, events) = session(target).await?;
    target.require_second_key()?;
    let foreign = target.get(&events_path(run_of(&events))).with_second_key();
    let foreign = target.send_once(foreign).await?;
    let absent = target.send_once(target.get(&events_path(ABSENT)).with_second_key()).await?;
    if foreign.status() == absent.status() && foreign.body() == absent.body() {
        return Ok(());
    }
    let mine = tools_of(target, Request::with_key).await?;
    let theirs = tools_of(target, Request::with_second_key).await?;
    if !ids(&mine).is_disjoint(&ids(&theirs)) {
        return skip("the two keys share tools and may belong to one tenant");
    }
    fail("the response for an unknown run", "another", &[&foreign, &absent])
}

async fn tools_of(target: &Target, add_key: fn(Request) -> Request) -> CheckResult<Vec<Value>> {
    let response = target.send_once(add_key(target.get(paths(target).tools))).await?;
    response.expect_status(&[200])?;
    listed(&response)
}

/// Reads the events of a session that the host runs for this check.
async fn session(target: &Target) -> CheckResult<(Response, Vec<Value>)> {
    target.require_key()?;
    require_facet(target, "toolCatalog", "sessionLifecycle").await?;
    let session = send_to_seam(target, target.post(RUN).json(&json!({}))).await?;
    session.expect_status(&[200, 201])?;
    let run = text(session.json()?, "runId");
    session.expect(!run.is_empty(), "`runId`", "none")?;
    let response = events_of(target, run, "").await?;
    let events = array(response.json()?, "events").to_vec();
    require(!events.is_empty(), "the events of the session", "none", &[&session, &response])?;
    Ok((response, events))
}

async fn events_of(target: &Target, run: &str, query: &str) -> CheckResult<Response> {
    target.require_key()?;
    let request = target.get(&format!("{}{query}", events_path(run)));
    let response = send_to_seam(target, request).await?;
    response.expect_status(&[200])?;
    Ok(response)
}

fn events_path(run: &str) -> String {
    format!("/v1/host/sample/test/runs/{}/events", encode_segment(run))
}

fn run_of(events: &[Value]) -> &str {
    events.first().map(|event| text(event, "runId")).unwrap_or_default()
}

fn payload(event: &Value) -> &Value {
    event.get("payload").unwrap_or(&Value::Null)
}

fn has_type(event: &Value, name: &str) -> bool {
    text(event, "type") == name
}
