//! Quotas across restarts and crashes.

use std::time::Duration;

use serde_json::json;

use crate::support::{Caller, Server, config, dir, key, run, write_config};

async fn serve(dir: &std::path::Path, key: &str) -> (Server, Caller) {
    let server = Server::start(dir);
    let caller = server.caller(Some(key));
    for _ in 0..200 {
        if caller.get("/v1/tools").await.1.to_string().contains("demo.echo") {
            return (server, caller);
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("the demo's tools are not offered");
}

/// Calls that ran until one was refused because of the quota, at most `most`.
async fn used(caller: &Caller, most: usize) -> usize {
    for count in 0..most {
        let (status, body) = caller.otc("demo__echo", json!({ "text": "hi" })).await;
        match status {
            200 => {}
            429 => {
                let details = &body["details"];
                assert_eq!(details["limit"], 90, "{body}");
                let wait = details["retryAfterMs"].as_u64().unwrap();
                assert!((1..=86_400_000).contains(&wait), "{body}");
                return count;
            }
            other => panic!("{other}: {body}"),
        }
    }
    most
}

/// I-79: neither a restart nor a kill forgets a call.
#[tokio::test]
async fn calls_are_counted_across_restarts_and_kills() {
    let dir = dir();
    let text = format!("[gate]\nquota = \"90/d\"\n{}", config(""));
    write_config(dir.path(), &text);
    let (_, ann) = key(dir.path(), &["--principal", "ann", "--scope", "*"]);
    let (server, caller) = serve(dir.path(), &ann).await;
    assert_eq!(used(&caller, 10).await, 10);
    let sources = caller.get("/v1/sources").await.1;
    assert_eq!(sources["quota"]["used"], 10, "{sources}");
    assert_eq!(sources["quota"]["limit"], 90, "{sources}");
    server.stop();

    let (mut server, caller) = serve(dir.path(), &ann).await;
    assert_eq!(caller.get("/v1/sources").await.1["quota"]["used"], 10, "an orderly end loses none");
    assert_eq!(used(&caller, 70).await, 70);
    server.process.kill();
    drop(server);

    let (server, caller) = serve(dir.path(), &ann).await;
    assert_eq!(used(&caller, 90).await, 10, "the last calls are counted one by one");
    std::fs::write(dir.path().join("key.txt"), &ann).unwrap();
    let listed = ["--url", &server.url, "--key-file", "key.txt", "sources", "list", "--json"];
    let listed = run(dir.path(), &listed).ok().json();
    assert_eq!(listed[0]["load"]["refusedByQuota"], 1, "{listed}");
    server.stop();
}
