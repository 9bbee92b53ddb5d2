//! Progress, and the form of a response.

use std::time::Duration;

use serde_json::{Value, json};
use toolcrib_testkit::gateway::TestTool;

use crate::support::{events, gateway, legacy, modern};

/// I-28: ten runs, every report in order and before the result.
#[tokio::test]
async fn progress_comes_in_order_and_before_the_answer() {
    let gw = gateway().start().await;
    let caller = gw.principal("a", []).await;
    for round in 0..10 {
        let token = if round % 2 == 0 { json!("tok\"en") } else { json!(42) };
        let params = json!({
            "name": "crib__steps", "arguments": { "steps": 50 }, "_meta": { "progressToken": token },
        });
        let reply = match round % 2 {
            0 => modern(&caller, "tools/call", params).await,
            _ => legacy(&caller, "tools/call", params).await,
        };
        assert_eq!(reply.header("content-type"), "text/event-stream");
        assert_eq!(reply.header("cache-control"), "no-cache, no-transform");
        assert_eq!(reply.header("x-accel-buffering"), "no");
        let mut messages = events(&reply.text());
        let answer = messages.pop().unwrap();
        assert_eq!(answer["result"]["content"][0]["text"], "done");
        assert_eq!(messages.len(), 50);
        for (step, message) in (1..).zip(&messages) {
            assert_eq!(message["method"], "notifications/progress");
            assert_eq!(
                message["params"],
                json!({
                    "progressToken": token, "progress": step, "total": 50,
                    "message": format!("step {step}"),
                })
            );
        }
    }
}

#[tokio::test]
async fn without_a_token_there_is_no_progress() {
    let gw = gateway().start().await;
    let caller = gw.principal("a", []).await;
    let reply = modern(&caller, "tools/call", json!({ "name": "crib__steps" })).await;
    assert_eq!(reply.header("content-type"), "application/json");
    assert_eq!(reply.json()["result"]["content"][0]["text"], "done");
}

#[tokio::test]
async fn a_token_without_progress_costs_no_stream() {
    let gw = gateway().start().await;
    let caller = gw.principal("a", []).await;
    let params = json!({ "name": "crib__bare", "_meta": { "progressToken": 1 } });
    let reply = modern(&caller, "tools/call", params).await;
    assert_eq!(reply.header("content-type"), "application/json");
}

#[tokio::test]
async fn a_call_that_takes_its_time_becomes_a_stream() {
    let gw = gateway().start().await;
    let caller = gw.principal("a", []).await;
    for reply in [
        modern(&caller, "tools/call", json!({ "name": "crib__nap" })).await,
        legacy(&caller, "tools/call", json!({ "name": "crib__nap" })).await,
    ] {
        assert_eq!(reply.header("content-type"), "text/event-stream");
        let messages = events(&reply.text());
        assert_eq!(messages.len(), 1);
        assert_eq!(messages[0]["result"]["content"][0]["text"], "awake");
    }
}

/// A slow reader loses the oldest reports but never the order, and the tool never waits.
#[tokio::test]
async fn a_flood_of_progress_is_bounded_and_ordered() {
    use toolcrib::core::call::{Outcome, Progress};
    let flood = TestTool::new("flood").scopes([]).runs_as(|call| async move {
        for step in 0..10_000_u64 {
            if let Some(sink) = &call.progress {
                sink.report(Progress { progress: step.into(), total: None, message: None });
            }
        }
        Ok(Outcome::text("done", false))
    });
    let gw = gateway().tool(flood).start().await;
    let caller = gw.principal("a", []).await;
    let params = json!({ "name": "crib__flood", "_meta": { "progressToken": 1 } });
    let reply = modern(&caller, "tools/call", params).await;
    let mut messages = events(&reply.text());
    assert_eq!(messages.pop().unwrap()["result"]["content"][0]["text"], "done");
    let steps: Vec<u64> =
        messages.iter().map(|m| m["params"]["progress"].as_u64().unwrap()).collect();
    assert!(steps.windows(2).all(|pair| pair[0] < pair[1]));
    assert_eq!(steps.last(), Some(&9_999), "the newest is kept");
}

/// Two concurrent calls with the same token do not mix: each has its own stream.
#[tokio::test]
async fn calls_of_one_client_do_not_mix() {
    let gw = gateway().start().await;
    let caller = gw.principal("a", []).await;
    let one = async |steps: u64| {
        let params = json!({
            "name": "crib__steps", "arguments": { "steps": steps }, "_meta": { "progressToken": 1 },
        });
        let reply = modern(&caller, "tools/call", params).await;
        let mut messages = events(&reply.text());
        messages.pop();
        messages.iter().all(|m: &Value| m["params"]["total"] == steps).then_some(messages.len())
    };
    let both =
        tokio::time::timeout(Duration::from_secs(10), async { tokio::join!(one(20), one(30)) });
    assert_eq!(both.await.unwrap(), (Some(20), Some(30)));
}
