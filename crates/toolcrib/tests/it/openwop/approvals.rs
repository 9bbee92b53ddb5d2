//! `/v1/approvals`, and the response of each surface to a call that requires approval.

use http::Method;
use serde_json::{Value, json};
use toolcrib_testkit::gateway::{Actor, Events, TestGateway};

use crate::support::fixture;

async fn call_ask(caller: &Actor, arguments: Value) -> Value {
    let body = json!({ "request": { "tool_id": "crib.ask", "input": arguments } });
    let reply = caller.post("/tools/call", body).await;
    assert_eq!(reply.status, 200, "{}", reply.text());
    reply.json()["result"].clone()
}

/// Returns the newest approval that `who` sees.
async fn newest(who: &Actor) -> Value {
    who.get("/v1/approvals").await.json()["approvals"][0].clone()
}

async fn answer(who: &Actor, id: &str, body: Value) -> (u16, Value) {
    let reply = who.post(&format!("/v1/approvals/{id}"), body).await;
    (reply.status, reply.json())
}

/// I-64: two principals over HTTP.
#[tokio::test]
async fn one_calls_another_consents_and_the_call_runs_once() {
    let gw = fixture().start().await;
    let ann = gw.principal("ann", ["files:read"]).await;
    let anns_other_key = gw.principal("ann", ["files:read", "approvals:respond"]).await;
    let bob = gw.principal("bob", ["approvals:respond"]).await;
    let arguments = json!({ "path": "canary" });

    let refused = call_ask(&ann, arguments.clone()).await;
    assert_eq!(refused["success"], false);
    let error = &refused["error"];
    assert_eq!(error["can_retry"], true);
    assert_eq!(error["developer_message"], "approval_required");
    assert!(error["retry_after_ms"].as_u64().unwrap() > 0);
    let approval = newest(&ann).await;
    let id = approval["approvalId"].as_str().unwrap().to_owned();
    assert!(error["message"].as_str().unwrap().contains(&id), "{error}");
    assert_eq!(approval["state"], "pending");
    assert_eq!(approval["mayRespond"], false);
    assert_eq!(approval["arguments"], json!([{ "name": "path", "type": "string", "bytes": 8 }]));
    assert!(!approval.to_string().contains("canary"), "{approval}");

    let (status, body) = answer(&anns_other_key, &id, json!({ "verdict": "grant" })).await;
    assert_eq!((status, &body["details"]["reason"]), (403, &json!("own_request")));
    let grant = json!({ "verdict": "grant", "comment": "fine by me" });
    let (status, body) = answer(&bob, &id, grant.clone()).await;
    assert_eq!((status, &body["state"]), (200, &json!("granted")), "{body}");
    assert_eq!(answer(&bob, &id, grant).await.0, 409);

    let other = call_ask(&ann, json!({ "path": "other" })).await;
    assert_eq!(other["success"], false, "changed arguments need a grant of their own");
    assert_eq!(call_ask(&ann, arguments.clone()).await["success"], true);
    assert_eq!(
        call_ask(&ann, arguments).await["success"],
        false,
        "a second run requires a second approval"
    );
    assert_eq!(gw.runs("crib", "ask"), 1);
    let used = ann.get(&format!("/v1/approvals/{id}")).await.json();
    assert_eq!(used["state"], "used");
    assert_eq!(used["votes"][0]["comment"], "fine by me");
}

/// I-103: a grant is taken back over HTTP, by those who could have given it.
#[tokio::test]
async fn a_grant_is_withdrawn_until_it_is_used() {
    let gw = fixture().start().await;
    let ann = gw.principal("ann", ["files:read"]).await;
    let bob = gw.principal("bob", ["approvals:respond"]).await;
    call_ask(&ann, json!({})).await;
    let id = newest(&bob).await["approvalId"].as_str().unwrap().to_owned();
    let withdraw = json!({ "verdict": "withdraw", "comment": "the wrong file" });
    let (status, refused) = answer(&bob, &id, withdraw.clone()).await;
    assert_eq!((status, &refused["details"]["state"]), (409, &json!("pending")), "{refused}");
    let (_, granted) = answer(&bob, &id, json!({ "verdict": "grant" })).await;
    assert_eq!((&granted["state"], &granted["mayWithdraw"]), (&json!("granted"), &json!(true)));
    assert_eq!(newest(&ann).await["mayWithdraw"], false);
    assert_eq!(answer(&ann, &id, withdraw.clone()).await.0, 403);
    let (status, withdrawn) = answer(&bob, &id, withdraw.clone()).await;
    assert_eq!((status, &withdrawn["state"]), (200, &json!("withdrawn")), "{withdrawn}");
    assert_eq!(withdrawn["votes"][1]["verdict"], "withdraw");
    assert_eq!(answer(&bob, &id, withdraw).await.0, 409);
    assert_eq!(call_ask(&ann, json!({})).await["success"], false);
    assert_ne!(newest(&bob).await["approvalId"], json!(id));
    let listed = bob.get("/v1/approvals?state=withdrawn").await.json();
    assert_eq!(listed["approvals"].as_array().unwrap().len(), 1, "{listed}");
    assert_eq!(gw.runs("crib", "ask"), 0);
}

#[tokio::test]
async fn an_invalid_verdict_is_refused() {
    let gw = fixture().start().await;
    let ann = gw.principal("ann", ["files:read"]).await;
    let bob = gw.principal("bob", ["approvals:*"]).await;
    call_ask(&ann, json!({})).await;
    let id = newest(&bob).await["approvalId"].as_str().unwrap().to_owned();
    for body in [
        json!({}),
        json!({ "verdict": "maybe" }),
        json!({ "verdict": "grant", "x": 1 }),
        // serde alone would read arrays as the object.
        json!(["grant"]),
        json!(["grant", null]),
    ] {
        let (status, told) = answer(&bob, &id, body.clone()).await;
        assert_eq!((status, &told["error"]), (400, &json!("validation_error")), "{body}");
    }
    // A duplicate member is invalid.
    let twice = r#"{"verdict":"reject","verdict":"grant"}"#;
    let path = format!("/v1/approvals/{id}");
    let twice =
        bob.with("content-type", "application/json").post_text(&path, twice.to_owned()).await;
    assert_eq!(twice.status, 400);
    let long = json!({ "verdict": "grant", "comment": "x".repeat(1_001) });
    assert_eq!(answer(&bob, &id, long).await.0, 400);
    assert_eq!(answer(&bob, &id, json!({ "verdict": "override" })).await.0, 400, "without a word");
    assert_eq!(answer(&bob, "nothing", json!({ "verdict": "grant" })).await.0, 404);
    assert_eq!(bob.get("/v1/approvals?state=perhaps").await.status, 400);
    assert_eq!(bob.get("/v1/approvals?limit=0").await.status, 400);
    assert_eq!(newest(&bob).await["state"], "pending");
}

/// Each surface names the approval and the time to retry, in its own form.
#[tokio::test]
async fn every_surface_names_the_approval() {
    let gw = fixture().config("[approvals]\nurl = \"https://gate.example/ui\"").start().await;
    let ann = gw.principal("ann", ["files:read"]).await;
    call_ask(&ann, json!({})).await;
    let id = newest(&ann).await["approvalId"].as_str().unwrap().to_owned();
    let link = format!("https://gate.example/ui#approval={id}");

    let explorer = ann.post("/explorer/tools/crib__ask/call", json!({})).await;
    assert_eq!(explorer.status, 403);
    assert!(explorer.text().contains(&id), "{}", explorer.text());

    let oxp = ann.post("/oxp/tools/call", json!({ "request": { "tool_id": "crib.ask" } })).await;
    assert_eq!(oxp.status, 200);
    assert_eq!(oxp.json()["result"]["error"]["can_retry"], true, "{}", oxp.text());

    let plain = mcp(&ann, json!({})).await;
    assert_eq!(plain["result"]["isError"], true, "{plain}");
    let text = plain["result"]["content"][0]["text"].as_str().unwrap();
    assert!(text.contains(&id) && text.contains(&link), "{text}");

    let able = mcp(&ann, json!({ "elicitation": { "url": {} } })).await;
    assert_eq!(able["result"]["resultType"], "input_required", "{able}");
    let request = &able["result"]["inputRequests"]["toolcrib.approval"];
    assert_eq!(request["method"], "elicitation/create");
    assert_eq!(request["params"]["mode"], "url");
    assert_eq!(request["params"]["url"], json!(link));
}

/// I-15: a client's answer to the elicitation grants nothing.
#[tokio::test]
async fn an_elicitation_that_was_accepted_is_no_consent() {
    let gw = fixture().config("[approvals]\nurl = \"https://gate.example/ui\"").start().await;
    let ann = gw.principal("ann", ["files:read"]).await;
    let able = json!({ "elicitation": { "url": {} } });
    mcp(&ann, able.clone()).await;
    let accepted = json!({ "toolcrib.approval": { "action": "accept" } });
    let again = mcp_round(&ann, able, Some(accepted)).await;
    assert_eq!(again["result"]["resultType"], "input_required", "{again}");
    assert_eq!(gw.runs("crib", "ask"), 0);
}

/// In a session of 2025-11-25 the link is an error. A client without that capability, or without a
/// session to declare it in, gets a text.
#[tokio::test]
async fn a_session_whose_client_opens_addresses_is_given_one() {
    let gw = fixture().config("[approvals]\nurl = \"https://gate.example/ui\"").start().await;
    let ann = gw.principal("ann", ["files:read"]).await;
    let able = json!({ "elicitation": { "url": {} } });
    for (version, capabilities, linked) in [
        ("2025-11-25", able.clone(), true),
        ("2025-11-25", json!({ "elicitation": {} }), false),
        ("2025-11-25", json!({}), false),
        ("2025-06-18", able, false),
    ] {
        let params = json!({
            "protocolVersion": version, "capabilities": capabilities,
            "clientInfo": { "name": "c", "version": "1" },
        });
        let begun = rpc(&ann, "initialize", params).await;
        let session = begun.headers["mcp-session-id"].to_str().unwrap().to_owned();
        let caller = ann.with("mcp-session-id", &session).with("mcp-protocol-version", version);
        let call = json!({ "name": "crib__ask", "arguments": {} });
        let response_message = response_message(rpc(&caller, "tools/call", call).await).await;
        let id = newest(&ann).await["approvalId"].as_str().unwrap().to_owned();
        match linked {
            true => {
                assert_eq!(response_message["error"]["code"], -32042, "{response_message}");
                let elicitation = &response_message["error"]["data"]["elicitations"][0];
                assert_eq!(elicitation["elicitationId"], json!(id));
                assert_eq!(
                    elicitation["url"],
                    json!(format!("https://gate.example/ui#approval={id}"))
                );
            }
            false => {
                assert_eq!(response_message["result"]["isError"], true, "{response_message}");
                assert!(
                    response_message["result"]["content"][0]["text"]
                        .as_str()
                        .unwrap()
                        .contains(&id)
                );
            }
        }
    }
}

async fn rpc(caller: &Actor, method: &str, params: Value) -> Events {
    let message = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
    let caller = caller
        .with("content-type", "application/json")
        .with("accept", "application/json, text/event-stream");
    caller.open(Method::POST, "/mcp", Some(message.to_string().into())).await
}

async fn response_message(mut reply: Events) -> Value {
    match reply.headers["content-type"].to_str().unwrap() {
        "text/event-stream" => reply.next().await.unwrap(),
        _ => reply.rest().await,
    }
}

async fn mcp(caller: &Actor, capabilities: Value) -> Value {
    mcp_round(caller, capabilities, None).await
}

async fn mcp_round(caller: &Actor, capabilities: Value, responses: Option<Value>) -> Value {
    let version = "2026-07-28";
    let mut params = json!({ "name": "crib__ask", "arguments": {}, "_meta": {
        "io.modelcontextprotocol/protocolVersion": version,
        "io.modelcontextprotocol/clientCapabilities": capabilities,
    } });
    if let Some(responses) = responses {
        params["inputResponses"] = responses;
    }
    let message = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params });
    let caller = caller
        .with("content-type", "application/json")
        .with("accept", "application/json, text/event-stream")
        .with("mcp-protocol-version", version)
        .with("mcp-method", "tools/call")
        .with("mcp-name", "crib__ask");
    response_message(caller.open(Method::POST, "/mcp", Some(message.to_string().into())).await)
        .await
}

/// I-34.
#[tokio::test]
async fn a_stream_notifies_approvers_of_changes() {
    let gw: TestGateway = fixture().start().await;
    let ann = gw.principal("ann", ["files:read"]).await;
    let bob = gw.principal("bob", ["approvals:respond"]).await;
    let mut stream = bob.open(Method::GET, "/v1/approvals/events", None).await;
    assert_eq!(stream.status, 200);
    call_ask(&ann, json!({})).await;
    let pending = stream.next().await.unwrap();
    assert_eq!((&pending["state"], &pending["mayRespond"]), (&json!("pending"), &json!(true)));
    let id = pending["approvalId"].as_str().unwrap().to_owned();
    answer(&bob, &id, json!({ "verdict": "reject" })).await;
    assert_eq!(stream.next().await.unwrap()["state"], "rejected");
}

/// A role comes from the key, and is matched by its name.
#[tokio::test]
async fn a_role_can_be_required() {
    let gw = TestGateway::builder()
        .config("[[role]]\nname = \"boss\"\nscopes = [\"approvals:respond\"]")
        .config("[[role]]\nname = \"clerk\"\nscopes = [\"approvals:respond\"]")
        .tool(
            toolcrib_testkit::gateway::TestTool::new("ask")
                .scopes(["files:read"])
                .rule("approval = \"always\"\napproval_role = \"boss\""),
        )
        .start()
        .await;
    let ann = gw.principal("ann", ["files:read"]).await;
    let clerk = gw.principal_with_roles("acme", "carol", &["clerk"]).await;
    let boss = gw.principal_with_roles("acme", "bob", &["boss"]).await;
    call_ask(&ann, json!({})).await;
    let id = newest(&boss).await["approvalId"].as_str().unwrap().to_owned();
    // Who cannot answer does not see it.
    assert_eq!(answer(&clerk, &id, json!({ "verdict": "grant" })).await.0, 404);
    assert_eq!(clerk.get(&format!("/v1/approvals/{id}")).await.status, 404);
    assert_eq!(answer(&boss, &id, json!({ "verdict": "grant" })).await.0, 200);
}
