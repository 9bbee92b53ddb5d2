use serde_json::{Value, json};
use toolcrib_core::call::{Outcome, raw};
use toolcrib_testkit::gateway::{Actor, Reply, TestGateway, TestSource, TestTool};

use crate::support::fixture;

async fn call(caller: &Actor, request: Value) -> Reply {
    caller.post("/tools/call", json!({ "$schema": "otc://1.0", "request": request })).await
}

#[tokio::test]
async fn a_tool_answers() {
    let gw = fixture().start().await;
    let reader = gw.principal("reader", ["files:read"]).await;
    let request =
        json!({ "tool_id": "crib.read@1.0.0", "call_id": "mine", "input": { "path": "a" } });
    let reply = call(&reader, request).await;
    assert_eq!(reply.status, 200);
    assert!(!reply.header("toolcrib-run-id").is_empty());
    let mut body = reply.json();
    let duration = body["result"].as_object_mut().unwrap().shift_remove("duration").unwrap();
    assert!(duration.as_f64().unwrap() >= 0.0);
    insta::assert_snapshot!(body, @r#"{"$schema":"otc://1.0","result":{"call_id":"mine","success":true,"value":"read: a"}}"#);
}

#[tokio::test]
async fn a_call_without_an_id_gets_one_of_its_own() {
    let gw = fixture().start().await;
    let caller = gw.principal("new", []).await;
    let one = call(&caller, json!({ "tool_id": "crib.open" })).await.json();
    let two = call(&caller, json!({ "tool_id": "crib.open" })).await.json();
    let id = |reply: &Value| reply["result"]["call_id"].as_str().unwrap().to_owned();
    assert!(!id(&one).is_empty());
    assert_ne!(id(&one), id(&two));
}

#[tokio::test]
async fn ids_and_versions_are_resolved() {
    let gw = TestGateway::builder()
        .source(TestSource::new("two").version("2.0.0").tool(TestTool::new("run").scopes([])))
        .source(TestSource::new("odd").version("1.2.3").tool(TestTool::new("run").scopes([])))
        .start()
        .await;
    let caller = gw.principal("a", []).await;
    for good in
        ["two.run", "two.run@2.0.0", "two.run@2", "two.run@02.0.0", "two__run", "odd.run@1.2.3"]
    {
        let reply = call(&caller, json!({ "tool_id": good })).await;
        assert_eq!(
            (reply.status, &reply.json()["result"]["success"]),
            (200, &json!(true)),
            "{good}"
        );
    }
    let unknown = call(&caller, json!({ "tool_id": "no.such" })).await;
    insta::assert_snapshot!(unknown.text(), @r#"{"$schema":"otc://1.0","message":"no such tool","developer_message":"no tool of that id and version is offered to this caller; GET /tools lists them"}"#);
    for absent in ["two.run@1", "two.run@2.0.1", "two.run@3.0.0", "odd.run@1", "Two.run", "nothing"]
    {
        let reply = call(&caller, json!({ "tool_id": absent })).await;
        assert_eq!((reply.status, &reply.body), (400, &unknown.body), "{absent}");
    }
    for malformed in [
        "two.run@1.2",
        "two.run@v1",
        "two.run@1@2",
        "a.b.c",
        "",
        ".",
        "two.",
        "two.r-n",
        "a b",
        "two__run@2",
    ] {
        let reply = call(&caller, json!({ "tool_id": malformed })).await;
        assert_eq!(reply.status, 400, "{malformed}");
        assert_ne!(reply.body, unknown.body, "{malformed}");
    }
}

#[tokio::test]
async fn what_is_not_a_call_is_a_bad_request() {
    let gw = fixture().start().await;
    let caller = gw.principal("new", []).await;
    for bad in [
        "",
        "not json",
        "[]",
        "null",
        "{}",
        r#"{"request":[]}"#,
        r#"{"request":{}}"#,
        r#"{"request":{"tool_id":1}}"#,
        r#"{"request":{"tool_id":"crib.open","input":[]}}"#,
        r#"{"request":{"tool_id":"crib.open","input":null}}"#,
        r#"{"request":{"tool_id":"crib.open","call_id":5}}"#,
        r#"{"request":{"tool_id":"crib.open","trace_id":{}}}"#,
        r#"{"request":{"tool_id":"crib.open","context":"x"}}"#,
        r#"{"request":{"tool_id":"crib.open"},"$schema":"otc://2.0"}"#,
        r#"{"request":{"tool_id":"crib.open"},"$schema":null}"#,
        r#"{"request":{"tool_id":"crib.open","input":{"canary":1,"canary":2}}}"#,
    ] {
        let reply = caller.post_text("/tools/call", bad).await;
        assert_eq!(reply.status, 400, "{bad}");
        assert_eq!(reply.json()["$schema"], "otc://1.0", "{bad}");
        assert!(!reply.text().contains("canary"), "{bad}: {}", reply.text());
    }
    assert_eq!(gw.runs("crib", "open"), 0);
    // The media type is not asked for, absent arguments are none, `inputs` is what the prose says.
    for good in [
        r#"{"request":{"tool_id":"crib.open"}}"#,
        r#"{"request":{"tool_id":"crib.open","inputs":{"a":1},"user_id":"x","context":{}}}"#,
    ] {
        let reply = caller.post_text("/tools/call", good).await;
        assert_eq!(reply.status, 200, "{good}");
    }
}

#[tokio::test]
async fn arguments_that_do_not_fit_are_told_by_parameter() {
    let gw = fixture().start().await;
    let reader = gw.principal("reader", ["files:read"]).await;
    let input = json!({ "count": "canary-value", "extra": 1 });
    let reply = call(&reader, json!({ "tool_id": "crib.read", "input": input })).await;
    assert_eq!(reply.status, 422);
    assert!(!reply.text().contains("canary"), "{}", reply.text());
    let body = reply.json();
    assert_eq!(body["$schema"], "otc://1.0");
    let errors = body["parameter_errors"].as_object().unwrap();
    for parameter in ["path", "count"] {
        assert!(errors[parameter].is_string(), "{body}");
    }
    assert_eq!(gw.runs("crib", "read"), 0);
}

/// What the tool or its source did wrong is a result; clients repeat a 5xx.
#[tokio::test]
async fn failures_of_the_tool_are_results() {
    let gw = fixture().start().await;
    let reader = gw.principal("reader", ["files:read"]).await;
    for (tool, message, retry) in [
        ("crib.fail", "kaboom", false),
        ("crib.down", "the tool's source is not available right now; try again later", true),
        ("crib.panic", "internal error", false),
        ("crib.ask", "approval required: this tool does not run without a grant", false),
    ] {
        let reply = call(&reader, json!({ "tool_id": tool })).await;
        assert_eq!(reply.status, 200, "{tool}");
        let result = reply.json()["result"].clone();
        assert_eq!(result["success"], false);
        assert_eq!(result["error"], json!({ "message": message, "can_retry": retry }));
        assert_eq!(result.get("value"), None);
        assert!(!reply.text().contains("10.1.2.3"), "{}", reply.text());
    }
    assert_eq!(gw.runs("crib", "ask"), 0);
}

#[tokio::test]
async fn results_keep_their_shape() {
    let exact =
        r#"[{"type":"text","text":"a"},{"type":"resource","n":1.10,"z":12345678901234567890}]"#;
    let blocks = TestTool::new("blocks").scopes([]).answers(move |_| Outcome {
        content: serde_json::value::RawValue::from_string(exact.to_owned()).unwrap(),
        structured: None,
        is_error: false,
    });
    let nothing = TestTool::new("nothing").scopes([]).answers(|_| Outcome {
        content: raw(&json!([])),
        structured: None,
        is_error: false,
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

/// I-9: within the tenant a denial names the tool and its scopes; a foreign tool does not exist.
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

/// I-12: the bucket is the principal's, also across keys and surfaces; denials take nothing.
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
