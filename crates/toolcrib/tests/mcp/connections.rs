//! Calls whose caller has to connect an account, in the form of each revision, by the name of the
//! tool and by the tool that calls others.

use serde_json::{Value, json};
use toolcrib_testkit::gateway::{Actor, TestAccounts, TestGateway, TestSource, TestTool};

use crate::support::{legacy, legacy_at, message, modern, modern_at, session, stream, stream_at};

const CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";

/// The endpoints of a call: that of all tools, and a toolset with a tool that calls the others.
const ALL: &str = "/mcp";
const SEARCHED: &str = "/mcp/all";

async fn gateway() -> TestGateway {
    let config = "[server]\npublic_url = \"https://crib.example\"\n\
                  [toolset.all]\nallow = [\"*\"]\nmeta = \"search\"";
    let source = TestSource::new("notes").tenants(["acme"]).accounts("principal");
    let source = source.tool(TestTool::new("read").scopes([]));
    TestGateway::builder().config(config).source(source).start().await
}

/// The parameters of a call at `path`.
fn call_at(path: &str) -> Value {
    match path {
        SEARCHED => json!({ "name": "call_tool", "arguments": { "name": "notes__read" } }),
        _ => json!({ "name": "notes__read", "arguments": {} }),
    }
}

async fn round(caller: &Actor, path: &str, capabilities: Value, more: Value) -> Value {
    let mut params = call_at(path);
    params["_meta"] = json!({ CAPABILITIES: capabilities });
    params.as_object_mut().unwrap().extend(more.as_object().cloned().unwrap());
    message(&modern_at(caller, path, "tools/call", params).await)
}

/// Opens a session at `path`.
async fn opened(caller: &Actor, path: &str, version: &str, capabilities: &Value) -> Actor {
    let params = json!({
        "protocolVersion": version, "capabilities": capabilities,
        "clientInfo": { "name": "c", "version": "1" },
    });
    let begun = legacy_at(caller, path, "initialize", params).await;
    let session = begun.header("mcp-session-id");
    caller.with("mcp-session-id", session).with("mcp-protocol-version", version)
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
    for (runs, (path, name)) in [(ALL, "ann"), (SEARCHED, "bob")].into_iter().enumerate() {
        let caller = gw.principal(name, []).await;
        let plain = round(&caller, path, json!({}), json!({})).await;
        assert_eq!(plain["result"]["isError"], true, "{plain}");
        let text = plain["result"]["content"][0]["text"].as_str().unwrap();
        assert!(text.contains("https://crib.example/explorer#/connect/"), "{text}");
        let meta = &plain["result"]["_meta"];
        assert!(text.contains(meta["dev.toolcrib/link"].as_str().unwrap()), "{plain}");
        assert!(meta["dev.toolcrib/expiresAt"].is_string(), "{plain}");

        let able = json!({ "elicitation": { "url": {} } });
        let asked = round(&caller, path, able.clone(), json!({})).await;
        assert_eq!(asked["result"]["resultType"], "input_required", "{asked}");
        let request = &asked["result"]["inputRequests"]["toolcrib.connection"];
        assert_eq!(request["method"], "elicitation/create");
        assert_eq!(request["params"]["mode"], "url");
        let link = request["params"]["url"].as_str().unwrap();
        let id = request["params"]["elicitationId"].as_str().unwrap();
        assert!(!link.contains(id) && !id.contains(&link[link.len() - 43..]));
        // An accepted prompt is no account.
        let accepted =
            json!({ "inputResponses": { "toolcrib.connection": { "action": "accept" } } });
        let again = round(&caller, path, able.clone(), accepted.clone()).await;
        assert_eq!(again["result"]["resultType"], "input_required", "{again}");
        assert_eq!(gw.runs("notes", "read"), runs);
        connect(&caller, link).await;
        let done = round(&caller, path, able, accepted).await;
        assert_eq!(done["result"]["isError"], false, "{done}");
        assert_eq!(gw.runs("notes", "read"), runs + 1);
    }
}

/// In a session of 2025-11-25 the link is an error, and the stream of the session says when it is done.
#[tokio::test]
async fn a_session_hears_when_its_prompt_is_done() {
    let gw = gateway().await;
    let able = json!({ "elicitation": { "url": {} } });
    for (path, name, other) in [(ALL, "ann", "bob"), (SEARCHED, "cid", "dora")] {
        let (caller, other) = (gw.principal(name, []).await, gw.principal(other, []).await);
        let call = async |caller: &Actor| {
            message(&legacy_at(caller, path, "tools/call", call_at(path)).await)
        };
        for (version, capabilities) in [("2025-11-25", &json!({})), ("2025-06-18", &able)] {
            let refused = call(&opened(&caller, path, version, capabilities).await).await;
            assert_eq!(refused["result"]["isError"], true, "{refused}");
            let text = refused["result"]["content"][0]["text"].as_str().unwrap();
            assert!(text.contains("https://crib.example/explorer#/connect/"), "{text}");
        }
        let session = opened(&caller, path, "2025-11-25", &able).await;
        let refused = call(&session).await;
        assert_eq!(refused["error"]["code"], -32042, "{refused}");
        let elicitation = &refused["error"]["data"]["elicitations"][0];
        let link = elicitation["url"].as_str().unwrap();
        let mut events = stream_at(&session, path).await;
        // The account of another person changes nothing here.
        let made = other.post("/v1/connections/link", json!({ "source": "notes" })).await;
        connect(&other, made.json()["link"].as_str().unwrap()).await;
        connect(&caller, link).await;
        assert_eq!(
            events.next().await,
            Some(json!({
                "jsonrpc": "2.0", "method": "notifications/elicitation/complete",
                "params": { "elicitationId": elicitation["elicitationId"] },
            }))
        );
        let done = call(&session).await;
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
