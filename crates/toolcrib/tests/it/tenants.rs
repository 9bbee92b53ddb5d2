//! I-9: a rule keeps tools from tenants that have their source, wherever those look.

use serde_json::{Value, json};
use toolcrib_testkit::gateway::{TestGateway, TestSource, TestTool};

#[tokio::test]
async fn a_tool_that_a_rule_keeps_for_a_tenant_is_nowhere_for_another() {
    let kept = |text: &str| TestTool::new("kept").rule("tenants = [\"acme\"]").description(text);
    let gw = TestGateway::builder()
        .source(
            TestSource::new("both")
                .tenants(["acme", "other"])
                .pins("enforce")
                .tool(TestTool::new("open"))
                .tool(kept("one")),
        )
        .workflow("flow", "steps: [{ id: a, tool: 'mcp:both.kept' }]\noutputs: {}")
        .start()
        .await;
    let acme = gw.principal("ann", ["*"]).await;
    let other = gw.principal_of("other", "bob", &["*"]).await;
    let tools = async |caller: &toolcrib_testkit::gateway::Actor| {
        let list = caller.get("/v1/tools").await.json();
        let ids = list.as_array().unwrap().iter().map(|tool| tool["toolId"].as_str().unwrap());
        ids.map(str::to_owned).collect::<Vec<_>>()
    };
    let all = ["mcp:both.kept", "mcp:both.open", "openwop:workflow.flow"];
    assert_eq!(tools(&acme).await, all);
    assert_eq!(tools(&other).await, ["mcp:both.open"], "nor the workflow that calls it");

    gw.change("both", vec![TestTool::new("open"), kept("two")]).await;
    gw.event(|event| event["type"] == "tool.pin.drifted").await;
    let pin = acme.get("/v1/pins?tool=both__kept").await.json()["pins"][0].clone();
    assert_eq!(pin["quarantined"], true);
    let told = other.get("/v1/pins").await.text();
    assert!(told.contains("both.open") && !told.contains("kept"), "{told}");
    assert_eq!(other.get("/v1/pins?tool=both__kept").await.json(), json!({ "pins": [] }));
    let approval =
        json!({ "tools": [{ "toolId": "mcp:both.kept", "digest": pin["seen"]["digest"] }] });
    assert_eq!(other.post("/v1/pins/approve", approval.clone()).await.status, 404);

    let source = async |caller: &toolcrib_testkit::gateway::Actor| -> Value {
        caller.get("/v1/sources").await.json()["sources"][0].clone()
    };
    let (to_acme, to_other) = (source(&acme).await, source(&other).await);
    assert_eq!((&to_acme["tools"], &to_acme["quarantined"]), (&json!(1), &json!(1)));
    assert!(to_acme.to_string().contains("kept"));
    assert_eq!((&to_other["tools"], &to_other["quarantined"]), (&json!(1), &json!(0)));
    assert!(!to_other.to_string().contains("kept"), "{to_other}");
    let events = other.get("/v1/events?after=0").await.text();
    assert!(!events.contains("kept"), "{events}");
    assert_eq!(acme.post("/v1/pins/approve", approval).await.status, 200);
}
