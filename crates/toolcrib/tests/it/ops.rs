//! Probes and metrics.

use crate::support::fixture;

#[tokio::test]
async fn probes_answer_to_any_host() {
    let gw = fixture().start().await;
    for path in ["/livez", "/readyz"] {
        let text = gw.raw(format!("GET {path} HTTP/1.1\r\nhost: 10.0.0.9:8808\r\nconnection: close\r\n\r\n")).await;
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
