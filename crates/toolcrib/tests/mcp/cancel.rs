//! Disconnecting cancels the call.

use serde_json::json;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};
use toolcrib_testkit::gateway::{Actor, TestGateway};

use crate::support::{Hanging, PATIENCE, gateway, modern_body, reaches};

/// Sends a call of `crib__hang` and returns the open connection.
async fn hang(gw: &TestGateway, caller: &Actor, with_token: bool) -> TcpStream {
    let meta = if with_token { json!({ "progressToken": 1 }) } else { json!({}) };
    let body =
        modern_body("tools/call", json!({ "name": "crib__hang", "_meta": meta })).to_string();
    let address = gw.url.trim_start_matches("http://");
    let mut stream = TcpStream::connect(address).await.unwrap();
    let key = caller.key().unwrap();
    let request = format!(
        "POST /mcp HTTP/1.1\r\nhost: {address}\r\nauthorization: Bearer {key}\r\n\
         content-type: application/json\r\naccept: application/json, text/event-stream\r\n\
         mcp-protocol-version: 2026-07-28\r\nmcp-method: tools/call\r\nmcp-name: crib__hang\r\n\
         content-length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    stream
}

async fn cancelled(gw: &TestGateway, hanging: &Hanging) {
    reaches(&hanging.dropped, 1).await;
    let closed = gw
        .event(|event| {
            event["type"] == "agent.toolReturned" && event["payload"]["status"] == "error"
        })
        .await;
    assert_eq!(closed["payload"]["error"]["code"], "cancelled");
}

/// I-22: before the response has begun.
#[tokio::test]
async fn hanging_up_while_waiting_cancels_the_call() {
    let hanging = Hanging::default();
    let gw = gateway().tool(hanging.tool("hang")).start().await;
    let caller = gw.principal("a", []).await;
    let stream = hang(&gw, &caller, false).await;
    reaches(&hanging.started, 1).await;
    drop(stream);
    cancelled(&gw, &hanging).await;
}

/// I-22: in the middle of the stream.
#[tokio::test]
async fn closing_the_stream_cancels_the_call() {
    let hanging = Hanging::default();
    let gw = gateway().tool(hanging.tool("hang")).start().await;
    let caller = gw.principal("a", []).await;
    let mut stream = hang(&gw, &caller, true).await;
    let mut read = Vec::new();
    let until_progress = async {
        while !String::from_utf8_lossy(&read).contains("notifications/progress") {
            assert!(stream.read_buf(&mut read).await.unwrap() > 0);
        }
    };
    tokio::time::timeout(PATIENCE, until_progress).await.unwrap();
    assert!(String::from_utf8_lossy(&read).contains("text/event-stream"));
    assert_eq!(hanging.dropped.load(std::sync::atomic::Ordering::SeqCst), 0);
    drop(stream);
    cancelled(&gw, &hanging).await;
}
