//! When a caller goes away, the upstream call is cancelled.

use std::{path::Path, time::Duration};

use serde_json::{Value, json};
use toolcrib_testkit::upstream::{Answers, FaultyHttp};

use crate::rig::{Rig, eventually, text};

fn recorded(record: &Path) -> Vec<Value> {
    let record = std::fs::read_to_string(record).unwrap_or_default();
    record.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

// I-22
#[tokio::test]
async fn dropping_a_call_over_stdio_sends_a_cancellation_in_both_eras() {
    for era in ["era=modern", "era=legacy"] {
        let directory = tempfile::tempdir().unwrap();
        let record = directory.path().join("record");
        let rig = Rig::faulty(&[era, &format!("record={}", record.display())]);
        rig.ready().await;
        {
            let mut call = std::pin::pin!(rig.try_call("hang", json!({})));
            let sent = eventually("the call is sent", || {
                recorded(&record).iter().any(|m| m["method"] == "tools/call")
            });
            tokio::select! { _ = &mut call => panic!("it hangs"), () = sent => {} }
        }
        eventually("the cancellation arrives", || {
            let messages = recorded(&record);
            let call = messages.iter().find(|m| m["method"] == "tools/call").unwrap();
            messages.iter().any(|m| {
                m["method"] == "notifications/cancelled" && m["params"]["requestId"] == call["id"]
            })
        })
        .await;
        // The connection still works.
        assert_eq!(text(&rig.call("echo", json!({})).await), "{}");
    }
}

// I-22
#[tokio::test]
async fn dropping_a_call_over_modern_http_closes_its_stream() {
    let server = FaultyHttp::start(Answers::Events, &["era=modern", "listen=no"]);
    let rig = Rig::http(&server.url());
    rig.ready().await;
    drop_when_sent(&rig, &server).await;
    eventually("the stream is closed", || server.received().iter().any(|r| r.verb == "CLOSED"))
        .await;
    assert_eq!(server.received_method("notifications/cancelled").len(), 0);
    assert_eq!(text(&rig.call("echo", json!({})).await), "{}");
}

// I-22
#[tokio::test]
async fn dropping_a_call_over_legacy_http_posts_a_cancellation() {
    let server = FaultyHttp::start(Answers::Events, &["era=legacy", "listen=no"]);
    let rig = Rig::http(&server.url());
    rig.ready().await;
    drop_when_sent(&rig, &server).await;
    eventually("the cancellation arrives", || {
        let call = server.received_method("tools/call").pop().unwrap();
        let cancelled = server.received_method("notifications/cancelled");
        cancelled.iter().any(|c| {
            c.body["params"]["requestId"] == call.body["id"]
                && c.headers["mcp-session-id"] == "session-0"
        })
    })
    .await;
}

async fn drop_when_sent(rig: &Rig, server: &FaultyHttp) {
    let mut call = std::pin::pin!(rig.try_call("hang", json!({})));
    let sent = eventually("the call is sent", || !server.received_method("tools/call").is_empty());
    tokio::select! { _ = &mut call => panic!("it hangs"), () = sent => {} }
}

// A call that waits for a slot was never sent, so nothing is cancelled.
#[tokio::test]
async fn calls_over_the_limit_wait_and_go_unsent_when_dropped() {
    let limits = toolcrib_core::source::SourceLimits { max_concurrency: 1, ..Default::default() };
    let server = FaultyHttp::start(Answers::Events, &["era=modern", "listen=no"]);
    let rig = Rig::http_with(&server.url(), &[], limits);
    rig.ready().await;
    {
        let mut running = std::pin::pin!(rig.try_call("hang", json!({})));
        let sent =
            eventually("the first is sent", || server.received_method("tools/call").len() == 1);
        tokio::select! { _ = &mut running => panic!("it hangs"), () = sent => {} }
        let waiting = rig.try_call("echo", json!({}));
        // Long enough for a call without a limit to arrive; none may.
        let waited = tokio::time::timeout(Duration::from_millis(200), waiting).await;
        assert!(waited.is_err(), "it should wait for its turn");
        assert_eq!(server.received_method("tools/call").len(), 1);
    }
    assert_eq!(text(&rig.call("echo", json!({})).await), "{}", "the turn was given back");
}
