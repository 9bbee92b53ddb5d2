//! Shared tools, callers and messages.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use serde_json::{Map, Value, json, value::RawValue};
use toolcrib_testkit::gateway::{
    Actor, Events, Reply, TestGateway, TestGatewayBuilder, TestSource, TestTool,
};

use toolcrib::core::call::{Outcome, Progress, UpstreamError, UpstreamErrorKind};

pub(crate) const MODERN: &str = "2026-07-28";
/// Longest wait in these tests.
pub(crate) const PATIENCE: Duration = Duration::from_secs(10);

/// Counts the running and the dropped calls of a tool.
#[derive(Clone, Default)]
pub(crate) struct Hanging {
    pub(crate) started: Arc<AtomicUsize>,
    pub(crate) dropped: Arc<AtomicUsize>,
}

struct OnDrop(Arc<AtomicUsize>);
impl Drop for OnDrop {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

impl Hanging {
    /// Creates a tool that never ends; with a token it reports once that it has started.
    pub(crate) fn tool(&self, name: &str) -> TestTool {
        let hanging = self.clone();
        TestTool::new(name).scopes([]).runs_as(move |call| {
            let hanging = hanging.clone();
            async move {
                let _on_drop = OnDrop(Arc::clone(&hanging.dropped));
                hanging.started.fetch_add(1, Ordering::SeqCst);
                if let Some(sink) = &call.progress {
                    sink.report(Progress { progress: 1.into(), total: None, message: None });
                }
                std::future::pending::<()>().await;
                Ok(Outcome::text("never", false))
            }
        })
    }
}

/// Waits until `count` reaches `wanted`.
pub(crate) async fn reaches(count: &AtomicUsize, wanted: usize) {
    let reached = async {
        while count.load(Ordering::SeqCst) < wanted {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    tokio::time::timeout(PATIENCE, reached).await.expect("the count is never reached");
}

/// A gateway with one tool per behaviour, and a source for the tenant `other` only.
pub(crate) fn gateway() -> TestGatewayBuilder {
    let text = json!({
        "type": "object",
        "properties": { "text": { "type": "string" } },
        "required": ["text"],
    });
    let region = json!({
        "type": "object",
        "properties": {
            "region": { "type": "string", "x-mcp-header": "Region" },
            "shard": { "type": "integer", "x-mcp-header": "Shard" },
        },
    });
    let broken_region = json!({
        "type": "object",
        "properties": { "a": { "type": "number", "x-mcp-header": "A" } },
    });
    TestGateway::builder()
        .tool(
            TestTool::new("echo")
                .scopes([])
                .tier("read")
                .rule("egress = \"none\"")
                .rule("replay_policy = \"idempotent\"")
                .annotations(json!({ "title": "Echo!", "readOnlyHint": false }))
                .description("says it again")
                .input(text.clone())
                .answers(|arguments| {
                    let text = arguments["text"].as_str().unwrap_or_default().to_owned();
                    let mut outcome = Outcome::text(&text, false);
                    let structured = json!({ "echo": text }).to_string();
                    outcome.structured = Some(RawValue::from_string(structured).unwrap());
                    outcome
                }),
        )
        .tool(
            TestTool::new("bare")
                .scopes([])
                .answers(|arguments| Outcome::text(&Value::Object(arguments).to_string(), false)),
        )
        .tool(TestTool::new("pretty").scopes([]).answers(|_| {
            Outcome {
                content: RawValue::from_string(
                    "[\n  {\"type\": \"text\",\r\n \"text\": \"a\\nb\"}\n]".to_owned(),
                )
                .unwrap(),
                structured: Some(
                    RawValue::from_string("{\n \"n\": 1.0, \"m\": 3\n}".to_owned()).unwrap(),
                ),
                is_error: false,
                retry_after: None,
            }
        }))
        .tool(TestTool::new("fail").scopes([]).answers(|_| Outcome::text("it went wrong", true)))
        .tool(TestTool::new("dies").scopes([]).runs_as(|_| async {
            Err(UpstreamError::new(UpstreamErrorKind::Died, "http://internal.example/secret"))
        }))
        .tool(TestTool::new("meta").scopes([]).runs_as(|call| async move {
            Ok(Outcome::text(&Value::Object(call.meta).to_string(), false))
        }))
        .tool(TestTool::new("steps").scopes([]).runs_as(|call| async move {
            let steps = call.arguments.get("steps").and_then(Value::as_u64).unwrap_or(5);
            for step in 1..=steps {
                if let Some(sink) = &call.progress {
                    let message = Some(format!("step {step}"));
                    sink.report(Progress {
                        progress: step.into(),
                        total: Some(steps.into()),
                        message,
                    });
                }
                tokio::task::yield_now().await;
            }
            Ok(Outcome::text("done", false))
        }))
        .tool(TestTool::new("nap").scopes([]).runs_as(|_| async {
            tokio::time::sleep(Duration::from_millis(1300)).await;
            Ok(Outcome::text("awake", false))
        }))
        .tool(TestTool::new("consent").scopes([]).rule("approval = \"always\""))
        .tool(TestTool::new("limited").scopes([]).rule("rate = \"1/h\""))
        .tool(TestTool::new("secret").scopes(["vault:open", "vault:read"]))
        .tool(TestTool::new("region").scopes([]).input(region))
        .tool(TestTool::new("odd").scopes([]).input(broken_region))
        .source(
            TestSource::new("foreign").tenants(["other"]).tool(TestTool::new("tool").scopes([])),
        )
}

/// Sends a POST to `/mcp` like an ordinary client of either era.
pub(crate) async fn post(actor: &Actor, body: &str) -> Reply {
    post_at(actor, "/mcp", body).await
}

/// The same on another URL of the server.
async fn post_at(actor: &Actor, path: &str, body: &str) -> Reply {
    actor
        .with("content-type", "application/json")
        .with("accept", "application/json, text/event-stream")
        .post_text(path, body.to_owned())
        .await
}

/// Sends the legacy request `method` with `params`.
pub(crate) async fn legacy(actor: &Actor, method: &str, params: Value) -> Reply {
    legacy_at(actor, "/mcp", method, params).await
}

/// The same on another URL of the server.
pub(crate) async fn legacy_at(actor: &Actor, path: &str, method: &str, params: Value) -> Reply {
    let body = json!({ "jsonrpc": "2.0", "id": 7, "method": method, "params": params });
    post_at(actor, path, &body.to_string()).await
}

/// Sends the modern request `method` with `params` and all required headers.
pub(crate) async fn modern(actor: &Actor, method: &str, params: Value) -> Reply {
    modern_at(actor, "/mcp", method, params).await
}

/// The same on another URL of the server.
pub(crate) async fn modern_at(actor: &Actor, path: &str, method: &str, params: Value) -> Reply {
    let body = modern_body(method, params);
    post_at(&modern_headers(actor, method, &body), path, &body.to_string()).await
}

/// Returns the body of a modern request.
pub(crate) fn modern_body(method: &str, params: Value) -> Value {
    let mut params = params.as_object().cloned().unwrap_or_default();
    let mut meta = Map::new();
    meta.insert("io.modelcontextprotocol/protocolVersion".to_owned(), json!(MODERN));
    meta.insert("io.modelcontextprotocol/clientCapabilities".to_owned(), json!({}));
    if let Some(Value::Object(more)) = params.remove("_meta") {
        meta.extend(more);
    }
    params.insert("_meta".to_owned(), Value::Object(meta));
    json!({ "jsonrpc": "2.0", "id": 7, "method": method, "params": params })
}

/// Returns `actor` with the headers of a modern request of `method` with `body`.
pub(crate) fn modern_headers(actor: &Actor, method: &str, body: &Value) -> Actor {
    let with = actor.with("mcp-protocol-version", MODERN).with("mcp-method", method);
    match body["params"]["name"].as_str() {
        Some(name) => with.with("mcp-name", name),
        None => with,
    }
}

/// Returns the messages of an SSE body, in order.
pub(crate) fn events(body: &str) -> Vec<Value> {
    body.split("\n\n")
        .filter_map(|event| event.strip_prefix("data: "))
        .map(|data| serde_json::from_str(data).unwrap())
        .collect()
}

/// Returns the single message of a reply in any form.
pub(crate) fn message(reply: &Reply) -> Value {
    match reply.header("content-type") {
        "text/event-stream" => events(&reply.text()).pop().unwrap(),
        _ => reply.json(),
    }
}

/// Returns `actor` in a new session.
pub(crate) async fn session(actor: &Actor) -> Actor {
    let params = json!({
        "protocolVersion": "2025-11-25", "capabilities": {},
        "clientInfo": { "name": "t", "version": "1" },
    });
    let reply = legacy(actor, "initialize", params).await;
    assert_eq!(reply.status, 200, "{}", reply.text());
    let with = actor.with("mcp-session-id", reply.header("mcp-session-id"));
    let ready = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
    assert_eq!(post(&with, &ready.to_string()).await.status, 202);
    with
}

/// Opens the standalone stream of the session of `actor`.
pub(crate) async fn stream(actor: &Actor) -> Events {
    stream_at(actor, "/mcp").await
}

/// The same on another URL of the server.
pub(crate) async fn stream_at(actor: &Actor, path: &str) -> Events {
    let events =
        actor.with("accept", "text/event-stream").open(http::Method::GET, path, None).await;
    assert_eq!(events.status, 200);
    events
}

/// Opens a subscription of `actor` with that filter; its acknowledgement has not been read.
pub(crate) async fn listen(actor: &Actor, filter: Value) -> Events {
    listen_at(actor, "/mcp", filter).await
}

/// The same on another URL of the server.
pub(crate) async fn listen_at(actor: &Actor, path: &str, filter: Value) -> Events {
    let body = modern_body("subscriptions/listen", json!({ "notifications": filter }));
    let actor = modern_headers(actor, "subscriptions/listen", &body)
        .with("content-type", "application/json")
        .with("accept", "application/json, text/event-stream");
    actor.open(http::Method::POST, path, Some(body.to_string().into())).await
}
