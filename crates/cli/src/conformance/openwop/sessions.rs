//! Tool sessions, looked at through the test seams `tools/session-run` and `test/runs/…/events`.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::{TOOLS, facet, hooks::present, id_of, listed, segment, shape};
use crate::conformance::{Ask, Check, Got, Site, Verdict, check, fail, skip};

pub(super) const CHECKS: &[Check] = &[
    check!(
        "openwop.sessions.order",
        Must,
        "RFC 0078 §D",
        "a session opens before its first call and closes after its last, under one `sessionId`, \
         for the same tool",
        order
    ),
    check!(
        "openwop.sessions.outcome",
        Must,
        "run-event-payloads.schema.json",
        "it closes as completed, failed or cancelled",
        outcome
    ),
    check!(
        "openwop.sessions.content-free",
        Must,
        "RFC 0078 §D",
        "no event of it holds arguments, results or secrets",
        content_free
    ),
    check!(
        "openwop.sessions.pairs",
        Must,
        "RFC 0064 §B",
        "a call and its return share the `callId`, and the return names the call as its cause",
        pairs
    ),
    check!(
        "openwop.sessions.envelope",
        Must,
        "run-event.schema.json",
        "every event is a RunEvent: unique id, run, type, payload, time, and a sequence from 0",
        envelope
    ),
    check!(
        "openwop.seams.unknown-run",
        Must,
        "host-sample-test-seams",
        "the events of a run that is not there are an empty list",
        unknown_run
    ),
    check!(
        "openwop.seams.filter",
        Must,
        "host-sample-test-seams",
        "`?type=` leaves exactly the events of that type",
        filter
    ),
    check!(
        "openwop.seams.foreign-run",
        Must,
        "host-sample-test-seams, CTI-1",
        "another tenant's run is answered like one that is not there",
        foreign_run
    ),
];

const RUN: &str = "/v1/host/sample/tools/session-run";

async fn order(site: &Site) -> Verdict {
    let (got, events) = session(site).await?;
    let at = |kind: &str| events.iter().position(|event| is(event, kind));
    let last = |kind: &str| events.iter().rposition(|event| is(event, kind));
    let (Some(opened), Some(called), Some(returned), Some(closed)) = (
        at("tool.session.opened"),
        at("agent.toolCalled"),
        last("agent.toolReturned"),
        last("tool.session.closed"),
    ) else {
        let seen: Vec<&str> = events.iter().map(kind).collect();
        return fail("opened, called, returned, closed", seen.join(", "), &[&got]);
    };
    let in_order = opened < called && called < returned && returned < closed;
    got.expect(in_order, "opened, called, returned, closed", "another order")?;
    for member in ["sessionId", "toolId"] {
        let of = |at: usize| {
            events.get(at).and_then(|event| event.pointer(&format!("/payload/{member}")))
        };
        let (first, second) = (of(opened), of(closed));
        let same = first.is_some_and(|it| it.as_str().is_some_and(|text| !text.is_empty()))
            && first == second;
        got.expect(same, format!("one `{member}` in both"), "none, or two")?;
    }
    Ok(())
}

async fn outcome(site: &Site) -> Verdict {
    let (got, events) = session(site).await?;
    let closed = events.iter().find(|event| is(event, "tool.session.closed"));
    let seen = closed.and_then(|event| event.pointer("/payload/outcome")?.as_str());
    let known = seen.is_some_and(|it| ["completed", "failed", "cancelled"].contains(&it));
    let seen = seen.map_or_else(|| "none".to_owned(), |it| format!("`{it}`"));
    got.expect(known, "`outcome` completed, failed or cancelled", seen)
}

async fn content_free(site: &Site) -> Verdict {
    const CONTENT: [&str; 9] = [
        "inputs",
        "input",
        "args",
        "arguments",
        "result",
        "results",
        "output",
        "secret",
        "credential",
    ];
    let (got, events) = session(site).await?;
    for event in &events {
        let payload = event.get("payload").and_then(Value::as_object);
        let found = CONTENT.iter().find(|name| payload.is_some_and(|it| it.contains_key(**name)));
        if let Some(name) = found {
            let seen = format!("`{name}` in `{}`", kind(event));
            return fail("no content", seen, &[&got]);
        }
    }
    Ok(())
}

async fn pairs(site: &Site) -> Verdict {
    let (got, events) = session(site).await?;
    let mut pairs = 0;
    for returned in events.iter().filter(|event| is(event, "agent.toolReturned")) {
        let call = returned.pointer("/payload/callId");
        let called = events.iter().find(|event| {
            is(event, "agent.toolCalled") && event.pointer("/payload/callId") == call
        });
        let Some(called) = called.filter(|_| call.is_some()) else {
            return fail("a call with the return's `callId`", "none", &[&got]);
        };
        let caused =
            returned.get("causationId").is_some_and(|id| called.get("eventId") == Some(id));
        got.expect(caused, "`causationId` is the call's `eventId`", "something else")?;
        pairs += 1;
    }
    got.expect(pairs > 0, "at least one call", "none")
}

async fn envelope(site: &Site) -> Verdict {
    let text = json!({ "type": "string", "minLength": 1, "maxLength": 128 });
    // `contentTrust` is the seam's own.
    let shape = json!({
        "type": "object",
        "required": ["eventId", "runId", "type", "payload", "timestamp", "sequence"],
        "additionalProperties": false,
        "properties": {
            "eventId": text, "runId": text, "causationId": text,
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
    let (got, events) = session(site).await?;
    let mut ids = BTreeSet::new();
    let mut last: Option<u64> = None;
    for event in &events {
        if let Some(what) = shape::violation(&shape, event) {
            return fail("a RunEvent", format!("`{}`: {what}", kind(event)), &[&got]);
        }
        let id = event.get("eventId").and_then(Value::as_str);
        got.expect(ids.insert(id), "every `eventId` once", "one of them twice")?;
        let sequence = event.get("sequence").and_then(Value::as_u64);
        let rises = match last {
            None => sequence == Some(0),
            Some(last) => sequence.is_some_and(|it| it > last),
        };
        let seen = sequence.map_or_else(|| "none".to_owned(), |it| it.to_string());
        got.expect(rises, "a `sequence` that starts at 0 and rises", seen)?;
        last = sequence;
    }
    Ok(())
}

async fn unknown_run(site: &Site) -> Verdict {
    let got = events_of(site, "conformance-absent", "").await?;
    let seen = got.json()?.get("events").and_then(Value::as_array).map(Vec::len);
    let text = seen.map_or_else(|| "no `events`".to_owned(), |seen| format!("{seen} events"));
    got.expect(seen == Some(0), "`events`, empty", text)
}

async fn filter(site: &Site) -> Verdict {
    let (_, events) = session(site).await?;
    let run = run_of(&events);
    let wanted: Vec<&Value> = events.iter().filter(|event| is(event, "agent.toolCalled")).collect();
    let got = events_of(site, &run, "?type=agent.toolCalled").await?;
    let seen = got.json()?.get("events").and_then(Value::as_array).cloned().unwrap_or_default();
    let same = seen.iter().collect::<Vec<_>>() == wanted;
    let expected = format!("{} events of that type", wanted.len());
    got.expect(same, expected, format!("{} events", seen.len()))
}

async fn foreign_run(site: &Site) -> Verdict {
    let (_, events) = session(site).await?;
    if !site.host().has_second_key() {
        return skip("needs the key of another tenant: --second-key");
    }
    let path = |run: &str| format!("/v1/host/sample/test/runs/{}/events", segment(run));
    let own = site.once(site.get(&path(&run_of(&events))).by_second()).await?;
    let absent = site.once(site.get(&path("conformance-absent")).by_second()).await?;
    if own.status() == absent.status() && own.body() == absent.body() {
        return Ok(());
    }
    let (mine, theirs) =
        (tools_of(site, Ask::by_first).await?, tools_of(site, Ask::by_second).await?);
    match mine.is_disjoint(&theirs) {
        true => fail("the answer for a run that is not there", "another", &[&own, &absent]),
        false => skip("the two keys share tools and may be of one tenant"),
    }
}

async fn tools_of(site: &Site, by: fn(Ask) -> Ask) -> Verdict<BTreeSet<String>> {
    let got = site.once(by(site.get(TOOLS))).await?;
    got.expect_status(&[200])?;
    Ok(listed(&got)?.iter().map(|tool| id_of(tool).to_owned()).collect())
}

/// The events of a session that the host ran for this check.
async fn session(site: &Site) -> Verdict<(Got, Vec<Value>)> {
    if !site.host().has_key() {
        return skip("needs a key: --key");
    }
    if !facet(site, "toolCatalog", "sessionLifecycle").await? {
        return skip("the host does not advertise `toolCatalog.sessionLifecycle`");
    }
    let ran = site.once(site.post(RUN).json(&json!({})).by_first()).await?;
    let ran = present(site, ran)?;
    ran.expect_status(&[200, 201])?;
    let Some(run) = ran.json()?.get("runId").and_then(Value::as_str) else {
        return fail("`runId`", "none", &[&ran]);
    };
    let got = events_of(site, run, "").await?;
    match got.json()?.get("events").and_then(Value::as_array) {
        Some(events) if !events.is_empty() => Ok((Got::clone(&got), events.clone())),
        _ => fail("the events of the session", "none", &[&ran, &got]),
    }
}

async fn events_of(site: &Site, run: &str, query: &str) -> Verdict<Got> {
    if !site.host().has_key() {
        return skip("needs a key: --key");
    }
    let path = format!("/v1/host/sample/test/runs/{}/events{query}", segment(run));
    let got = site.once(site.get(&path).by_first()).await?;
    let got = present(site, got)?;
    got.expect_status(&[200])?;
    Ok(got)
}

fn run_of(events: &[Value]) -> String {
    let run = events.first().and_then(|event| event.get("runId")?.as_str());
    run.unwrap_or_default().to_owned()
}

fn kind(event: &Value) -> &str {
    event.get("type").and_then(Value::as_str).unwrap_or_default()
}

fn is(event: &Value, name: &str) -> bool {
    kind(event) == name
}
