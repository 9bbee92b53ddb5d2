//! Peers without a key that hold on to connections.
#![expect(clippy::disallowed_methods, reason = "starts the program under test with a limit")]

use std::{process::Command, time::Duration};

use rustix::process::{Resource, Rlimit, Signal, getrlimit, setrlimit};
use serde_json::json;
use tokio::{io::AsyncWriteExt as _, net::TcpStream, task::JoinSet, time::timeout};

use crate::support::{PROGRAM, Server, config, dir, eventually, key, write_config};

/// As many files as the server may have open, and more connections than that.
const FILES: u64 = 1024;
const FLOOD: usize = 1_100;

/// Much less than the thirty seconds after which idle connections are closed in any case.
const SOON: Duration = Duration::from_secs(15);

/// What a peer sends before it does nothing more.
const HTTP2: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
const SILENCE: &[u8] = b"";
const HALF: &[u8] = b"GET /v1/tools HTTP/1.1\r\nhost: 127.0.0.1\r\nx-half: ";
const KEPT: &[u8] = b"GET /livez HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n";
const SLOW_BODY: &[u8] = b"POST /tools/call HTTP/1.1\r\nhost: 127.0.0.1\r\n\
    content-type: application/json\r\ncontent-length: 1000\r\n\r\n{";

/// A server with at most [`FILES`] open files, whose [`SLOW_BODY`] is read.
fn limited(dir: &std::path::Path) -> Server {
    let anonymous = "[otc]\nauth = \"optional\"\n[anonymous]\ntenant = \"public\"\nscopes = []\n";
    write_config(dir, &format!("{}{anonymous}", config("")));
    let mut command = Command::new("sh");
    let script = format!("ulimit -n {FILES} && exec \"$0\" serve");
    command.args(["-c", &script, PROGRAM]).current_dir(dir);
    Server::of(&mut command)
}

async fn hold(address: &str, sent: &'static [u8]) -> TcpStream {
    let mut stream = TcpStream::connect(address).await.unwrap();
    // The server may have closed it already.
    stream.write_all(sent).await.ok();
    stream
}

// I-27
#[tokio::test(flavor = "multi_thread")]
async fn connections_without_a_key_keep_nobody_out() {
    let most = getrlimit(Resource::Nofile).maximum;
    setrlimit(Resource::Nofile, Rlimit { current: most, maximum: most }).unwrap();
    let dir = dir();
    let server = limited(dir.path());
    let (_, text) = key(dir.path(), &["--scope", "*"]);
    let address = server.url.strip_prefix("http://").unwrap().to_owned();
    let caller = server.caller(Some(&text));
    let ready = || {
        let listed = caller.get("/v1/tools");
        let listed =
            tokio::task::block_in_place(|| tokio::runtime::Handle::current().block_on(listed));
        listed.1.as_array().is_some_and(|tools| tools.len() == 6)
    };
    eventually("the tools are there", ready);
    let slow = server.caller(Some(&text));
    let call = tokio::spawn(async move {
        slow.otc("demo__slow", json!({ "steps": 40, "step_ms": 500 })).await
    });
    for sent in [HTTP2, SILENCE, HALF, KEPT, SLOW_BODY] {
        let mut held = JoinSet::new();
        for _ in 0..FLOOD {
            let address = address.clone();
            held.spawn(async move { hold(&address, sent).await });
        }
        let held = held.join_all().await;
        let answered = timeout(SOON, server.caller(Some(&text)).get("/v1/tools")).await;
        let (status, _) = answered.unwrap_or_else(|_| panic!("shut out by {sent:?}"));
        assert_eq!(status, 200);
        drop(held);
    }
    let (status, answer) = call.await.unwrap();
    assert_eq!((status, &answer["result"]["success"]), (200, &json!(true)), "{answer}");
    server.stop();
}

#[tokio::test]
async fn a_child_gets_the_limit_of_files_that_the_server_was_started_with() {
    let dir = dir();
    write_config(dir.path(), &config(""));
    let mut command = Command::new("sh");
    command.args(["-c", "ulimit -S -n 256 && exec \"$0\" serve", PROGRAM]).current_dir(dir.path());
    let server = Server::of(&mut command);
    let soft = |pid: u32| {
        let limits = std::fs::read_to_string(format!("/proc/{pid}/limits")).unwrap();
        let line = limits.lines().find(|line| line.starts_with("Max open files")).unwrap();
        line.split_whitespace().nth(3).unwrap().to_owned()
    };
    eventually("the source runs", || !server.process.children().is_empty());
    for child in server.process.children() {
        eventually("its limit is the old one", || soft(child) == "256");
    }
    assert_ne!(soft(server.process.pid()), "256", "the server's own is the hard one");
    server.process.signal(Signal::TERM);
}
