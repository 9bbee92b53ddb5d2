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
    let place = Place::new();
    let work = place.work();
    std::fs::create_dir(work.join("documents")).unwrap();
    std::fs::write(work.join("documents/note.txt"), "from the file").unwrap();
    let servers = json!({ "mcpServers": { "My Files": {
        "command": "mcp-server-filesystem", "args": ["./documents"],
    } } });
    place.write(".config/Claude/claude_desktop_config.json", &servers.to_string());
    let written = place.init(&["--yes", "--json"]).ok().json();
    assert_eq!((&written["sources"], &written["variables"]), (&json!(1), &json!([])), "{written}");

    let (_, key) = key(&work, &["--principal", "me", "--scope", "*"]);
    let programs = [packages.join("node_modules/.bin"), node.parent().unwrap().to_owned()];
    let mut serve = toolcrib(&work);
    serve.args(["serve", "--listen", "127.0.0.1:0"]);
    serve.env(
        "PATH",
        std::env::join_paths(programs.into_iter().chain(["/usr/bin".into()])).unwrap(),
    );
    let server = Server::of(&mut serve);
    let remote =
        |args: &[&str]| run(&work, &[&["--url", &server.url, "--key", &key], args].concat());
    eventually("its tools are listed", || {
        remote(&["tools", "list"]).stdout.contains("my-files__read_text_file")
    });
    let path = format!("path={}", work.join("documents/note.txt").display());
    let ran = remote(&["call", "my-files__read_text_file", &path]).ok();
    assert!(ran.stdout.contains("from the file"), "{ran:?}");
}
