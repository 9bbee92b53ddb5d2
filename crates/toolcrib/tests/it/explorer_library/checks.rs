use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use serde_json::{Value, json};
use toolcrib::{ExplorerConfig, RequestHead, ToolAnswer, ToolCall};
use toolcrib_testkit::gateway::{Reply, TestServer};

use super::{config, fixture_v, serve};

async fn serve_v() -> TestServer {
    serve(fixture_v(), config()).await
}

async fn check(served: &TestServer, tool: &str, body: &str) -> Reply {
    let path = format!("/explorer/tools/{tool}/validate");
    let reply = served.anonymous().post_text(&path, body.to_owned()).await;
    assert_eq!(reply.header("content-type"), "application/json");
    reply
}

fn has(reply: &Reply, path: &str, keyword: &str) -> bool {
    let errors = reply.json()["errors"].clone();
    errors.as_array().unwrap().iter().any(|e| e["path"] == path && e["keyword"] == keyword)
}

/// 18. An unusable schema is one failure, whatever the reason.
#[tokio::test]
async fn a_schema_that_is_none_is_one_failure() {
    let served = serve_v().await;
    for tool in ["badschema", "dangling", "remote"] {
        let reply = check(&served, tool, "{}").await;
        assert_eq!(reply.status, 200, "{tool}");
        let result = reply.json();
        assert_eq!(result["valid"], false, "{tool}");
        assert_eq!(result["errors"].as_array().unwrap().len(), 1);
        let error = &result["errors"][0];
        assert_eq!((&error["path"], &error["keyword"]), (&json!(""), &json!("schema")));
        assert!(error["message"].as_str().unwrap().starts_with("Invalid schema: "), "{error}");
    }
}

/// 19, 29.
#[tokio::test]
async fn arguments_that_fit_are_valid() {
    let reply = check(&serve_v().await, "echo", r#"{"city":"Paris"}"#).await;
    assert_eq!((reply.status, reply.text().as_str()), (200, r#"{"valid":true}"#));
}

/// 20. Extra: the path names the missing property.
#[tokio::test]
async fn a_missing_property_is_named() {
    let served = serve_v().await;
    let reply = check(&served, "echo", "{}").await;
    assert_eq!((reply.status, &reply.json()["valid"]), (200, &json!(false)));
    assert!(has(&reply, "/city", "required"), "{}", reply.text());
    assert_eq!(reply.json()["errors"][0]["message"], r#""city" is a required property"#);
    let odd = check(&served, "a%2Fb~c", "{}").await;
    assert!(has(&odd, "/x~1y~0z", "required"), "{}", odd.text());
}

/// 21, 22.
#[tokio::test]
async fn every_violation_is_reported_with_its_path() {
    let served = serve_v().await;
    let reply = check(&served, "echo", r#"{"city":"Paris","count":"not-int"}"#).await;
    assert!(has(&reply, "/count", "type"), "{}", reply.text());
    let both = check(&served, "two", "{}").await;
    assert!(has(&both, "/a", "required") && has(&both, "/b", "required"), "{}", both.text());
    let root = check(&served, "echo", "[]").await;
    assert!(has(&root, "", "type"), "{}", root.text());
}

/// 23, 24.
#[tokio::test]
async fn arguments_that_cannot_be_checked_are_reported() {
    let served = serve_v().await;
    let unknown = check(&served, "nope", "not json").await;
    assert_eq!(unknown.parts(), (404, json!({ "error": "Tool not found: nope" })));
    for garbage in ["not json", "", "{", "\u{0}"] {
        let reply = check(&served, "echo", garbage).await;
        let result = reply.json();
        assert_eq!((reply.status, &result["valid"]), (400, &json!(false)), "{garbage:?}");
        assert_eq!(result["errors"].as_array().unwrap().len(), 1);
        let error = &result["errors"][0];
        assert_eq!((&error["path"], &error["keyword"]), (&json!(""), &json!("format")));
        assert!(error["message"].as_str().unwrap().starts_with("Invalid JSON: "), "{error}");
    }
}

/// 25. Extra: `true` accepts everything, `false` nothing.
#[tokio::test]
async fn without_a_schema_everything_fits() {
    let served = serve_v().await;
    for body in ["{}", "[1]", "null", "\"x\"", r#"{"any":{"thing":1}}"#] {
        for tool in ["noschema", "null", "anything"] {
            assert_eq!(check(&served, tool, body).await.text(), r#"{"valid":true}"#, "{tool}");
        }
        let nothing = check(&served, "nothing", body).await;
        assert_eq!((nothing.status, &nothing.json()["valid"]), (200, &json!(false)), "{body}");
        assert!(!nothing.json()["errors"].as_array().unwrap().is_empty());
    }
}

/// 26, 27, 28. No hook is called and no tool runs.
#[tokio::test]
async fn validation_calls_no_hook_and_runs_no_tool() {
    let (asked, ran) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (hook_asked, handler_ran) = (Arc::clone(&asked), Arc::clone(&ran));
    let config = ExplorerConfig::new()
        .allow_execute(true)
        .auth_hook(move |_: RequestHead| {
            hook_asked.fetch_add(1, Ordering::SeqCst);
            async { Err("nobody") }
        })
        .handler(move |_: ToolCall| {
            handler_ran.fetch_add(1, Ordering::SeqCst);
            async { Ok::<_, String>(ToolAnswer::text("")) }
        });
    for allow in [true, false] {
        let served = serve(fixture_v(), config.clone().allow_execute(allow)).await;
        let valid = check(&served, "echo", r#"{"city":"Paris"}"#).await;
        assert_eq!((valid.status, valid.json()), (200, json!({ "valid": true })));
        for (tool, body) in [("echo", "{}"), ("echo", "not json"), ("nope", "{}")] {
            check(&served, tool, body).await;
        }
    }
    assert_eq!((asked.load(Ordering::SeqCst), ran.load(Ordering::SeqCst)), (0, 0));
}

/// 55. The embedding program can name and read the result types.
#[tokio::test]
async fn results_can_be_read_as_types() {
    let reply = check(&serve_v().await, "echo", "{}").await;
    let result: toolcrib::ValidateResult = serde_json::from_slice(&reply.body).unwrap();
    let failure: &toolcrib::ValidationFailure = &result.errors[0];
    assert_eq!((result.valid, failure.keyword.as_str()), (false, "required"));
    let back: Value = serde_json::to_value(&result).unwrap();
    assert_eq!(back, reply.json());
}

/// Extra: bodies are bounded. I-27.
#[tokio::test]
async fn a_body_that_is_too_large_is_refused() {
    let served = serve(fixture_v(), config().allow_execute(true).max_body_bytes(100)).await;
    let large = json!({ "city": "x".repeat(200) });
    for action in ["validate", "call"] {
        let path = format!("/explorer/tools/echo/{action}");
        let reply = served.anonymous().post(&path, large.clone()).await;
        assert_eq!(reply.status, 413);
        assert!(reply.json()["error"].is_string());
    }
}
