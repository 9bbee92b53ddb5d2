//! Consent, from the command line, and across the end of a process.

use serde_json::{Value, json};

use crate::support::{Caller, Ran, Server, config, dir, key, run, write_config};

const ASKS: &str = "approval = \"always\"\n";

fn otc(answer: &(u16, Value)) -> (u16, bool) {
    (answer.0, answer.1["result"]["success"].as_bool().unwrap())
}

/// Runs a command against `server` with `key`.
fn there(dir: &std::path::Path, server: &Server, key: &str, args: &[&str]) -> Ran {
    std::fs::write(dir.join("key.txt"), key).unwrap();
    run(dir, &[&["--url", &server.url, "--key-file", "key.txt", "--json"], args].concat())
}

fn keys(dir: &std::path::Path) -> (String, String) {
    let (_, ann) = key(dir, &["--principal", "ann", "--scope", "demo:read"]);
    let (_, bob) = key(dir, &["--principal", "bob", "--scope", "approvals:respond"]);
    (ann, bob)
}

/// A server that offers its tools to `key`.
async fn serve(dir: &std::path::Path, key: &str) -> Server {
    let server = Server::start(dir);
    let caller = server.caller(Some(key));
    for _ in 0..100 {
        if caller.get("/v1/tools").await.1.to_string().contains("demo.echo") {
            return server;
        }
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
    panic!("the demo's tools are not offered");
}

async fn ask(ann: &Caller, text: &str) -> (u16, Value) {
    ann.otc("demo__echo", json!({ "text": text })).await
}

/// I-64: two principals, by the command line of a server.
#[tokio::test]
async fn one_key_calls_another_consents_and_the_call_runs_once() {
    let dir = dir();
    write_config(dir.path(), &config(ASKS));
    let (ann, bob) = keys(dir.path());
    let server = serve(dir.path(), &ann).await;
    let args = ["call", "demo__echo", "{\"text\": \"hi\"}"];
    let refused = there(dir.path(), &server, &ann, &args);
    assert_eq!(refused.code, 1, "{refused:?}");
    let list = ["approvals", "list", "--state", "pending"];
    let pending = there(dir.path(), &server, &bob, &list).ok().json();
    let id = pending[0]["approvalId"].as_str().unwrap().to_owned();
    assert!(refused.stdout.contains(&id) || refused.stderr.contains(&id), "{refused:?}");
    let own = there(dir.path(), &server, &ann, &["approvals", "grant", &id]);
    assert_eq!(own.code, 1, "{own:?}");
    let shown = there(dir.path(), &server, &bob, &["approvals", "show", &id]).ok().json();
    assert_eq!((&shown["principal"], &shown["toolId"]), (&json!("ann"), &json!("mcp:demo.echo")));
    let granted = there(dir.path(), &server, &bob, &["approvals", "grant", &id]).ok().json();
    assert_eq!(granted["state"], "granted");
    there(dir.path(), &server, &ann, &args).ok();
    assert_eq!(there(dir.path(), &server, &ann, &args).code, 1, "once");
    let foreign = there(dir.path(), &server, &bob, &["approvals", "show", "nothing"]);
    assert_eq!(foreign.code, 1);
    server.stop();
}

/// The operator at the machine answers what a running server asks.
#[tokio::test]
async fn the_operator_answers_over_the_store() {
    let dir = dir();
    write_config(dir.path(), &config(ASKS));
    let (ann, _) = keys(dir.path());
    let server = serve(dir.path(), &ann).await;
    let ann = server.caller(Some(&ann));
    assert_eq!(otc(&ask(&ann, "hi").await), (200, false));
    let pending = run(dir.path(), &["approvals", "list", "--json"]).ok().json();
    let id = pending[0]["approvalId"].as_str().unwrap();
    run(dir.path(), &["approvals", "reject", id, "--comment", "no"]).ok();
    let told = ask(&ann, "hi").await.1;
    assert_eq!(told["result"]["error"]["developer_message"], "approval_rejected", "{told}");
    assert_eq!(otc(&ask(&ann, "other").await), (200, false));
    let pending = run(dir.path(), &["approvals", "list", "--json", "--state", "pending"]);
    let id = pending.ok().json()[0]["approvalId"].as_str().unwrap().to_owned();
    assert_eq!(run(dir.path(), &["approvals", "override", &id]).code, 1, "without a word");
    run(dir.path(), &["approvals", "override", &id, "--comment", "fire"]).ok();
    assert_eq!(otc(&ask(&ann, "other").await), (200, true));
    let events = run(dir.path(), &["audit", "export"]).ok().stdout;
    assert!(events.contains("approval.overridden") && !events.contains("fire"), "{events}");
    server.stop();
}

/// Nobody consents to their own call, the operator included.
#[test]
fn the_operator_does_not_answer_for_itself() {
    let dir = dir();
    write_config(dir.path(), &config(ASKS));
    let refused = run(dir.path(), &["call", "demo__echo", "{\"text\": \"hi\"}", "--json"]);
    assert_eq!(refused.code, 1, "{refused:?}");
    let pending = run(dir.path(), &["approvals", "list", "--json"]).ok().json();
    let id = pending[0]["approvalId"].as_str().unwrap();
    let own = run(dir.path(), &["approvals", "grant", id]);
    assert_eq!(own.code, 1, "{own:?}");
    assert!(own.stderr.contains("nobody answers a request of their own"), "{}", own.stderr);
}

/// I-64: a process that dies between the grant and the run loses nothing, and the call runs once.
#[tokio::test]
async fn a_grant_survives_a_kill_and_is_used_once() {
    let dir = dir();
    write_config(dir.path(), &config(ASKS));
    let (ann, bob) = keys(dir.path());
    let mut server = serve(dir.path(), &ann).await;
    let caller = server.caller(Some(&ann));
    assert_eq!(otc(&ask(&caller, "hi").await), (200, false));
    let list = there(dir.path(), &server, &bob, &["approvals", "list"]).ok().json();
    let id = list[0]["approvalId"].as_str().unwrap().to_owned();
    there(dir.path(), &server, &bob, &["approvals", "grant", &id]).ok();
    server.process.kill();

    let server = serve(dir.path(), &ann).await;
    let caller = server.caller(Some(&ann));
    assert_eq!(otc(&ask(&caller, "hi").await), (200, true));
    assert_eq!(otc(&ask(&caller, "hi").await), (200, false));
    server.stop();
}

/// I-64: killed while the call runs, the grant is spent: it is not run again without another one.
#[tokio::test(flavor = "multi_thread")]
async fn what_was_running_when_the_process_died_does_not_run_again() {
    let dir = dir();
    write_config(dir.path(), &config(ASKS));
    let (ann, bob) = keys(dir.path());
    let mut server = serve(dir.path(), &ann).await;
    let caller = server.caller(Some(&ann));
    let slow = json!({ "steps": 100, "step_ms": 10_000 });
    assert_eq!(otc(&caller.otc("demo__slow", slow.clone()).await), (200, false));
    let list = there(dir.path(), &server, &bob, &["approvals", "list"]).ok().json();
    let id = list[0]["approvalId"].as_str().unwrap().to_owned();
    there(dir.path(), &server, &bob, &["approvals", "grant", &id]).ok();
    let running = tokio::spawn({
        let (caller, slow) = (caller.clone(), slow.clone());
        async move { caller.recorded("demo__slow", slow).await }
    });
    crate::support::eventually("the call runs", || {
        let events = run(dir.path(), &["audit", "export"]).ok().stdout;
        events.lines().filter(|line| line.contains("agent.toolCalled")).count() == 2
    });
    server.process.kill();
    assert!(running.await.unwrap().is_none());

    let server = serve(dir.path(), &ann).await;
    let caller = server.caller(Some(&ann));
    assert_eq!(otc(&caller.otc("demo__slow", slow).await), (200, false));
    let used = run(dir.path(), &["approvals", "show", &id, "--json"]).ok().json();
    assert_eq!(used["state"], "used");
    let events = run(dir.path(), &["audit", "export"]).ok().stdout;
    assert!(events.contains("\"interrupted\""), "{events}");
    server.stop();
}
