//! Concurrent request bodies that exceed the server's memory limit for bodies.

use std::time::Duration;

use serde_json::json;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    task::JoinSet,
    time::timeout,
};

use crate::support::{Caller, Server, config, dir, key, write_config};

/// The body size, below the limit of 256 KiB, and the part that a slow sender sends.
const BODY: usize = 200 << 10;
const PART: usize = 180 << 10;

/// Of 1 MiB an eighth is for small bodies; the rest has room for the parts of four slow senders and
/// 176 KiB more.
const LIMITS: &str = "[server]\nmax_body = \"256KiB\"\nmax_body_total = \"1MiB\"\n";
const FIT: usize = 4;

/// Time limit for a response; only bounds a hang.
const LONG: Duration = Duration::from_secs(60);

/// A call that is padded with spaces.
fn body() -> Vec<u8> {
    let call = json!({ "request": { "tool_id": "demo__add", "input": { "a": 1, "b": 2 } } });
    let mut body = call.to_string().into_bytes();
    body.resize(BODY, b' ');
    body
}

struct Sender {
    stream: TcpStream,
    body: Vec<u8>,
    sent: usize,
}

impl Sender {
    async fn start(server: &Server, path: &str, key: Option<&str>) -> Self {
        let address = server.url.strip_prefix("http://").unwrap();
        let mut stream = TcpStream::connect(address).await.unwrap();
        let key = key.map(|key| format!("authorization: Bearer {key}\r\n")).unwrap_or_default();
        let head = format!(
            "POST {path} HTTP/1.1\r\nhost: {address}\r\n{key}connection: close\r\n\
             content-type: application/json\r\naccept: application/json, text/event-stream\r\n\
             content-length: {BODY}\r\n\r\n"
        );
        stream.write_all(head.as_bytes()).await.unwrap();
        Self { stream, body: body(), sent: 0 }
    }

    async fn send(&mut self, end: usize) {
        self.stream.write_all(&self.body[self.sent..end]).await.unwrap();
        self.sent = end;
    }

    /// Returns the response: status, head in lower case, and body.
    async fn answer(mut self) -> (u16, String, String) {
        let mut bytes = Vec::new();
        timeout(LONG, self.stream.read_to_end(&mut bytes)).await.unwrap().unwrap();
        let text = String::from_utf8(bytes).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("{text:?}"));
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        (status, head.to_lowercase(), body.to_owned())
    }
}

async fn metric(caller: &Caller, name: &str) -> usize {
    let text = caller.text("/metrics").await;
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line.unwrap_or_else(|| panic!("no {name} in {text}")).parse().unwrap()
}

/// Waits until requests take `bytes`.
async fn held(caller: &Caller, bytes: usize) {
    let reached = async {
        while metric(caller, "toolcrib_request_bytes").await != bytes {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let reached = timeout(LONG, reached).await;
    let now = metric(caller, "toolcrib_request_bytes").await;
    assert!(reached.is_ok(), "{now} instead of {bytes} bytes");
}

// I-27
#[tokio::test(flavor = "multi_thread")]
async fn bodies_of_all_requests_together_are_bounded() {
    let dir = dir();
    let text = config("[gate]\nrate = \"off\"\n").replacen("[server]\n", LIMITS, 1);
    write_config(dir.path(), &text);
    let server = Server::start(dir.path());
    let (_, key) = key(dir.path(), &["--scope", "*", "--scope", "metrics:all"]);
    let key = key.as_str();
    let caller = server.caller(Some(key));
    let add = || caller.otc("demo__add", json!({ "a": 1, "b": 2 }));
    while add().await.0 != 200 {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    held(&caller, 0).await;

    // An announced body that was not sent uses no memory.
    let mut announced = Vec::new();
    for _ in 0..50 {
        announced.push(Sender::start(&server, "/tools/call", Some(key)).await);
    }
    let mut slow = Vec::new();
    for number in 1..=FIT {
        let mut sender = Sender::start(&server, "/tools/call", Some(key)).await;
        sender.send(PART).await;
        slow.push(sender);
        held(&caller, number * PART).await;
    }

    // Every surface refuses large bodies, and small calls still succeed.
    let paths = [
        "/tools/call",
        "/oxp/tools/call",
        "/mcp",
        "/explorer/tools/demo__add/call",
        "/explorer/tools/demo__add/validate",
        "/v1/keys",
        "/v1/pins/approve",
    ];
    let mut large = JoinSet::new();
    for path in paths.into_iter().cycle().take(21) {
        let mut sender = Sender::start(&server, path, Some(key)).await;
        large.spawn(async move {
            sender.send(BODY).await;
            (path, sender.answer().await)
        });
    }
    for _ in 0..10 {
        assert_eq!(add().await.0, 200, "a small call");
    }
    for (path, (status, head, body)) in large.join_all().await {
        assert_eq!(status, 503, "{path}: {body}");
        assert!(head.contains("\r\nretry-after: 1"), "{path}: {head}");
        let body: serde_json::Value = serde_json::from_str(&body).unwrap();
        let message = match path {
            "/mcp" => &body["error"]["message"],
            path if path.starts_with("/explorer") => &body["error"],
            _ => &body["message"],
        };
        assert!(message.as_str().unwrap().contains("memory"), "{path}: {body}");
    }
    assert_eq!(metric(&caller, "toolcrib_request_bodies_refused_total").await, 21);
    held(&caller, FIT * PART).await;

    // Without a key the server reads no body.
    let stranger = Sender::start(&server, "/tools/call", None).await;
    assert_eq!(stranger.answer().await.0, 401);

    // Accepted calls get a response and release their memory; so does a closed connection.
    slow.pop();
    held(&caller, (FIT - 1) * PART).await;
    for mut sender in slow {
        sender.send(BODY).await;
        let (status, _, body) = sender.answer().await;
        assert_eq!(status, 200, "{body}");
    }
    held(&caller, 0).await;
    for mut sender in announced.into_iter().take(FIT) {
        sender.send(BODY).await;
        assert_eq!(sender.answer().await.0, 200);
    }
    server.stop();
}

// I-27
#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_outlives_its_request_counts_until_it_ends() {
    let dir = dir();
    write_config(dir.path(), &config("").replacen("[server]\n", LIMITS, 1));
    let server = Server::start(dir.path());
    let (_, key) = key(dir.path(), &["--scope", "*", "--scope", "metrics:all"]);
    let caller = server.caller(Some(&key));
    while caller.otc("demo__add", json!({ "a": 1, "b": 2 })).await.0 != 200 {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    // Sixteen seconds, under a key that lets the call go on without its caller.
    let input = json!({ "steps": 8, "step_ms": 2_000 });
    let call = json!({ "request": { "tool_id": "demo__slow", "call_id": "one", "input": input } });
    let mut sender = Sender::start(&server, "/tools/call", Some(&key)).await;
    let mut body = call.to_string().into_bytes();
    body.resize(BODY, b' ');
    sender.body = body;
    sender.send(BODY).await;
    held(&caller, BODY).await;
    let running =
        || async { metric(&caller, "toolcrib_source_calls_running{source=\"demo\"}").await };
    while running().await == 0 {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    drop(sender);
    // The server has noticed the end when the connection is gone; the call goes on.
    for _ in 0..50 {
        let before = running().await;
        let bytes = metric(&caller, "toolcrib_request_bytes").await;
        assert!(bytes >= BODY || before == 0 || running().await == 0, "{bytes} bytes");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    held(&caller, 0).await;
    server.stop();
}
