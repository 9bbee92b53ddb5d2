//! Workflows on a server: recovery after a crash, and the `runs` commands.

use std::{collections::BTreeMap, path::Path};

use rustix::process::Signal;
use serde_json::{Value, json};
use toolcrib_testkit::upstream::{Answers, FaultyHttp};

use crate::support::{Caller, Server, dir, eventually, finish, key, run, toolcrib, write_config};

/// Steps before, at and after the one that takes long.
const FLOW: &str = "
id: report
inputs:
  type: object
  properties: { names: { type: array, items: { type: string } } }
  required: [names]
steps:
  - { id: first, tool: 'mcp:up.echo', arguments: { step: first } }
  - id: each
    tool: 'mcp:up.echo'
    after: [first]
    for_each: { ref: /inputs/names, max: 5 }
    arguments: { step: { $text: ['each-', { $ref: /item }] } }
  - { id: long, tool: 'mcp:up.slow', after: [each], arguments: { ms: 1500 } }
  - id: last
    tool: 'mcp:up.echo'
    after: [long]
    arguments: { step: last, seen: { $ref: /steps/each/result/1/step } }
outputs:
  last: { $ref: /steps/last/result }
";

/// A server over `upstream` and [`FLOW`], whose `slow` is repeatable or not.
fn configure(dir: &Path, upstream: &FaultyHttp, slow: &str, more: &str) -> String {
    std::fs::create_dir_all(dir.join("flows")).unwrap();
    std::fs::write(dir.join("flows/report.yaml"), FLOW).unwrap();
    let url = upstream.url();
    write_config(
        dir,
        &format!(
            "[server]\nlisten = \"127.0.0.1:0\"\n{more}\n\
             [[source]]\nid = \"up\"\nkind = \"mcp\"\nurl = \"{url}\"\n\
             [source.tools.slow]\nreplay_policy = \"{slow}\"\n\
             [[source]]\nid = \"flows\"\nkind = \"workflow\"\nfiles = [\"flows/*.yaml\"]\n\
             durable = true\n"
        ),
    );
    key(dir, &["--scope", "*"]).1
}

/// Returns the number of upstream calls by tool and step.
fn calls(upstream: &FaultyHttp) -> BTreeMap<String, usize> {
    let mut calls = BTreeMap::new();
    for received in upstream.received() {
        if received.verb == "POST" && received.body["method"] == "tools/call" {
            let params = &received.body["params"];
            let step = params["arguments"]["step"].as_str().unwrap_or_default();
            let name = format!("{} {step}", params["name"].as_str().unwrap());
            *calls.entry(name.trim().to_owned()).or_insert(0) += 1;
        }
    }
    calls
}

fn runs(dir: &Path) -> Value {
    run(dir, &["runs", "list", "--json"]).ok().json()
}

fn state(dir: &Path) -> String {
    runs(dir)[0]["state"].as_str().unwrap_or_default().to_owned()
}

/// Returns a summary of the run's events.
fn told(dir: &Path, id: &str) -> Vec<(String, String)> {
    let shown = run(dir, &["runs", "show", id, "--json"]).ok().json();
    let events = shown["events"].as_array().unwrap().iter();
    events
        .map(|event| {
            let payload = &event["payload"];
            let outcome = payload["status"].as_str().or(payload["outcome"].as_str());
            let name = payload["toolName"].as_str().or(payload["toolId"].as_str());
            let what = [event["type"].as_str(), outcome].map(Option::unwrap_or_default).join(" ");
            (what.trim().to_owned(), name.unwrap_or_default().to_owned())
        })
        .collect()
}

/// Waits for the tool: a server listens before its sources have listed their tools.
fn offered(runtime: &tokio::runtime::Runtime, caller: &Caller, tool: &str) {
    let path = format!("/v1/tools/{tool}");
    eventually("it is offered", || runtime.block_on(caller.get(&path)).0 == 200);
}

/// Starts the workflow, and kills the server during the long step.
fn killed(dir: &Path, upstream: &FaultyHttp, key: &str) {
    killed_in("report", dir, upstream, key);
}

fn killed_in(workflow: &str, dir: &Path, upstream: &FaultyHttp, key: &str) {
    let tool = format!("flows__{workflow}");
    let mut server = Server::start(dir);
    let caller = server.caller(Some(key));
    let runtime = tokio::runtime::Runtime::new().unwrap();
    offered(&runtime, &caller, &format!("openwop:workflow.{workflow}"));
    runtime.spawn(async move { caller.recorded(&tool, json!({ "names": ["a", "b", "c"] })).await });
    eventually("the long step runs", || calls(upstream).contains_key("slow"));
    server.process.kill();
    runtime.shutdown_background();
}

/// I-18, I-21, I-49: each completed step was called exactly once.
#[test]
fn a_run_that_was_killed_goes_on_where_it_was() {
    let dir = dir();
    let upstream = FaultyHttp::start(Answers::Json, &[]);
    let key = configure(dir.path(), &upstream, "idempotent", "");
    killed(dir.path(), &upstream, &key);
    assert_eq!(state(dir.path()), "running");
    let server = Server::start(dir.path());
    eventually("the run ends", || state(dir.path()) != "running");
    let run = runs(dir.path())[0].clone();
    assert_eq!((&run["state"], &run["durable"]), (&json!("completed"), &json!(true)), "{run}");
    let expected: BTreeMap<String, usize> = [
        ("echo each-a", 1),
        ("echo each-b", 1),
        ("echo each-c", 1),
        ("echo first", 1),
        ("echo last", 1),
        ("slow", 2),
    ]
    .map(|(name, count)| (name.to_owned(), count))
    .into();
    assert_eq!(calls(&upstream), expected, "only what was not completed is called again");
    let told = told(dir.path(), run["runId"].as_str().unwrap());
    let count = |what: &str| told.iter().filter(|(it, _)| it == what).count();
    assert_eq!(count("agent.toolCalled"), 8, "{told:#?}");
    assert_eq!(count("agent.toolReturned ok"), 7, "{told:#?}");
    assert_eq!(count("agent.toolReturned error"), 1, "the one that was interrupted");
    assert_eq!(count("tool.session.opened"), 4, "{told:#?}");
    assert_eq!(count("tool.session.closed failed"), 2, "those of the dead process");
    assert_eq!(count("tool.session.closed completed"), 2);
    let end = ("agent.toolReturned ok".to_owned(), "openwop:workflow.report".to_owned());
    assert_eq!(told.last(), Some(&end));
    server.stop();
    // A completed run is not resumed.
    let server = Server::start(dir.path());
    assert_eq!(state(dir.path()), "completed");
    assert_eq!(calls(&upstream), expected);
    server.stop();
}

/// Its inputs and the results of its steps are read again, with every number as it was written.
#[test]
fn a_run_that_goes_on_passes_the_same_numbers_on() {
    const TEXT: &str = r#"{"a":1e2,"b":6.02E23,"c":-0,"d":0.10,"e":18446744073709551616.0}"#;
    let dir = dir();
    let upstream = FaultyHttp::start(Answers::Json, &[]);
    let key = configure(dir.path(), &upstream, "idempotent", "");
    let flow = "
id: exact
inputs: { type: object, properties: { n: {} }, required: [n] }
steps:
  - { id: first, tool: 'mcp:up.echo', arguments: { n: { $ref: /inputs/n } } }
  - { id: long, tool: 'mcp:up.slow', after: [first], arguments: { ms: 1500 } }
  - id: last
    tool: 'mcp:up.echo'
    after: [long]
    arguments: { n: { $ref: /inputs/n }, seen: { $ref: /steps/first/result/n } }
outputs: {}
";
    std::fs::write(dir.path().join("flows/exact.yaml"), flow).unwrap();
    let mut server = Server::start(dir.path());
    let caller = server.caller(Some(&key));
    let runtime = tokio::runtime::Runtime::new().unwrap();
    offered(&runtime, &caller, "openwop:workflow.exact");
    let body = format!(r#"{{"request":{{"tool_id":"flows__exact","input":{{"n":{TEXT}}}}}}}"#);
    let body = toolcrib_core::json::parse(&body).unwrap();
    runtime.spawn(async move { caller.post("/tools/call", &body).await });
    eventually("the long step runs", || calls(&upstream).contains_key("slow"));
    server.process.kill();
    runtime.shutdown_background();
    let server = Server::start(dir.path());
    eventually("the run ends", || state(dir.path()) == "completed");
    let received = upstream.received();
    let last = received.iter().rfind(|it| it.body["method"] == "tools/call").unwrap();
    let arguments = last.body["params"]["arguments"].to_string();
    assert_eq!(arguments, format!(r#"{{"n":{TEXT},"seen":{TEXT}}}"#));
    server.stop();
}

/// A nested run is resumed, too, and both runs return their normal results.
#[test]
fn a_run_inside_another_goes_on_with_it() {
    let dir = dir();
    let upstream = FaultyHttp::start(Answers::Json, &[]);
    let key = configure(dir.path(), &upstream, "idempotent", "");
    let outer = "
id: outer
inputs: { type: object, properties: { names: { type: array } }, required: [names] }
steps:
  - { id: begin, tool: 'mcp:up.echo', arguments: { step: begin } }
  - { id: inner, tool: 'openwop:workflow.report', after: [begin], arguments: { names: { $ref: /inputs/names } } }
  - { id: end, tool: 'mcp:up.echo', arguments: { step: { $ref: /steps/inner/result/last/seen } } }
outputs: { end: { $ref: /steps/end/result } }
";
    std::fs::write(dir.path().join("flows/outer.yaml"), outer).unwrap();
    killed_in("outer", dir.path(), &upstream, &key);
    let server = Server::start(dir.path());
    let over = || {
        let runs = runs(dir.path());
        let runs = runs.as_array().unwrap();
        runs.len() == 2 && runs.iter().all(|run| run["state"] == "completed")
    };
    eventually("both are over", over);
    let calls = calls(&upstream);
    assert_eq!((calls.get("slow"), calls.get("echo begin")), (Some(&2), Some(&1)), "{calls:?}");
    assert_eq!(calls.get("echo each-b"), Some(&2), "once as an item, once as what `end` says");
    assert_eq!(calls.values().sum::<usize>(), 9, "{calls:?}");
    let id = runs(dir.path())[0]["runId"].as_str().unwrap().to_owned();
    let told = told(dir.path(), &id);
    let count = |what: &str| told.iter().filter(|(it, _)| it.starts_with(what)).count();
    assert_eq!(count("agent.toolCalled"), count("agent.toolReturned"), "{told:#?}");
    assert_eq!(count("tool.session.opened"), count("tool.session.closed"), "{told:#?}");
    server.stop();
}

/// An interrupted step that is not repeatable fails the run.
#[test]
fn a_run_whose_interrupted_step_may_not_be_repeated_fails() {
    let dir = dir();
    let upstream = FaultyHttp::start(Answers::Json, &[]);
    let key = configure(dir.path(), &upstream, "non-deterministic", "");
    killed(dir.path(), &upstream, &key);
    let before = calls(&upstream);
    let server = Server::start(dir.path());
    eventually("the run ends", || state(dir.path()) != "running");
    let run = runs(dir.path())[0].clone();
    assert_eq!((&run["state"], &run["code"]), (&json!("failed"), &json!("interrupted")), "{run}");
    assert_eq!(calls(&upstream), before);
    let told = told(dir.path(), run["runId"].as_str().unwrap());
    let end = ("agent.toolReturned error".to_owned(), "openwop:workflow.report".to_owned());
    assert_eq!(told.last(), Some(&end));
    server.stop();
}

/// A run that is not durable is closed as failed, and so is a run whose key was revoked.
#[test]
fn a_run_that_cannot_go_on_is_closed() {
    for lost in ["state", "key"] {
        let dir = dir();
        let upstream = FaultyHttp::start(Answers::Json, &[]);
        let text = configure(dir.path(), &upstream, "idempotent", "");
        let config = dir.path().join("toolcrib.toml");
        if lost == "state" {
            let said = std::fs::read_to_string(&config).unwrap().replace("durable = true", "");
            std::fs::write(&config, said).unwrap();
        }
        killed(dir.path(), &upstream, &text);
        let before = calls(&upstream);
        if lost == "key" {
            let keys = run(dir.path(), &["keys", "list", "--json"]).ok().json();
            run(dir.path(), &["keys", "revoke", keys[0]["id"].as_str().unwrap()]).ok();
        }
        let server = Server::start(dir.path());
        eventually("the run is closed", || state(dir.path()) == "failed");
        let code = runs(dir.path())[0]["code"].clone();
        assert_eq!(code, if lost == "key" { "unauthenticated" } else { "interrupted" });
        assert_eq!(calls(&upstream), before, "{lost}");
        server.stop();
    }
}

/// The data of a run is stored only sealed, and deleted at its end.
#[test]
fn what_is_kept_is_sealed() {
    let dir = dir();
    let upstream = FaultyHttp::start(Answers::Json, &[]);
    let store = "[store]\nseal_key = { file = \"seal.key\" }\n";
    run(dir.path(), &["credentials", "new-key", "--out", "seal.key"]).ok();
    let key = configure(dir.path(), &upstream, "idempotent", store);
    let config = dir.path().join("toolcrib.toml");
    let said = std::fs::read_to_string(&config).unwrap().replace("durable = true", "");
    std::fs::write(&config, said).unwrap();
    killed(dir.path(), &upstream, &key);
    assert_eq!(runs(dir.path())[0]["durable"], true, "where it can be sealed it is kept");
    let canary = b"each-b";
    let seen = |dir: &Path| {
        let files = std::fs::read_dir(dir.join(".toolcrib")).unwrap().flatten();
        let mut files = files.filter(|file| file.file_type().unwrap().is_file());
        files.any(|file| {
            let bytes = std::fs::read(file.path()).unwrap();
            bytes.windows(canary.len()).any(|window| window == canary)
        })
    };
    assert!(!seen(dir.path()));
    let server = Server::start(dir.path());
    eventually("the run ends", || state(dir.path()) == "completed");
    assert!(!seen(dir.path()));
    server.stop();
}

#[test]
fn runs_are_listed_shown_and_cancelled_here_and_there() {
    let dir = dir();
    let upstream = FaultyHttp::start(Answers::Json, &[]);
    let text = configure(dir.path(), &upstream, "idempotent", "");
    let flow = "id: waits\nsteps: [{ id: a, tool: 'mcp:up.hang' }]\noutputs: {}\n";
    std::fs::write(dir.path().join("flows/waits.yaml"), flow).unwrap();
    std::fs::write(dir.path().join("key"), &text).unwrap();
    let server = Server::start(dir.path());
    let there = |args: &[&str]| {
        let to = ["--url", &server.url, "--key-file", "key"];
        finish(toolcrib(dir.path()).args(to).args(args))
    };
    let runtime = tokio::runtime::Runtime::new().unwrap();
    offered(&runtime, &server.caller(Some(&text)), "openwop:workflow.waits");
    for (at, remote) in [true, false].into_iter().enumerate() {
        let caller = server.caller(Some(&text));
        let waiting = runtime.spawn(async move { caller.otc("flows__waits", json!({})).await });
        let hanging = || calls(&upstream).get("hang").copied();
        eventually("the step hangs", || hanging() == Some(at + 1));
        let listed = there(&["runs", "list", "--state", "running", "--json"]).ok().json();
        assert_eq!(listed.as_array().unwrap().len(), 1, "{listed}");
        assert_eq!(
            listed,
            run(dir.path(), &["runs", "list", "--state", "running", "--json"]).ok().json()
        );
        let id = listed[0]["runId"].as_str().unwrap().to_owned();
        let command = ["runs", "cancel", &id];
        let cancelled = if remote { there(&command) } else { run(dir.path(), &command) };
        assert!(cancelled.ok().stderr.contains("cancelling one workflow"));
        let (status, body) = runtime.block_on(waiting).unwrap();
        assert_eq!((status, &body["result"]["success"]), (200, &json!(false)), "{body}");
        // The text has times relative to now, so only the JSON can be equal.
        let show = ["runs", "show", &id, "--json"];
        assert_eq!(there(&show).ok().json(), run(dir.path(), &show).ok().json());
        let show = ["runs", "show", &id];
        for shown in [there(&show).ok(), run(dir.path(), &show).ok()] {
            let text = &shown.stdout;
            assert!(text.contains("cancelled") && text.contains("agent.toolReturned"), "{shown:?}");
        }
        let again = if remote { there(&command) } else { run(dir.path(), &command) };
        assert!(again.ok().stderr.contains("no workflow of this run is running"));
    }
    for args in [["runs", "show", "nothing"], ["runs", "cancel", "nothing"]] {
        assert_eq!((run(dir.path(), &args).code, there(&args).code), (1, 1));
    }
    server.process.signal(Signal::TERM);
}
