//! Calls whose caller has to connect an account, in the form of each revision.

use serde_json::{Value, json};
use toolcrib_testkit::gateway::{Actor, TestAccounts, TestGateway, TestSource, TestTool};

use crate::support::{legacy, message, modern, session, stream};

const CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";

async fn gateway() -> TestGateway {
    let config = "[server]\npublic_url = \"https://crib.example\"";
    let source = TestSource::new("notes").tenants(["acme"]).accounts("principal");
    let source = source.tool(TestTool::new("read").scopes([]));
    TestGateway::builder().config(config).source(source).start().await
}

async fn round(caller: &Actor, capabilities: Value, more: Value) -> Value {
    let mut params = json!({ "name": "notes__read", "_meta": { CAPABILITIES: capabilities } });
    params.as_object_mut().unwrap().extend(more.as_object().cloned().unwrap());
    message(&modern(caller, "tools/call", params).await)
}

async fn connect(caller: &Actor, link: &str) {
    let secret = link.strip_prefix("https://crib.example/explorer#/connect/").unwrap();
    let begun = caller.post("/v1/connections/begin", json!({ "link": secret })).await;
    let cookie = begun.header("set-cookie").split(';').next().unwrap().to_owned();
    let address = begun.json()["address"].clone();
    let state = address.as_str().unwrap().split("state=").nth(1).unwrap().to_owned();
    let body = json!({ "source": "notes", "state": state, "code": TestAccounts::CODE });
    let finished = caller.with("cookie", &cookie).post("/v1/connections/finish", body).await;
    assert_eq!(finished.status, 200, "{}", finished.text());
}

#[tokio::test]
async fn a_stateless_client_that_opens_addresses_gets_one() {
    let gw = gateway().await;
    let ann = gw.principal("ann", []).await;
    let plain = round(&ann, json!({}), json!({})).await;
    assert_eq!(plain["result"]["isError"], true, "{plain}");
    let text = plain["result"]["content"][0]["text"].as_str().unwrap();
    assert!(text.contains("https://crib.example/explorer#/connect/"), "{text}");

    let able = json!({ "elicitation": { "url": {} } });
    let asked = round(&ann, able.clone(), json!({})).await;
    assert_eq!(asked["result"]["resultType"], "input_required", "{asked}");
    let request = &asked["result"]["inputRequests"]["toolcrib.connection"];
    assert_eq!(request["method"], "elicitation/create");
    assert_eq!(request["params"]["mode"], "url");
    let link = request["params"]["url"].as_str().unwrap();
    let id = request["params"]["elicitationId"].as_str().unwrap();
    assert!(!link.contains(id) && !id.contains(&link[link.len() - 43..]));
    // An accepted prompt is no account.
    let accepted = json!({ "inputResponses": { "toolcrib.connection": { "action": "accept" } } });
    let again = round(&ann, able.clone(), accepted.clone()).await;
    assert_eq!(again["result"]["resultType"], "input_required", "{again}");
    assert_eq!(gw.runs("notes", "read"), 0);
    connect(&ann, link).await;
    let done = round(&ann, able, accepted).await;
    assert_eq!(done["result"]["isError"], false, "{done}");
    assert_eq!(gw.runs("notes", "read"), 1);
}

/// In a session of 2025-11-25 the link is an error, and the stream of the session says when it is done.
#[tokio::test]
async fn a_session_hears_when_its_prompt_is_done() {
    let gw = gateway().await;
    let ann = gw.principal("ann", []).await;
    let bob = gw.principal("bob", []).await;
    let able = json!({ "elicitation": { "url": {} } });
    for (version, capabilities, linked) in [
        ("2025-11-25", json!({}), false),
        ("2025-06-18", able.clone(), false),
        ("2025-11-25", able, true),
    ] {
        let params = json!({
            "protocolVersion": version, "capabilities": capabilities,
            "clientInfo": { "name": "c", "version": "1" },
        });
        let begun = legacy(&ann, "initialize", params).await;
        let session = begun.header("mcp-session-id").to_owned();
        let caller = ann.with("mcp-session-id", &session).with("mcp-protocol-version", version);
        let call = json!({ "name": "notes__read", "arguments": {} });
        let refused = message(&legacy(&caller, "tools/call", call.clone()).await);
        if !linked {
            assert_eq!(refused["result"]["isError"], true, "{refused}");
            continue;
        }
        assert_eq!(refused["error"]["code"], -32042, "{refused}");
        let elicitation = &refused["error"]["data"]["elicitations"][0];
        let link = elicitation["url"].as_str().unwrap();
        let mut events = stream(&caller).await;
        // Bob's account is none of Ann's business.
        let made = bob.post("/v1/connections/link", json!({ "source": "notes" })).await;
        connect(&bob, made.json()["link"].as_str().unwrap()).await;
        connect(&ann, link).await;
        assert_eq!(
            events.next().await,
            Some(json!({
                "jsonrpc": "2.0", "method": "notifications/elicitation/complete",
                "params": { "elicitationId": elicitation["elicitationId"] },
            }))
        );
        let done = message(&legacy(&caller, "tools/call", call).await);
        assert_eq!(done["result"]["isError"], false, "{done}");
    }
}

/// I-119: over HTTP, a list, its tag, its notification and a call all follow the account.
#[tokio::test]
async fn a_client_hears_of_the_list_of_its_account() {
    let config = "[gate]\ndenied_calls = \"not_found\"\n[server]\n\
                  public_url = \"https://crib.example\"";
    let source = TestSource::new("notes").tenants(["acme"]).accounts("principal");
    let source = source.tool(TestTool::new("read").scopes([])).own("ann", ["read"]);
    let source = source.tool(TestTool::new("write").scopes([]));
    let gw = TestGateway::builder().config(config).source(source).start().await;
    let ann = gw.principal("ann", []).await;
    let bob = gw.principal("bob", []).await;
    let mut events = Vec::new();
    for caller in [&ann, &bob] {
        let caller = session(caller).await;
        let listed = legacy(&caller, "tools/list", json!({})).await.json();
        assert_eq!(listed["result"]["tools"].as_array().unwrap().len(), 2);
        events.push(stream(&caller).await);
    }
    let before = ann.get("/v1/tools").await;
    let tag = before.header("etag").to_owned();
    assert_eq!(ann.with("if-none-match", &tag).get("/v1/tools").await.status, 304);
    for caller in [&ann, &bob] {
        let made = caller.post("/v1/connections/link", json!({ "source": "notes" })).await;
        connect(caller, made.json()["link"].as_str().unwrap()).await;
    }
    let changed = json!({ "jsonrpc": "2.0", "method": "notifications/tools/list_changed" });
    assert_eq!(events[0].next().await, Some(changed));
    // Bob's account has no list, so nothing has changed for him.
    events[1].silent(std::time::Duration::from_millis(900)).await;
    let after = ann.with("if-none-match", &tag).get("/v1/tools").await;
    assert_eq!((after.status, after.json().as_array().unwrap().len()), (200, 1));
    assert_eq!(bob.with("if-none-match", &tag).get("/v1/tools").await.status, 304);
    let call = |name: &str| json!({ "name": name, "arguments": {} });
    let hidden = message(&modern(&ann, "tools/call", call("notes__write")).await);
    let unknown = message(&modern(&ann, "tools/call", call("notes__writ")).await);
    let error =
        |answer: &Value| answer["error"].to_string().replace("notes__writ\"", "notes__write\"");
    assert_eq!(error(&hidden), error(&unknown));
    assert!(hidden["error"].is_object(), "{hidden}");
    assert_eq!(gw.runs("notes", "write"), 0);
    let done = message(&modern(&bob, "tools/call", call("notes__write")).await);
    assert_eq!(done["result"]["isError"], false, "{done}");
}
