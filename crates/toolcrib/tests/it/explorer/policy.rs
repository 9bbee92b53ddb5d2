//! The access policies. "Public" is the view of `[anonymous]`; all other tools respond as if they
//! did not exist.

use serde_json::json;
use toolcrib::{ExplorerConfig, ExplorerPolicy, RouterExt as _};
use toolcrib_testkit::gateway::{Actor, TestGateway, TestServer, TestSource, TestTool};

use crate::support::column;

/// `crib__shared` is public, `crib__read` requires `files:read`, `other__secret` belongs to another
/// tenant.
async fn start(explorer: &str) -> TestGateway {
    let anonymous = "[anonymous]\ntenant = \"acme\"\nscopes = [\"public:read\"]";
    TestGateway::builder()
        .config(&format!("[explorer]\n{explorer}\n{anonymous}"))
        .tool(TestTool::new("shared").scopes(["public:read"]))
        .tool(TestTool::new("read").scopes(["files:read"]))
        .source(
            TestSource::new("other")
                .tenants(["other"])
                .tool(TestTool::new("secret").scopes(["public:read"])),
        )
        .start()
        .await
}

/// Returns the responses to `caller`: the list, then detail, validation and call of each tool.
async fn answers(caller: &Actor) -> String {
    let list = caller.get("/explorer/tools").await;
    let mut told = match list.status {
        200 => column(&list.json(), "name").join("+").replace("crib__", ""),
        status => status.to_string(),
    };
    for tool in ["crib__shared", "crib__read", "other__secret", "nope"] {
        let at = |action: &str| format!("/explorer/tools/{tool}{action}");
        let detail = caller.get(&at("")).await.status;
        let check = caller.post(&at("/validate"), json!({})).await.status;
        let call = caller.post(&at("/call"), json!({})).await.status;
        told.push_str(&format!(", {detail} {check} {call}"));
    }
    told
}

/// I-8, I-9, I-11: each policy, for a caller without a key, with an invalid key, with a key without
/// scopes and with the right one. After the list: shared, read, another tenant's, unknown.
#[tokio::test]
async fn each_policy_answers_each_caller_as_the_table_says() {
    let closed = "401, 401 401 401, 401 401 401, 401 401 401, 401 401 401";
    let blind = ", 404 404 403, 404 404 403, 404 404 404, 404 404 404";
    let sees = "read+shared, 200 200 200, 200 200 200, 404 404 404, 404 404 404";
    let open = "shared, 200 200 401, 404 404 401, 404 404 401, 404 404 401";
    let spec = "shared, 200 200 401, 404 404 404, 404 404 404, 404 404 404";
    let none = "shared, 200 200 200, 404 404 403, 404 404 404, 404 404 404";
    for (policy, [anonymous, junk, poor, right]) in [
        ("all", [closed, closed, blind, sees]),
        ("call-only", [open, closed, blind, sees]),
        ("spec-public", [spec, spec, blind, sees]),
        ("none", [none, closed, blind, sees]),
    ] {
        let gw = start(&format!("policy = \"{policy}\"")).await;
        let callers = [
            (gw.anonymous(), anonymous),
            (gw.bearer("junk"), junk),
            (gw.principal("poor", []).await, poor),
            (gw.principal("right", ["files:read", "public:read"]).await, right),
        ];
        for (number, (caller, expected)) in callers.iter().enumerate() {
            assert_eq!(answers(caller).await, *expected, "{policy}, caller {number}");
        }
        assert_eq!(gw.anonymous().get("/explorer").await.status, 200);
    }
}

/// 403, 404, 401, in this order; a policy that requires a key first returns 401 before all.
#[tokio::test]
async fn the_order_of_the_answers_is_the_policys() {
    for (policy, shared, unknown) in
        [("spec-public", 403, 403), ("call-only", 401, 401), ("all", 401, 401)]
    {
        let off = start(&format!("policy = \"{policy}\"\nallow_execute = false")).await;
        for (tool, status) in [("crib__shared", shared), ("nope", unknown)] {
            let path = format!("/explorer/tools/{tool}/call");
            let reply = off.anonymous().post(&path, json!({})).await;
            assert_eq!(reply.status, status, "{policy} {tool}");
        }
    }
    let on = start("policy = \"spec-public\"").await;
    let reply = on.anonymous().post("/explorer/tools/crib__shared/call", json!({})).await;
    assert_eq!((reply.status, reply.text().as_str()), (401, r#"{"error":"Unauthorized"}"#));
    assert_eq!(reply.header("www-authenticate"), "Bearer");
    assert_eq!(on.runs("crib", "shared"), 0);
    let event = |event: &serde_json::Value| event["payload"]["reason"] == "unauthenticated";
    assert_eq!(on.event(event).await["payload"]["resource"], "/explorer/tools/*");
}

/// A gateway can be mounted as a provider, with its keys, its gate and its view.
#[tokio::test]
async fn a_gateway_is_a_provider() {
    let gw = start("").await;
    let config = ExplorerConfig::new().title("Mine").allow_execute(true);
    let router = toolcrib::explorer("/mine", gw.gateway.clone(), config.clone());
    let strict = config.policy(ExplorerPolicy::All);
    let router = router.merge(toolcrib::explorer("/strict", gw.gateway.clone(), strict));
    let served = TestServer::start(router).await;
    let key = gw.principal("right", ["files:read"]).await;
    let right = served.bearer(key.key().unwrap());
    let nobody = served.anonymous();

    assert!(nobody.get("/mine/").await.text().contains("<title>Mine</title>"));
    assert_eq!(column(&nobody.get("/mine/tools").await.json(), "name"), ["crib__shared"]);
    assert_eq!(column(&right.get("/mine/tools").await.json(), "name"), ["crib__read"]);
    assert_eq!(nobody.get("/mine/tools/crib__read").await.status, 404);
    assert_eq!(nobody.post("/mine/tools/crib__shared/call", json!({})).await.status, 401);
    assert_eq!(nobody.get("/strict/tools").await.status, 401);
    let reply = right.post("/mine/tools/crib__read/call", json!({})).await;
    assert_eq!(reply.status, 200);
    let run = reply.header("toolcrib-run-id");
    assert_eq!(key.get(&format!("/v1/runs/{run}/events")).await.status, 200, "recorded");

    gw.change("crib", vec![TestTool::new("fresh")]).await;
    let all = gw.principal("all", ["*"]).await;
    let all = served.bearer(all.key().unwrap());
    assert_eq!(column(&all.get("/mine/tools").await.json(), "name"), ["crib__fresh"]);
}

/// Without `[anonymous]`, the public view is empty.
#[tokio::test]
async fn the_public_view_is_empty_without_an_anonymous_principal() {
    let gw = TestGateway::builder().tool(TestTool::new("open").scopes([])).start().await;
    let config = ExplorerConfig::new().allow_execute(true);
    let router = toolcrib::explorer("/mine", gw.gateway.clone(), config);
    let served = TestServer::start(router).await;
    assert_eq!(served.anonymous().get("/mine/tools").await.text(), "[]");
    assert_eq!(served.anonymous().get("/mine/tools/crib__open").await.status, 404);
    let call = served.anonymous().post("/mine/tools/crib__open/call", json!({})).await;
    assert_eq!(call.status, 404);
    let router = TestServer::start(gw.gateway.router()).await;
    assert_eq!(router.anonymous().get("/explorer/tools").await.status, 401);
}
