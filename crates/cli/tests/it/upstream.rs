//! The demo's MCP server, with an ordinary client.

use std::{
    io::{BufRead as _, BufReader, Write as _},
    process::Stdio,
};

use serde_json::{Value, json};

use crate::support::{dir, toolcrib};

/// Sends `messages` unchanged, and returns all responses.
fn exchange(messages: &[String]) -> Vec<Value> {
    let dir = dir();
    let mut child = toolcrib(dir.path())
        .arg("demo-upstream")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    let mut output = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut received = Vec::new();
    for message in messages {
        writeln!(input, "{message}").unwrap();
        // One that is answered is waited for, so that answers come in order.
        if !message.contains("\"method\":\"notifications/") && !message.contains("hold") {
            loop {
                let line: Value = serde_json::from_str(&output.next().unwrap().unwrap()).unwrap();
                let done = line.get("method").is_none();
                received.push(line);
                if done {
                    break;
                }
            }
        }
    }
    drop(input);
    received.extend(output.map(|line| serde_json::from_str(&line.unwrap()).unwrap()));
    assert!(child.wait().unwrap().success(), "it ends with its input");
    received
}

fn request(id: Value, method: &str, params: Value) -> String {
    json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }).to_string()
}

fn modern(version: &str) -> Value {
    json!({
        "io.modelcontextprotocol/protocolVersion": version,
        "io.modelcontextprotocol/clientCapabilities": {},
    })
}

#[test]
fn it_speaks_both_eras() {
    let mut progress = modern("2026-07-28");
    progress["progressToken"] = json!("t");
    let received = exchange(&[
        request(json!(1), "server/discover", json!({ "_meta": modern("2026-07-28") })),
        request(json!("b"), "tools/list", json!({ "_meta": modern("2026-07-28") })),
        request(
            json!(3),
            "tools/call",
            json!({ "name": "slow", "arguments": { "steps": 2, "step_ms": 0 }, "_meta": progress }),
        ),
        request(json!(4), "initialize", json!({ "protocolVersion": "2025-06-18" })),
        json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }).to_string(),
        request(json!(5), "tools/list", json!({})),
        request(json!(6), "ping", json!({})),
    ]);
    assert_eq!(received[0]["result"]["supportedVersions"][0], "2026-07-28");
    assert_eq!(received[1]["id"], "b");
    assert_eq!(received[1]["result"]["resultType"], "complete");
    assert_eq!(received[1]["result"]["ttlMs"], 60_000);
    // I-28
    assert_eq!(received[2]["params"]["progress"], 1);
    assert_eq!(received[3]["params"]["progress"], 2);
    assert_eq!(received[4]["result"]["content"][0]["text"], "counted to 2");
    assert_eq!(received[5]["result"]["protocolVersion"], "2025-06-18");
    assert_eq!(received[6]["result"]["tools"].as_array().unwrap().len(), 6);
    assert!(received[6]["result"].get("resultType").is_none());
    assert_eq!(received[7]["result"], json!({}));
}

#[test]
fn it_refuses_what_makes_no_sense() {
    let received = exchange(&[
        "not json".to_owned(),
        request(json!(1), "tools/list", json!({ "_meta": modern("2099-01-01") })),
        request(json!(2), "resources/list", json!({})),
        request(json!(3), "tools/call", json!({ "name": "nothing" })),
    ]);
    let codes: Vec<i64> = received.iter().map(|it| it["error"]["code"].as_i64().unwrap()).collect();
    assert_eq!(codes, [-32700, -32022, -32601, -32602]);
}

#[test]
fn a_cancelled_call_is_not_answered() {
    let slow = json!({ "name": "slow", "arguments": { "steps": 100, "step_ms": 10_000 } });
    let received = exchange(&[
        request(json!("hold"), "tools/call", slow),
        json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": "hold" } }).to_string(),
        request(json!(2), "tools/call", json!({ "name": "echo", "arguments": { "text": "x" } })),
    ]);
    assert_eq!(received.len(), 1);
    assert_eq!(received[0]["id"], 2);
}
