//! I-63: a revoked key is refused on the next request, however often it was accepted before.

use http::StatusCode;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};
use toolcrib_testkit::gateway::Actor;

use crate::support::{gateway, modern_body, session};

/// One HTTP/1.1 connection that is kept alive.
struct Connection(TcpStream);

impl Connection {
    async fn open(url: &str) -> Self {
        Self(TcpStream::connect(url.trim_start_matches("http://")).await.unwrap())
    }

    /// Sends a request, and returns the status of its complete response.
    async fn send(&mut self, request: &str) -> u16 {
        self.0.write_all(request.as_bytes()).await.unwrap();
        let mut answer = Vec::new();
        loop {
            let mut part = [0; 4096];
            let length = self.0.read(&mut part).await.unwrap();
            assert_ne!(length, 0, "closed after {:?}", String::from_utf8_lossy(&answer));
            answer.extend_from_slice(&part[..length]);
            let text = String::from_utf8_lossy(&answer);
            let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
            if length.is_some_and(|length| length.parse() == Ok(body.len())) {
                return head.split(' ').nth(1).unwrap().parse().unwrap();
            }
        }
    }
}

fn request(caller: &Actor, line: &str, headers: &[(&str, &str)], body: Option<Value>) -> String {
    let key = caller.key().unwrap();
    let mut text = format!("{line} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {key}\r\n");
    for (name, value) in headers {
        text += &format!("{name}: {value}\r\n");
    }
    let body = body.map(|body| body.to_string()).unwrap_or_default();
    if !body.is_empty() {
        text += "content-type: application/json\r\n";
        text += "accept: application/json, text/event-stream\r\n";
    }
    format!("{text}content-length: {}\r\n\r\n{body}", body.len())
}

#[tokio::test]
async fn a_revoked_key_is_refused_on_its_open_connection_and_in_its_session() {
    let gw = gateway().start().await;
    let manager = gw.principal("manager", ["*"]).await;
    let call = json!({ "name": "crib__echo", "arguments": { "text": "x" } });
    let in_session =
        json!({ "jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": call.clone() });
    let otc = json!({ "request": { "tool_id": "crib__echo", "input": { "text": "x" } } });
    for surface in ["list", "otc", "modern", "session"] {
        let caller = gw.principal(surface, ["*"]).await;
        let request = match surface {
            "list" => request(&caller, "GET /v1/tools", &[], None),
            "otc" => request(&caller, "POST /tools/call", &[], Some(otc.clone())),
            "modern" => {
                let headers = [
                    ("mcp-protocol-version", "2026-07-28"),
                    ("mcp-method", "tools/call"),
                    ("mcp-name", "crib__echo"),
                ];
                let body = modern_body("tools/call", call.clone());
                request(&caller, "POST /mcp", &headers, Some(body))
            }
            _ => {
                let session = session(&caller).await;
                let headers = [("mcp-session-id", session.header("mcp-session-id"))];
                request(&caller, "POST /mcp", &headers, Some(in_session.clone()))
            }
        };
        let mut connection = Connection::open(&gw.url).await;
        for _ in 0..20 {
            assert_eq!(connection.send(&request).await, StatusCode::OK, "{surface}");
        }
        let ran = gw.runs("crib", "echo");
        let revoked = manager.delete(&format!("/v1/keys/{}", gw.key_id(&caller))).await;
        assert_eq!(revoked.status, 200);
        assert_eq!(connection.send(&request).await, StatusCode::UNAUTHORIZED, "{surface}");
        assert_eq!(gw.runs("crib", "echo"), ran, "{surface}: it ran for a revoked key");
    }
}
