//! Servers over one PostgreSQL database that are stopped for a while, as by a paused virtual machine.

use std::{
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};

use rustix::process::Signal;
use serde_json::{Value, json};
use tokio::task::JoinSet;
use toolcrib_testkit::{
    postgres,
    upstream::{Answers, FaultyHttp},
};

use crate::{
    replicas::{Replica, echo, has_tool, is_success, prepare, prepend, runs},
    support::{eventually_async as eventually, key},
};

/// Longer than a confirmation by the store counts.
const PAUSE: Duration = Duration::from_secs(3);
const REQUESTS: usize = 16;

// I-110
#[tokio::test(flavor = "multi_thread")]
async fn a_key_revoked_during_the_pause_of_a_server_is_refused_when_it_goes_on() {
    let Some(database) = postgres::database() else { return };
    let upstream = FaultyHttp::start(Answers::Json, &["era=modern"]);
    let (one, two) = Replica::pair(&database, &upstream, "");
    let (_, admin) = key(one.dir.path(), &["--scope", "*"]);
    let (id, text) = key(one.dir.path(), &["--scope", "up:use"]);
    let caller = two.caller(&text);
    eventually("the new key works", async || has_tool(&caller, "mcp:up.echo").await).await;
    eventually("calls run", async || is_success(&echo(&caller, "before").await)).await;

    two.server.process.signal(Signal::STOP);
    one.remote(&admin, &["keys", "revoke", &id]).ok();
    tokio::time::sleep(PAUSE).await;
    let mut requests = JoinSet::new();
    for _ in 0..REQUESTS {
        let (list, call) = (caller.clone(), caller.clone());
        requests.spawn(async move { list.get("/v1/tools").await.0 });
        requests.spawn(async move { echo(&call, "after").await.0 });
    }
    // Most of them wait in the queue of the port, and are the first that the server reads.
    tokio::time::sleep(Duration::from_millis(200)).await;
    two.server.process.signal(Signal::CONT);
    assert_eq!(requests.join_all().await, [401; 2 * REQUESTS]);
    assert_eq!(runs(&upstream, "echo", "after"), 0);

    // Others are served.
    let admin = two.caller(&admin);
    eventually("it answers", async || is_success(&echo(&admin, "other").await)).await;
    one.server.stop();
    two.server.stop();
}

// I-110
#[tokio::test(flavor = "multi_thread")]
async fn without_the_store_no_key_counts_for_long() {
    let Some(postgres) = postgres::PostgresServer::own() else { return };
    let database = postgres.database();
    let upstream = FaultyHttp::start(Answers::Json, &["era=modern"]);
    let one = Replica::start(&database, &upstream, "");
    let (_, text) = key(one.dir.path(), &["--scope", "*"]);
    let caller = one.caller(&text);
    eventually("the key works", async || has_tool(&caller, "mcp:up.echo").await).await;
    postgres.stop();
    eventually("it is not accepted", async || caller.get("/v1/tools").await.0 == 503).await;
    postgres.start();
    eventually("it is accepted again", async || caller.get("/v1/tools").await.0 == 200).await;
    one.server.stop();
}

// I-111
#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_another_server_has_closed_is_not_answered_as_a_success() {
    let Some(database) = postgres::database() else { return };
    let upstream = FaultyHttp::start(Answers::Json, &["era=modern"]);
    // A call that only reads may be made again.
    let tools = "[source.tools.slow]\nsafety_tier = \"write\"\n";
    let (one, mut two) = Replica::pair(&database, &upstream, tools);
    let (_, text) = key(one.dir.path(), &["--scope", "*"]);
    let (other, caller) = (one.caller(&text), two.caller(&text));
    eventually("the tool is offered", async || has_tool(&caller, "mcp:up.slow").await).await;
    let request =
        json!({ "request": { "tool_id": "up__slow", "input": { "ms": 700 }, "call_id": "c" } });
    let body = request.clone();
    let waiting = tokio::spawn(async move { caller.post("/tools/call", &body).await });
    eventually("it runs", async || runs(&upstream, "slow", "700") == 1).await;
    two.server.process.signal(Signal::STOP);
    let ends = || {
        let events = one.local(&["audit", "export"]).ok().stdout;
        (events.matches("agent.toolReturned").count(), events.matches("\"interrupted\"").count())
    };
    eventually("another server closes it", async || ends() == (1, 1)).await;
    two.server.process.signal(Signal::CONT);

    let is_interrupted = |(status, answer): &(u16, Value)| {
        let error = &answer["result"]["error"]["developer_message"];
        *status == 200 && answer["result"]["success"] == false && error == "interrupted"
    };
    let answer = waiting.await.unwrap();
    assert!(is_interrupted(&answer), "{answer:?}");
    let again = other.post("/tools/call", &request).await;
    assert!(is_interrupted(&again), "{again:?}");
    assert_eq!(runs(&upstream, "slow", "700"), 1, "it ran once");
    assert_eq!(ends(), (1, 1), "and ended once");
    let status = two.server.process.ended();
    assert_ne!(status.code(), Some(0), "the server ends, to be restarted");
    one.server.stop();
}

// I-79
#[tokio::test(flavor = "multi_thread")]
async fn several_servers_make_no_more_calls_than_a_quota_allows() {
    const QUOTA: usize = 60;
    let Some(database) = postgres::database() else { return };
    let upstream = FaultyHttp::start(Answers::Json, &["era=modern"]);
    let replicas: Vec<_> = (0..3)
        .map(|_| {
            let dir = prepare(&database, &upstream, "");
            prepend(&dir, &format!("[gate]\nrate = \"off\"\nquota = \"{QUOTA}/d\"\n"));
            Replica::over(dir)
        })
        .collect();
    let (_, text) = key(replicas[0].dir.path(), &["--scope", "*"]);
    let callers: Vec<_> = replicas.iter().map(|replica| replica.caller(&text)).collect();
    for caller in &callers {
        eventually("it is offered", async || has_tool(caller, "mcp:up.echo").await).await;
    }
    let mut calls = JoinSet::new();
    for number in 0..2 * QUOTA {
        let caller = callers[number % callers.len()].clone();
        calls.spawn(async move { echo(&caller, "counted").await.0 });
    }
    let ran = calls.join_all().await.into_iter().filter(|status| *status == 200).count();
    assert!(ran <= QUOTA, "{ran} calls ran");
    assert_eq!(runs(&upstream, "echo", "counted"), ran);
    // What one server has set aside and does not need, another one can have.
    let ran = AtomicUsize::new(ran);
    eventually("the whole quota is used", async || {
        let done = echo(&callers[0], "counted").await.0 == 200;
        ran.fetch_add(usize::from(done), Ordering::Relaxed) + usize::from(done) == QUOTA
    })
    .await;
    for caller in &callers {
        assert_eq!(echo(caller, "counted").await.0, 429);
    }
    assert_eq!(runs(&upstream, "echo", "counted"), QUOTA);
    let (_, sources) = callers[1].get("/v1/sources").await;
    assert_eq!(sources["quota"]["used"], QUOTA, "{sources}");
    for replica in replicas {
        replica.server.stop();
    }
}
