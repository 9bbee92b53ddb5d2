//! An upstream that floods progress, and a client that does not read it.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    time::timeout,
};

use crate::support::{Server, dir, eventually, key, run, write_config};

/// An MCP server whose tool reports progress 150 times, each time with a megabyte of message.
const FLOOD: &str = r#"
big=$(head -c 1048576 /dev/zero | tr '\0' x)
while read -r line; do
  id=$(printf '%s' "$line" | sed -n 's/.*"id":\([0-9]*\).*/\1/p')
  say() { printf '{"jsonrpc":"2.0","id":%s,%s}\n' "$id" "$1"; }
  case $line in
    *'"initialize"'*) say '"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"flood","version":"1.0.0"}}' ;;
    *'"tools/list"'*) say '"result":{"tools":[{"name":"flood","inputSchema":{"type":"object"}}]}' ;;
    *'"tools/call"'*)
      n=0
      while [ $n -lt 150 ]; do
        printf '{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%s,"progress":%s,"message":"step %s%s"}}\n' "$id" $n $n "$big"
        n=$((n+1))
      done
      say '"result":{"content":[{"type":"text","text":"done"}]}' ;;
    *'"id"'*) say '"error":{"code":-32601,"message":"method not found"}' ;;
  esac
done
"#;

/// The most memory that process `pid` ever had, in bytes.
fn peak(pid: u32) -> usize {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().strip_suffix(" kB").unwrap().trim().parse::<usize>().unwrap() << 10
}

// I-27
#[tokio::test(flavor = "multi_thread")]
async fn progress_that_nobody_reads_takes_little_memory() {
    let dir = dir();
    write_config(
        dir.path(),
        &format!(
            "[server]\nlisten = \"127.0.0.1:0\"\n[[source]]\nid = \"up\"\nkind = \"mcp\"\n\
             command = [\"sh\", \"-c\", {}]\n",
            json!(FLOOD)
        ),
    );
    let server = Server::start(dir.path());
    let (_, text) = key(dir.path(), &["--scope", "*"]);
    let caller = server.caller(Some(&text));
    let mut works = false;
    for _ in 0..400 {
        let listed = caller.get("/v1/tools").await.1;
        if listed.as_array().is_some_and(|tools| tools.len() == 1) {
            works = true;
            break;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert!(works, "the source is there");

    let before = peak(server.process.pid());
    let body = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {
        "name": "up__flood",
        "arguments": {},
        "_meta": {
            "progressToken": "t",
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {},
        },
    } })
    .to_string();
    let address = server.url.strip_prefix("http://").unwrap();
    let mut stream = TcpStream::connect(address).await.unwrap();
    let head = format!(
        "POST /mcp HTTP/1.1\r\nhost: {address}\r\nauthorization: Bearer {text}\r\n\
         connection: close\r\ncontent-type: application/json\r\n\
         accept: application/json, text/event-stream\r\nmcp-protocol-version: 2026-07-28\r\n\
         mcp-method: tools/call\r\nmcp-name: up__flood\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    stream.write_all(body.as_bytes()).await.unwrap();
    let returned = || {
        let export = run(dir.path(), &["audit", "export"]).stdout;
        export
            .lines()
            .any(|line| line.contains("agent.toolReturned") && line.contains("mcp:up.flood"))
    };
    eventually("the call is over", returned);
    let grown = peak(server.process.pid()) - before;
    assert!(grown < 64 << 20, "{} MiB for progress", grown >> 20);

    let mut rest = Vec::new();
    timeout(Duration::from_secs(60), stream.read_to_end(&mut rest)).await.unwrap().unwrap();
    let rest = String::from_utf8(rest).unwrap();
    let messages = rest.lines().filter_map(|line| line.strip_prefix("data: "));
    let messages: Vec<Value> =
        messages.filter_map(|line| serde_json::from_str(line).ok()).collect();
    let (answer, reports) = messages.split_last().unwrap();
    assert_eq!(answer["result"]["content"][0]["text"], "done", "{answer}");
    assert!(!reports.is_empty(), "the newest ones are there");
    for report in reports {
        let message = report["params"]["message"].as_str().unwrap();
        assert!(message.starts_with("step ") && message.len() <= 4 << 10);
    }
    server.stop();
}
