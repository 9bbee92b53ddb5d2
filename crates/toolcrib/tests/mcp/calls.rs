//! `tools/call`: results, refusals and events.

use serde_json::{Value, json};
use toolcrib_testkit::gateway::Actor;

use crate::support::{gateway, legacy, message, modern, post};

async fn call(actor: &Actor, tool: &str, arguments: Value) -> (u16, Value) {
    let reply = modern(actor, "tools/call", json!({ "name": tool, "arguments": arguments })).await;
    (reply.status, message(&reply))
}

#[tokio::test]
async fn a_result_has_the_members_of_its_era_and_names_its_run() {
    let gw = gateway().start().await;
    let caller = gw.principal("a", []).await;
    let params = json!({ "name": "crib__echo", "arguments": { "text": "hi" } });
    let reply = modern(&caller, "tools/call", params.clone()).await;
    assert_eq!(reply.header("content-type"), "application/json", "quick calls are plain answers");
    let result = reply.json()["result"].clone();
    let run = reply.header("toolcrib-run-id");
    assert_eq!(result["resultType"], "complete");
    assert_eq!(result["content"], json!([{ "type": "text", "text": "hi" }]));
    assert_eq!(result["structuredContent"], json!({ "echo": "hi" }));
    assert_eq!(result["isError"], false);
    assert_eq!(result["_meta"]["dev.toolcrib/runId"], run);
    assert_eq!(result["_meta"]["io.modelcontextprotocol/serverInfo"]["name"], "toolcrib");
    gw.event(|event| event["type"] == "agent.toolReturned" && event["runId"] == run).await;

    let older = legacy(&caller, "tools/call", params).await.json()["result"].clone();
    assert!(older.get("resultType").is_none());
    assert_eq!(older["structuredContent"], json!({ "echo": "hi" }));
    assert_eq!(
        older["_meta"].as_object().unwrap().keys().collect::<Vec<_>>(),
        ["dev.toolcrib/runId"]
    );
}

/// Raw JSON is passed through, except for line breaks between its tokens.
#[tokio::test]
async fn the_json_of_the_upstream_is_kept() {
    let gw = gateway().start().await;
    let caller = gw.principal("a", []).await;
    let reply = modern(&caller, "tools/call", json!({ "name": "crib__pretty" })).await;
    let text = reply.text();
    assert!(text.contains("\"n\": 1.0, \"m\": 3") && !text.contains('\n'), "{text}");
    assert_eq!(reply.json()["result"]["content"][0]["text"], "a\nb");
}

const TRACE: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

#[tokio::test]
async fn arguments_may_be_absent_and_trace_context_travels() {
    let gw = gateway().start().await;
    let caller = gw.principal("a", []).await;
    let (_, body) = call(&caller, "crib__bare", Value::Null).await;
    assert_eq!(body["result"]["content"][0]["text"], "{}");
    let meta = json!({ "traceparent": TRACE, "baggage": "k=v", "tracestate": 7, "other": "x" });
    let params = json!({ "name": "crib__meta", "_meta": meta });
    for reply in [
        modern(&caller, "tools/call", params.clone()).await,
        legacy(&caller, "tools/call", params).await,
    ] {
        let passed: Value =
            serde_json::from_str(message(&reply)["result"]["content"][0]["text"].as_str().unwrap())
                .unwrap();
        assert_eq!(passed, json!({ "traceparent": TRACE, "baggage": "k=v" }));
    }
}

/// Failures that a model can react to are results; an upstream's own error text is not passed on.
#[tokio::test]
async fn failures_of_tools_are_results() {
    let gw = gateway().start().await;
    let caller = gw.principal("a", []).await;
    for (tool, arguments, code, text) in [
        ("crib__fail", json!({}), None, "it went wrong"),
        (
            "crib__dies",
            json!({}),
            Some("upstream_died"),
            "the tool's source went away during the call; whether the call took effect is unknown",
        ),
        (
            "crib__consent",
            json!({}),
            Some("approval_required"),
            "approval required: this tool does not run without a grant",
        ),
    ] {
        let (status, body) = call(&caller, tool, arguments).await;
        let result = &body["result"];
        assert_eq!((status, &result["isError"]), (200, &json!(true)), "{body}");
        // A pending approval also has its id in the text.
        let told = result["content"][0]["text"].as_str().unwrap();
        let (named, rest) = told.split_at(text.len().min(told.len()));
        assert_eq!(named, text);
        assert_eq!(rest.contains("Approval "), code == Some("approval_required"), "{told}");
        assert_eq!(result["_meta"]["dev.toolcrib/error"], json!(code));
        assert_eq!(result["resultType"], "complete");
    }
    let (_, body) = call(&caller, "crib__echo", json!({ "text": 7 })).await;
    let text = body["result"]["content"][0]["text"].as_str().unwrap();
    assert_eq!(body["result"]["isError"], true);
    assert!(text.contains("- at \"/text\": "), "{text}");
    assert_eq!(gw.runs("crib", "consent"), 0);
    assert_eq!(gw.runs("crib", "echo"), 0);
}

/// I-9: an unknown tool, a foreign tenant's, and one with a strange name get identical bytes.
#[tokio::test]
async fn unknown_and_foreign_tools_are_the_same() {
    let gw = gateway().start().await;
    let caller = gw.principal("a", []).await;
    let mut answers = Vec::new();
    for tool in ["crib__none", "foreign__tool", "", "x\u{0}y", "mcp:crib.echo"] {
        let body = json!({
            "jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": { "name": tool },
        });
        let reply = post(&caller, &body.to_string()).await;
        let mut headers = reply.headers.clone();
        for varies in ["x-request-id", "date"] {
            headers.remove(varies);
        }
        assert!(headers.get("toolcrib-run-id").is_none());
        answers.push((reply.status, headers, reply.body));
    }
    assert!(answers.windows(2).all(|pair| pair[0] == pair[1]), "{answers:?}");
    let body: Value = serde_json::from_slice(&answers[0].2).unwrap();
    assert_eq!(body["error"], json!({ "code": -32602, "message": "Unknown tool" }));
    let other = gw.principal_of("other", "o", &[]).await;
    assert_eq!(call(&other, "foreign__tool", json!({})).await.1["result"]["isError"], false);
}

#[tokio::test]
async fn a_missing_scope_is_an_error_with_the_scopes() {
    let gw = gateway().start().await;
    let caller = gw.principal("a", ["vault:open"]).await;
    for reply in [
        modern(&caller, "tools/call", json!({ "name": "crib__secret" })).await,
        legacy(&caller, "tools/call", json!({ "name": "crib__secret" })).await,
    ] {
        assert_eq!(reply.status, 200);
        let error = reply.json()["error"].clone();
        assert_eq!(error["code"], -31403);
        assert_eq!(
            error["data"],
            json!({
                "scope": "tool", "toolName": "mcp:crib.secret",
                "requiredScopes": ["vault:open", "vault:read"],
            })
        );
        let run = reply.header("toolcrib-run-id").to_owned();
        gw.event(|event| event["runId"] == run && event["payload"]["status"] == "forbidden").await;
    }
    assert_eq!(gw.runs("crib", "secret"), 0);
}

#[tokio::test]
async fn an_empty_bucket_says_when_to_come_back() {
    let gw = gateway().start().await;
    let caller = gw.principal("a", []).await;
    assert_eq!(call(&caller, "crib__limited", json!({})).await.1["result"]["isError"], false);
    let reply = modern(&caller, "tools/call", json!({ "name": "crib__limited" })).await;
    let error = reply.json()["error"].clone();
    assert_eq!((reply.status, &error["code"]), (200, &json!(-31429)));
    let wait = error["data"]["retryAfterMs"].as_u64().unwrap();
    assert!((1..=3_600_000).contains(&wait));
    let header: u64 = reply.header("retry-after").parse().unwrap();
    assert_eq!(header, wait.div_ceil(1000));
    assert_eq!((&error["data"]["limit"], &error["data"]["scope"]), (&json!(1), &json!("tool")));
}

#[tokio::test]
async fn parameters_have_shapes() {
    let gw = gateway().start().await;
    let caller = gw.principal("a", []).await;
    for params in [
        json!({}),
        json!({ "name": 7 }),
        json!({ "name": "crib__bare", "arguments": [] }),
        json!({ "name": "crib__bare", "arguments": "x" }),
        json!({ "name": "crib__bare", "_meta": { "progressToken": null } }),
        json!({ "name": "crib__bare", "_meta": { "progressToken": {} } }),
    ] {
        let (status, body) = legacy(&caller, "tools/call", params.clone()).await.parts();
        assert_eq!((status, &body["error"]["code"]), (200, &json!(-32602)), "{params}");
    }
    assert_eq!(gw.runs("crib", "bare"), 0);
}
