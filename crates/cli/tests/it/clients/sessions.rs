//! Sessions of the TypeScript SDK, whose client is sent to another server.

use std::process::Command;

use serde_json::{Value, json};

use super::program;
use crate::support::{Server, config, dir, eventually_async, finish, key, write_config};

/// It learns from the 404 that its session is gone, and works in a new one.
#[tokio::test(flavor = "multi_thread")]
async fn the_typescript_sdk_begins_a_new_session_on_another_server() {
    let (Some(node), Some(clients), Some(drivers)) = (
        program("TOOLCRIB_NODE"),
        program("TOOLCRIB_CLIENTS_DIR"),
        program("TOOLCRIB_CLIENT_DRIVERS"),
    ) else {
        return;
    };
    // With one store each: only the session matters.
    let (one, two) = (dir(), dir());
    let mut servers = Vec::new();
    for dir in [&one, &two] {
        write_config(dir.path(), &config(""));
        let (_, text) = key(dir.path(), &["--scope", "*"]);
        let server = Server::start(dir.path());
        let caller = server.caller(Some(&text));
        eventually_async("the tool is offered", async || {
            caller.get("/v1/tools/mcp:demo.echo").await.0 == 200
        })
        .await;
        servers.push((server, text));
    }
    let [(one, first), (two, second)] = servers.try_into().unwrap();
    #[expect(clippy::disallowed_methods, reason = "a client is a program of its own")]
    let mut command = Command::new(node);
    command
        .arg(drivers.join("ts-v1-moved.mjs"))
        .args([format!("{}/mcp", one.url), "demo__echo".to_owned()])
        .args([json!({ "text": "x" }).to_string(), format!("{}/mcp", two.url)])
        .env("TOOLCRIB_KEY", first)
        .env("TOOLCRIB_OTHER_KEY", second)
        .env("TOOLCRIB_CLIENTS_DIR", clients);
    let told: Value = finish(&mut command).ok().json();
    assert_eq!(told["refused"], 404, "{told}");
    assert_eq!(told["sessions"], 2, "{told}");
    assert_eq!(told["result"]["content"][0]["text"], "x", "{told}");
    one.stop();
    two.stop();
}
