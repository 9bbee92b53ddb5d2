//! `mcp`: the gate over stdin and stdout.

use std::{
    io::{BufRead as _, BufReader, Write as _},
    path::Path,
    process::Stdio,
};

use serde_json::{Value, json};

use crate::support::{config, dir, key, run, toolcrib, write_config};

/// Sends `messages` and gives the answers, by id, once the input has ended.
fn talk(dir: &Path, args: &[&str], messages: &[Value]) -> Vec<Value> {
    let mut child = toolcrib(dir)
        .arg("mcp")
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    let mut output = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut answers = Vec::new();
    for message in messages {
        writeln!(input, "{message}").unwrap();
        if message.get("id").is_some() {
            answers.push(serde_json::from_str(&output.next().unwrap().unwrap()).unwrap());
        }
    }
    drop(input);
    assert!(child.wait().unwrap().success());
    answers
}

fn handshake() -> [Value; 2] {
    [
        json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
            "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "name": "test", "version": "0" } } }),
        json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }),
    ]
}

fn names(answer: &Value) -> Vec<&str> {
    let tools = answer["result"]["tools"].as_array().unwrap_or_else(|| panic!("{answer}"));
    tools.iter().map(|tool| tool["name"].as_str().unwrap()).collect()
}

const RULES: &str = "[source.tools.fail]\nscopes = [\"demo:write\"]\n";

#[test]
fn a_client_lists_and_calls() {
    let dir = dir();
    write_config(dir.path(), &config(RULES));
    let call = json!({ "jsonrpc": "2.0", "id": 2, "method": "tools/call",
        "params": { "name": "demo__echo", "arguments": { "text": "over stdio" } } });
    let list = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {} });
    let messages = [&handshake()[..], &[list, call]].concat();
    let answers = talk(dir.path(), &[], &messages);
    assert_eq!(answers[0]["result"]["protocolVersion"], "2025-11-25");
    assert_eq!(names(&answers[1]).len(), 6);
    assert_eq!(answers[2]["result"]["content"][0]["text"], "over stdio", "{}", answers[2]);
    let events = run(dir.path(), &["audit", "export"]).ok().stdout;
    assert!(events.contains("mcp:demo.echo") && events.contains("operator"), "{events}");
}

#[test]
fn the_caller_can_be_narrowed() {
    let dir = dir();
    write_config(dir.path(), &config(RULES));
    let list = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {} });
    let messages = [&handshake()[..], &[list]].concat();
    let answers = talk(dir.path(), &["--scope", "demo:write"], &messages);
    assert_eq!(names(&answers[1]), ["demo__fail"]);
    let (_, text) = key(dir.path(), &["--scope", "demo:read"]);
    std::fs::write(dir.path().join("key"), text).unwrap();
    let answers = talk(dir.path(), &["--key-file", "key"], &messages);
    assert_eq!(names(&answers[1]).len(), 5);
    let ran = run(dir.path(), &["mcp", "--key", "tc_nonsense"]);
    assert_eq!(ran.code, 1);
    assert!(ran.stderr.contains("the key is not accepted"), "{}", ran.stderr);
}

/// On SIGTERM it answers open requests and leaves no process behind, even with its input open.
#[test]
fn a_signal_ends_it_in_order() {
    let dir = dir();
    write_config(dir.path(), &config(RULES));
    let mut child = toolcrib(dir.path())
        .arg("mcp")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    let mut output = BufReader::new(child.stdout.take().unwrap()).lines();
    let listen = json!({ "jsonrpc": "2.0", "id": 7, "method": "subscriptions/listen", "params": {
        "notifications": { "toolsListChanged": true },
        "_meta": {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {},
        },
    } });
    writeln!(input, "{listen}").unwrap();
    let mut next = || -> Value { serde_json::from_str(&output.next().unwrap().unwrap()).unwrap() };
    assert_eq!(next()["method"], "notifications/subscriptions/acknowledged");
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    assert_eq!(next()["result"]["resultType"], "complete");
    assert_eq!(child.wait().unwrap().code(), Some(0));
    drop(input);
}
