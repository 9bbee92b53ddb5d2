//! `toolcrib mcp --url`: MCP over stdin and stdout for a running server.

use std::{
    io::{BufRead as _, BufReader, Write as _},
    path::Path,
    process::{Child, ChildStdin, Stdio},
    sync::mpsc,
    thread,
    time::Duration,
};

use serde_json::{Value, json};
use toolcrib_testkit::upstream::{Answers, FaultyHttp};

use crate::support::{Server, dir, eventually, key, run, toolcrib, write_config};

const PATIENCE: Duration = Duration::from_secs(60);

/// A bridge, and the lines that it writes.
pub(crate) struct Bridge {
    child: Child,
    input: Option<ChildStdin>,
    lines: mpsc::Receiver<String>,
}

impl Bridge {
    pub(crate) fn start(dir: &Path, url: &str, key: &str, args: &[&str]) -> Self {
        let mut child = toolcrib(dir)
            .arg("mcp")
            .args(args)
            .env("TOOLCRIB_URL", url)
            .env("TOOLCRIB_KEY", key)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let input = child.stdin.take();
        let output = BufReader::new(child.stdout.take().unwrap()).lines();
        let (sender, lines) = mpsc::channel();
        thread::spawn(move || {
            output.map_while(Result::ok).try_for_each(|line| sender.send(line)).ok();
        });
        Self { child, input, lines }
    }

    fn send(&mut self, message: &Value) {
        writeln!(self.input.as_mut().unwrap(), "{message}").unwrap();
    }

    /// Returns the next line, which must be a message.
    fn next(&self) -> Value {
        let line = self.lines.recv_timeout(PATIENCE).expect("a line");
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"))
    }

    /// Sends a request and returns the messages up to its answer, which is the last one.
    fn ask(&mut self, request: &Value) -> Vec<Value> {
        self.send(request);
        let mut messages = Vec::new();
        loop {
            messages.push(self.next());
            let last = &messages[messages.len() - 1];
            if last["id"] == request["id"] && last.get("method").is_none() {
                return messages;
            }
        }
    }

    pub(crate) fn answer(&mut self, request: &Value) -> Value {
        self.ask(request).pop().unwrap()
    }

    /// Ends the input, and returns the lines that follow.
    pub(crate) fn end(mut self) -> Vec<String> {
        drop(self.input.take());
        assert_eq!(self.child.wait().unwrap().code(), Some(0));
        self.lines.iter().collect()
    }
}

impl Drop for Bridge {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

fn request(id: i64, method: &str, params: Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params })
}

pub(crate) fn stateless(id: i64, method: &str, mut params: Value) -> Value {
    params["_meta"]["io.modelcontextprotocol/protocolVersion"] = "2026-07-28".into();
    params["_meta"]["io.modelcontextprotocol/clientCapabilities"] = json!({});
    request(id, method, params)
}

fn initialize(id: i64) -> Value {
    let client = json!({ "name": "test", "version": "0" });
    let params =
        json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client });
    request(id, "initialize", params)
}

fn initialized() -> Value {
    json!({ "jsonrpc": "2.0", "method": "notifications/initialized" })
}

fn cancelled(id: i64) -> Value {
    json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": id } })
}

/// A server in front of a faulty upstream at `url`, always on the same port.
fn behind(url: &str, port: u16) -> String {
    format!(
        "[server]\nlisten = \"127.0.0.1:{port}\"\n[[source]]\nid = \"crib\"\nkind = \"mcp\"\n\
         url = {url:?}\n[source.tools.\"*\"]\nscopes = [\"demo:read\"]\nsafety_tier = \"read\"\n\
         [toolset.sums]\nallow = [\"crib__add\"]\n"
    )
}

fn free_port() -> u16 {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

fn names(answer: &Value) -> Vec<&str> {
    let tools = answer["result"]["tools"].as_array().unwrap_or_else(|| panic!("{answer}"));
    tools.iter().map(|tool| tool["name"].as_str().unwrap()).collect()
}

/// Waits until `server` lists the tools of its source.
fn settled(server: &Server, key: &str) {
    eventually("the tools are listed", || {
        let listed = run(Path::new("/"), &["tools", "list", "--url", &server.url, "--key", key]);
        listed.stdout.contains("crib__echo")
    });
}

#[test]
fn a_stateless_client_lists_calls_and_cancels() {
    let dir = dir();
    let upstream = FaultyHttp::start(Answers::Events, &["era=modern"]);
    write_config(dir.path(), &behind(&upstream.url(), 0));
    let (_, text) = key(dir.path(), &["--scope", "demo:read"]);
    let server = Server::start(dir.path());
    settled(&server, &text);
    let mut bridge = Bridge::start(dir.path(), &server.url, &text, &[]);
    let found = bridge.answer(&stateless(1, "server/discover", json!({})));
    assert_eq!(found["result"]["supportedVersions"][0], "2026-07-28", "{found}");
    let list = bridge.answer(&stateless(2, "tools/list", json!({})));
    assert!(names(&list).contains(&"crib__echo"), "{list}");
    let call = json!({ "name": "crib__progress", "arguments": { "n": 2 },
        "_meta": { "progressToken": "p" } });
    let messages = bridge.ask(&stateless(3, "tools/call", call));
    let progress: Vec<_> = messages
        .iter()
        .filter(|it| it["method"] == "notifications/progress")
        .map(|it| it["params"]["progressToken"].clone())
        .collect();
    assert_eq!(progress, ["p", "p"], "{messages:?}");
    // A header must repeat this argument, which a client over stdio does not know.
    let call = json!({ "name": "crib__region", "arguments": { "region": "eu" } });
    let called = bridge.answer(&stateless(4, "tools/call", call));
    assert_eq!(called["result"]["content"][0]["text"], r#"{"region":"eu"}"#, "{called}");

    bridge.send(&stateless(5, "tools/call", json!({ "name": "crib__hang", "arguments": {} })));
    eventually("the call runs", || {
        upstream.received().iter().any(|it| it.body["params"]["name"] == "hang")
    });
    bridge.send(&cancelled(5));
    eventually("the upstream sees the end", || {
        upstream.received().iter().any(|it| it.verb == "CLOSED")
    });
    let called = bridge.answer(&stateless(6, "tools/call", json!({ "name": "crib__nothing" })));
    assert_eq!(called["error"]["message"], "Unknown tool", "{called}");
    assert_eq!(bridge.end(), <[String; 0]>::default());

    let mut bridge = Bridge::start(dir.path(), &server.url, &text, &["--toolset", "sums"]);
    let list = bridge.answer(&stateless(1, "tools/list", json!({})));
    assert_eq!(names(&list), ["crib__add"]);
    bridge.end();
    let mut bridge = Bridge::start(dir.path(), &server.url, "tc_nonsense", &[]);
    let refused = bridge.answer(&stateless(1, "tools/list", json!({})));
    assert_eq!(refused["error"]["code"], -31401, "{refused}");
    bridge.send(&json!("nonsense"));
    assert_eq!(bridge.next()["error"]["code"], -32700);
    bridge.end();
}

#[test]
fn a_session_survives_a_restart_of_the_server() {
    let dir = dir();
    let upstream = FaultyHttp::start(Answers::Events, &["era=modern"]);
    let port = free_port();
    write_config(dir.path(), &behind(&upstream.url(), port));
    let (_, text) = key(dir.path(), &["--scope", "demo:read"]);
    let url = format!("http://127.0.0.1:{port}");

    // The server is away at the start.
    let mut bridge = Bridge::start(dir.path(), &url, &text, &[]);
    let refused = bridge.answer(&initialize(0));
    let away = format!("the server at {url}/ does not answer; is `toolcrib serve` running there?");
    assert_eq!(refused["error"], json!({ "code": -32603, "message": away }));

    let server = Server::start(dir.path());
    settled(&server, &text);
    let opened = bridge.answer(&initialize(1));
    assert_eq!(opened["result"]["protocolVersion"], "2025-11-25", "{opened}");
    bridge.send(&initialized());
    let list = bridge.answer(&request(2, "tools/list", json!({})));
    assert!(!names(&list).contains(&"crib__late"), "{list}");
    // A notification of the session, without a request.
    upstream.grow();
    assert_eq!(bridge.next()["method"], "notifications/tools/list_changed");
    let list = bridge.answer(&request(3, "tools/list", json!({})));
    assert!(names(&list).contains(&"crib__late"), "{list}");
    let call = json!({ "name": "crib__echo", "arguments": { "text": "one" } });
    let called = bridge.answer(&request(4, "tools/call", call.clone()));
    assert_eq!(called["result"]["content"][0]["text"], r#"{"text":"one"}"#, "{called}");

    server.stop();
    let refused = bridge.answer(&request(5, "tools/call", call.clone()));
    assert_eq!(refused["error"]["message"], away, "{refused}");
    let server = Server::start(dir.path());
    settled(&server, &text);
    let messages = bridge.ask(&request(6, "tools/call", call));
    let (called, before) = messages.split_last().unwrap();
    assert_eq!(called["result"]["content"][0]["text"], r#"{"text":"one"}"#, "{called}");
    // The tools may have changed meanwhile. The stream may have found the new session first.
    assert!(before.iter().all(|it| it["method"] == "notifications/tools/list_changed"));

    bridge.send(&request(7, "tools/call", json!({ "name": "crib__hang", "arguments": {} })));
    eventually("the call runs", || {
        upstream.received().iter().any(|it| it.body["params"]["name"] == "hang")
    });
    bridge.send(&cancelled(7));
    eventually("the upstream sees the end", || {
        upstream.received().iter().any(|it| it.verb == "CLOSED")
    });
    bridge.end();
    server.stop();
    // The end of the input has ended the session, and no answer is recorded for the cancelled call.
    let events = run(dir.path(), &["audit", "export"]).ok().stdout;
    let closed = events.lines().filter(|line| line.contains("tool.session.closed"));
    assert!(closed.clone().count() >= 2, "{events}");
    assert!(closed.clone().any(|line| line.contains("completed")), "{events}");
}

#[test]
fn the_key_decides_so_other_settings_are_refused() {
    let dir = dir();
    let ran = run(dir.path(), &["mcp", "--url", "http://127.0.0.1:9", "--scope", "a:b"]);
    assert_eq!(ran.code, 2);
    assert!(ran.stderr.contains("--tenant and --scope have no effect"), "{}", ran.stderr);
}
