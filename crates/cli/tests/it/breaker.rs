//! The circuit breaker of a source, from the view of callers and operators.

use std::time::Duration;

use serde_json::json;
use toolcrib_testkit::upstream::{Answers, FaultyHttp};

use crate::support::{Server, dir, key, run, write_config};

/// After failures of a source, calls fail fast, every surface returns the retry delay, and
/// `sources list` shows the open breaker.
#[tokio::test]
async fn calls_of_a_source_that_is_away_fail_at_once_and_say_for_how_long() {
    let dir = dir();
    let upstream = FaultyHttp::start(Answers::Json, &[]);
    write_config(
        dir.path(),
        &format!(
            "[server]\nlisten = \"127.0.0.1:0\"\n[[source]]\nid = \"up\"\nkind = \"mcp\"\n\
             url = \"{}\"\nbreaker = {{ failures = 3, open = \"60s\" }}\n",
            upstream.url()
        ),
    );
    let (_, ann) = key(dir.path(), &["--principal", "ann", "--scope", "*"]);
    let (_, bob) =
        key(dir.path(), &["--principal", "bob", "--scope", "*", "--scope", "metrics:all"]);
    let server = Server::start(dir.path());
    let (ann_calls, bob_calls) = (server.caller(Some(&ann)), server.caller(Some(&bob)));
    let mut works = false;
    for _ in 0..200 {
        if ann_calls.otc("up__echo", json!({})).await.0 == 200 {
            works = true;
            break;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert!(works, "the source is there");
    drop(upstream);

    let mut waits = None;
    for _ in 0..20 {
        let (status, body) = ann_calls.otc("up__echo", json!({})).await;
        waits = body["retry_after_ms"].as_u64().filter(|wait| *wait > 1_000);
        if waits.is_some() {
            assert_eq!((status, &body["can_retry"]), (400, &json!(true)), "{body}");
            assert_eq!(body["developer_message"], "upstream_unavailable", "{body}");
            break;
        }
    }
    assert!(waits.is_some_and(|wait| wait <= 60_000), "{waits:?}");
    let (_, told) =
        bob_calls.mcp("tools/call", json!({ "name": "up__echo", "arguments": {} })).await;
    let words = told["result"]["content"][0]["text"].as_str().unwrap().to_owned();
    assert!(words.contains("not available right now; try again in"), "{told}");

    let sources = bob_calls.get("/v1/sources").await.1;
    let source = &sources["sources"][0];
    assert_eq!(source["breaker"]["state"], "open", "{sources}");
    assert_eq!(source["breaker"]["opened"], 1, "{sources}");
    assert!(source["load"]["refusedByBreaker"].as_u64().unwrap() >= 2, "{sources}");
    std::fs::write(dir.path().join("key.txt"), &bob).unwrap();
    let there = ["--url", &server.url, "--key-file", "key.txt", "sources", "list", "-o", "wide"];
    let listed = run(dir.path(), &there).ok().stdout;
    assert!(listed.contains("open") && listed.contains("0/64"), "{listed}");
    let metrics = bob_calls.text("/metrics").await;
    assert!(metrics.contains("toolcrib_source_breaker_state{source=\"up\"} 2"), "{metrics}");
    let said = server.stop();
    assert_eq!(said.matches("calls are not sent to the source for a while").count(), 1, "{said}");
}
