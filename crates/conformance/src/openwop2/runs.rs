//! Runs and their events. The checks only read existing runs.

use serde_json::{Value, json};

use super::common::{ABSENT_RUN, RUNS, expect_error};
use crate::{
    Check, CheckResult, Target, checks, fail,
    http::Response,
    openwop::common::expect_flat_error,
    require, skip, skip_unless,
    value::{array, text},
};

pub(super) const CHECKS: &[Check] = checks! {
    "openwop2.runs.list", Must, "runs, api/v2 `listRuns`", list:
        "the list is a closed object with `runs`, each a valid snapshot, and optionally `nextCursor`";
    "openwop2.runs.page", Should, "runs", page:
        "`limit` bounds a page, and `nextCursor` continues after it";
    "openwop2.runs.by-id", Must, "identity §5", by_id:
        "the id of each listed run, with its `/` as `~2F` or `%2F`, returns its snapshot";
    "openwop2.runs.unknown", Must, "runs", unknown:
        "an unknown run, its events and its cancellation return the same 404";
    "openwop2.runs.cancel-ended", Must, "runs", cancel_ended:
        "a run that has ended cannot be cancelled: 409 `run_terminal`";
    "openwop2.events.stream", Must, "events", stream:
        "the events of a run are server-sent events of the media type `text/event-stream`";
    "openwop2.events.envelope", Must, "schemas/v2/host-event, events", envelope:
        "every event has the closed envelope, with the id of its run and rising sequences";
    "openwop2.events.names", Must, "event-codemap", names:
        "every event has its name of version 2, such as `agent.tool-called`";
    "openwop2.events.content-free", Must, "invariant SR-1", content_free:
        "payloads of calls contain neither arguments nor results";
    "openwop2.events.resume", Must, "events", resume:
        "`Last-Event-ID` continues after the event with this id";
    "openwop2.events.mode", Must, "events", mode:
        "an unknown `streamMode` returns 400 `unsupported_stream_mode`";
};

const NO_RUNS: &str = "the key sees no runs that have completed: run a workflow, then check again";
/// How many runs of the list a check reads one by one.
const SAMPLE: usize = 3;

/// Reads the runs that the first key sees.
async fn runs(target: &Target) -> CheckResult<(Response, Vec<Value>)> {
    target.require_key()?;
    let response = target.fetch(RUNS).await?;
    let is_missing = response.status() == 404;
    skip_unless(!is_missing, "the host has no `/runs`")?;
    response.expect_status(&[200])?;
    let runs = array(response.json()?, "runs").to_vec();
    Ok((response, runs))
}

/// Finds a completed run, whose stream of events ends too. Returns its id and path.
async fn completed_run(target: &Target) -> CheckResult<(String, String)> {
    let (_, runs) = runs(target).await?;
    let has_completed = |run: &&Value| text(run, "status") == "completed";
    match runs.iter().find(has_completed).map(|run| text(run, "runId")) {
        Some(id) => Ok((id.to_owned(), path_of(id, "~2F"))),
        None => skip(NO_RUNS),
    }
}

/// Builds the path of the run `id`, with `slash` for the `/` after its tenant.
fn path_of(id: &str, slash: &str) -> String {
    match id.rsplit_once('/') {
        Some((tenant, own)) => format!("{RUNS}/{}{slash}{}", escaped(tenant), escaped(own)),
        None => format!("{RUNS}/{}", escaped(id)),
    }
}

/// Escapes the `~` of the id's own escapes, for a path.
fn escaped(id: &str) -> String {
    id.replace('~', "~7E")
}

async fn list(target: &Target) -> CheckResult {
    let (response, _) = runs(target).await?;
    response.expect_json_type()?;
    let string = json!({ "type": "string", "minLength": 1 });
    let time = json!({ "type": "string", "pattern": "^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:.]+Z$" });
    let run = json!({
        "type": "object",
        "required": ["runId", "workflowId", "status", "owner", "eventLogSchemaVersion"],
        "properties": {
            "runId": {
                "type": "string",
                "pattern": "^(anon:)?[A-Za-z0-9._~-]{1,128}/[A-Za-z0-9._~-]{16,128}$",
            },
            "workflowId": { "type": "string", "pattern": "^[A-Za-z0-9._~:-]{1,128}$" },
            "status": { "enum": [
                "pending", "running", "paused", "waiting-approval", "waiting-input",
                "waiting-external", "completed", "failed", "cancelling", "cancelled",
            ] },
            "owner": {
                "type": "object",
                "required": ["tenant", "subject"],
                "properties": {
                    "tenant": string,
                    "subject": {
                        "type": "object",
                        "required": ["issuer", "subjectId", "tenant", "lane", "kind"],
                    },
                },
            },
            "eventLogSchemaVersion": { "type": "integer", "minimum": 2 },
            "startedAt": time,
            "completedAt": time,
            "error": { "type": "object", "required": ["code", "message"] },
        },
    });
    let page = json!({
        "type": "object",
        "required": ["runs"],
        "additionalProperties": false,
        "properties": { "runs": { "type": "array", "items": run }, "nextCursor": string },
    });
    response.expect_valid(response.value(), &page, "a valid page of runs")
}

async fn page(target: &Target) -> CheckResult {
    let (whole, runs) = runs(target).await?;
    skip_unless(runs.len() > 1, "the key sees fewer than two runs")?;
    let mut path = format!("{RUNS}?limit=1");
    for expected in runs.iter().take(2) {
        let response = target.fetch(&path).await?;
        response.expect_status(&[200])?;
        let page = array(response.json()?, "runs");
        let is_next = page == std::slice::from_ref(expected);
        require(is_next, "the next run of the list", "something else", &[&response, &whole])?;
        path = format!("{RUNS}?limit=1&cursor={}", text(response.value(), "nextCursor"));
    }
    Ok(())
}

async fn by_id(target: &Target) -> CheckResult {
    let (list, runs) = runs(target).await?;
    skip_unless(!runs.is_empty(), NO_RUNS)?;
    for run in runs.iter().take(SAMPLE) {
        for slash in ["~2F", "%2F"] {
            let response = target.fetch(&path_of(text(run, "runId"), slash)).await?;
            response.expect_status(&[200])?;
            let is_same = text(response.json()?, "runId") == text(run, "runId");
            require(is_same, "the run of the list", "something else", &[&response, &list])?;
        }
    }
    Ok(())
}

async fn unknown(target: &Target) -> CheckResult {
    runs(target).await?;
    let first = target.fetch(ABSENT_RUN).await?;
    expect_error(&first, 404, "not_found")?;
    expect_flat_error(&first)?;
    let events = target.fetch(&format!("{ABSENT_RUN}/events")).await?;
    let cancelled = target.post(&format!("{ABSENT_RUN}/cancel")).json(&json!({})).with_key();
    for response in [events, target.send_once(cancelled).await?] {
        expect_error(&response, 404, "not_found")?;
        let is_same = response.body() == first.body();
        require(is_same, "the same error", "another error", &[&response, &first])?;
    }
    Ok(())
}

async fn cancel_ended(target: &Target) -> CheckResult {
    let (_, path) = completed_run(target).await?;
    let request = target.post(&format!("{path}/cancel")).json(&json!({})).with_key();
    expect_error(&target.send_once(request).await?, 409, "run_terminal")
}

/// An event of a stream.
struct Frame {
    id: String,
    event: Value,
}

/// Reads the events of a completed run.
async fn events(target: &Target) -> CheckResult<(Response, Vec<Frame>)> {
    let (_, path) = completed_run(target).await?;
    let response = target.fetch(&format!("{path}/events?streamMode=debug")).await?;
    response.expect_status(&[200])?;
    let frames = frames(&response)?;
    skip_unless(!frames.is_empty(), "the run has no events")?;
    Ok((response, frames))
}

/// Parses a stream. Comments and other fields are left out.
fn frames(response: &Response) -> CheckResult<Vec<Frame>> {
    let text = response.text();
    let blocks = text.split("\n\n").filter(|block| block.contains("data:"));
    let field = |block: &str, name: &str| {
        let values = block.lines().filter_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        values.map(|value| value.strip_prefix(' ').unwrap_or(value).to_owned()).collect::<Vec<_>>()
    };
    blocks
        .map(|block| match serde_json::from_str(&field(block, "data").join("\n")) {
            Ok(event) => Ok(Frame { id: field(block, "id").concat(), event }),
            Err(_) => fail("frames with JSON", "a frame without", &[response]),
        })
        .collect()
}

async fn stream(target: &Target) -> CheckResult {
    let (response, frames) = events(target).await?;
    let media_type = response.media_type();
    response.expect(media_type == "text/event-stream", "`text/event-stream`", media_type)?;
    let has_ids = frames.iter().all(|frame| !frame.id.is_empty());
    response.expect(has_ids, "an `id` in each frame", "a frame without")
}

async fn envelope(target: &Target) -> CheckResult {
    let (run, _) = completed_run(target).await?;
    let (response, frames) = events(target).await?;
    let id = json!({ "type": "string", "pattern": "^[A-Za-z0-9._~-]{16,128}$" });
    let schema = json!({
        "type": "object",
        "required":
            ["eventId", "payload", "runId", "schemaVersion", "sequence", "timestamp", "type"],
        "additionalProperties": false,
        "properties": {
            "eventId": id,
            "runId": { "const": run },
            "type": { "type": "string" },
            "payload": { "type": "object" },
            "timestamp": { "type": "string", "pattern": "^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:.]+Z$" },
            "sequence": { "type": "integer", "minimum": 0 },
            "schemaVersion": { "type": "integer", "minimum": 1 },
            "nodeId": { "type": "string" },
            "engineVersion": { "type": "integer" },
            "causationId": id,
        },
    });
    for frame in &frames {
        response.expect_valid(&frame.event, &schema, "events in the envelope")?;
    }
    let sequence = |frame: &Frame| frame.event.get("sequence").and_then(Value::as_u64);
    let is_rising = frames.iter().map(sequence).is_sorted_by(|first, second| first < second);
    response.expect(is_rising, "rising sequences", "another order")
}

async fn names(target: &Target) -> CheckResult {
    let (response, frames) = events(target).await?;
    for frame in &frames {
        let name = text(&frame.event, "type");
        let is_word = |word: &str| {
            !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'-')
        };
        let parts: Vec<&str> = name.split('.').collect();
        let holds = parts.len() == 2 && parts.iter().all(|part| is_word(part));
        response.expect(holds, "two words in lower case with hyphens", format!("`{name}`"))?;
    }
    Ok(())
}

async fn content_free(target: &Target) -> CheckResult {
    let (response, frames) = events(target).await?;
    const CONTENTS: [&str; 6] = ["arguments", "args", "inputs", "input", "result", "output"];
    for frame in &frames {
        let payload = frame.event.get("payload").unwrap_or(&Value::Null);
        if let Some(member) = CONTENTS.iter().find(|member| payload.get(**member).is_some()) {
            let seen = format!("`{member}` in `{}`", text(&frame.event, "type"));
            return fail("payloads without arguments and results", seen, &[&response]);
        }
    }
    Ok(())
}

async fn resume(target: &Target) -> CheckResult {
    let (whole, all) = events(target).await?;
    let (_, path) = completed_run(target).await?;
    let [first, rest @ ..] = &all[..] else { return skip("the run has no events") };
    skip_unless(!rest.is_empty(), "the run has only one event")?;
    let request = target.get(&format!("{path}/events?streamMode=debug")).with_key();
    let response = target.send_once(request.header("last-event-id", &first.id)).await?;
    response.expect_status(&[200])?;
    let ids = |frames: &[Frame]| frames.iter().map(|frame| frame.id.clone()).collect::<Vec<_>>();
    let seen = ids(&frames(&response)?);
    let seen_text = format!("the ids {}", seen.join(", "));
    let expected = "the events after the first";
    require(seen == ids(rest), expected, seen_text, &[&response, &whole])
}

async fn mode(target: &Target) -> CheckResult {
    let (_, path) = completed_run(target).await?;
    let response = target.fetch(&format!("{path}/events?streamMode=conformance-none")).await?;
    expect_error(&response, 400, "unsupported_stream_mode")
}
