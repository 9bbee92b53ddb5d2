//! Peers without a key that keep connections open.
#![expect(clippy::disallowed_methods, reason = "starts the program under test with a limit")]

use std::{
    collections::VecDeque,
    process::Command,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use rustix::process::{Resource, Rlimit, Signal, getrlimit, setrlimit};
use serde_json::json;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    task::JoinSet,
    time::timeout,
};

use crate::support::{Caller, PROGRAM, Server, config, dir, eventually, key, write_config};

/// Limit of open files of the server, and a larger number of connections.
const FILES: u64 = 1024;
const FLOOD: usize = 1_100;

/// The longest that a caller waits for its answer on a new connection while others hold idle ones. A
/// single lost packet of a handshake costs half of it.
const SOON: Duration = Duration::from_secs(2);

/// The same while others send requests, or open connections without an end. Up to 4 096 of those wait
/// before that of the caller, and a debug build on a busy machine gets through some hundreds in a
/// second.
const LATER: Duration = Duration::from_secs(15);

/// The data of a peer that then stays silent.
const HTTP2: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
const SILENCE: &[u8] = b"";
const HALF: &[u8] = b"GET /v1/tools HTTP/1.1\r\nhost: 127.0.0.1\r\nx-half: ";
const KEPT: &[u8] = b"GET /livez HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n";
const SLOW_BODY: &[u8] = b"POST /tools/call HTTP/1.1\r\nhost: 127.0.0.1\r\n\
    content-type: application/json\r\ncontent-length: 1000\r\n\r\n{";

const KINDS: [(&[u8], Duration); 5] =
    [(HTTP2, SOON), (SILENCE, SOON), (HALF, SOON), (KEPT, LATER), (SLOW_BODY, LATER)];

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

/// Opens connections that send `sent` and nothing more, one after another without an end, and keeps
/// the newest of them open.
async fn keep_opening(address: String, sent: &'static [u8], opened: Arc<AtomicUsize>) {
    let mut held = VecDeque::new();
    loop {
        held.push_back(hold(&address, sent).await);
        opened.fetch_add(1, Ordering::Relaxed);
        if held.len() > FLOOD {
            held.pop_front();
        }
    }
}

fn allow_many_files() {
    let most = getrlimit(Resource::Nofile).maximum;
    setrlimit(Resource::Nofile, Rlimit { current: most, maximum: most }).unwrap();
}

fn wait_for_tools(caller: &Caller) {
    let ready = || {
        let listed = caller.get("/v1/tools");
        let listed =
            tokio::task::block_in_place(|| tokio::runtime::Handle::current().block_on(listed));
        listed.1.as_array().is_some_and(|tools| tools.len() == 6)
    };
    eventually("the tools are there", ready);
}

/// Has the tools listed on a new connection, within `time`.
async fn list(server: &Server, key: &str, (sent, time): (&[u8], Duration)) {
    // Its preparation takes time of the client alone.
    let caller = server.caller(Some(key));
    let answered = timeout(time, caller.get("/v1/tools")).await;
    let sent = sent.escape_ascii();
    let (status, _) = answered.unwrap_or_else(|_| panic!("shut out by \"{sent}\""));
    assert_eq!(status, 200);
}

// I-27
#[tokio::test(flavor = "multi_thread")]
async fn connections_without_a_key_keep_nobody_out() {
    allow_many_files();
    let dir = dir();
    let server = limited(dir.path());
    let (_, text) = key(dir.path(), &["--scope", "*"]);
    let address = server.url.strip_prefix("http://").unwrap().to_owned();
    wait_for_tools(&server.caller(Some(&text)));
    let slow = server.caller(Some(&text));
    let call = tokio::spawn(async move {
        slow.otc("demo__slow", json!({ "steps": 40, "step_ms": 500 })).await
    });
    for (sent, time) in KINDS {
        let mut held = JoinSet::new();
        for _ in 0..FLOOD {
            let address = address.clone();
            held.spawn(async move { hold(&address, sent).await });
        }
        let held = held.join_all().await;
        list(&server, &text, (sent, time)).await;
        drop(held);
    }
    let (status, answer) = call.await.unwrap();
    assert_eq!((status, &answer["result"]["success"]), (200, &json!(true)), "{answer}");
    server.stop();
}

// I-27
#[tokio::test(flavor = "multi_thread")]
async fn a_flood_that_goes_on_keeps_nobody_out() {
    allow_many_files();
    let dir = dir();
    let server = limited(dir.path());
    let (_, text) = key(dir.path(), &["--scope", "*"]);
    let address = server.url.strip_prefix("http://").unwrap().to_owned();
    wait_for_tools(&server.caller(Some(&text)));
    // An HTTP/1 connection with a key that has no request. The client would open another one without
    // a word, so this one is spoken to by hand.
    let mut kept = TcpStream::connect(&address).await.unwrap();
    let request = format!(
        "GET /v1/tools HTTP/1.1\r\nhost: {address}\r\nauthorization: Bearer {text}\r\n\r\n"
    );
    ask(&mut kept, &request).await;
    for (sent, _) in KINDS {
        let opened = Arc::new(AtomicUsize::new(0));
        let mut flood = JoinSet::new();
        for _ in 0..4 {
            flood.spawn(keep_opening(address.clone(), sent, Arc::clone(&opened)));
        }
        let mut listed = 0;
        while listed < 5 || opened.load(Ordering::Relaxed) < 2 * FLOOD {
            list(&server, &text, (sent, LATER)).await;
            listed += 1;
        }
        ask(&mut kept, &request).await;
        flood.shutdown().await;
    }
    server.stop();
}

/// Sends `request` and reads the start of an answer that is a success.
async fn ask(stream: &mut TcpStream, request: &str) {
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    let head = loop {
        assert_ne!(stream.read_buf(&mut answer).await.unwrap(), 0, "a caller was cut off");
        if let Some(end) = answer.windows(4).position(|four| four == b"\r\n\r\n") {
            break end + 4;
        }
    };
    let text = String::from_utf8_lossy(&answer[..head]).to_lowercase();
    assert!(text.starts_with("http/1.1 200"), "{text}");
    let length = text.split("content-length: ").nth(1).unwrap().lines().next().unwrap();
    let length: usize = length.parse().unwrap();
    while answer.len() < head + length {
        assert_ne!(stream.read_buf(&mut answer).await.unwrap(), 0, "a caller was cut off");
    }
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
