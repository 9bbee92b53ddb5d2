use serde_json::{Value, json};
use toolcrib_testkit::gateway::{Actor, Reply, TestGateway, TestTool};

use crate::support::fixture;

async fn call(caller: &Actor, tool: &str, arguments: Value) -> Reply {
    caller.post(&format!("/explorer/tools/{tool}/call"), arguments).await
}

#[tokio::test]
async fn a_tool_answers() {
    let gw = fixture().start().await;
    let reader = gw.principal("reader", ["files:read"]).await;
    let reply = call(&reader, "crib__read", json!({ "path": "a" })).await;
    assert_eq!(reply.status, 200);
    let run = reply.header("toolcrib-run-id");
    assert_eq!(
        reply.json(),
        json!({
            "content": [{ "type": "text", "text": "read: a" }],
            "isError": false,
            "_meta": { "_trace_id": run },
        })
    );
    assert_eq!(reader.get(&format!("/v1/runs/{run}/events")).await.status, 200);
    let sum = call(&reader, "crib__sum", json!({ "a": 1, "b": 2 })).await.json();
    assert_eq!(sum["structuredContent"], json!({ "sum": 2 }));
}

#[tokio::test]
async fn failures_are_results_with_status_500() {
    let gw = fixture().start().await;
    let reader = gw.principal("reader", ["files:read"]).await;
    for (tool, text) in [
        ("crib__fail", "kaboom"),
        ("crib__down", "the tool's source is not available right now; try again later"),
        ("crib__panic", "internal error"),
    ] {
        let reply = call(&reader, tool, json!({})).await;
        assert_eq!(reply.status, 500, "{tool}");
        let body = reply.json();
        assert_eq!(body["isError"], true);
        assert_eq!(body["content"], json!([{ "type": "text", "text": text }]));
        assert!(!reply.text().contains("10.1.2.3"));
    }
}

#[tokio::test]
async fn arguments_that_do_not_fit_are_a_failed_result() {
    let gw = fixture().start().await;
    let reader = gw.principal("reader", ["files:read"]).await;
    let reply = call(&reader, "crib__read", json!({ "count": "canary" })).await;
    assert_eq!((reply.status, &reply.json()["isError"]), (500, &json!(true)));
    let text = reply.text();
    assert!(
        text.contains("/path") && text.contains("/count") && !text.contains("canary"),
        "{text}"
    );
    assert_eq!(gw.runs("crib", "read"), 0);
}

/// A body that is not JSON counts as no arguments. JSON that is not one unambiguous object does not
/// run.
#[tokio::test]
async fn odd_bodies_are_read_as_the_protocol_says() {
    let gw = fixture().start().await;
    let caller = gw.principal("a", []).await;
    for empty in [&b""[..], b"not json", b"{", b"\xff\xfe"] {
        let reply = caller.post_text("/explorer/tools/crib__open/call", empty).await;
        assert_eq!(reply.json()["content"][0]["text"], "{}", "{empty:?}");
    }
    let ran = gw.runs("crib", "open");
    for odd in ["[1,2]", "null", "7", "{\"a\":1,\"a\":2}"] {
        let reply = caller.post_text("/explorer/tools/crib__open/call", odd).await;
        assert_eq!((reply.status, &reply.json()["isError"]), (500, &json!(true)), "{odd}");
    }
    assert_eq!(gw.runs("crib", "open"), ran);
    let text = caller.with("content-type", "text/plain");
    let text = text.post_text("/explorer/tools/crib__open/call", "{}").await;
    assert_eq!(text.status, 200, "the media type is not asked for");
}

#[tokio::test]
async fn execution_can_be_switched_off() {
    let gw = fixture().config("[explorer]\nallow_execute = false").start().await;
    let reader = gw.principal("reader", ["files:read"]).await;
    for tool in ["crib__read", "crib__write", "nope"] {
        let reply = call(&reader, tool, json!({})).await;
        assert_eq!(
            reply.parts(),
            (403, json!({ "error": "Tool execution is disabled." })),
            "{tool}"
        );
    }
    assert_eq!(reader.get("/explorer/tools/crib__read").await.status, 200);
    let otc = reader.post("/tools/call", json!({ "request": { "tool_id": "crib.open" } })).await;
    assert_eq!(otc.status, 200, "the switch is the page's alone");
}

#[tokio::test]
async fn unauthorized_has_exactly_the_specified_body() {
    let gw = fixture().start().await;
    for nobody in [gw.anonymous(), gw.bearer("junk")] {
        for path in ["crib__read/call", "nope/call", "crib__read/validate"] {
            let reply = nobody.post(&format!("/explorer/tools/{path}"), json!({})).await;
            assert_eq!((reply.status, reply.text().as_str()), (401, r#"{"error":"Unauthorized"}"#));
        }
    }
    assert_eq!(gw.runs("crib", "read"), 0);
}

/// I-9, I-15.
#[tokio::test]
async fn refusals_are_distinguishable() {
    let gw = fixture().start().await;
    let reader = gw.principal("reader", ["files:read"]).await;
    let denied = call(&reader, "crib__write", json!({})).await;
    assert_eq!(denied.status, 403);
    insta::assert_snapshot!(denied.text(), @r#"{"error":"the caller may not use this tool","details":{"scope":"tool","toolName":"mcp:crib.write","requiredScopes":["files:write"]}}"#);
    let ask = call(&reader, "crib__ask", json!({})).await;
    assert_eq!(ask.status, 403);
    let told = ask.json();
    assert!(told["error"].as_str().unwrap().starts_with("approval required: "), "{told}");
    let details = &told["details"];
    assert_eq!(
        (&details["toolName"], &details["approval"]),
        (&json!("mcp:crib.ask"), &json!("required"))
    );
    assert!(details["approvalId"].is_string() && details["retryAfterMs"].is_u64(), "{told}");
    assert_eq!(gw.runs("crib", "ask"), 0);
    let foreign = call(&reader, "other__secret", json!({})).await;
    assert_eq!(foreign.parts(), (404, json!({ "error": "Tool not found: other__secret" })));
}

#[tokio::test]
async fn a_full_bucket_is_told_with_a_time() {
    let tool = TestTool::new("slow").scopes([]).rule("rate = \"1/h\"");
    let gw = TestGateway::builder().tool(tool).start().await;
    let caller = gw.principal("one", []).await;
    assert_eq!(call(&caller, "crib__slow", json!({})).await.status, 200);
    let limited = call(&caller, "crib__slow", json!({})).await;
    assert_eq!(limited.status, 429);
    assert!(limited.header("retry-after").parse::<u64>().unwrap() > 3_000);
    assert!(limited.json()["error"].is_string());
}
