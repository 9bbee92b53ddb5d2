//! The stateless revision: the required parts of a request, and the errors for missing ones.

use serde_json::{Value, json};

use crate::support::{MODERN, gateway, modern, modern_body, modern_headers, post};

#[tokio::test]
async fn discovery_says_what_is_served() {
    let gw = gateway().start().await;
    let caller = gw.principal("a", []).await;
    let reply = modern(&caller, "server/discover", json!({})).await;
    assert_eq!(reply.status, 200);
    assert_eq!(reply.header("content-type"), "application/json");
    let result = reply.json()["result"].clone();
    assert_eq!(result["resultType"], "complete");
    assert_eq!(
        result["supportedVersions"],
        json!(["2026-07-28", "2025-11-25", "2025-06-18", "2025-03-26"])
    );
    assert_eq!(result["capabilities"], json!({ "tools": { "listChanged": true } }));
    assert!(result["instructions"].is_string() && result["ttlMs"].is_u64());
    assert_eq!(result["cacheScope"], "private");
    assert_eq!(result["_meta"]["io.modelcontextprotocol/serverInfo"]["name"], "toolcrib");
}

/// One row per rule about headers: the change, the status and the code.
#[tokio::test]
async fn headers_must_repeat_the_body() {
    let gw = gateway().start().await;
    let caller = gw.principal("a", []).await;
    let call = modern_body("tools/call", json!({ "name": "crib__bare", "arguments": {} }));
    let whole = [
        ("mcp-protocol-version", MODERN),
        ("mcp-method", "tools/call"),
        ("mcp-name", "crib__bare"),
    ];
    let sent = async |change: &dyn Fn(&str) -> Vec<&'static str>| {
        let mut actor = caller.clone();
        for (name, value) in whole {
            match change(name).as_slice() {
                [] => actor = actor.with(name, value),
                ["-"] => {}
                values => {
                    for value in values {
                        actor = actor.with(name, value);
                    }
                }
            }
        }
        let reply = post(&actor, &call.to_string()).await;
        (reply.status, reply.json()["error"]["code"].as_i64())
    };
    let only = |header: &'static str, values: &'static [&'static str]| {
        move |name: &str| if name == header { values.to_vec() } else { Vec::new() }
    };

    assert_eq!(sent(&|_| Vec::new()).await, (200, None));
    let encoded = only("mcp-name", &["=?base64?Y3JpYl9fYmFyZQ==?="]);
    assert_eq!(sent(&encoded).await, (200, None), "the sentinel is decoded");
    for (header, values) in [
        ("mcp-protocol-version", &["-"][..]),
        ("mcp-protocol-version", &["1999-01-01"]),
        ("mcp-protocol-version", &[MODERN, MODERN]),
        ("mcp-method", &["-"]),
        ("mcp-method", &["tools/list"]),
        ("mcp-method", &["TOOLS/CALL"]),
        ("mcp-name", &["-"]),
        ("mcp-name", &["crib__echo"]),
        ("mcp-name", &["=?base64?%%%?="]),
        ("mcp-name", &["crib__bare", "crib__echo"]),
    ] {
        let got = sent(&only(header, values)).await;
        assert_eq!(got, (400, Some(-32020)), "{header} {values:?}");
    }
    assert_eq!(gw.runs("crib", "bare"), 2, "what was refused did not run");
}

/// A client that sends the headers of an older revision with the body of the newest.
#[tokio::test]
async fn the_body_alone_says_the_revision_unless_the_operator_wants_more() {
    let mut call = modern_body("tools/call", json!({ "name": "crib__bare", "arguments": {} }));
    call["params"]["_meta"]["io.modelcontextprotocol/clientInfo"] =
        json!({ "name": "claude-ai", "version": "1" });
    for (strict, expected) in [(false, (200, None)), (true, (400, Some(-32020)))] {
        let config = format!("[mcp]\nstrict_headers = {strict}\n");
        let gw = gateway().config(&config).start().await;
        let caller = gw.principal("a", ["metrics:all"]).await;
        let old = caller.with("mcp-protocol-version", "2025-11-25");
        let reply = post(&old, &call.to_string()).await;
        assert_eq!((reply.status, reply.json()["error"]["code"].as_i64()), expected);
        if strict {
            let message = reply.json()["error"]["message"].to_string();
            assert!(message.contains("2025-11-25") && message.contains(MODERN), "{message}");
            continue;
        }
        let metrics = caller.get("/metrics").await.text();
        let line = "toolcrib_mcp_mixed_versions_total{client=\"claude-ai\"} 1";
        assert!(metrics.contains(line), "{metrics}");
        // Headers that such a client sends nevertheless must agree.
        let other = old.with("mcp-name", "crib__echo");
        let reply = post(&other, &call.to_string()).await;
        let message = reply.json()["error"]["message"].to_string();
        assert!(message.contains("crib__echo") && message.contains("crib__bare"), "{message}");
        assert_eq!(gw.runs("crib", "bare"), 1);
    }
}

#[tokio::test]
async fn metadata_must_be_complete_and_of_a_known_version() {
    let gw = gateway().start().await;
    let caller = gw.principal("a", []).await;
    let version_key = "io.modelcontextprotocol/protocolVersion";
    let capabilities_key = "io.modelcontextprotocol/clientCapabilities";

    let unknown = modern_body("tools/list", json!({ "_meta": { version_key: "1999-01-01" } }));
    let actor = caller.with("mcp-protocol-version", "1999-01-01").with("mcp-method", "tools/list");
    let (status, body) = post(&actor, &unknown.to_string()).await.parts();
    assert_eq!((status, &body["error"]["code"], &body["id"]), (400, &json!(-32022), &json!(7)));
    assert_eq!(body["error"]["data"]["requested"], "1999-01-01");
    assert_eq!(body["error"]["data"]["supported"][0], MODERN);

    for missing in [version_key, capabilities_key] {
        let mut body = modern_body("tools/list", json!({}));
        body["params"]["_meta"].as_object_mut().unwrap().remove(missing);
        let actor = modern_headers(&caller, "tools/list", &body);
        let (status, answer) = post(&actor, &body.to_string()).await.parts();
        assert_eq!((status, &answer["error"]["code"]), (400, &json!(-32602)), "{missing}");
    }
    let body = json!({ "jsonrpc": "2.0", "id": 7, "method": "tools/list" });
    let actor = modern_headers(&caller, "tools/list", &body);
    let (status, answer) = post(&actor, &body.to_string()).await.parts();
    assert_eq!((status, &answer["error"]["code"]), (400, &json!(-32602)), "no _meta at all");
}

#[tokio::test]
async fn methods_of_other_servers_and_eras_are_not_found() {
    let gw = gateway().start().await;
    let caller = gw.principal("a", []).await;
    for method in [
        "initialize",
        "ping",
        "prompts/list",
        "resources/list",
        "resources/templates/list",
        "completion/complete",
        "logging/setLevel",
        "tasks/get",
        "no/such/method",
    ] {
        let (status, body) = modern(&caller, method, json!({})).await.parts();
        assert_eq!((status, &body["error"]["code"]), (404, &json!(-32601)), "{method}");
        assert_eq!(body["id"], 7);
    }
}

#[tokio::test]
async fn the_client_gets_a_form_that_it_reads_and_sends_json() {
    let gw = gateway().start().await;
    let caller = gw.principal("a", []).await;
    let body = modern_body("tools/list", json!({}));
    let actor = modern_headers(&caller, "tools/list", &body);
    let json_sent = actor.with("content-type", "application/json");
    let (json, events) = ("application/json", "text/event-stream");
    for (accept, form) in
        [(json, json), ("application/*", json), ("*/*", json), (events, events), ("", json)]
    {
        let actor =
            if accept.is_empty() { json_sent.clone() } else { json_sent.with("accept", accept) };
        let reply = actor.post_text("/mcp", body.to_string()).await;
        assert_eq!((reply.status, reply.header("content-type")), (200, form), "{accept}");
        assert!(reply.text().contains("crib__echo"), "{accept}");
    }
    let reply = json_sent.with("accept", "text/html").post_text("/mcp", body.to_string()).await;
    assert_eq!((reply.status, reply.json()["error"]["code"].as_i64()), (406, Some(-32600)));
    let strict = gateway().config("[mcp]\nstrict_headers = true\n").start().await;
    let other = modern_headers(&strict.principal("a", []).await, "tools/list", &body);
    let other = other.with("content-type", json).with("accept", json);
    assert_eq!(other.post_text("/mcp", body.to_string()).await.status, 406);
    let readable = actor.with("accept", "application/json, text/event-stream");
    for kind in ["text/plain", "application/jsonx", "application/x-www-form-urlencoded"] {
        let sent = readable.with("content-type", kind);
        assert_eq!(sent.post_text("/mcp", body.to_string()).await.status, 415, "{kind}");
    }
    assert_eq!(readable.post_text("/mcp", body.to_string()).await.status, 415);
    let charset = readable.with("content-type", "application/json; charset=utf-8");
    assert_eq!(charset.post_text("/mcp", body.to_string()).await.status, 200);
}

#[tokio::test]
async fn arguments_that_a_tool_wants_in_headers_are_checked() {
    let gw = gateway().start().await;
    let caller = gw.principal("a", []).await;
    let sent = async |tool: &str, arguments: Value, headers: &[(&str, &str)]| {
        let body = modern_body("tools/call", json!({ "name": tool, "arguments": arguments }));
        let mut actor = modern_headers(&caller, "tools/call", &body);
        for (name, value) in headers {
            actor = actor.with(name, value);
        }
        let reply = post(&actor, &body.to_string()).await;
        (reply.status, reply.json()["error"]["code"].as_i64())
    };
    let (good, mismatch) = ((200, None), (400, Some(-32020)));
    let eu = json!({ "region": "eu" });
    for (arguments, headers, expected) in [
        (eu.clone(), &[("mcp-param-region", "eu")][..], good),
        (eu.clone(), &[("Mcp-Param-Region", "=?base64?ZXU=?=")], good),
        (eu.clone(), &[], mismatch),
        (eu.clone(), &[("mcp-param-region", "us")], mismatch),
        (json!({}), &[], good),
        (json!({}), &[("mcp-param-region", "eu")], mismatch),
        (json!({ "shard": 42 }), &[("mcp-param-shard", "42.0")], good),
        (json!({ "shard": 42 }), &[("mcp-param-shard", "43")], mismatch),
    ] {
        assert_eq!(sent("crib__region", arguments.clone(), headers).await, expected, "{arguments}");
    }
    // Nothing is checked for a tool without annotations, or for one that the caller does not see.
    assert_eq!(sent("crib__bare", eu.clone(), &[("mcp-param-region", "us")]).await, good);
    assert_eq!(sent("crib__none", eu, &[]).await, (200, Some(-32602)));
}

/// The rules about versions are the modern ones only for modern requests.
#[tokio::test]
async fn both_eras_are_served_at_once() {
    let gw = gateway().start().await;
    let caller = gw.principal("a", []).await;
    let newer = modern(&caller, "tools/list", json!({})).await;
    let older = crate::support::legacy(&caller, "tools/list", json!({})).await;
    assert_eq!((newer.status, older.status), (200, 200));
    let names = |body: Value| {
        let tools = body["result"]["tools"].as_array().unwrap().clone();
        tools.into_iter().map(|tool| tool["name"].clone()).collect::<Vec<_>>()
    };
    assert_eq!(names(newer.json()), names(older.json()));
}
