//! I-83, I-84: policies only restrict. Lists leave out tools that are denied for any arguments, and
//! a call is decided with the shape of its arguments.

use serde_json::{Value, json};
use toolcrib_core::{authorize::CallContext, call::CallInput};
use toolcrib_testkit::gateway::{Actor, TestGateway, TestGatewayBuilder, TestTool};

fn gateway(policies: &str) -> TestGatewayBuilder {
    TestGateway::builder()
        .config("[policy]\ncedar = [\"*.cedar\"]")
        .file("some.cedar", policies)
        .tool(TestTool::new("read").scopes(["files:read"]).tier("read"))
        .tool(TestTool::new("write").scopes(["files:read"]).tier("write"))
        .tool(TestTool::new("admin").scopes(["files:admin"]).tier("read"))
}

async fn listed(caller: &Actor) -> Vec<String> {
    let list = caller.get("/v1/tools").await.json();
    let names = list.as_array().unwrap().iter().map(|tool| tool["toolId"].as_str().unwrap());
    names.map(|id| id.strip_prefix("mcp:crib.").unwrap().to_owned()).collect()
}

async fn called(caller: &Actor, tool: &str, arguments: Value) -> (u16, Value) {
    let ask = json!({ "request": { "tool_id": format!("crib.{tool}"), "input": arguments } });
    let reply = caller.post("/tools/call", ask).await;
    (reply.status, reply.json())
}

#[tokio::test]
async fn a_permit_widens_nothing_and_what_no_policy_permits_is_hidden() {
    let gw = gateway("permit(principal, action, resource) when { resource.tier == \"read\" };")
        .start()
        .await;
    let ann = gw.principal("ann", ["files:read"]).await;
    assert_eq!(listed(&ann).await, ["read"]);
    assert_eq!(called(&ann, "read", json!({})).await.0, 200);
    let (status, body) = called(&ann, "write", json!({})).await;
    assert_eq!(status, 403);
    let details = body["details"].to_string() + &body.to_string();
    assert!(details.contains("\"requiredScopes\":[]"), "no scope would help: {details}");
    assert_eq!(called(&ann, "admin", json!({})).await.0, 403, "a permit is no scope");
    assert_eq!(ann.get("/v1/tools/mcp:crib.write").await.status, 404);
    gw.event(|event| event["payload"]["reason"] == "policy").await;
    let told = ann.get("/v1/explain?tool=crib__write").await.text();
    assert!(
        told.contains("\"hidden\"") && told.contains("the policies of the operator deny it"),
        "{told}"
    );
    assert!(!told.contains("some.cedar"), "callers are not told which: {told}");
}

#[tokio::test]
async fn a_call_is_decided_with_the_shape_of_its_arguments() {
    let policies = r#"
        permit(principal, action, resource);
        @id("no-long-paths")
        forbid(principal, action, resource)
        when { context.arguments.sizes.hasTag("path") && context.arguments.sizes.getTag("path") > 8 };
        forbid(principal, action, resource) when { context.arguments.types.contains("n:string") };
        forbid(principal, action, resource) when { context.arguments.depth > 2 };
        forbid(principal, action, resource) when { context.surface == "mcp" };
    "#;
    let gw = gateway(policies).config("[gate]\ndenied_calls = \"not_found\"").start().await;
    let ann = gw.principal("ann", ["files:read"]).await;
    assert_eq!(listed(&ann).await, ["read", "write"], "other arguments would do");
    for (arguments, status) in [
        (json!({}), 200),
        (json!({ "path": "12345678" }), 200),
        (json!({ "path": "123456789" }), 403),
        (json!({ "n": 7 }), 200),
        (json!({ "n": "7" }), 403),
        (json!({ "a": [1] }), 200),
        (json!({ "a": [[1]] }), 403),
    ] {
        // It is in the caller's list, so there is nothing to hide.
        assert_eq!(called(&ann, "read", arguments.clone()).await.0, status, "{arguments}");
    }
    let explorer = ann.post("/explorer/tools/crib__read/call", json!({ "n": "7" })).await;
    assert_eq!(explorer.status, 403);
    let mcp = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call",
        "params": { "name": "crib__read", "arguments": {} } });
    let caller = ann.with("accept", "application/json, text/event-stream");
    assert_eq!(caller.post("/mcp", mcp).await.json()["error"]["code"], -31403);
    let told = ann.get("/v1/explain?tool=crib__read").await.json();
    assert_eq!(told["outcome"], "depends");

    let who = gw.gateway.authenticator().authenticate(ann.key().unwrap()).unwrap();
    let explain = async |arguments: Value| {
        let input = CallInput::from(arguments);
        let call = CallContext { surface: "otc", input: &input };
        let told = gw.gateway.explain(&who, Some("crib__read"), Some(call)).await;
        serde_json::to_value(told).unwrap()
    };
    let denied = explain(json!({ "path": "123456789" })).await;
    assert_eq!(denied["outcome"], "denied");
    assert!(denied.to_string().contains("no-long-paths (some.cedar:3)"), "{denied}");
}

/// I-24, I-84: callers with the same grants share a view, unless a policy names a principal.
#[tokio::test]
async fn policies_can_distinguish_principals_of_one_tenant() {
    let policies = r#"
        permit(principal in Tenant::"acme", action, resource);
        forbid(principal == Principal::"acme/bob", action, resource)
        when { resource.tier == "write" };
    "#;
    let gw = gateway(policies).start().await;
    let ann = gw.principal("ann", ["files:read"]).await;
    let bob = gw.principal("bob", ["files:read"]).await;
    let far = gw.principal_of("other", "bob", &["files:read"]).await;
    assert_eq!(listed(&ann).await, ["read", "write"]);
    assert_eq!(listed(&bob).await, ["read"]);
    assert_eq!(listed(&far).await, Vec::<String>::new());
    assert_eq!(called(&bob, "write", json!({})).await.0, 403);
    assert_eq!(called(&ann, "write", json!({})).await.0, 200);
}

/// I-83: an evaluation error is a denial, even when another policy permits.
#[tokio::test]
async fn an_error_of_one_policy_denies() {
    let policies = r#"
        permit(principal, action, resource);
        forbid(principal, action, resource)
        when { context.arguments.count + 9223372036854775807 > 0 && false };
    "#;
    let gw = gateway(policies).start().await;
    let ann = gw.principal("ann", ["files:read"]).await;
    assert_eq!(called(&ann, "read", json!({})).await.0, 200);
    assert_eq!(called(&ann, "read", json!({ "a": 1 })).await.0, 403, "an overflow is no permit");
    let many: serde_json::Map<_, _> = (0..1_001).map(|n| (n.to_string(), json!(1))).collect();
    assert_eq!(called(&ann, "read", Value::Object(many)).await.0, 403, "nor is no shape");
}

#[tokio::test]
async fn policies_are_read_again_and_wrong_ones_change_nothing() {
    let gw = gateway("permit(principal, action, resource);").start().await;
    let ann = gw.principal("ann", ["files:read"]).await;
    assert_eq!(listed(&ann).await, ["read", "write"]);
    let file = gw.directory().join("some.cedar");
    std::fs::write(
        &file,
        "permit(principal, action, resource) when { resource.tier == \"read\" };",
    )
    .unwrap();
    gw.reload("[policy]\ncedar = [\"*.cedar\"]").await;
    assert_eq!(listed(&ann).await, ["read"]);
    gw.reload("").await;
    assert_eq!(listed(&ann).await, ["read", "write"], "without policies there are none");
}
