//! Approvals from the command line and over HTTP, also across a crash of the server.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use serde_json::{Value, json};

use crate::support::{
    Caller, CommandOutput, Recorder, Server, config, dir, eventually, key, recorder, run,
    write_config,
};

const ASKS: &str = "approval = \"always\"\n";

fn otc(answer: &(u16, Value)) -> (u16, bool) {
    (answer.0, answer.1["result"]["success"].as_bool().unwrap())
}

/// Runs a command against `server` with `key`.
fn there(dir: &std::path::Path, server: &Server, key: &str, args: &[&str]) -> CommandOutput {
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
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!("the demo's tools are not offered");
}

async fn ask(ann: &Caller, text: &str) -> (u16, Value) {
    ann.otc("demo__echo", json!({ "text": text })).await
}

/// I-64: one principal requests and another one grants, on the command line with `--url`.
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
    let changed = ["call", "demo__echo", "{\"text\": \"changed\"}"];
    assert_eq!(there(dir.path(), &server, &ann, &changed).code, 1);
    let pending = there(dir.path(), &server, &bob, &list).ok().json();
    let ids: Vec<_> = pending.as_array().unwrap().iter().map(|it| &it["approvalId"]).collect();
    assert_eq!(ids.len(), 2, "the second run and the changed arguments each need a grant");
    let changed_id = ids[0].as_str().unwrap();
    let rejected = there(dir.path(), &server, &bob, &["approvals", "reject", changed_id]).ok();
    assert_eq!(rejected.json()["state"], "rejected");
    let refused = there(dir.path(), &server, &ann, &changed);
    assert!(refused.stdout.contains("approval_rejected"), "{refused:?}");
    let late = there(dir.path(), &server, &bob, &["approvals", "grant", changed_id]);
    assert_eq!(late.code, 1, "{late:?}");
    let foreign = there(dir.path(), &server, &bob, &["approvals", "show", "nothing"]);
    assert_eq!(foreign.code, 1);
    server.stop();
}

/// The operator answers a pending approval of a running server in the store.
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

/// No principal can approve its own call, the operator included.
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
    assert!(own.stderr.contains("you cannot approve your own request"), "{}", own.stderr);
}

/// I-64: a grant survives a crash before the call, and the call runs once.
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

/// I-64: a crash during the call consumes the grant: another run needs another grant.
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
    eventually("the call runs", || {
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

/// I-64: a quorum of two with a time limit, over HTTP and from the command line.
#[tokio::test]
async fn as_many_as_are_needed_consent_in_time() {
    let dir = dir();
    let settings = "[approvals]\nquorum = 2\ntimeout = \"3s\"\n";
    write_config(dir.path(), &(settings.to_owned() + &config(ASKS)));
    let (ann, bob) = keys(dir.path());
    let (_, carol) = key(dir.path(), &["--principal", "carol", "--scope", "approvals:respond"]);
    let server = serve(dir.path(), &ann).await;
    let (caller, answers) = (server.caller(Some(&ann)), server.caller(Some(&carol)));
    assert_eq!(otc(&ask(&caller, "hi").await), (200, false));
    let id = answers.get("/v1/approvals").await.1["approvals"][0]["approvalId"].clone();
    let id = id.as_str().unwrap();
    let first = there(dir.path(), &server, &bob, &["approvals", "grant", id]).ok().json();
    assert_eq!((&first["state"], &first["granted"]), (&json!("pending"), &json!(1)));
    assert_eq!(there(dir.path(), &server, &bob, &["approvals", "grant", id]).code, 1, "twice");
    assert_eq!(otc(&ask(&caller, "hi").await), (200, false), "one of two is none");
    let own = caller.post(&format!("/v1/approvals/{id}"), &json!({ "verdict": "grant" })).await;
    assert_eq!((own.0, &own.1["details"]["reason"]), (403, &json!("own_request")));
    let second = answers.post(&format!("/v1/approvals/{id}"), &json!({ "verdict": "grant" })).await;
    assert_eq!((second.0, &second.1["state"]), (200, &json!("granted")));
    assert_eq!(otc(&ask(&caller, "hi").await), (200, true));

    // This request expires without an answer.
    assert_eq!(otc(&ask(&caller, "late").await), (200, false));
    let late = run(dir.path(), &["approvals", "list", "--state", "pending", "--json"]).ok().json();
    let late = late[0]["approvalId"].as_str().unwrap().to_owned();
    tokio::time::sleep(Duration::from_millis(3_200)).await;
    let over = there(dir.path(), &server, &bob, &["approvals", "grant", &late]);
    assert_eq!(over.code, 1, "{over:?}");
    let shown = there(dir.path(), &server, &bob, &["approvals", "show", &late]).ok().json();
    assert_eq!(shown["state"], "expired");
    server.stop();
}

/// I-65: a key that was created or rotated over HTTP cannot answer the requests of its creator.
#[tokio::test]
async fn a_key_that_the_caller_made_does_not_answer() {
    let dir = dir();
    write_config(dir.path(), &config(ASKS));
    let scopes = ["--scope", "demo:read", "--scope", "keys:*", "--scope", "approvals:respond"];
    let (_, max) = key(dir.path(), &[&["--principal", "max"], &scopes[..]].concat());
    let (bobs, bob) = key(dir.path(), &["--principal", "bob", "--scope", "approvals:respond"]);
    let server = serve(dir.path(), &max).await;
    let caller = server.caller(Some(&max));
    let body = json!({ "name": "n", "principal": "eve", "scopes": ["approvals:respond"] });
    let (status, made) = caller.post("/v1/keys", &body).await;
    assert_eq!((status, &made["madeBy"]), (201, &json!(["max"])));
    let (status, renewed) = caller.post(&format!("/v1/keys/{bobs}/rotate"), &json!({})).await;
    assert_eq!(status, 201, "{renewed}");
    assert_eq!(otc(&ask(&caller, "hi").await), (200, false));
    let list = there(dir.path(), &server, &bob, &["approvals", "list"]).ok().json();
    let path = format!("/v1/approvals/{}", list[0]["approvalId"].as_str().unwrap());
    let grant = json!({ "verdict": "grant" });
    for key in [&made["key"], &renewed["key"]] {
        let other = server.caller(Some(key.as_str().unwrap()));
        let (status, told) = other.post(&path, &grant).await;
        assert_eq!((status, &told["details"]["reason"]), (403, &json!("same_hand")), "{told}");
    }
    assert_eq!(otc(&ask(&caller, "hi").await), (200, false));
    assert_eq!(server.caller(Some(&bob)).post(&path, &grant).await.0, 200);
    assert_eq!(otc(&ask(&caller, "hi").await), (200, true));
    server.stop();
}

/// I-66: webhooks pass the egress guard and are retried after a failure, also by the next process.
#[tokio::test(flavor = "multi_thread")]
async fn a_webhook_is_told_across_processes() {
    let dir = dir();
    let takes = Arc::new(AtomicBool::new(false));
    let taken = Arc::clone(&takes);
    let receiver = Recorder::start(move |_, _| {
        recorder::json(if taken.load(Ordering::SeqCst) { 200 } else { 503 }, "{}")
    });
    std::fs::write(dir.path().join("hook.key"), "whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIz").unwrap();
    let settings = format!(
        "[approvals]\nurl = \"https://gate.example/explorer\"\n[[approvals.webhook]]\n\
         url = \"{}/in\"\nsecret = {{ file = \"hook.key\" }}\nallow = [\"127.0.0.0/8\"]\n",
        receiver.url
    );
    write_config(dir.path(), &(settings.clone() + &config(ASKS)));
    let (ann, bob) = keys(dir.path());
    let mut server = serve(dir.path(), &ann).await;
    // The cursor of a receiver is stored when the server first knows the receiver.
    tokio::time::sleep(Duration::from_secs(1)).await;
    let caller = server.caller(Some(&ann));
    assert_eq!(otc(&ask(&caller, "canary").await), (200, false));
    let heard = Mutex::new(Vec::new());
    let told = |number: usize| {
        let mut heard = heard.lock().unwrap();
        heard.extend(receiver.heard());
        heard.len() >= number
    };
    eventually("it is tried twice", || told(2));
    server.process.kill();
    takes.store(true, Ordering::SeqCst);

    let server = serve(dir.path(), &ann).await;
    let list = there(dir.path(), &server, &bob, &["approvals", "list"]).ok().json();
    let id = list[0]["approvalId"].as_str().unwrap().to_owned();
    let is_told = |state: &str| {
        told(0);
        let words = format!("\"type\":\"approval.{state}\"");
        heard.lock().unwrap().last().is_some_and(|it| it.contains(&words))
    };
    let before = heard.lock().unwrap().len();
    eventually("the next process tells it", || told(before + 1) && is_told("pending"));
    there(dir.path(), &server, &bob, &["approvals", "grant", &id, "--comment", "canary"]).ok();
    eventually("it is told of the grant", || is_told("granted"));
    assert_eq!(otc(&ask(&server.caller(Some(&ann)), "canary").await), (200, true));
    eventually("it is told of the use", || is_told("used"));
    server.stop();
    let heard = heard.into_inner().unwrap();
    for request in &heard {
        assert!(request.starts_with("POST /in HTTP/1.1\n"), "{request}");
        for part in [&*id, "webhook-id: ", "webhook-timestamp: ", "webhook-signature: v1,"] {
            assert!(request.contains(part), "{request}");
        }
        assert!(request.contains(&format!("https://gate.example/explorer#approval={id}")));
        assert!(!request.contains("canary") && !request.contains("whsec_"), "{request}");
    }
}

/// I-35: a webhook is sent neither to a forbidden address nor along a redirect.
#[tokio::test(flavor = "multi_thread")]
async fn a_webhook_goes_through_the_guard() {
    let dir = dir();
    let receiver = Recorder::start(|_, _| {
        "HTTP/1.1 307 X\r\nlocation: /elsewhere\r\ncontent-length: 0\r\n\r\n".to_owned()
    });
    std::fs::write(dir.path().join("hook.key"), "0123456789012345678901234567").unwrap();
    let hook = |url: &str| {
        format!("[[approvals.webhook]]\nurl = \"{url}/in\"\nsecret = {{ file = \"hook.key\" }}\n")
    };
    let hooks = hook("http://169.254.169.254") + &hook(&receiver.url);
    write_config(dir.path(), &(hooks + &config(ASKS)));
    let (ann, _) = keys(dir.path());
    let mut server = serve(dir.path(), &ann).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(otc(&ask(&server.caller(Some(&ann)), "hi").await), (200, false));
    for told in ["is not a public address", "answered with status 307"] {
        server.process.until(told, |it| it.stderr().contains(told).then_some(()));
    }
    let heard = receiver.heard();
    assert!(!heard.is_empty() && heard.iter().all(|it| it.starts_with("POST /in ")), "{heard:?}");
    server.stop();
}
