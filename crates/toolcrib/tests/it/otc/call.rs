use serde_json::{Value, json};
use toolcrib_core::call::{Outcome, raw};
use toolcrib_testkit::gateway::{Actor, Reply, TestGateway, TestTool};

use crate::support::fixture;

async fn call(caller: &Actor, request: Value) -> Reply {
    caller.post("/tools/call", json!({ "$schema": "otc://1.0", "request": request })).await
}

#[tokio::test]
async fn results_keep_their_shape() {
    let exact =
        r#"[{"type":"text","text":"a"},{"type":"resource","n":1.10,"z":12345678901234567890}]"#;
    let blocks = TestTool::new("blocks").scopes([]).answers(move |_| Outcome {
        content: serde_json::value::RawValue::from_string(exact.to_owned()).unwrap(),
        structured: None,
        is_error: false,
        retry_after: None,
    });
    let nothing = TestTool::new("nothing").scopes([]).answers(|_| Outcome {
        content: raw(&json!([])),
        structured: None,
        is_error: false,
        retry_after: None,
    });
    let gw = fixture().tool(blocks).tool(nothing).start().await;
    let reader = gw.principal("reader", ["files:read"]).await;
    let blocks = call(&reader, json!({ "tool_id": "crib.blocks" })).await;
    assert!(
        blocks.text().contains(exact),
        "an upstream's JSON is not rewritten: {}",
        blocks.text()
    );
    let sum = call(&reader, json!({ "tool_id": "crib.sum", "input": { "a": 1 } })).await;
    assert_eq!(sum.json()["result"]["value"], json!({ "sum": 1 }));
    let nothing = call(&reader, json!({ "tool_id": "crib.nothing" })).await.json();
    assert_eq!(nothing["result"].get("value"), Some(&Value::Null));
}

/// I-9: within the tenant a denial names the tool and its scopes; a foreign tool is unknown.
#[tokio::test]
async fn a_tool_of_another_scope_is_forbidden_and_of_another_tenant_unknown() {
    let gw = fixture().start().await;
    let reader = gw.principal("reader", ["files:read"]).await;
    let denied = call(&reader, json!({ "tool_id": "crib.write" })).await;
    assert_eq!(denied.status, 403);
    insta::assert_snapshot!(denied.text(), @r#"{"$schema":"otc://1.0","message":"the caller may not use this tool","details":{"scope":"tool","toolName":"mcp:crib.write","requiredScopes":["files:write"]}}"#);
    let foreign = call(&reader, json!({ "tool_id": "other.secret" })).await;
    let unknown = call(&reader, json!({ "tool_id": "no.such" })).await;
    assert_eq!((foreign.status, foreign.body), (400, unknown.body));
    assert_eq!(gw.runs("crib", "write") + gw.runs("other", "secret"), 0);
}

#[tokio::test]
async fn denials_can_look_like_unknown_names() {
    let gw = fixture().config("[gate]\ndenied_calls = \"not_found\"").start().await;
    let reader = gw.principal("reader", ["files:read"]).await;
    let denied = call(&reader, json!({ "tool_id": "crib.write" })).await;
    let unknown = call(&reader, json!({ "tool_id": "no.such" })).await;
    assert_eq!((denied.status, denied.body), (400, unknown.body));
}

/// I-12: the bucket belongs to the principal, across keys and surfaces; denials take nothing from
/// it.
#[tokio::test]
async fn a_full_bucket_is_told_with_a_time() {
    let tool = TestTool::new("slow").scopes(["a"]).rule("rate = \"2/h\"");
    let gw = TestGateway::builder().tool(tool).start().await;
    let denied = gw.principal("one", []).await;
    let request = json!({ "tool_id": "crib.slow" });
    for _ in 0..5 {
        assert_eq!(call(&denied, request.clone()).await.status, 403);
    }
    let (first, second) = (gw.principal("one", ["a"]).await, gw.principal("one", ["a"]).await);
    assert_eq!(call(&first, request.clone()).await.status, 200);
    assert_eq!(second.post("/explorer/tools/crib__slow/call", json!({})).await.status, 200);
    let limited = call(&first, request.clone()).await;
    assert_eq!(limited.status, 429);
    let wait: u64 = limited.header("retry-after").parse().unwrap();
    let details = &limited.json()["details"];
    let exact = details["retryAfterMs"].as_u64().unwrap();
    assert_eq!(wait, exact.div_ceil(1000));
    assert_eq!(
        (&details["scope"], &details["toolName"], &details["limit"]),
        (&json!("tool"), &json!("mcp:crib.slow"), &json!(2))
    );
    assert_eq!(call(&gw.principal("two", ["a"]).await, request).await.status, 200);
    assert_eq!(gw.runs("crib", "slow"), 3);
}
