//! `serve --test-routes`, and the record of events that only tests and loads write.

use serde_json::{Value, json};
use toolcrib_core::{
    event::{CallStatus, EventBody, EventLog as _, NewEvent, ToolReturned},
    id::AgentId,
    store::Storage as _,
};
use toolcrib_store::{Options, SqliteStore};

use crate::support::{Server, demo_key, dir, run, toolcrib, write_config};

const INVOKE: &str = "/v1/host/sample/toolhooks/invoke";

#[tokio::test]
async fn the_demo_serves_the_test_routes_with_the_flag_and_warns() {
    let dir = dir();
    let data = dir.path().join("data");
    let args = [
        "serve",
        "--demo",
        "--no-history",
        "--test-routes",
        "--listen",
        "127.0.0.1:0",
        "--data-dir",
    ];
    let server = Server::of(toolcrib(dir.path()).args(args).arg(&data));
    let admin = server.caller(Some(&demo_key(&data, "admin")));
    let asked = json!({ "principal": "core.system", "toolName": "web.search", "args": {} });
    let (status, told) = admin.post(INVOKE, &asked).await;
    assert_eq!((status, &told["toolReturned"]["status"]), (200, &json!("ok")));
    let (_, ran) = admin.post("/v1/host/sample/tools/session-run", &json!({})).await;
    let session = ran["runId"].as_str().unwrap();
    let (_, events) = admin.get(&format!("/v1/host/sample/test/runs/{session}/events")).await;
    assert_eq!(events["events"][3]["payload"]["outcome"], "completed");
    let stranger = server.caller(Some(&demo_key(&data, "other-tenant")));
    let (_, events) = stranger.get(&format!("/v1/host/sample/test/runs/{session}/events")).await;
    assert_eq!(events, json!({ "events": [] }));
    assert_eq!(server.caller(None).post(INVOKE, &asked).await.0, 401);
    let said = server.stop();
    assert!(said.contains("WARN toolcrib: --test-routes: /v1/host/sample is served"), "{said}");
    // The text output shows their events, too.
    let shown = run(dir.path(), &["--data-dir", data.to_str().unwrap(), "audit", "tail"]).ok();
    assert!(shown.stdout.contains("tool.session.closed    probe.session completed (session "));
}

#[tokio::test]
async fn without_the_flag_there_are_no_test_routes() {
    let dir = dir();
    let data = dir.path().join("data");
    let server = Server::demo(&data);
    let admin = server.caller(Some(&demo_key(&data, "admin")));
    let asked = json!({ "principal": "core.system", "toolName": "web.search" });
    assert_eq!(admin.post(INVOKE, &asked).await.0, 404);
    let run = "/v1/host/sample/test/runs/__probe__/events";
    assert_eq!(admin.get(run).await.0, 404);
    assert!(!server.stop().contains("test-routes"));
}

/// I-30: servers that are reachable through a proxy or from other machines refuse test routes, and no
/// configuration file can enable them.
#[test]
fn the_test_routes_do_not_leave_the_machine() {
    let dir = dir();
    for config in [
        "[server]\nlisten = \"0.0.0.0:0\"\nbehind_proxy = true\n",
        "[server]\nlisten = \"127.0.0.1:0\"\nbehind_proxy = true\n",
        "[server]\nlisten = \"0.0.0.0:0\"\n",
    ] {
        write_config(dir.path(), config);
        let ran = run(dir.path(), &["serve", "--test-routes"]);
        assert_eq!(ran.code, 1, "{ran:?}");
        assert!(!ran.stdout.contains("listening"), "{ran:?}");
    }
    assert!(!dir.path().join(".toolcrib").exists(), "nothing was started");
    write_config(dir.path(), "test_routes = true\n");
    assert_eq!(run(dir.path(), &["config", "check"]).code, 1);
}

/// A return that nobody called for (forbidden at load) is exported as it is, and a start finds
/// nothing to close.
#[tokio::test]
async fn a_row_without_a_call_is_exported() {
    let dir = dir();
    let data = dir.path().join("data");
    let store = SqliteStore::open(data.join("toolcrib.db"), Options::default()).unwrap();
    let row = NewEvent {
        event_id: "e1".parse().unwrap(),
        tenant: "default".parse().unwrap(),
        run_id: "r1".parse().unwrap(),
        body: EventBody::ToolReturned(ToolReturned::new(
            AgentId::system(),
            "mcp:files.gone",
            format!("forbidden:{}", "0".repeat(64)).parse().unwrap(),
            CallStatus::Forbidden,
        )),
        timestamp: chrono::Utc::now(),
        causation_id: None,
    };
    store.append(&[row]).await.unwrap();
    store.close().await;
    write_config(dir.path(), "[server]\nlisten = \"127.0.0.1:0\"\n");
    let data = data.to_str().unwrap();
    let server = Server::of(toolcrib(dir.path()).args(["serve", "--data-dir", data]));
    assert!(!server.stop().contains("left open"));
    let exported = run(dir.path(), &["--data-dir", data, "audit", "export"]).ok();
    let lines: Vec<Value> =
        exported.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), 1);
    assert_eq!(lines[0]["payload"]["status"], "forbidden");
    assert_eq!(lines[0].get("causationId"), None);
}
