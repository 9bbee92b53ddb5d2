//! `health`: the probe of a running server.

use std::net::TcpListener;

use crate::support::{Server, dir, run};

#[test]
fn a_running_server_is_ready_and_alive() {
    let dir = dir();
    let server = Server::demo(&dir.path().join("data"));
    let ready = run(dir.path(), &["--url", &server.url, "health"]).ok();
    assert_eq!(ready.stdout, "ready\n");
    let live = run(dir.path(), &["--url", &server.url, "health", "--live", "--json"]).ok().json();
    assert_eq!(live["answer"]["status"], "ok");

    // The configuration of a server says where it listens.
    let listen = server.url.strip_prefix("http://").unwrap();
    std::fs::write(dir.path().join("own.toml"), format!("[server]\nlisten = \"{listen}\"\n"))
        .unwrap();
    let own = run(dir.path(), &["--config", "own.toml", "health"]).ok();
    assert_eq!(own.stdout, "ready\n");
    server.stop();
}

#[test]
fn what_does_not_answer_or_is_no_server_is_a_failure() {
    let dir = dir();
    // Accepts connections and never answers.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", silent.local_addr().unwrap());
    let asked = run(dir.path(), &["--url", &url, "health", "--timeout", "1"]);
    assert_eq!(asked.code, 1, "{asked:?}");
    assert!(asked.stderr.contains("does not answer"), "{asked:?}");
    drop(silent);
    let asked = run(dir.path(), &["--url", &url, "health"]);
    assert_eq!(asked.code, 1, "{asked:?}");

    std::fs::write(dir.path().join("toolcrib.toml"), "[server]\nlisten = \"127.0.0.1:0\"\n")
        .unwrap();
    let asked = run(dir.path(), &["health"]);
    assert_eq!(asked.code, 2, "{asked:?}");
    assert!(asked.stderr.contains("--url"), "{asked:?}");
}
