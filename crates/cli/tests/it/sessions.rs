//! MCP sessions over a restart of their server.

use std::path::Path;

use serde_json::{Value, json};

use crate::support::{Caller, Server, config, dir, eventually_async, key, write_config};

/// Returns the status of a list and the text of a call in `session`.
async fn use_of(caller: &Caller, session: &str) -> (u16, Value) {
    let list = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/list" });
    let (status, _) = caller.send_in_session(session, &list).await;
    let (_, called) = caller.call_in_session(session, "demo__echo", json!({ "text": "on" })).await;
    (status, called["result"]["content"][0]["text"].clone())
}

/// Ends the server of `dir` without a warning, and starts another one.
fn restart(dir: &Path, mut server: Server) -> Server {
    server.process.kill();
    Server::start(dir)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_goes_on_after_a_restart_until_its_client_ends_it() {
    let dir = dir();
    write_config(dir.path(), &config(""));
    let (_, text) = key(dir.path(), &["--scope", "*"]);
    let (_, other) = key(dir.path(), &["--principal", "other", "--scope", "*"]);
    let server = Server::start(dir.path());
    let session = server.caller(Some(&text)).open_mcp_session().await;
    let left = server.caller(Some(&text)).open_mcp_session().await;
    let works = (200, json!("on"));
    // Its source is discovered after the start.
    eventually_async("the tool is offered", async || {
        use_of(&server.caller(Some(&text)), &session).await == works
    })
    .await;
    assert_eq!(use_of(&server.caller(Some(&text)), &session).await, works);

    let server = restart(dir.path(), server);
    let caller = server.caller(Some(&text));
    assert_eq!(use_of(&caller, &session).await, works);
    let gone = (404, Value::Null);
    assert_eq!(use_of(&server.caller(Some(&other)), &session).await, gone, "it is not theirs");
    let (content, tag) = session.split_once('.').unwrap();
    for forged in [format!("{content}A.{tag}"), format!("{content}.{}", "0".repeat(64))] {
        assert_eq!(use_of(&caller, &forged).await, gone);
    }
    // The client may have missed a change of the list.
    let mut stream = caller.mcp_stream(&left).await;
    let mut news = String::new();
    while !news.contains("notifications/tools/list_changed") {
        news.push_str(&String::from_utf8_lossy(&stream.chunk().await.unwrap().unwrap()));
    }
    drop(stream);
    assert_eq!(caller.end_mcp_session(&session).await, 204);
    assert_eq!(use_of(&caller, &session).await, gone);

    let server = restart(dir.path(), server);
    let caller = server.caller(Some(&text));
    assert_eq!(use_of(&caller, &session).await, gone, "it has ended for ever");
    assert_eq!(caller.end_mcp_session(&session).await, 404);
    assert_eq!(
        caller.end_mcp_session(&left).await,
        204,
        "a session without a request since the restart"
    );
    assert_eq!(use_of(&caller, &left).await, gone);
    server.stop();
}
