//! `call_id` on the wire. The idempotency of the gateway is tested there.

use std::sync::Arc;

use serde_json::{Value, json};
use tokio::sync::Semaphore;
use toolcrib_core::call::{Outcome, UpstreamError, UpstreamErrorKind};
use toolcrib_testkit::gateway::{Actor, Reply, TestGateway, TestTool};

use super::spec::answers;
use crate::support::fixture;

async fn call(caller: &Actor, tool: &str, call_id: &str, input: Value) -> Reply {
    let request = json!({ "tool_id": format!("crib.{tool}"), "call_id": call_id, "input": input });
    caller.post("/tools/call", json!({ "request": request })).await
}

/// I-31: concurrent callers get the bytes of the single run. A caller that disconnects, even the
/// first, does not affect the others.
#[tokio::test]
async fn concurrent_duplicates_wait_for_the_one_run() {
    let gate = Arc::new(Semaphore::new(0));
    let opened = Arc::clone(&gate);
    let slow = TestTool::new("slow").scopes([]).runs_as(move |_| {
        let opened = Arc::clone(&opened);
        async move {
            opened.acquire().await.unwrap().forget();
            Ok(Outcome::text("done", false))
        }
    });
    let gw = TestGateway::builder().tool(slow).start().await;
    let caller = gw.principal("a", []).await;
    let start = || {
        let caller = caller.clone();
        tokio::spawn(async move { call(&caller, "slow", "one", json!({})).await })
    };
    let first = start();
    while gw.runs("crib", "slow") == 0 {
        tokio::task::yield_now().await;
    }
    let others: Vec<_> = (0..8).map(|_| start()).collect();
    // A different call with the same id is rejected at once.
    answers(&call(&caller, "slow", "one", json!({ "n": 1 })).await, 400);
    first.abort();
    gate.add_permits(1);
    let mut bodies = Vec::new();
    for other in others {
        bodies.push(other.await.unwrap().body);
    }
    let again = call(&caller, "slow", "one", json!({})).await;
    assert_eq!(answers(&again, 200)["result"]["value"], "done");
    assert!(bodies.iter().all(|body| *body == again.body));
    assert_eq!(gw.runs("crib", "slow"), 1);
}

/// I-31: a caller that disconnected gets the result when it returns.
#[tokio::test]
async fn a_lost_connection_is_no_lost_answer() {
    let gate = Arc::new(Semaphore::new(0));
    let opened = Arc::clone(&gate);
    let slow = TestTool::new("slow").scopes([]).runs_as(move |_| {
        let opened = Arc::clone(&opened);
        async move {
            opened.acquire().await.unwrap().forget();
            Ok(Outcome::text("done", false))
        }
    });
    let gw = TestGateway::builder().tool(slow).start().await;
    let caller = gw.principal("a", []).await;
    let lost = {
        let caller = caller.clone();
        tokio::spawn(async move { call(&caller, "slow", "one", json!({})).await })
    };
    while gw.runs("crib", "slow") == 0 {
        tokio::task::yield_now().await;
    }
    lost.abort();
    gate.add_permits(1);
    gw.event(|event| event["type"] == "agent.toolReturned").await;
    let again = call(&caller, "slow", "one", json!({})).await;
    assert_eq!(answers(&again, 200)["result"]["value"], "done");
    assert_eq!(gw.runs("crib", "slow"), 1);
}

/// I-31: an id belongs to its caller; a failure of the tool is stored like any other result.
#[tokio::test]
async fn ids_are_the_callers_own_and_failures_are_kept() {
    let gw = fixture().start().await;
    let (one, two) = (gw.principal("one", ["*"]).await, gw.principal("two", ["*"]).await);
    let other_tenant = gw.principal_of("other", "one", &["*"]).await;
    for caller in [&one, &two, &other_tenant] {
        let first = call(caller, "fail", "id", json!({})).await;
        assert_eq!(answers(&first, 200)["result"]["success"], false);
        assert_eq!(call(caller, "fail", "id", json!({})).await.body, first.body);
    }
    assert_eq!(gw.runs("crib", "fail"), 3);
    // A second key of the same principal is the same caller.
    let again = gw.principal("one", ["*"]).await;
    assert_eq!(call(&again, "fail", "id", json!({})).await.header("idempotent-replayed"), "true");
    // I-20: ids, arguments and results are not in the event log.
    let told = format!("{:?}", gw.events().await);
    assert!(!told.contains("kaboom"), "{told}");
}

/// I-31: results of calls that did not run, or may run again, are not stored.
#[tokio::test]
async fn a_call_that_may_be_retried_runs_again() {
    let lost =
        |kind: UpstreamErrorKind| move |_| async move { Err(UpstreamError::new(kind, "gone")) };
    let gw = fixture()
        .tool(TestTool::new("dies").scopes([]).runs_as(lost(UpstreamErrorKind::Died)))
        .tool(TestTool::new("retry").scopes([]).tier("read").runs_as(lost(UpstreamErrorKind::Died)))
        .tool(TestTool::new("limited").scopes([]).rule("rate = \"1/h\""))
        .start()
        .await;
    let reader = gw.principal("reader", ["files:read"]).await;
    for (tool, status, kept) in [
        ("dies", 200, true),
        ("retry", 200, false),
        ("down", 400, false),
        ("ask", 200, false),
        ("read", 422, false),
        ("write", 403, false),
    ] {
        for repeats in [false, kept] {
            let reply = call(&reader, tool, tool, json!({})).await;
            assert_eq!(reply.status, status, "{tool}");
            assert_eq!(reply.header("idempotent-replayed") == "true", repeats, "{tool}");
        }
    }
    assert_eq!((gw.runs("crib", "dies"), gw.runs("crib", "retry")), (1, 2));
    // The id of a call with invalid arguments can be reused with valid ones.
    let input = json!({ "path": "a" });
    assert_eq!(call(&reader, "read", "read", input).await.status, 200);
    // A replayed result takes nothing from the bucket.
    for (id, status) in [("a", 200), ("b", 429), ("a", 200), ("b", 429)] {
        assert_eq!(call(&reader, "limited", id, json!({})).await.status, status, "{id}");
    }
}
