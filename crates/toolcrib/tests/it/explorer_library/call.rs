use std::{convert::Infallible, time::Duration};

use serde_json::{Value, json};
use toolcrib::{ExplorerConfig, HandlerError, ToolAnswer, ToolCall, ToolCallHandler};
use toolcrib_testkit::gateway::{Reply, TestServer};

use super::{config, fixture_f, serve, serve_f};

async fn call(served: &TestServer, tool: &str, arguments: Value) -> Reply {
    let path = format!("/explorer/tools/{tool}/call");
    let reply = served.anonymous().post(&path, arguments).await;
    assert_eq!(reply.header("content-type"), "application/json");
    reply
}

fn on() -> ExplorerConfig {
    config().allow_execute(true)
}

/// 14.
#[tokio::test]
async fn a_tool_answers() {
    let served = serve_f(on()).await;
    let reply = call(&served, "echo", json!({ "msg": "hi" })).await;
    assert_eq!(reply.status, 200);
    assert_eq!(
        reply.text(),
        r#"{"content":[{"type":"text","text":"echo: hi"}],"isError":false,"_meta":{"_trace_id":"t1"}}"#
    );
}

/// 15, 34.
#[tokio::test]
async fn a_tool_that_says_it_failed_is_a_500() {
    let reply = call(&serve_f(on()).await, "boom", json!({})).await;
    assert_eq!(reply.status, 500);
    assert_eq!(
        reply.text(),
        r#"{"content":[{"type":"text","text":"kaboom"}],"isError":true}"#,
        "without a trace there is no _meta"
    );
}

/// 16, 30. Extra: "disabled" takes precedence over "unknown".
#[tokio::test]
async fn unknown_and_disabled_are_distinguishable() {
    let reply = call(&serve_f(on()).await, "nope", json!({})).await;
    assert_eq!(reply.parts(), (404, json!({ "error": "Tool not found: nope" })));
    let off = serve_f(config()).await;
    for tool in ["echo", "nope"] {
        let reply = call(&off, tool, json!({})).await;
        assert_eq!(reply.status, 403);
        assert_eq!(reply.text(), r#"{"error":"Tool execution is disabled."}"#);
    }
}

/// 17. Extra: JSON that is not an object does not run.
#[tokio::test]
async fn a_body_that_is_not_json_counts_as_no_arguments() {
    let served = serve_f(on()).await;
    for garbage in [&b"not json"[..], b"", b"{", b"\xff"] {
        let reply = served.anonymous().post_text("/explorer/tools/echo/call", garbage).await;
        assert_eq!((reply.status, &reply.json()["content"][0]["text"]), (200, &json!("echo: ")));
    }
    for odd in ["[1,2]", "null", "7", "\"x\""] {
        let reply = served.anonymous().post_text("/explorer/tools/echo/call", odd).await;
        assert_eq!((reply.status, &reply.json()["isError"]), (500, &json!(true)), "{odd}");
    }
}

/// 37. Extra: a handler that panics or hangs still gets a response.
#[tokio::test]
async fn a_handler_that_fails_is_a_500() {
    async fn broken(call: ToolCall) -> Result<ToolAnswer, String> {
        match call.arguments.get("msg").and_then(Value::as_str) {
            Some("error") => Err("it broke".to_owned()),
            Some("panic") => panic!("a handler that panics, on purpose"),
            _ => std::future::pending().await,
        }
    }
    let config = on().handler(broken).timeout(Duration::from_millis(50));
    let served = serve_f(config).await;
    for (msg, text) in [
        ("error", "it broke"),
        ("panic", "internal error"),
        ("hang", "the tool did not answer in time and was cancelled"),
    ] {
        let reply = call(&served, "echo", json!({ "msg": msg })).await;
        let told = json!({ "content": [{ "type": "text", "text": text }], "isError": true });
        assert_eq!(reply.parts(), (500, told), "{msg}");
    }
    let nothing = serve_f(ExplorerConfig::new().allow_execute(true)).await;
    let reply = call(&nothing, "echo", json!({})).await;
    assert_eq!((reply.status, &reply.json()["isError"]), (500, &json!(true)), "no handler");
}

/// 40, 41.
#[tokio::test]
async fn a_handler_gets_the_head_of_the_request() {
    let config = on().handler(|call: ToolCall| async move {
        let head = call.head.ok_or("no head")?;
        let header = head.headers.get("x-custom").ok_or("no header")?.to_str().unwrap().to_owned();
        Ok::<_, &str>(format!("header={header} {} {}", head.method, head.uri))
    });
    let served = serve_f(config).await;
    let caller = served.anonymous().with("x-custom", "test-value");
    let reply = caller.post("/explorer/tools/echo/call", json!({})).await;
    let text = "header=test-value POST /tools/echo/call";
    assert_eq!((reply.status, &reply.json()["content"][0]["text"]), (200, &json!(text)));
}

/// Extra: an empty trace counts as none, and blocks of any kind are passed on unchanged.
#[tokio::test]
async fn content_is_passed_on_as_it_is() {
    let blocks = json!([
        { "type": "image", "mimeType": "image/png", "data": "AA==" },
        { "type": "resource_link", "uri": "crib://x", "odd": { "z": 1, "a": 2 } },
    ]);
    let told = blocks.clone();
    let config = on().handler(move |_: ToolCall| {
        let content = told.as_array().unwrap().clone();
        async move { Ok::<_, Infallible>((content, false, Some(String::new()))) }
    });
    let reply = call(&serve_f(config).await, "echo", json!({})).await;
    assert_eq!(reply.parts(), (200, json!({ "content": blocks, "isError": false })));
}

/// A handler can be a type instead of a closure.
#[tokio::test]
async fn a_type_can_be_a_handler() {
    struct Doubler;
    #[async_trait::async_trait]
    impl ToolCallHandler for Doubler {
        async fn call(&self, call: ToolCall) -> Result<ToolAnswer, HandlerError> {
            let number = call.arguments.get("n").and_then(Value::as_i64);
            let number = number.ok_or_else(|| HandlerError::new("n is not a number"))?;
            let structured = Some(json!({ "doubled": number * 2 }));
            Ok(ToolAnswer { structured, ..ToolAnswer::text("doubled") })
        }
    }
    let served =
        serve(fixture_f(), ExplorerConfig::new().allow_execute(true).handler(Doubler)).await;
    let reply = call(&served, "echo", json!({ "n": 4 })).await;
    assert_eq!(reply.json()["structuredContent"], json!({ "doubled": 8 }));
    assert_eq!(call(&served, "echo", json!({})).await.status, 500);
}
