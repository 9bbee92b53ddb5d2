//! Messages over byte streams.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::{
    io::{
        AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, DuplexStream, Lines, ReadHalf,
        WriteHalf,
    },
    task::JoinHandle,
    time::timeout,
};
use tokio_util::sync::CancellationToken;
use toolcrib_testkit::gateway::{Actor, TestGateway, TestTool};

use crate::support::{Hanging, PATIENCE, gateway, modern_body, reaches};

struct Peer {
    to: WriteHalf<DuplexStream>,
    from: Lines<BufReader<ReadHalf<DuplexStream>>>,
    served: JoinHandle<std::io::Result<()>>,
    shutdown: CancellationToken,
}

async fn peer(gw: &TestGateway, buffer: usize) -> Peer {
    peer_of(gw, &gw.principal("s", []).await, buffer).await
}

async fn peer_of(gw: &TestGateway, caller: &Actor, buffer: usize) -> Peer {
    let principal = gw.gateway.authenticator().authenticate(caller.key().unwrap()).unwrap();
    let (ours, theirs) = tokio::io::duplex(buffer);
    let (gateway, config) = (gw.gateway.clone(), gw.config.mcp.clone());
    let (streams, shutdown) = (tokio::io::split(ours), CancellationToken::new());
    let told = shutdown.clone().cancelled_owned();
    let served = tokio::spawn(async move {
        toolcrib::serve_stdio(gateway, &config, principal, streams, told).await
    });
    let (from, to) = tokio::io::split(theirs);
    Peer { to, from: BufReader::new(from).lines(), served, shutdown }
}

impl Peer {
    async fn send(&mut self, message: impl ToString) {
        self.to.write_all(format!("{}\n", message.to_string()).as_bytes()).await.unwrap();
    }

    async fn next(&mut self) -> Value {
        let line = timeout(PATIENCE, self.from.next_line()).await.unwrap().unwrap().unwrap();
        serde_json::from_str(&line).unwrap()
    }

    /// Closes the input, waits for the end, and returns the remaining messages.
    async fn end(mut self) -> Vec<Value> {
        self.to.shutdown().await.unwrap();
        let mut rest = Vec::new();
        while let Some(line) = timeout(PATIENCE, self.from.next_line()).await.unwrap().unwrap() {
            rest.push(serde_json::from_str(&line).unwrap());
        }
        timeout(PATIENCE, self.served).await.unwrap().unwrap().unwrap();
        rest
    }
}

fn request(id: impl Into<Value>, method: &str, params: Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": id.into(), "method": method, "params": params })
}

#[tokio::test]
async fn both_eras_share_a_stream() {
    let gw = gateway().start().await;
    let mut peer = peer(&gw, 64 << 10).await;
    peer.send(request(1, "initialize", json!({ "protocolVersion": "2025-06-18" }))).await;
    assert_eq!(peer.next().await["result"]["protocolVersion"], "2025-06-18");
    peer.send(json!({ "jsonrpc": "2.0", "method": "notifications/initialized" })).await;
    peer.send("").await;
    peer.send(modern_body("server/discover", json!({}))).await;
    assert_eq!(peer.next().await["result"]["resultType"], "complete");
    peer.send(request("a", "tools/list", json!({}))).await;
    let list = peer.next().await;
    assert_eq!((&list["id"], list["result"].get("ttlMs")), (&json!("a"), None));
    peer.send(modern_body("tools/list", json!({}))).await;
    assert_eq!(peer.next().await["result"]["cacheScope"], "private");
    peer.send(modern_body("tools/call", json!({ "name": "crib__pretty" }))).await;
    assert_eq!(peer.next().await["result"]["content"][0]["text"], "a\nb");
    assert_eq!(peer.end().await, [] as [Value; 0]);
}

#[tokio::test]
async fn errors_answer_and_the_stream_goes_on() {
    let gw = gateway().start().await;
    let mut peer = peer(&gw, 64 << 10).await;
    for (line, code) in [
        ("nonsense".to_owned(), -32700),
        ("[]".to_owned(), -32600),
        (r#"{"jsonrpc":"2.0","id":null,"method":"ping"}"#.to_owned(), -32600),
        (request(1, "server/discover", json!({})).to_string(), -32602),
        (request(1, "prompts/list", json!({})).to_string(), -32601),
        (request(1, "tools/call", json!({ "name": "crib__none" })).to_string(), -32602),
        (request(1, "tools/call", json!({ "name": "crib__secret" })).to_string(), -31403),
        (modern_body("ping", json!({})).to_string(), -32601),
        (
            modern_body(
                "tools/list",
                json!({ "_meta": { "io.modelcontextprotocol/protocolVersion": "1999-01-01" } }),
            )
            .to_string(),
            -32022,
        ),
        (format!("\"{}\"", "x".repeat(5 << 20)), -32600),
    ] {
        peer.send(&line).await;
        let short: String = line.chars().take(80).collect();
        assert_eq!(peer.next().await["error"]["code"], code, "{short}");
    }
    peer.send(request(2, "ping", json!({}))).await;
    assert_eq!(peer.next().await, json!({ "jsonrpc": "2.0", "id": 2, "result": {} }));
}

/// I-22, I-28: calls run concurrently; the cancelled one is dropped and gets no response.
#[tokio::test]
async fn calls_run_concurrently_and_can_be_cancelled() {
    let hanging = Hanging::default();
    let gw = gateway().tool(hanging.tool("hang")).start().await;
    let mut peer = peer(&gw, 64 << 10).await;
    let call = |id: Value, tool: &str, token: Value| {
        request(id, "tools/call", json!({ "name": tool, "_meta": { "progressToken": token } }))
    };
    peer.send(call(json!("hung"), "crib__hang", json!("h"))).await;
    assert_eq!(peer.next().await["params"]["progressToken"], "h");
    peer.send(call(json!("hung"), "crib__echo", json!("again"))).await;
    assert_eq!(peer.next().await["error"]["code"], -32600, "the id is taken");

    peer.send(call(json!(2), "crib__steps", json!(2))).await;
    for step in 1..=5 {
        let message = peer.next().await;
        assert_eq!(
            (&message["params"]["progressToken"], &message["params"]["progress"]),
            (&json!(2), &json!(step))
        );
    }
    assert_eq!(peer.next().await["id"], 2);

    let cancel = |id: Value| json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": id } });
    peer.send(cancel(json!("unknown"))).await;
    peer.send(cancel(json!("hung"))).await;
    reaches(&hanging.dropped, 1).await;
    gw.event(|event| event["payload"]["error"]["code"] == "cancelled").await;
    peer.send(request("hung", "ping", json!({}))).await;
    assert_eq!(
        peer.next().await["result"],
        json!({}),
        "the next message is not the cancelled answer"
    );
    assert_eq!(peer.end().await, [] as [Value; 0]);
}

#[tokio::test]
async fn the_end_of_input_lets_calls_finish() {
    let gw = gateway().start().await;
    let mut peer = peer(&gw, 64 << 10).await;
    peer.send(request(1, "tools/call", json!({ "name": "crib__nap" }))).await;
    let rest = peer.end().await;
    assert_eq!(rest.len(), 1);
    assert_eq!(rest[0]["result"]["content"][0]["text"], "awake");
}

#[tokio::test]
async fn the_end_of_input_cancels_unfinished_calls() {
    let hanging = Hanging::default();
    let gw = gateway().tool(hanging.tool("hang")).start().await;
    let mut peer = peer(&gw, 64 << 10).await;
    peer.send(request(1, "tools/call", json!({ "name": "crib__hang" }))).await;
    reaches(&hanging.started, 1).await;
    assert_eq!(peer.end().await, [] as [Value; 0]);
    reaches(&hanging.dropped, 1).await;
}

/// A peer that stops reading and disconnects ends the service.
#[tokio::test]
async fn a_broken_output_ends_the_service() {
    let hanging = Hanging::default();
    let gw = gateway().tool(hanging.tool("hang")).start().await;
    let mut peer = peer(&gw, 1 << 10).await;
    peer.send(request(1, "tools/call", json!({ "name": "crib__hang" }))).await;
    reaches(&hanging.started, 1).await;
    peer.send(request(2, "tools/list", json!({}))).await;
    let Peer { to, from, served, .. } = peer;
    drop((to, from));
    let ended = timeout(Duration::from_secs(10), served).await.unwrap().unwrap();
    assert!(ended.is_err(), "the list could not be written");
    reaches(&hanging.dropped, 1).await;
}

/// Large responses through a narrow pipe stay intact, in any order.
#[tokio::test]
async fn answers_do_not_mix() {
    let gw = gateway().start().await;
    let mut peer = peer(&gw, 512).await;
    let text = "x".repeat(3_000);
    let Peer { ref mut to, ref mut from, .. } = peer;
    let send = async {
        for id in 0..50 {
            let params = json!({ "name": "crib__echo", "arguments": { "text": text } });
            let line = format!("{}\n", request(id, "tools/call", params));
            to.write_all(line.as_bytes()).await.unwrap();
        }
    };
    let receive = async {
        let mut ids = Vec::new();
        for _ in 0..50 {
            let line = from.next_line().await.unwrap().unwrap();
            let answer: Value = serde_json::from_str(&line).unwrap();
            assert_eq!(answer["result"]["structuredContent"]["echo"], text);
            ids.push(answer["id"].as_u64().unwrap());
        }
        ids.sort_unstable();
        ids
    };
    let ((), ids) = timeout(PATIENCE, async { tokio::join!(send, receive) }).await.unwrap();
    assert_eq!(ids, (0..50).collect::<Vec<u64>>());
}

fn changed() -> Value {
    json!({ "jsonrpc": "2.0", "method": "notifications/tools/list_changed" })
}

fn listening(id: &str) -> Value {
    let filter = json!({ "notifications": { "toolsListChanged": true } });
    let mut body = modern_body("subscriptions/listen", filter);
    body["id"] = json!(id);
    body
}

/// Clients of both eras on one stream are notified of a change, each in its own form, and a
/// subscription can be cancelled.
#[tokio::test]
async fn changes_are_notified_in_both_eras() {
    let gw = gateway().start().await;
    let mut peer = peer(&gw, 64 << 10).await;
    peer.send(request(1, "initialize", json!({ "protocolVersion": "2025-11-25" }))).await;
    let capabilities = peer.next().await["result"]["capabilities"].clone();
    assert_eq!(capabilities, json!({ "tools": { "listChanged": true } }));
    gw.change("crib", vec![TestTool::new("bare"), TestTool::new("echo")]).await;
    peer.send(json!({ "jsonrpc": "2.0", "method": "notifications/initialized" })).await;
    for id in ["one", "two"] {
        peer.send(listening(id)).await;
        let acknowledged = peer.next().await;
        assert_eq!(acknowledged["method"], "notifications/subscriptions/acknowledged");
        let id = json!(id);
        assert_eq!(acknowledged["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"], id);
    }
    let cancel = json!({
        "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": "two" },
    });
    peer.send(cancel).await;
    peer.send(request(2, "tools/list", json!({}))).await;
    assert_eq!(peer.next().await["result"]["tools"].as_array().unwrap().len(), 2);

    gw.change("crib", vec![TestTool::new("bare")]).await;
    let mut told = [peer.next().await, peer.next().await];
    told.sort_by_key(|message| message.get("params").is_some());
    assert_eq!(told[0], changed());
    assert_eq!(told[1]["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"], "one");

    let rest = peer.end().await;
    assert_eq!(rest.len(), 1, "the end answers the subscription that is open: {rest:?}");
    assert_eq!(
        (&rest[0]["id"], &rest[0]["result"]["resultType"]),
        (&json!("one"), &json!("complete"))
    );
}

#[tokio::test]
async fn shutdown_ends_the_stream_in_order() {
    let gw = gateway().start().await;
    let mut peer = peer(&gw, 64 << 10).await;
    peer.send(request(1, "initialize", json!({ "protocolVersion": "2025-11-25" }))).await;
    peer.next().await;
    peer.send(listening("open")).await;
    peer.next().await;
    let nap = request(2, "tools/call", json!({ "name": "crib__nap" }));
    peer.send(nap).await;
    gw.event(|event| event["type"] == "tool.session.opened").await;
    peer.shutdown.cancel();
    let mut last = [peer.next().await, peer.next().await];
    last.sort_by_key(|message| message["id"].is_string());
    assert_eq!(last[0]["result"]["content"][0]["text"], "awake");
    assert_eq!(
        (&last[1]["id"], &last[1]["result"]["resultType"]),
        (&json!("open"), &json!("complete"))
    );
    timeout(PATIENCE, peer.served).await.unwrap().unwrap().unwrap();
    gw.event(|event| {
        event["type"] == "tool.session.closed" && event["payload"]["outcome"] == "completed"
    })
    .await;
}

/// A revoked key ends a byte stream as well.
#[tokio::test]
async fn a_revoked_key_is_not_served_on() {
    let gw = gateway().start().await;
    let caller = gw.principal("s", []).await;
    let mut peer = peer_of(&gw, &caller, 64 << 10).await;
    peer.send(listening("open")).await;
    peer.next().await;
    gw.revoke(&caller).await;
    let last = peer.next().await;
    assert_eq!((&last["id"], &last["error"]["code"]), (&json!("open"), &json!(-31401)));
    for method in ["tools/list", "tools/call", "ping"] {
        peer.send(request(1, method, json!({ "name": "crib__bare" }))).await;
        assert_eq!(peer.next().await["error"]["code"], -31401, "{method}");
    }
    assert_eq!(gw.runs("crib", "bare"), 0);
}
