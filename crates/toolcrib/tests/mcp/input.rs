//! Tools that request input: the eligible callers, the passed data, and the errors for other
//! callers.

use std::time::Duration;

use serde_json::{Map, Value, json, value::RawValue};
use toolcrib::core::call::{
    CallerInput, InputRequired, Invocation, Outcome, Question, Reply, UpstreamError,
    UpstreamErrorKind,
};
use toolcrib_testkit::gateway::{Actor, TestGateway, TestTool};

use crate::support::{legacy, message, modern, modern_body, modern_headers, post};

const CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";
/// The input requests, as the upstream sent them.
const REQUESTS: &str = "{ \"who\" : {\"method\":\"elicitation/create\",\n\"params\":{\"message\":\"Hush-question\",\"n\":1.0}}}";
/// An unnecessary escape, which is passed on unchanged.
const STATE: &str = "\"hush\\u002dstate\"";

fn raw(text: &str) -> Box<RawValue> {
    RawValue::from_string(text.to_owned()).unwrap()
}

/// Handles `call` like the MCP source, without the wire.
fn answer(call: &Invocation) -> Result<Reply, UpstreamError> {
    if let Some(input) = call.input.as_ref().filter(|input| input.round().is_some()) {
        let CallerInput { capabilities, responses, state, .. } = input;
        if state.as_deref() == Some("spoiled") {
            let words = "the state is not ours".to_owned();
            return Ok(Reply::NeedsInput(Question::Rejected(words)));
        }
        let sent = json!({ "capabilities": capabilities, "responses": responses, "state": state });
        return Ok(Outcome::text(&sent.to_string(), false).into());
    }
    match InputRequired::read(Some(&raw(REQUESTS)), Some(&raw(STATE)), call.input.as_ref()) {
        Ok(input) => Ok(Reply::NeedsInput(Question::Input(input))),
        Err(_) => Err(UpstreamError::new(UpstreamErrorKind::InputRequired, "undeclared")),
    }
}

async fn gateway() -> TestGateway {
    let wants = |call: Invocation| async move {
        let wanted = json!({ "sampling": {} });
        let question = call.input.as_ref().and_then(|_| Question::capabilities(&wanted));
        question
            .map(Reply::NeedsInput)
            .ok_or_else(|| UpstreamError::new(UpstreamErrorKind::CapabilityRequired, "undeclared"))
    };
    let text = json!({ "type": "object", "properties": { "text": { "type": "string" } } });
    TestGateway::builder()
        .tool(
            TestTool::new("ask")
                .scopes([])
                .input(text)
                .output(json!({ "type": "object", "required": ["never"] }))
                .replies_as(|call| async move { answer(&call) }),
        )
        .tool(TestTool::new("wants").scopes([]).replies_as(wants))
        .tool(
            TestTool::new("rare")
                .scopes([])
                .rule("rate = \"1/h\"")
                .replies_as(|call| async move { answer(&call) }),
        )
        .start()
        .await
}

/// Sends a round of `crib__<tool>` by a client that declares `capabilities`.
async fn round(actor: &Actor, tool: &str, capabilities: Value, more: Value) -> (u16, Value) {
    let mut params =
        json!({ "name": format!("crib__{tool}"), "_meta": { CAPABILITIES: capabilities } });
    params.as_object_mut().unwrap().extend(more.as_object().cloned().unwrap_or_default());
    let reply = modern(actor, "tools/call", params).await;
    (reply.status, message(&reply))
}

/// Returns the closing events of the calls so far, oldest first.
async fn returned(gw: &TestGateway) -> Vec<Value> {
    let events = gw.events().await;
    let events = events.iter().map(|logged| serde_json::to_value(&logged.event).unwrap());
    events.filter(|event| event["type"] == "agent.toolReturned").collect()
}

#[tokio::test]
async fn a_capable_client_gets_the_input_request_and_its_answers_go_back() {
    let gw = gateway().await;
    let caller = gw.principal("a", []).await;
    let can = json!({ "elicitation": {}, "roots": { "listChanged": true }, "experimental": {} });
    let body =
        modern_body("tools/call", json!({ "name": "crib__ask", "_meta": { CAPABILITIES: can } }));
    let reply = post(&modern_headers(&caller, "tools/call", &body), &body.to_string()).await;
    assert_eq!((reply.status, reply.header("content-type")), (200, "application/json"));
    let text = reply.text();
    assert!(text.contains("\"requestState\":\"hush\\u002dstate\""), "as it was written: {text}");
    assert!(text.contains("\"n\":1.0") && !text.contains('\n'), "{text}");
    let first = reply.json()["result"].clone();
    assert_eq!(first["resultType"], "input_required");
    assert_eq!(first["inputRequests"], serde_json::from_str::<Value>(REQUESTS).unwrap());
    assert_eq!(first["requestState"], "hush-state");
    assert_eq!(first["_meta"]["dev.toolcrib/runId"], reply.header("toolcrib-run-id"));
    let members: Vec<_> = first.as_object().unwrap().keys().collect();
    assert_eq!(members, ["resultType", "inputRequests", "requestState", "_meta"]);

    let answers = json!({ "who": { "action": "accept", "content": { "name": "hush-answer" } } });
    let more = json!({ "inputResponses": answers, "requestState": first["requestState"] });
    let (status, second) = round(&caller, "ask", can, more).await;
    let second = &second["result"];
    assert_eq!((status, &second["resultType"]), (200, &json!("complete")));
    let sent = second["content"][0]["text"].as_str().unwrap();
    let sent: Value = serde_json::from_str(sent).unwrap();
    assert_eq!(sent["responses"], answers);
    assert_eq!(sent["state"], "hush-state");
    let forwarded = json!({ "elicitation": {}, "roots": { "listChanged": true } });
    assert_eq!(sent["capabilities"], forwarded);

    // I-20: each round is a pair of events with its outcome, without content.
    let returned = returned(&gw).await;
    let told: Vec<_> = returned
        .iter()
        .map(|event| {
            (event["payload"]["status"].clone(), event["payload"]["error"]["code"].clone())
        })
        .collect();
    assert_eq!(told, [(json!("error"), json!("input_required")), (json!("ok"), Value::Null)]);
    assert_ne!(returned[0]["runId"], returned[1]["runId"], "each round is a call of its own");
    for logged in gw.events().await {
        let event = serde_json::to_string(&logged.event).unwrap().to_lowercase();
        assert!(!event.contains("hush"), "{event}");
    }
    let metrics = gw.principal("m", ["metrics:all"]).await.get("/metrics").await.text();
    assert!(
        metrics.contains("result=\"input_required\"") && !metrics.contains("hush"),
        "{metrics}"
    );
}

// I-50
#[tokio::test]
async fn a_client_without_the_capability_gets_an_error_with_instructions() {
    let gw = gateway().await;
    let caller = gw.principal("a", []).await;
    let failed = |result: &Value, code: &str| {
        assert_eq!(result["isError"], true, "{result}");
        assert_eq!(result["_meta"]["dev.toolcrib/error"], code);
        let text = result["content"][0]["text"].as_str().unwrap();
        assert!(text.contains("2026-07-28") && text.contains("declares"), "{text}");
        assert!(!result.to_string().to_lowercase().contains("hush"), "{result}");
    };
    for capabilities in
        [json!({}), json!({ "sampling": {} }), json!({ "elicitation": { "url": {} } })]
    {
        let (status, body) = round(&caller, "ask", capabilities, json!({})).await;
        assert_eq!((status, &body["result"]["resultType"]), (200, &json!("complete")));
        failed(&body["result"], "input_required");
    }
    // Capabilities that a client of the handshake revisions declares per call are ignored.
    let params = json!({ "name": "crib__ask", "requestState": "s", "inputResponses": {},
        "_meta": { CAPABILITIES: { "elicitation": {} } } });
    let older = legacy(&caller, "tools/call", params).await.json();
    assert!(older["result"].get("resultType").is_none());
    failed(&older["result"], "input_required");
    let older = legacy(&caller, "tools/call", json!({ "name": "crib__wants" })).await.json();
    failed(&older["result"], "capability_required");

    let otc = json!({ "request": { "tool_id": "crib.ask", "input": {}, "call_id": "once" } });
    let mut runs = gw.runs("crib", "ask");
    for _ in 0..2 {
        let reply = caller.post("/tools/call", otc.clone()).await;
        let (status, body) = reply.parts();
        assert_eq!(status, 200, "{body}");
        let result = body.get("result").unwrap_or(&body);
        assert_eq!(result["success"], false);
        assert_eq!(result["error"]["developer_message"], "input_required");
        assert_eq!(result["error"]["can_retry"], false);
        assert!(result["error"]["message"].as_str().unwrap().contains("2026-07-28"));
        // I-31: the call has not ended, so its key stores no result.
        assert!(reply.header("idempotent-replayed").is_empty());
        runs += 1;
        assert_eq!(gw.runs("crib", "ask"), runs);
    }
    let explorer = caller.post("/explorer/tools/crib__ask/call", json!({})).await;
    assert_eq!(explorer.status, 500);
    assert_eq!(explorer.json()["isError"], true);
    assert!(explorer.text().contains("2026-07-28"), "{}", explorer.text());
}

#[tokio::test]
async fn a_missing_capability_and_a_state_that_is_not_taken_are_errors_of_the_protocol() {
    let gw = gateway().await;
    let caller = gw.principal("a", []).await;
    let (status, body) = round(&caller, "wants", json!({}), json!({})).await;
    assert_eq!((status, &body["error"]["code"]), (400, &json!(-32021)));
    assert_eq!(body["error"]["data"], json!({ "requiredCapabilities": { "sampling": {} } }));
    let (status, body) =
        round(&caller, "ask", json!({}), json!({ "requestState": "spoiled" })).await;
    assert_eq!((status, &body["error"]["code"]), (200, &json!(-32602)));
    assert_eq!(body["error"]["message"], "the state is not ours");
    let codes: Vec<_> =
        returned(&gw).await.iter().map(|e| e["payload"]["error"]["code"].clone()).collect();
    assert_eq!(codes, ["capability_required", "input_rejected"]);
}

#[tokio::test]
async fn every_round_passes_the_whole_gate() {
    let gw = gateway().await;
    let caller = gw.principal("a", []).await;
    let can = json!({ "elicitation": {} });
    let more = json!({ "inputResponses": {}, "requestState": "s" });
    let (_, first) = round(&caller, "rare", can.clone(), json!({})).await;
    assert_eq!(first["result"]["resultType"], "input_required");
    let (_, second) = round(&caller, "rare", can.clone(), more.clone()).await;
    assert_eq!(second["error"]["code"], -31429, "a round takes from the bucket: {second}");
    let wrong = json!({ "arguments": { "text": 7 }, "inputResponses": {}, "requestState": "s" });
    let (_, refused) = round(&caller, "ask", can, wrong).await;
    assert_eq!(refused["result"]["_meta"]["dev.toolcrib/error"], "validation_error");
    assert_eq!(gw.runs("crib", "ask"), 0);
}

#[tokio::test]
async fn what_a_client_sends_has_the_form_of_the_protocol() {
    let gw = gateway().await;
    let caller = gw.principal("a", []).await;
    for more in [
        json!({ "inputResponses": [] }),
        json!({ "inputResponses": "hush" }),
        json!({ "inputResponses": null }),
        json!({ "requestState": 7 }),
        json!({ "requestState": null }),
        json!({ "requestState": { "hush": 1 } }),
    ] {
        let (_, body) = round(&caller, "ask", json!({ "elicitation": {} }), more.clone()).await;
        assert_eq!(body["error"]["code"], -32602, "{more}");
        assert!(!body.to_string().contains("hush"), "{body}");
    }
    assert_eq!(gw.runs("crib", "ask"), 0);
    // Malformed capabilities count as none.
    for capabilities in [json!({ "elicitation": true }), json!({ "elicitation": null })] {
        let (_, body) = round(&caller, "ask", capabilities, json!({})).await;
        assert_eq!(body["result"]["_meta"]["dev.toolcrib/error"], "input_required");
    }
    let empty = Map::new();
    assert_eq!(CallerInput::declaring(&empty), CallerInput::default());
}

/// I-64, I-102: a grant for the first round lets no answers pass, and a client that opens links repeats
/// the approved round with the state of the prompt alone.
#[tokio::test]
async fn a_grant_of_a_round_is_for_its_answers_alone() {
    let gw = TestGateway::builder()
        .config("[approvals]\nurl = \"https://gate.example/ui\"")
        .tool(
            TestTool::new("pay")
                .scopes([])
                .rule("approval = \"always\"")
                .replies_as(|call| async move { answer(&call) }),
        )
        .start()
        .await;
    let caller = gw.principal("ann", []).await;
    let bob = gw.principal("bob", ["approvals:respond"]).await;
    let can = json!({ "elicitation": { "form": {}, "url": {}, "to": { "eve": 1 } } });
    let send =
        async |more: Value| round(&caller, "pay", can.clone(), more).await.1["result"].clone();
    let grant = async || {
        let newest = bob.get("/v1/approvals?limit=1").await.json()["approvals"][0].clone();
        let id = newest["approvalId"].as_str().unwrap();
        let reply = bob.post(&format!("/v1/approvals/{id}"), json!({ "verdict": "grant" })).await;
        assert_eq!(reply.status, 200, "{}", reply.text());
        newest
    };
    let prompt =
        |result: &Value| result["inputRequests"]["toolcrib.approval"]["params"]["url"].is_string();

    let first = send(json!({})).await;
    assert!(prompt(&first), "{first}");
    grant().await;
    let asked = send(json!({})).await;
    assert_eq!(asked["requestState"], "hush-state", "the first round ran: {asked}");

    let answers = json!({ "who": { "action": "accept", "content": { "name": "bob" } } });
    let prompted = send(json!({ "inputResponses": answers, "requestState": "hush-state" })).await;
    assert!(prompt(&prompted), "the answers need an approval: {prompted}");
    let shown = grant().await;
    assert_eq!(shown["inputResponses"][0]["name"], "who", "{shown}");
    assert_eq!(shown["requestStateBytes"], 10);
    let others = json!({ "who": { "action": "accept", "content": { "name": "eve" } } });
    let other = send(json!({ "inputResponses": others, "requestState": "hush-state" })).await;
    assert!(prompt(&other), "other answers are another call: {other}");

    let state = &prompted["requestState"];
    let opened = json!({ "toolcrib.approval": { "action": "accept" } });
    // A client repeats the call immediately. The repeated call waits for the approval, so that the client
    // does not use up its rounds before a person can answer.
    let early = send(json!({ "inputResponses": opened, "requestState": other["requestState"] }));
    let answered = async {
        tokio::time::sleep(Duration::from_millis(500)).await;
        grant().await
    };
    let (early, _) = tokio::join!(early, answered);
    assert!(early["content"][0]["text"].is_string(), "it ran after its grant: {early}");
    let ran = send(json!({ "inputResponses": opened, "requestState": state })).await;
    let sent = ran["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{ran}"));
    let sent: Value = serde_json::from_str(sent).unwrap();
    assert_eq!((&sent["responses"], &sent["state"]), (&answers, &json!("hush-state")));
    let forwarded = json!({ "elicitation": { "form": {}, "url": {} } });
    assert_eq!(sent["capabilities"], forwarded, "no content travels in capabilities");
}
