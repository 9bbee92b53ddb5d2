//! I-9: a rule hides tools from tenants that can use their source, on every surface.

use serde_json::{Value, json};
use toolcrib_testkit::gateway::{Actor, TestGateway, TestSource, TestTool};

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
    let acme = gw.principal("ann", ["*", "pins:approve"]).await;
    let other = gw.principal_of("other", "bob", &["*", "pins:approve"]).await;
    let tools = async |caller: &Actor| {
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

    let source = async |caller: &Actor| -> Value {
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

/// Returns the ids in the list of `caller`, and the results of `search` on each surface.
async fn searches(caller: &Actor) -> (Vec<String>, Vec<String>) {
    let list = caller.get("/v1/tools").await.json();
    let list = list.as_array().unwrap().iter();
    let ids = list.map(|tool| tool["toolId"].as_str().unwrap().to_owned()).collect();
    let call = json!({ "request": { "tool_id": "search", "input": {} } });
    let explorer = caller.post("/explorer/tools/search/call", json!({})).await;
    let params = json!({ "name": "search", "arguments": {}, "_meta": {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    } });
    let mcp = caller
        .with("accept", "application/json, text/event-stream")
        .with("mcp-protocol-version", "2026-07-28")
        .with("mcp-method", "tools/call")
        .with("mcp-name", "search")
        .post(
            "/mcp",
            json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params }),
        )
        .await;
    let shown = caller.get("/explorer/tools/search").await;
    let otc = caller.post("/tools/call", call).await;
    let answers = [explorer.text(), mcp.text(), shown.text(), otc.text()];
    (ids, answers.into())
}

// I-9, I-16
#[tokio::test]
async fn a_name_is_each_tenants_own() {
    let search = |text: &'static str| {
        let tool = TestTool::new("search").description(text).scopes([]);
        tool.answers(move |_| toolcrib_core::call::Outcome::text(text, false))
    };
    let source = |id: &str, text: &'static str| TestSource::new(id).bare().tool(search(text));
    let gw = TestGateway::builder()
        .source(source("alpha", "of alpha").tenants(["acme"]))
        .source(source("beta", "of beta").tenants(["other"]))
        .source(source("gamma", "of gamma"))
        .start()
        .await;
    let admin = ["*"];
    let acme = gw.principal_of("acme", "ann", &admin).await;
    let third = gw.principal_of("third", "cyd", &admin).await;

    // `gamma` is for all tenants: with the tenant's own tool, there is a collision for that tenant
    // only.
    let (ids, answers) = searches(&third).await;
    assert_eq!(ids, ["mcp:gamma.search"]);
    assert!(answers.iter().all(|it| it.contains("of gamma")), "{answers:?}");
    let (ids, answers) = searches(&acme).await;
    assert_eq!(ids, [] as [&str; 0]);
    for name in ["alpha", "beta", "gamma"] {
        assert!(answers.iter().all(|it| !it.contains(name)), "{answers:?}");
    }
    let told = acme.get("/v1/sources").await.text();
    assert!(told.contains("mcp:alpha.search and mcp:gamma.search would share"), "{told}");
    assert!(!told.contains("beta"), "{told}");
    let told = third.get("/v1/sources").await.text();
    assert!(!told.contains("would share") && !told.contains("alpha"), "{told}");

    gw.change("gamma", Vec::new()).await;
    for (tenant, own, foreign) in [("acme", "alpha", "beta"), ("other", "beta", "alpha")] {
        let caller = gw.principal_of(tenant, "dan", &admin).await;
        let (ids, answers) = searches(&caller).await;
        assert_eq!(ids, [format!("mcp:{own}.search")]);
        assert!(answers.iter().all(|it| it.contains(&format!("of {own}"))), "{answers:?}");
        let told = caller.get("/v1/sources").await.text();
        assert!(!told.contains(foreign) && !told.contains("share"), "{told}");
        let explained = caller.get("/v1/explain?tool=search").await.text();
        assert!(!explained.contains(foreign), "{explained}");
    }
    assert_eq!([gw.runs("alpha", "search"), gw.runs("beta", "search")], [3, 3]);
}
