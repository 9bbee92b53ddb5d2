//! A busy upstream says when to come back: MCP, OTC and the breaker know it.

use std::time::Duration;

use serde_json::{Value, json};
use toolcrib_testkit::upstream::{Answers, CallAnswer, FaultyHttp};

use crate::support::{Caller, Recorder, Server, dir, key, write_config};

const DOCUMENT: &str = r#"{"openapi":"3.1.0","info":{"title":"t","version":"1"},"paths":{
    "/look":{"get":{"operationId":"look","responses":{"200":{"description":"ok"}}}},
    "/pay":{"post":{"operationId":"pay","responses":{"200":{"description":"ok"}}}}}}"#;

/// Calls a tool over OTC, once its source is there.
async fn failure(caller: &Caller, tool: &str) -> Value {
    for _ in 0..200 {
        let (status, body) = caller.otc(tool, json!({})).await;
        if status == 200 {
            assert_eq!(body["result"]["success"], false, "{body}");
            return body["result"]["error"].clone();
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("{tool} is not there");
}

#[tokio::test]
async fn the_wait_of_a_busy_upstream_reaches_every_caller_and_the_breaker() {
    let dir = dir();
    let upstream = FaultyHttp::start(Answers::Json, &["listen=no"]);
    let service = Recorder::start(|_, target| {
        let wait = if target == "/look" { "0" } else { "9" };
        format!(
            "HTTP/1.1 503 X\r\ncontent-type: text/plain\r\nretry-after: {wait}\r\n\
             content-length: 4\r\n\r\nbusy"
        )
    });
    std::fs::write(dir.path().join("openapi.json"), DOCUMENT).unwrap();
    write_config(
        dir.path(),
        &format!(
            "[server]\nlisten = \"127.0.0.1:0\"\n\
             [[source]]\nid = \"up\"\nkind = \"mcp\"\nurl = \"{}\"\n\
             breaker = {{ failures = 6, open = \"1s\" }}\n\
             [source.tools.echo]\nsafety_tier = \"read\"\n\
             [[source]]\nid = \"shop\"\nkind = \"connector\"\ndocument = \"openapi.json\"\n\
             base_url = \"{}\"\n[source.tools.look]\nsafety_tier = \"read\"\n",
            upstream.url(),
            service.url
        ),
    );
    let (_, key) = key(dir.path(), &["--scope", "*"]);
    let server = Server::start(dir.path());
    let caller = server.caller(Some(&key));
    let busy = |wait: &str| CallAnswer {
        status: 429,
        headers: vec![("retry-after", wait.to_owned())],
        body: b"too fast".to_vec(),
    };

    // The effect of `add` may not be repeated, so only the text has its wait.
    upstream.answer_calls(busy("60"));
    for (tool, can_retry, wait, words) in [
        ("up__echo", true, json!(60_000), "retry after 60 s\ntoo fast"),
        ("up__add", false, Value::Null, "retry after 60 s\ntoo fast"),
        ("shop__look", true, json!(0), "retry after 0 s\nbusy"),
        ("shop__pay", false, Value::Null, "retry after 9 s\nbusy"),
    ] {
        let error = failure(&caller, tool).await;
        assert_eq!(error["can_retry"], can_retry, "{tool}: {error}");
        assert_eq!(error["retry_after_ms"], wait, "{tool}: {error}");
        assert!(error["message"].as_str().unwrap().contains(words), "{tool}: {error}");
    }
    upstream.answer_calls(busy("0"));
    let error = failure(&caller, "up__echo").await;
    assert_eq!(error["can_retry"], true, "{error}");
    assert_eq!(error["retry_after_ms"], 0, "{error}");

    upstream.answer_calls(busy("50"));
    let (_, called) =
        caller.mcp("tools/call", json!({ "name": "up__echo", "arguments": {} })).await;
    assert_eq!(called["result"]["isError"], true, "{called}");
    let text = called["result"]["content"][0]["text"].as_str().unwrap();
    assert_eq!(text, "HTTP 429 Too Many Requests; retry after 50 s\ntoo fast");

    // The breaker opens for as long as the upstream says.
    let before = upstream.received_method("tools/call").len();
    let mut refused = None;
    for _ in 0..8 {
        let (status, body) = caller.otc("up__echo", json!({})).await;
        if status == 400 {
            refused = body["retry_after_ms"].as_u64();
            break;
        }
    }
    assert!(refused.is_some_and(|wait| (40_000..=50_000).contains(&wait)), "{refused:?}");
    assert!(upstream.received_method("tools/call").len() - before <= 3);
    server.stop();
}
