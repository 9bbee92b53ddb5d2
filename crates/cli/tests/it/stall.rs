//! I-18, I-19: a store that does not respond, because another process holds its lock. Calls wait or
//! are refused, none runs unrecorded, and the server recovers.

use std::{path::Path, time::Duration};

use rusqlite::Connection;
use serde_json::{Value, json};
use tokio::task::JoinSet;
use toolcrib_testkit::upstream::{Answers, FaultyHttp};

use crate::support::{Caller, Server, dir, eventually, key, run, write_config};

const CALLERS: usize = 8;

/// A server with a tool that was called once, and a connection that can lock its store.
async fn serve(dir: &Path, upstream: &FaultyHttp) -> (Server, Caller, Connection) {
    write_config(
        dir,
        &format!(
            "[server]\nlisten = \"127.0.0.1:0\"\n\
             [[source]]\nid = \"up\"\nkind = \"mcp\"\nurl = \"{}\"\n",
            upstream.url()
        ),
    );
    let (_, text) = key(dir, &["--scope", "*"]);
    let server = Server::start(dir);
    let caller = server.caller(Some(&text));
    let mut tries = 0;
    while caller.otc("up__echo", json!({})).await.0 != 200 {
        tries += 1;
        assert!(tries < 600, "the tool cannot be called");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let store = Connection::open(dir.join(".toolcrib/toolcrib.db")).unwrap();
    store.busy_timeout(Duration::from_secs(60)).unwrap();
    (server, caller, store)
}

/// Starts calls that cannot be recorded yet.
fn calls(caller: &Caller) -> JoinSet<u16> {
    let mut calls = JoinSet::new();
    for number in 0..CALLERS {
        let caller = caller.clone();
        calls.spawn(async move { caller.otc("up__echo", json!({ "n": number })).await.0 });
    }
    calls
}

fn ran(upstream: &FaultyHttp) -> usize {
    upstream.received_method("tools/call").len()
}

fn events(dir: &Path, kind: &str) -> Vec<Value> {
    let export = run(dir, &["audit", "export"]).ok().stdout;
    let events = export.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    events.filter(|event| event["type"] == kind).collect()
}

/// Stops the server, and requires a whole record with an end of each call that ran.
fn is_whole(server: Server, dir: &Path, upstream: &FaultyHttp) {
    server.stop();
    let report = run(dir, &["--json", "audit", "verify"]).ok().json();
    assert_eq!(report["findings"], json!([]));
    assert_eq!(events(dir, "agent.toolCalled").len(), ran(upstream));
    assert_eq!(events(dir, "agent.toolReturned").len(), ran(upstream));
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_wait_for_a_store_that_is_locked_for_a_moment() {
    let dir = dir();
    let upstream = FaultyHttp::start(Answers::Json, &["era=modern"]);
    let (server, caller, store) = serve(dir.path(), &upstream).await;
    let before = ran(&upstream);
    store.execute_batch("BEGIN IMMEDIATE").unwrap();
    let calls = calls(&caller);
    // Reads go on, and take the server past the arrival of the calls.
    for _ in 0..20 {
        assert_eq!(caller.get("/v1/tools").await.0, 200);
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(ran(&upstream), before, "no call runs unrecorded");
    store.execute_batch("COMMIT").unwrap();
    assert_eq!(calls.join_all().await, [200; CALLERS]);
    assert_eq!(ran(&upstream), before + CALLERS);
    is_whole(server, dir.path(), &upstream);
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_are_refused_while_a_store_stays_locked_and_work_afterwards() {
    let dir = dir();
    let upstream = FaultyHttp::start(Answers::Json, &["era=modern"]);
    let (server, caller, store) = serve(dir.path(), &upstream).await;
    let before = ran(&upstream);
    store.execute_batch("BEGIN IMMEDIATE").unwrap();
    assert_eq!(calls(&caller).join_all().await, [503; CALLERS]);
    assert_eq!(ran(&upstream), before, "no call runs unrecorded");
    assert_eq!(caller.get("/v1/tools").await.0, 200, "lists need no record");
    store.execute_batch("COMMIT").unwrap();
    assert_eq!(calls(&caller).join_all().await, [200; CALLERS]);
    assert_eq!(ran(&upstream), before + CALLERS);
    is_whole(server, dir.path(), &upstream);
}

/// I-19
#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_ended_while_its_store_was_locked_is_answered_and_recorded_later() {
    let dir = dir();
    let upstream = FaultyHttp::start(Answers::Json, &["era=modern"]);
    let (server, caller, store) = serve(dir.path(), &upstream).await;
    let before = ran(&upstream);
    let slow = caller.clone();
    let running = tokio::spawn(async move { slow.otc("up__slow", json!({ "ms": 300 })).await.0 });
    eventually("it runs", || ran(&upstream) == before + 1);
    store.execute_batch("BEGIN IMMEDIATE").unwrap();
    assert_eq!(running.await.unwrap(), 200, "answered before the lock is released");
    assert_eq!(events(dir.path(), "agent.toolReturned").len(), before);
    store.execute_batch("COMMIT").unwrap();
    eventually("its end is recorded", || {
        events(dir.path(), "agent.toolReturned").len() == before + 1
    });
    is_whole(server, dir.path(), &upstream);
}
