//! One server per data directory.

use serde_json::json;

use crate::support::{Server, config, dir, run, write_config};

#[test]
fn a_second_server_on_the_same_data_is_refused() {
    let dir = dir();
    write_config(dir.path(), &config(""));
    let mut server = Server::start(dir.path());
    for args in
        [&["serve"][..], &["serve", "--demo", "--listen", "127.0.0.1:0", "--data-dir", ".toolcrib"]]
    {
        let second = run(dir.path(), args);
        assert_eq!((second.code, second.stdout.as_str()), (1, ""), "{second:?}");
        assert!(
            second.stderr.contains("error: another server uses the data directory .toolcrib\n"),
            "{}",
            second.stderr
        );
        assert!(second.stderr.contains("hint: stop that server first"), "{}", second.stderr);
    }
    // Commands other than `serve` ignore the lock.
    run(dir.path(), &["keys", "create", "--name", "a", "--scope", "a"]).ok();
    run(dir.path(), &["call", "demo__echo", r#"{"text":"hi"}"#]).ok();
    run(dir.path(), &["mcp"]).ok();
    // A server with its own data directory can start, too.
    Server::of(crate::support::toolcrib(dir.path()).args(["serve", "--data-dir", "other"])).stop();
    // The operating system releases the lock when the process is killed.
    server.process.kill();
    Server::start(dir.path()).stop();
}

#[test]
fn a_store_of_another_name_has_its_own_lock() {
    let dir = dir();
    let with_store = |name: &str| format!("{}[store]\nurl = \"sqlite:{name}\"\n", config(""));
    write_config(dir.path(), &with_store("a.db"));
    let first = Server::start(dir.path());
    let second = run(dir.path(), &["--json", "serve"]);
    assert_eq!(second.code, 1);
    let message = second.json()["error"]["message"].as_str().unwrap().to_owned();
    assert!(message.starts_with("another server uses the data directory "), "{message}");
    assert_eq!(second.json()["error"]["causes"], json!([]));
    write_config(dir.path(), &with_store("b.db"));
    Server::start(dir.path()).stop();
    first.stop();
}
