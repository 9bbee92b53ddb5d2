//! Probes and metrics.

use std::{sync::Arc, time::Duration};

use serde_json::json;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use toolcrib_core::call::Outcome;
use toolcrib_gateway::tasks::{Policy, TaskName};
use toolcrib_testkit::gateway::{TestGateway, TestSource, TestTool};

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
async fn a_probe_shows_what_fails_and_names_nothing() {
    let gw = fixture().start().await;
    let plain = gw.anonymous().get("/readyz?verbose").await.json();
    assert_eq!(
        plain,
        json!({ "status": "ready", "checks": [
            { "name": "keys", "state": "ok", "reason": null },
            { "name": "tasks", "state": "ok", "reason": null },
            { "name": "disk", "state": "ok", "reason": null },
            { "name": "record", "state": "ok", "reason": null },
            { "name": "drain", "state": "ok", "reason": null },
        ] })
    );
    let stranger = gw.principal("stranger", ["*:none"]).await;
    assert_eq!(stranger.get("/readyz?verbose").await.json(), plain);
    let operator = gw.principal("operator", ["metrics:all"]).await;
    assert_eq!(operator.get("/readyz").await.json(), json!({ "status": "ready" }));
    let lost = gw.tasks().once(TaskName::of("discovery", "crib"), async { panic!("a fault") });
    lost.ended().await;
    let seen = gw.anonymous().get("/readyz?verbose").await;
    assert_eq!(seen.status, 200, "callers are served");
    let check = &seen.json()["checks"][1];
    assert_eq!((&check["name"], &check["state"]), (&json!("tasks"), &json!("degraded")));
    assert_eq!(seen.json().get("tasks"), None);
    let mut seen = operator.get("/readyz?verbose=1").await;
    // The first discoveries of the sources may still be running.
    for _ in 0..100 {
        let tasks = seen.json()["tasks"].clone();
        let mut discoveries =
            tasks.as_array().unwrap().iter().filter(|it| it["task"] == "discovery");
        if discoveries.all(|it| it["running"] == 0) {
            break;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
        seen = operator.get("/readyz?verbose=1").await;
    }
    let tasks = seen.json()["tasks"].clone();
    let task = |name: &str| tasks.as_array().unwrap().iter().find(|it| it["task"] == name).cloned();
    let failed = json!({ "task": "discovery", "state": "recovering", "running": 0, "failures": 1 });
    assert_eq!(task("discovery"), Some(failed));
    assert_eq!(task("keys").unwrap()["state"], "running");
    assert!(!seen.text().contains("crib"), "no source is named: {}", seen.text());
    // I-90: a task that the process cannot do without.
    let essential = || async {};
    gw.tasks().spawn("store", Policy::Essential, CancellationToken::new(), essential).ended().await;
    let seen = gw.anonymous().get("/readyz").await;
    assert_eq!(seen.status, 503);
    assert_eq!(seen.json()["reason"], "a background task stopped");
}

#[tokio::test]
async fn metrics_are_for_operators() {
    let gw = fixture().start().await;
    let operator = gw.principal("operator", ["metrics:all"]).await;
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

/// I-100: tenants without a label share one that no tenant can have as its name.
#[tokio::test]
async fn the_calls_of_tenants_without_a_label_belong_to_none() {
    let gw = TestGateway::builder()
        .config("[metrics]\ntenants = [\"other\"]\n")
        .tool(TestTool::new("shared").scopes(["use:it"]))
        .start()
        .await;
    let call = json!({ "request": { "tool_id": "crib.shared", "input": {} } });
    // A tenant may have the name of a label of tools.
    let eve = gw.principal_of("other", "eve", &["use:it", "metrics:read"]).await;
    eve.post("/tools/call", call.clone()).await;
    for tenant in ["a", "b", "c"] {
        let ann = gw.principal_of(tenant, "ann", &["use:it"]).await;
        assert_eq!(ann.post("/tools/call", call.clone()).await.status, 200);
    }
    let own = eve.get("/metrics").await.text();
    let count = own.lines().find(|line| line.contains("tenant=\"other\"")).unwrap();
    assert!(count.ends_with(" 1"), "{own}");
    let operator = gw.principal_of("ops", "prometheus", &["metrics:all"]).await;
    let all = operator.get("/metrics").await.text();
    let rest = all.lines().find(|line| line.contains("tenant=\"other tenants\"")).unwrap();
    assert!(rest.ends_with(" 3"), "{all}");
}

/// I-9, I-100: a tenant reads the series of its own calls. All other metrics of the server require a
/// scope that no wildcard covers.
#[tokio::test]
async fn a_tenant_reads_its_own_metrics() {
    let tool = |name: &str, scope| TestTool::new(name).scopes([scope]);
    let gw = TestGateway::builder()
        .source(TestSource::new("both").tool(tool("shared", "use:it")))
        .source(TestSource::new("theirs").tenants(["other"]).tool(tool("secret", "use:it")))
        .start()
        .await;
    let call = |name: &str| json!({ "request": { "tool_id": name, "input": {} } });
    // A tenant may be called like the label of those without one.
    let b = gw.principal_of("other", "eve", &["*"]).await;
    let a = gw.principal_of("acme", "ann", &["use:it", "metrics:read", "sources:read"]).await;
    for name in ["both.shared", "theirs.secret"] {
        assert_eq!(b.post("/tools/call", call(name)).await.status, 200);
    }
    a.post("/tools/call", call("both.shared")).await;
    a.post("/tools/call", call("none.such")).await;

    let samples = |text: &str| {
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        lines.map(str::to_owned).collect::<Vec<_>>()
    };
    let own = samples(&a.get("/metrics").await.text());
    assert_eq!(own.len(), 2, "{own:?}");
    assert!(own.iter().all(|it| it.contains("tenant=\"acme\"") && it.ends_with(" 1")), "{own:?}");
    let of_b = b.get("/metrics").await.text().to_owned();
    assert!(of_b.ends_with("# EOF\n") && of_b.contains("theirs"), "{of_b}");
    for hidden in ["acme", "http_requests", "call_seconds", "run_id", "source_up", "store_"] {
        assert!(!of_b.contains(hidden), "{hidden}: {of_b}");
    }
    assert_eq!(b.get("/v1/record/forwarders").await.status, 403);
    assert!(b.get("/readyz?verbose").await.json().get("tasks").is_none());
    let operator = gw.principal_of("ops", "prometheus", &["metrics:all"]).await;
    let all = operator.get("/metrics").await.text().to_owned();
    assert!(all.contains("tenant=\"acme\"") && all.contains("toolcrib_http_requests"), "{all}");
    assert_eq!(operator.get("/v1/record/forwarders").await.status, 200);

    // The figures of a source show what others do with it.
    let sources = b.get("/v1/sources").await.json();
    let load = |id: &str| {
        let all = sources["sources"].as_array().unwrap();
        all.iter().find(|it| it["id"] == id).unwrap().clone()
    };
    assert_eq!(load("theirs")["load"]["running"], json!(0));
    assert_eq!(load("theirs")["latency"]["calls"], json!(1));
    let shared = load("both");
    assert_eq!((shared.get("latency"), shared["load"].get("running")), (None, None), "{shared}");
    assert!(shared["load"]["maxConcurrency"].is_u64(), "{shared}");
}

#[tokio::test]
async fn metrics_are_open_when_the_operator_says_so() {
    let gw = fixture().config("[server]\npublic_metrics = true").start().await;
    assert_eq!(gw.anonymous().get("/metrics").await.status, 200);
    assert_eq!(gw.principal("a", []).await.get("/metrics").await.status, 200);
}

/// A call in flight when the server stops gets its response and both its events.
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
