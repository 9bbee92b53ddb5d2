//! `init` with a server from npm: from the file of a client to a call.

use serde_json::json;

use super::program;
use crate::{
    init::Place,
    support::{Server, eventually, key, run, toolcrib},
};

#[test]
fn a_server_from_npm_is_imported_and_called() {
    let Some(node) = program("TOOLCRIB_NODE") else { return };
    let Some(packages) = program("TOOLCRIB_CLIENTS_DIR") else { return };
    let package = "node_modules/@modelcontextprotocol/server-filesystem/dist/index.js";
    let place = Place::new();
    let work = place.work();
    let documents = work.join("documents");
    std::fs::create_dir(&documents).unwrap();
    std::fs::write(documents.join("note.txt"), "from the file").unwrap();
    let servers = json!({ "mcpServers": { "My Files": {
        "command": node, "args": [packages.join(package), documents],
    } } });
    place.write(".config/Claude/claude_desktop_config.json", &servers.to_string());
    let written = place.init(&["--yes", "--json"]).ok().json();
    assert_eq!((&written["sources"], &written["variables"]), (&json!(1), &json!([])), "{written}");

    let (_, key) = key(&work, &["--principal", "me", "--scope", "*"]);
    let server = Server::of(toolcrib(&work).args(["serve", "--listen", "127.0.0.1:0"]));
    let remote =
        |args: &[&str]| run(&work, &[&["--url", &server.url, "--key", &key], args].concat());
    eventually("its tools are listed", || {
        remote(&["tools", "list"]).stdout.contains("my-files__read_text_file")
    });
    let path = format!("path={}", documents.join("note.txt").display());
    let ran = remote(&["call", "my-files__read_text_file", &path]).ok();
    assert!(ran.stdout.contains("from the file"), "{ran:?}");
}
