//! The handshake revisions, without a session.

use serde_json::json;

use crate::support::{gateway, legacy, post};

#[tokio::test]
async fn a_handshake_settles_on_a_version() {
    let gw = gateway().start().await;
    let caller = gw.principal("a", []).await;
    for (requested, settled) in [
        ("2025-03-26", "2025-03-26"),
        ("2025-06-18", "2025-06-18"),
        ("2025-11-25", "2025-11-25"),
        ("2026-07-28", "2025-11-25"),
        ("1999-01-01", "2025-11-25"),
    ] {
        let params = json!({
            "protocolVersion": requested, "capabilities": {},
            "clientInfo": { "name": "t", "version": "1" },
        });
        let reply = legacy(&caller, "initialize", params).await;
        assert_eq!(reply.status, 200);
        let result = reply.json()["result"].clone();
        assert_eq!(result["protocolVersion"], settled);
        assert_eq!(result["capabilities"], json!({ "tools": { "listChanged": true } }));
        assert_eq!(result["serverInfo"]["name"], "toolcrib");
        assert!(result.get("resultType").is_none());
    }
}

#[tokio::test]
async fn notifications_and_answers_are_taken_and_not_answered() {
    let gw = gateway().start().await;
    let caller = gw.principal("a", []).await;
    for body in [
        json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }),
        json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": 1 } }),
        json!({ "jsonrpc": "2.0", "id": 1, "result": {} }),
        json!({ "jsonrpc": "2.0", "id": 1, "error": { "code": 1, "message": "no" } }),
    ] {
        let reply = post(&caller, &body.to_string()).await;
        assert_eq!((reply.status, reply.text().as_str()), (202, ""), "{body}");
    }
}

#[tokio::test]
async fn methods_of_other_servers_are_not_found_and_the_rest_is_answered() {
    let gw = gateway().start().await;
    let caller = gw.principal("a", []).await;
    let (status, body) = legacy(&caller, "ping", json!({})).await.parts();
    assert_eq!((status, &body["result"]), (200, &json!({})));
    for method in
        ["prompts/list", "resources/list", "logging/setLevel", "resources/subscribe", "no/such"]
    {
        let (status, body) = legacy(&caller, method, json!({})).await.parts();
        assert_eq!((status, &body["error"]["code"]), (200, &json!(-32601)), "{method}");
    }
}

#[tokio::test]
async fn a_version_header_must_be_known() {
    let gw = gateway().start().await;
    let caller = gw.principal("a", []).await;
    let list = json!({ "jsonrpc": "2.0", "id": 7, "method": "tools/list" }).to_string();
    let note = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }).to_string();
    for (version, expected) in
        [("2025-11-25", 200), ("2025-06-18", 200), ("2025-03-26", 200), ("1999-01-01", 400)]
    {
        let actor = caller.with("mcp-protocol-version", version);
        assert_eq!(post(&actor, &list).await.status, expected, "{version}");
        let accepted = if expected == 200 { 202 } else { 400 };
        assert_eq!(post(&actor, &note).await.status, accepted, "{version}");
    }
    assert_eq!(post(&caller, &list).await.status, 200, "no header means 2025-03-26");
}

#[tokio::test]
async fn a_client_that_reads_no_events_gets_json() {
    let gw = gateway().start().await;
    let caller = gw.principal("a", []).await.with("content-type", "application/json");
    let body = json!({
        "jsonrpc": "2.0", "id": 1, "method": "tools/call",
        "params": { "name": "crib__steps", "_meta": { "progressToken": 1 } },
    });
    for accept in [None, Some("*/*"), Some("application/json")] {
        let actor = accept.map_or(caller.clone(), |accept| caller.with("accept", accept));
        let reply = actor.post_text("/mcp", body.to_string()).await;
        assert_eq!(reply.header("content-type"), "application/json", "{accept:?}");
        assert_eq!(reply.json()["result"]["content"][0]["text"], "done");
    }
    let reply =
        caller.with("accept", "text/event-stream").post_text("/mcp", body.to_string()).await;
    assert_eq!(reply.header("content-type"), "text/event-stream");
    assert!(reply.text().contains("\"text\":\"done\""), "{}", reply.text());
    let actor = caller.with("accept", "text/html");
    assert_eq!(actor.post_text("/mcp", body.to_string()).await.status, 406);
}
