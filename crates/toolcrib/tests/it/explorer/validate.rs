use serde_json::{Value, json};
use toolcrib_testkit::gateway::{Actor, TestGateway, TestTool};

use crate::support::fixture;

async fn validate(caller: &Actor, body: &str) -> (u16, Value) {
    caller.post_text("/explorer/tools/crib__read/validate", body.to_owned()).await.parts()
}

#[tokio::test]
async fn arguments_that_fit_are_valid_and_nothing_runs() {
    let gw = fixture().config("[explorer]\nallow_execute = false").start().await;
    let reader = gw.principal("reader", ["files:read"]).await;
    let reply = reader.post("/explorer/tools/crib__read/validate", json!({ "path": "a" })).await;
    assert_eq!(reply.text(), r#"{"valid":true}"#);
    assert_eq!(gw.runs("crib", "read"), 0);
}

#[tokio::test]
async fn every_violation_is_listed_with_its_place() {
    let gw = fixture().start().await;
    let reader = gw.principal("reader", ["files:read"]).await;
    let (status, result) = validate(&reader, r#"{"count":"three","x":1}"#).await;
    assert_eq!((status, &result["valid"]), (200, &json!(false)));
    let errors = result["errors"].as_array().unwrap();
    let at = |path: &str, keyword: &str| {
        errors.iter().any(|error| error["path"] == path && error["keyword"] == keyword)
    };
    assert!(at("/path", "required") && at("/count", "type"), "{result}");
    assert!(errors.len() >= 3, "{result}");
    let words = errors.iter().find(|error| error["path"] == "/count").unwrap();
    assert_eq!(words["message"], r#""three" is not of type "integer""#, "verbatim");
    let (status, result) = validate(&reader, "[]").await;
    assert_eq!((status, &result["errors"][0]["path"]), (200, &json!("")));
}

#[tokio::test]
async fn a_body_that_is_not_json_is_a_bad_request() {
    let gw = fixture().start().await;
    let reader = gw.principal("reader", ["files:read"]).await;
    for bad in ["", "not json", "{", "{\"a\":1,\"a\":2}"] {
        let (status, result) = validate(&reader, bad).await;
        assert_eq!((status, &result["valid"]), (400, &json!(false)), "{bad}");
        assert_eq!(result["errors"].as_array().unwrap().len(), 1);
        let error = &result["errors"][0];
        assert_eq!((&error["path"], &error["keyword"]), (&json!(""), &json!("format")));
        assert!(error["message"].as_str().unwrap().starts_with("Invalid JSON: "), "{error}");
    }
    let reply = reader.post_text("/explorer/tools/nope/validate", "not json").await;
    assert_eq!(reply.parts(), (404, json!({ "error": "Tool not found: nope" })));
}

#[tokio::test]
async fn a_tool_without_a_schema_takes_anything() {
    let gw = TestGateway::builder()
        .tool(TestTool::new("a").scopes([]))
        .tool(TestTool::new("b").scopes([]).input(json!({})))
        .start()
        .await;
    let caller = gw.principal("a", []).await;
    for tool in ["crib__a", "crib__b"] {
        for body in ["{}", "[1]", "null", "\"x\""] {
            let reply = caller.post_text(&format!("/explorer/tools/{tool}/validate"), body).await;
            assert_eq!(reply.text(), r#"{"valid":true}"#, "{tool} {body}");
        }
    }
}
