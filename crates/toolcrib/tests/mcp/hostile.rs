//! Invalid messages and unauthorized callers.

use serde_json::json;
use toolcrib_testkit::gateway::{Actor, TestGateway};

use crate::support::{gateway, legacy, post};

#[tokio::test]
async fn an_invalid_message_is_refused() {
    let gw = gateway().start().await;
    let caller = gw.principal("a", []).await;
    let deep = format!("{}{}", "[".repeat(50_000), "]".repeat(50_000));
    let deep_arguments = format!(
        "{{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":{{\"name\":\"crib__bare\",\"arguments\":{}1{}}}}}",
        "{\"a\":".repeat(1_000),
        "}".repeat(1_000),
    );
    let long_id =
        format!("{{\"jsonrpc\":\"2.0\",\"id\":\"{}\",\"method\":\"ping\"}}", "x".repeat(300));
    for (body, code) in [
        ("", -32700),
        ("nonsense", -32700),
        ("{\"jsonrpc\":\"2.0\"", -32700),
        (deep.as_str(), -32700),
        (&deep_arguments, -32700),
        (r#"{"jsonrpc":"2.0","id":1,"method":"ping","method":"tools/list"}"#, -32700),
        (
            r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"crib__bare","arguments":{"a":1,"a":2}}}"#,
            -32700,
        ),
        (r#"{"jsonrpc":"2.0","id":1e2,"method":"ping"}"#, -32600),
        ("[]", -32600),
        (r#"[{"jsonrpc":"2.0","id":1,"method":"ping"}]"#, -32600),
        ("null", -32600),
        (r#"{"jsonrpc":"2.0","id":null,"method":"ping"}"#, -32600),
        (r#"{"jsonrpc":"2.0","id":1.5,"method":"ping"}"#, -32600),
        (r#"{"jsonrpc":"2.0","id":[1],"method":"ping"}"#, -32600),
        (&long_id, -32600),
        (r#"{"jsonrpc":"2.0","id":1}"#, -32600),
        (r#"{"id":1,"method":"ping"}"#, -32600),
        (r#"{"jsonrpc":"2.0","id":1,"method":"ping","params":[]}"#, -32602),
        (r#"{"jsonrpc":"2.0","id":1,"method":"ping","params":"x"}"#, -32602),
    ] {
        let (status, answer) = post(&caller, body).await.parts();
        let short: String = body.chars().take(80).collect();
        assert_eq!((status, answer["error"]["code"].as_i64()), (400, Some(code)), "{short}");
        assert_eq!(answer["jsonrpc"], "2.0");
        // JSON-RPC 2.0 §5: `null` where the id is not known. Some clients drop an error without it.
        assert!(answer.get("id").is_some(), "{short}");
    }
    assert_eq!(gw.runs("crib", "bare"), 0);
    assert_eq!(legacy(&caller, "ping", json!({})).await.status, 200, "still serving");
}

#[tokio::test]
async fn a_body_has_a_largest_size() {
    let gw = gateway().config("[server]\nmax_body = \"4 KiB\"").start().await;
    let caller = gw.principal("a", []).await;
    let big = json!({ "jsonrpc": "2.0", "id": 1, "method": "ping", "params": { "x": "y".repeat(5_000) } });
    let (status, body) = post(&caller, &big.to_string()).await.parts();
    assert_eq!((status, &body["error"]["code"]), (413, &json!(-32600)));
}

#[tokio::test]
async fn a_key_is_required() {
    let gw = gateway().start().await;
    for actor in [gw.anonymous(), gw.bearer("tc_wrong")] {
        for method in ["initialize", "tools/list", "tools/call", "no/such"] {
            let reply = legacy(&actor, method, json!({})).await;
            assert_eq!(reply.status, 401, "{method}");
            assert!(reply.header("www-authenticate").starts_with("Bearer"));
            assert_eq!(reply.json()["error"]["code"], -31401);
        }
        // As in I-10, not even the body is read.
        assert_eq!(post(&actor, "nonsense").await.status, 401);
    }
    gw.event(|event| {
        event["type"] == "authorization.decided"
            && event["payload"]["reason"] == "unauthenticated"
            && event["payload"]["resource"] == "/mcp"
    })
    .await;
}

#[tokio::test]
async fn a_mount_can_admit_anonymous_callers() {
    let gw = gateway()
        .config("[mcp]\nauth = \"optional\"\n[anonymous]\ntenant = \"acme\"\nscopes = []")
        .start()
        .await;
    let list = legacy(&gw.anonymous(), "tools/list", json!({})).await;
    assert_eq!(list.status, 200);
    let secret = legacy(&gw.anonymous(), "tools/call", json!({ "name": "crib__secret" })).await;
    assert_eq!(secret.json()["error"]["code"], -31403);
    assert_eq!(legacy(&gw.bearer("tc_wrong"), "ping", json!({})).await.status, 401);
}

#[tokio::test]
async fn foreign_pages_and_names_are_turned_away() {
    let gw = gateway().start().await;
    let caller = gw.principal("a", []).await;
    for origin in ["https://evil.example", "null", "http://localhost.evil.example"] {
        let reply = legacy(&caller.with("origin", origin), "ping", json!({})).await;
        assert_eq!((reply.status, reply.json()["error"]["code"].as_i64()), (403, Some(-32600)));
    }
    let own = gw.url.clone();
    assert_eq!(legacy(&caller.with("origin", &own), "ping", json!({})).await.status, 200);
    let (status, body) = with_host(&gw, &caller, "rebound.example").await;
    assert_eq!((status.as_str(), body.contains("-32600")), ("403", true), "{body}");
    let port = gw.url.rsplit(':').next().unwrap().to_owned();
    assert_eq!(with_host(&gw, &caller, &format!("localhost:{port}")).await.0, "200");
}

async fn with_host(gw: &TestGateway, caller: &Actor, host: &str) -> (String, String) {
    let body = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
    let key = caller.key().unwrap();
    let answer = gw
        .raw(format!(
            "POST /mcp HTTP/1.1\r\nhost: {host}\r\nauthorization: Bearer {key}\r\nconnection: close\r\n\
             content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        ))
        .await;
    (answer.split(' ').nth(1).unwrap().to_owned(), answer)
}
