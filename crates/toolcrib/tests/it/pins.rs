//! Pins over HTTP: visibility, approval, and the dependents of a quarantined tool.

use serde_json::{Value, json};
use toolcrib::core::event::EventBody;
use toolcrib_testkit::gateway::{Actor, TestGateway, TestSource, TestTool};

async fn rig() -> (TestGateway, Actor) {
    let gw = TestGateway::builder()
        .source(
            TestSource::new("up")
                .tenants(["acme"])
                .pins("enforce")
                .tool(TestTool::new("read").description("one").scopes(["up:use"]))
                .tool(TestTool::new("other").scopes(["up:use"])),
        )
        .workflow("flow", "steps: [{ id: a, tool: 'mcp:up.read' }]\noutputs: {}")
        .start()
        .await;
    let caller = gw.principal("ann", ["*", "pins:approve"]).await;
    (gw, caller)
}

fn tools(read: &str) -> Vec<TestTool> {
    vec![TestTool::new("read").description(read), TestTool::new("other")]
}

async fn listed(caller: &Actor) -> Vec<String> {
    let list = caller.get("/v1/tools").await.json();
    let list = list.as_array().unwrap().iter();
    list.map(|tool| tool["toolId"].as_str().unwrap().to_owned()).collect()
}

async fn pin(caller: &Actor) -> Value {
    caller.get("/v1/pins?tool=up__read").await.json()["pins"][0].clone()
}

fn approval(digest: &Value) -> Value {
    json!({ "tools": [{ "toolId": "mcp:up.read", "digest": digest }] })
}

// I-52: a workflow is left out, as for a missing tool.
#[tokio::test]
async fn what_needs_a_quarantined_tool_is_gone_with_it() {
    let (gw, ann) = rig().await;
    let all = ["mcp:up.other", "mcp:up.read", "openwop:workflow.flow"];
    assert_eq!(listed(&ann).await, all);
    gw.change("up", tools("two")).await;
    assert_eq!(listed(&ann).await, ["mcp:up.other"]);
    let sources = ann.get("/v1/sources").await.text().to_owned();
    assert!(sources.contains("the workflow is left out"), "{sources}");

    let pin = pin(&ann).await;
    assert_eq!((&pin["state"], &pin["quarantined"]), (&json!("changed"), &json!(true)));
    assert_eq!(pin["approved"]["document"]["description"], "one");
    assert_eq!(pin["seen"]["document"]["description"], "two");
    let answer = ann.post("/v1/pins/approve", approval(&pin["seen"]["digest"])).await;
    assert_eq!(answer.status, 200);
    assert_eq!(answer.json()["approved"][0]["before"], pin["approved"]["digest"]);
    assert_eq!(listed(&ann).await, all, "when the answer comes");
    let event = gw.event(|event| event["type"] == "tool.pin.approved").await;
    assert_eq!(
        (&event["payload"]["principal"], &event["payload"]["sourceId"]),
        (&json!("ann"), &json!("up"))
    );
}

// I-52
#[tokio::test]
async fn a_form_is_approved_besides_the_earlier_ones() {
    let (gw, ann) = rig().await;
    let all = ["mcp:up.other", "mcp:up.read", "openwop:workflow.flow"];
    gw.change("up", tools("two")).await;
    let tool = |pin: &Value, form: &str, earlier: &str| {
        let digest = &pin[form]["digest"];
        json!({ "tools": [{ "toolId": "mcp:up.read", "digest": digest, "earlier": earlier }] })
    };
    let changed = pin(&ann).await;
    let wrong = ann.post("/v1/pins/approve", tool(&changed, "seen", "both")).await;
    assert_eq!(wrong.status, 400);
    let answer = ann.post("/v1/pins/approve", tool(&changed, "seen", "keep")).await;
    assert_eq!((answer.status, listed(&ann).await), (200, all.map(str::to_owned).to_vec()));
    let event = gw.event(|event| event["type"] == "tool.pin.approved").await;
    assert_eq!(event["payload"]["keepsEarlier"], true);
    for text in ["one", "two"] {
        gw.change("up", tools(text)).await;
        assert_eq!(listed(&ann).await, all, "{text}");
    }
    let kept = pin(&ann).await;
    assert_eq!((&kept["state"], &kept["changeCount"]), (&json!("approved"), &json!(1)));
    assert_eq!(kept["earlier"][0]["document"]["description"], "one");
    gw.change("up", tools("three")).await;
    assert_eq!(listed(&ann).await, ["mcp:up.other"]);
    gw.change("up", tools("one")).await;
    assert_eq!(listed(&ann).await, all, "it is back");
    // The other form alone.
    let kept = pin(&ann).await;
    assert_eq!(ann.post("/v1/pins/approve", tool(&kept, "approved", "replace")).await.status, 200);
    assert_eq!(listed(&ann).await, ["mcp:up.other"], "when the answer comes");
}

// I-9: a principal of another tenant with the same id is not named.
#[tokio::test]
async fn the_approval_of_another_tenant_names_no_principal_of_it() {
    let up = TestSource::new("up").tenants(["acme", "other"]).pins("enforce");
    let tool = TestTool::new("read").description("one").scopes(["up:use"]);
    let gw = TestGateway::builder().source(up.tool(tool)).start().await;
    let ann = gw.principal("ann", ["*", "pins:approve"]).await;
    let theirs = gw.principal_of("other", "ann", &["*", "pins:approve"]).await;
    gw.change("up", vec![TestTool::new("read").description("two")]).await;
    let seen = pin(&ann).await["seen"]["digest"].clone();
    assert_eq!(theirs.post("/v1/pins/approve", approval(&seen)).await.status, 200);

    let own = pin(&ann).await["approved"].clone();
    assert_eq!((&own["by"], &own["byOtherTenant"]), (&Value::Null, &json!(true)));
    let other = pin(&theirs).await["approved"].clone();
    assert_eq!((&other["by"], &other["byOtherTenant"]), (&json!("ann"), &Value::Null));
    let mut recorded: Vec<_> = gw
        .events()
        .await
        .into_iter()
        .filter_map(|logged| match logged.event.body {
            EventBody::ToolPinApproved(approved) => {
                Some((logged.tenant.to_string(), approved.principal.map(|it| it.to_string())))
            }
            _ => None,
        })
        .collect();
    recorded.sort();
    let expected = [("acme", None), ("other", Some("ann"))];
    let expected = expected.map(|(tenant, by)| (tenant.to_owned(), by.map(str::to_owned)));
    assert_eq!(recorded, expected);
}

// I-9
#[tokio::test]
async fn an_unseen_form_cannot_be_approved_and_other_tenants_see_no_pins() {
    let (gw, ann) = rig().await;
    gw.change("up", tools("two")).await;
    let first = pin(&ann).await["seen"]["digest"].clone();
    gw.change("up", tools("three")).await;
    let stale = ann.post("/v1/pins/approve", approval(&first)).await;
    assert_eq!((stale.status, &stale.json()["error"]), (409, &json!("conflict")));
    assert_eq!(stale.json()["details"], json!({ "index": 0 }));

    let eve = gw.principal_of("other", "eve", &["*", "pins:approve"]).await;
    assert_eq!(eve.get("/v1/pins").await.json(), json!({ "pins": [] }));
    assert_eq!(eve.get("/v1/pins?tool=mcp:up.read").await.json(), json!({ "pins": [] }));
    let now = pin(&ann).await["seen"]["digest"].clone();
    let unknown = eve.post("/v1/pins/approve", approval(&now)).await;
    let nothing = json!({ "tools": [{ "toolId": "mcp:no.thing", "digest": now }] });
    let nothing = eve.post("/v1/pins/approve", nothing).await;
    assert_eq!((unknown.status, unknown.text()), (404, nothing.text()));

    for wrong in [
        json!({}),
        json!({ "tools": [] }),
        // serde alone would read arrays as the objects.
        json!([[{ "toolId": "mcp:up.read", "digest": now }]]),
        json!({ "tools": [["mcp:up.read", now]] }),
        json!({ "tools": [{ "toolId": "mcp:up.read" }] }),
        json!({ "tools": [{ "toolId": "mcp:up.read", "digest": "AB" }] }),
        json!([]),
    ] {
        assert_eq!(ann.post("/v1/pins/approve", wrong.clone()).await.status, 400, "{wrong}");
    }
    // Permission to use every tool of a source does not include approving them.
    let bob = gw.principal("bob", ["up:use", "tools:*"]).await;
    assert_eq!(bob.get("/v1/pins").await.status, 403);
    assert_eq!(bob.post("/v1/pins/approve", approval(&now)).await.status, 403);
    assert_eq!(listed(&ann).await, ["mcp:up.other"]);
}
