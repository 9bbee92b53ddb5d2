//! Gateways with native tools of the embedding program, and the example for them.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use serde_json::json;
use toolcrib::{
    Annotations, Gateway, NativeTools, RouterExt as _, Tool, ToolAnswer, ToolCall, ToolDefinition,
    core::{
        id::SourceId,
        scope::Grant,
        store::{KeyStore, Storage as _},
    },
    gateway::{
        authn::{KeyRequest, new_key},
        config::Classification,
    },
};
use toolcrib_store::{MemoryStorage, Options, SqliteStore};
use toolcrib_testkit::gateway::{Actor, TestServer};

use crate::support::column;

#[path = "../../examples/embed.rs"]
#[expect(dead_code, reason = "the example's `main` is not called")]
mod example;

/// Returns a key of tenant `acme` with the scopes `grants`.
async fn key(gateway: &Gateway, keys: &dyn KeyStore, grants: &[&str]) -> String {
    let request = KeyRequest {
        name: "test".to_owned(),
        tenant: "acme".parse().unwrap(),
        principal: "tester".parse().unwrap(),
        roles: Vec::new(),
        scopes: grants.iter().map(|grant| Grant::parse(grant).unwrap()).collect(),
        expires_at: None,
    };
    let key = new_key(request, gateway.clock().now()).unwrap();
    keys.insert(key.record).await.unwrap();
    gateway.authenticator().refresh().await;
    key.text.expose().to_owned()
}

/// Calls tool `t` of source `app` with `arguments` through every dialect; returns the statuses and
/// the bodies.
async fn everywhere(caller: &Actor, arguments: serde_json::Value) -> Vec<(u16, String)> {
    let explorer = caller.post("/explorer/tools/app__t/call", arguments.clone()).await;
    let request = json!({ "request": { "tool_id": "app.t", "input": arguments } });
    let otc = caller.post("/tools/call", request).await;
    let message = json!({
        "jsonrpc": "2.0", "id": 1, "method": "tools/call",
        "params": { "name": "app__t", "arguments": arguments },
    });
    let mcp = caller.with("accept", "application/json, text/event-stream");
    let mcp = mcp.post("/mcp", message).await;
    [explorer, otc, mcp].iter().map(|reply| (reply.status, reply.text())).collect()
}

/// Returns the caller according to the identity from the gateway.
async fn who(call: ToolCall) -> Result<ToolAnswer, String> {
    let identity = call.identity.ok_or("nobody")?;
    match call.arguments.get("how").and_then(|how| how.as_str()) {
        Some("panic") => panic!("a handler that panics, on purpose"),
        Some("fail") => Err("it broke".to_owned()),
        Some("hang") => std::future::pending().await,
        _ => Ok(ToolAnswer::text(format!(
            "{} {} {}",
            identity.id, identity.identity_type, identity.attrs["tenant"]
        ))),
    }
}

fn one_tool() -> Vec<Arc<dyn Tool>> {
    let hint = Annotations { destructive_hint: Some(true), ..Annotations::default() };
    let schema = json!({ "type": "object", "properties": { "how": { "type": "string" } } });
    let tool = ToolDefinition::new("t").description("Tells").input_schema(schema).annotations(hint);
    let broken = ToolDefinition::new("broken").input_schema(json!({ "type": "no-such-type" }));
    vec![tool.shared(), broken.shared()]
}

/// I-7, I-13, I-18: all dialects share one gate and one event log, over SQLite.
#[tokio::test]
async fn native_tools_are_in_every_dialect_behind_the_same_gate() {
    let directory = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(directory.path().join("x.db"), Options::default()).unwrap();
    let limited = Classification {
        timeout: Some(std::time::Duration::from_millis(100)),
        ..Classification::default()
    };
    let tools = NativeTools::new("app", one_tool(), who)
        .unwrap()
        .scopes(["app:use"])
        .unwrap()
        .rule("t", limited)
        .unwrap();
    let gateway = Gateway::builder(Arc::new(store.clone())).tools(tools).start().await.unwrap();
    let served = TestServer::start(gateway.router()).await;
    let right =
        served.bearer(&key(&gateway, &store, &["app:use", "audit:read", "sources:read"]).await);
    let poor = served.bearer(&key(&gateway, &store, &["other:use"]).await);

    let list = right.get("/v1/tools").await.json();
    assert_eq!(column(&list, "toolId"), ["x-host-app-t"]);
    assert_eq!(
        (&list[0]["source"], &list[0]["safetyTier"]),
        (&json!("host-extension"), &json!("write"))
    );
    assert_eq!(column(&right.get("/explorer/tools").await.json(), "name"), ["app__t"]);
    assert_eq!(column(&right.get("/tools").await.json()["tools"], "name"), ["app__t"]);
    assert_eq!(poor.get("/v1/tools").await.text(), "[]");
    let discovery = right.get("/.well-known/openwop").await.json();
    let kinds = json!(["node-pack", "workflow", "mcp", "connector", "host-extension"]);
    assert_eq!(discovery["toolCatalog"]["sources"], kinds);

    for (status, text) in everywhere(&right, json!({})).await {
        assert_eq!(status, 200, "{text}");
        assert!(text.contains(r#"tester api-key \"acme\""#), "{text}");
    }
    for how in ["panic", "fail", "hang"] {
        let answers = everywhere(&right, json!({ "how": how })).await;
        let statuses: Vec<u16> = answers.iter().map(|(status, _)| *status).collect();
        assert_eq!(statuses, [500, 200, 200], "{how}: {answers:?}");
        assert!(answers[0].1.contains(r#""isError":true"#), "{how}: {answers:?}");
        assert!(answers[1].1.contains(r#""success":false"#), "{how}: {answers:?}");
        // There, a fault of the host is a protocol error; any other failure is a failed result.
        let failed = if how == "panic" { r#""code":-32603"# } else { r#""isError":true"# };
        assert!(answers[2].1.contains(failed), "{how}: {answers:?}");
    }
    let refused: Vec<u16> =
        everywhere(&poor, json!({})).await.iter().map(|(status, _)| *status).collect();
    assert_eq!(refused[..2], [403, 403]);
    let events = right.get("/v1/events?after=0").await.text();
    let count = |kind: &str| events.matches(&format!("\"{kind}\"")).count();
    assert_eq!((count("agent.toolCalled"), count("agent.toolReturned")), (15, 15), "{events}");

    let report = &right.get("/v1/sources").await.json()["sources"][0];
    assert_eq!((&report["id"], &report["kind"]), (&json!("app"), &json!("host-extension")));
    assert!(report["problems"][0].as_str().unwrap().starts_with("tool \"broken\" is left out"));
    gateway.close().await;
    store.close().await;
}

/// The list of a gateway is a snapshot: a provider's change is visible after the next discovery.
#[tokio::test]
async fn native_tools_can_change() {
    let late = Arc::new(AtomicBool::new(false));
    let shown = Arc::clone(&late);
    let provider = move || {
        let name = if shown.load(Ordering::SeqCst) { "late" } else { "early" };
        vec![ToolDefinition::new(name).shared()]
    };
    let storage = MemoryStorage::default();
    let keys = Arc::clone(&storage.keys);
    let tools = NativeTools::new("app", provider, who).unwrap();
    let gateway = Gateway::builder(Arc::new(storage)).tools(tools).start().await.unwrap();
    let served = TestServer::start(gateway.router()).await;
    let caller = served.bearer(&key(&gateway, &*keys, &["tools:app"]).await);
    let names = async || {
        let list = caller.get("/explorer/tools").await.json();
        column(&list, "name").join(" ")
    };
    assert_eq!(names().await, "app__early");
    let mut changes = gateway.supply().changes();
    changes.mark_unchanged();
    late.store(true, Ordering::SeqCst);
    gateway.supply().refresh(&SourceId::parse("app").unwrap());
    changes.changed().await.unwrap();
    assert_eq!(names().await, "app__late");

    // A new configuration keeps native tools, whether it is from a file or the current one.
    let config = toolcrib::gateway::config::Config::empty(std::path::Path::new(""));
    gateway.apply(config).await.unwrap();
    assert_eq!(names().await, "app__late");
    gateway.apply((*gateway.config()).clone()).await.unwrap();
    assert_eq!(names().await, "app__late");
}

#[tokio::test]
async fn two_sources_of_one_id_are_refused() {
    let storage = Arc::new(MemoryStorage::default());
    let tools = |id| NativeTools::new(id, one_tool(), who).unwrap();
    let builder = Gateway::builder(storage).tools(tools("my-app")).tools(tools("my_app"));
    let error = builder.start().await.map(drop).unwrap_err().to_string();
    assert!(error.contains("another source has this id"), "{error}");
    assert!(NativeTools::new("No Id", one_tool(), who).is_err());
}

/// Runs `examples/embed.rs`.
#[tokio::test]
async fn the_example_works() {
    let (router, gateway, key) = example::program().await.unwrap();
    let served = TestServer::start(router).await;
    let nobody = served.anonymous();
    assert_eq!(nobody.get("/").await.text(), "the yard's own page");
    let page = nobody.get("/explorer-only").await.text();
    assert!(page.contains("<title>Yard tools</title>") && page.contains("&middot; <a href="));
    let list = nobody.get("/explorer-only/tools").await.json();
    assert_eq!(column(&list, "name"), ["get_weather", "open_gate"]);
    let path = "/explorer-only/tools/get_weather/call";
    assert_eq!(nobody.post(path, json!({ "city": "Ulm" })).await.status, 401);
    let keeper = served.bearer("open-sesame");
    let reply = keeper.post(path, json!({ "city": "Ulm" })).await.json();
    assert_eq!(reply["structuredContent"], json!({ "sky": "sunny", "celsius": 21.5 }));
    let reply = keeper.post("/explorer-only/tools/open_gate/call", json!({})).await.json();
    assert_eq!(reply["content"][0]["text"], "The gate is open, keeper.");
    // No gate checks these arguments before.
    let reply = keeper.post(path, json!({ "town": "Ulm" })).await;
    assert_eq!(reply.status, 500);
    let text = reply.json()["content"][0]["text"].as_str().unwrap().to_owned();
    assert!(text.ends_with("\n- at \"/city\": \"city\" is a required property"), "{text}");
    let detail = nobody.get("/explorer-only/tools/get_weather").await.json();
    assert_eq!(detail["outputSchema"]["properties"]["sky"]["type"], "string");

    let caller = served.bearer(&key);
    let list = caller.get("/v1/tools").await.json();
    assert_eq!(column(&list, "toolId"), ["x-host-yard-get_weather", "x-host-yard-open_gate"]);
    assert_eq!(list[0]["description"], "Returns the weather of a city");
    assert_eq!(list[0]["inputSchema"]["required"], json!(["city"]));
    assert_eq!(list[0]["outputSchema"]["required"], json!(["sky", "celsius"]));
    let path = "/explorer/tools/yard__get_weather/call";
    let reply = caller.post(path, json!({ "city": "Ulm" })).await.json();
    assert_eq!(reply["structuredContent"], json!({ "sky": "sunny", "celsius": 21.5 }));
    let reply = caller.post(path, json!({ "city": "Rome" })).await.json();
    assert_eq!(reply["content"][0]["text"], "there is no station in Rome");
    let refused = caller.post(path, json!({ "city": 7 })).await;
    assert!(refused.status != 200 && refused.text().contains("/city"), "{}", refused.text());
    let reply = caller.post("/explorer/tools/yard__open_gate/call", json!({})).await.json();
    assert_eq!(reply["content"][0]["text"], "The gate is open, keeper.");
    assert_eq!(nobody.get("/v1/tools").await.status, 401);
    assert_eq!(nobody.get("/explorer").await.status, 200);
    assert_eq!(nobody.get("/none").await.status, 404);
    gateway.close().await;
}

/// The program in `docs/guides/embed.md` is the example, which this test program compiles.
#[test]
fn the_documentation_shows_the_whole_example() {
    let page = include_str!("../../../../docs/guides/embed.md");
    let example = include_str!("../../examples/embed.rs");
    let blocks: Vec<&str> = page.split("```rust\n").skip(1).collect();
    let [block] = blocks.as_slice() else { panic!("{} blocks of Rust", blocks.len()) };
    let code = block.split("```").next().unwrap();
    assert!(
        code == example,
        "docs/guides/embed.md: copy crates/toolcrib/examples/embed.rs into it"
    );
}
