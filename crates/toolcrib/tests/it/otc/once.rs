//! `call_id` on the wire. What the gateway promises of keys is tested there.

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

/// I-31: callers that come while it runs get the bytes of the one run; one that hangs up, the first
/// one included, takes it from nobody.
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
    // Another call under the same id need not wait to be refused.
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

/// I-31: a caller that hung up finds the answer when it comes back.
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

/// I-31: an id is its caller's; a failure of the tool is an answer like any other.
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
    // I-20: ids, arguments and answers are not in the record.
    let told = format!("{:?}", gw.events().await);
    assert!(!told.contains("kaboom"), "{told}");
}

/// I-31: what did not run, or may run again, is not kept.
#[tokio::test]
async fn what_may_be_tried_again_is_tried_again() {
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
    // The id that came with wrong arguments serves for the right ones.
    let input = json!({ "path": "a" });
    assert_eq!(call(&reader, "read", "read", input).await.status, 200);
    // A repeated answer takes nothing from the bucket.
    for (id, status) in [("a", 200), ("b", 429), ("a", 200), ("b", 429)] {
        assert_eq!(call(&reader, "limited", id, json!({})).await.status, status, "{id}");
    }
}
