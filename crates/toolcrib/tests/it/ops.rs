//! Probes and metrics.

use std::{sync::Arc, time::Duration};

use serde_json::json;
use tokio::sync::Notify;
use toolcrib_core::call::Outcome;
use toolcrib_testkit::gateway::{TestGateway, TestTool};

use crate::support::fixture;

#[tokio::test]
async fn probes_answer_to_any_host() {
    let gw = fixture().start().await;
    for path in ["/livez", "/readyz"] {
        let text = gw
            .raw(format!("GET {path} HTTP/1.1\r\nhost: 10.0.0.9:8808\r\nconnection: close\r\n\r\n"))
            .await;
        assert!(text.starts_with("HTTP/1.1 200 "), "{text}");
    }
    assert_eq!(gw.anonymous().get("/readyz").await.json()["status"], "ready");
}

#[tokio::test]
async fn metrics_are_for_operators() {
    let gw = fixture().start().await;
    let operator = gw.principal("operator", ["metrics:read"]).await;
    operator.get("/tools").await;
    let reply = operator.get("/metrics").await;
    assert_eq!(
        reply.header("content-type"),
        "application/openmetrics-text; version=1.0.0; charset=utf-8"
    );
    let text = reply.text();
    assert!(text.ends_with("# EOF\n"), "{text}");
    let counted = r#"toolcrib_http_requests_total{surface="Otc",status="200"} 1"#;
    assert!(text.contains(counted), "{text}");
}

#[tokio::test]
async fn metrics_are_open_when_the_operator_says_so() {
    let gw = fixture().config("[server]\npublic_metrics = true").start().await;
    assert_eq!(gw.anonymous().get("/metrics").await.status, 200);
    assert_eq!(gw.principal("a", []).await.get("/metrics").await.status, 200);
}

/// A call in flight when the server is told to stop gets its answer, and both its events.
#[tokio::test]
async fn stopping_waits_for_calls_in_flight() {
    let (started, go_on) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let (tell, wait) = (Arc::clone(&started), Arc::clone(&go_on));
    let slow = TestTool::new("slow").scopes([]).runs_as(move |_| {
        let (tell, wait) = (Arc::clone(&tell), Arc::clone(&wait));
        async move {
            tell.notify_one();
            wait.notified().await;
            Ok(Outcome::text("done", false))
        }
    });
    let gw = TestGateway::builder().tool(slow).start().await;
    let caller = gw.principal("a", []).await;
    let request = json!({ "request": { "tool_id": "crib.slow" } });
    let call = tokio::spawn(async move { caller.post("/tools/call", request).await });
    started.notified().await;
    let stopping = tokio::spawn(gw.stop());
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert!(!stopping.is_finished(), "the call is still running");
    go_on.notify_one();
    assert_eq!(call.await.unwrap().json()["result"]["value"], "done");
    stopping.await.unwrap();
}
