//! I-9, I-81: with `denied_calls = "not_found"`, a denied tool is byte-for-byte indistinguishable
//! from an unknown one, on every surface and for every reason.

use http::Method;
use serde_json::{Value, json};
use toolcrib_testkit::gateway::{Actor, Reply, TestGateway, TestSource, TestTool};

/// Tools denied to a caller of `acme` with `files:read`, the reasons, and an unknown name. All
/// names have the same length, so that responses that contain them do, too.
const REASONS: [(&str, &str, &str); 8] = [
    ("a scope is missing", "crib", "scoped"),
    ("its source is another tenant's", "frgn", "scoped"),
    ("its rule keeps it for another tenant", "crib", "narrow"),
    ("its rule hides it", "crib", "hidden"),
    ("it is quarantined", "pins", "drifts"),
    ("no policy permits it", "crib", "unsaid"),
    ("a policy forbids it", "crib", "forbid"),
    ("its rule asks for a scope that no key can name but one that holds all", "crib", "exotic"),
];
const POLICIES: &str = r#"
permit(principal, action, resource) unless { resource == Tool::"mcp:crib.unsaid" };
forbid(principal, action, resource == Tool::"mcp:crib.forbid");
"#;
const UNKNOWN: (&str, &str) = ("crib", "absent");

async fn gateway() -> TestGateway {
    let input = json!({
        "type": "object",
        "properties": { "n": { "type": "integer", "x-mcp-header": "n" } },
        "required": ["n"],
    });
    let tool = |name: &str| TestTool::new(name).scopes(["files:read"]).input(input.clone());
    let gw = TestGateway::builder()
        .config(
            "[gate]\ndenied_calls = \"not_found\"\nrate = \"1/h\"\n[policy]\ncedar = [\"*.cedar\"]",
        )
        .file("some.cedar", POLICIES)
        .source(
            TestSource::new("crib")
                .tool(tool("usable"))
                .tool(tool("unsaid"))
                .tool(tool("forbid"))
                .tool(TestTool::new("scoped").scopes(["files:write"]).input(input.clone()))
                .tool(TestTool::new("exotic").scopes(["a:very:deep:one"]).input(input.clone()))
                .tool(tool("narrow").rule("tenants = [\"other\"]"))
                .tool(tool("hidden").rule("hide = true")),
        )
        .source(TestSource::new("frgn").tenants(["other"]).tool(tool("scoped")))
        .source(
            TestSource::new("pins")
                .pins("enforce")
                .tool(tool("drifts").description("as it was approved")),
        )
        .start()
        .await;
    gw.change("pins", vec![tool("drifts").description("as it is now")]).await;
    gw
}

/// Returns every part of a response that a caller can compare, without times and ids.
fn visible(reply: &Reply, source: &str, name: &str) -> String {
    let compared = |name: &str| {
        !matches!(name, "date" | "x-request-id" | "toolcrib-run-id" | "mcp-session-id")
    };
    let mut headers: Vec<String> = reply
        .headers
        .iter()
        .filter(|(name, _)| compared(name.as_str()))
        .map(|(name, value)| format!("{name}: {value:?}"))
        .collect();
    headers.sort();
    let mut body = reply.text();
    for echoed in
        [format!("{source}__{name}"), format!("{source}.{name}"), format!("mcp:{source}.{name}")]
    {
        body = body.replace(&echoed, "NAME");
    }
    // A JSON-RPC response and a `CallToolResponse` contain the id of the call, which only its
    // caller knows.
    let body = match serde_json::from_str::<Value>(&body) {
        Ok(Value::Object(mut members)) => {
            if let Some(id) = members.get_mut("call_id") {
                *id = json!("ID");
            }
            Value::Object(members).to_string()
        }
        _ => body,
    };
    format!("{} {headers:#?} {body}", reply.status)
}

/// Every way to call or look up a tool over HTTP.
async fn every_surface(caller: &Actor, session: &str, source: &str, name: &str) -> Vec<Reply> {
    let (otc, wire) = (format!("{source}.{name}"), format!("{source}__{name}"));
    let json_caller = caller
        .with("content-type", "application/json")
        .with("accept", "application/json, text/event-stream");
    let mut replies = Vec::new();
    for input in [json!({}), json!({ "n": 1 }), json!({ "n": 9_007_199_254_740_993_u64 })] {
        for mount in ["/tools/call", "/oxp/tools/call"] {
            for id in [otc.clone(), format!("{otc}@1.0.0"), format!("{otc}@7.0.0"), wire.clone()] {
                for call_id in [None, Some(format!("id {}", rand()))] {
                    let mut ask = json!({ "tool_id": id, "input": input });
                    if let Some(call_id) = call_id {
                        ask["call_id"] = call_id.into();
                    }
                    replies.push(caller.post(mount, json!({ "request": ask })).await);
                }
            }
        }
        for what in ["call", "validate"] {
            let path = format!("/explorer/tools/{wire}/{what}");
            replies.push(caller.post(&path, input.clone()).await);
        }
        let params = json!({ "name": wire, "arguments": input });
        let message = |params: &Value| json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params });
        let in_session = json_caller.with("mcp-session-id", session);
        for caller in [&json_caller, &in_session] {
            replies.push(caller.post("/mcp", message(&params)).await);
        }
        let mut params = params;
        params["_meta"] = json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {},
        });
        let modern = json_caller
            .with("mcp-protocol-version", "2026-07-28")
            .with("mcp-method", "tools/call")
            .with("mcp-name", &wire);
        replies.push(modern.post("/mcp", message(&params)).await);
        replies.push(modern.with("mcp-param-n", "7").post("/mcp", message(&params)).await);
    }
    for path in [
        format!("/v1/tools/mcp%3A{source}.{name}"),
        format!("/v1/tools/mcp:{source}.{name}?view=compact"),
        format!("/explorer/tools/{wire}"),
        format!("/v1/explain?tool={wire}"),
        format!("/v1/explain?tool=mcp:{source}.{name}"),
        format!("/v1/explain?tool={otc}"),
    ] {
        replies.push(caller.get(&path).await);
    }
    replies
}

/// Returns an unused id.
fn rand() -> usize {
    static NEXT: std::sync::atomic::AtomicUsize = std::sync::atomic::AtomicUsize::new(100_000);
    NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed)
}

async fn session(caller: &Actor) -> String {
    let initialize = json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": "2025-11-25", "capabilities": {},
        "clientInfo": { "name": "test", "version": "1" },
    } });
    let caller = caller
        .with("content-type", "application/json")
        .with("accept", "application/json, text/event-stream");
    let reply = caller.send(Method::POST, "/mcp", Some(initialize.to_string().into())).await;
    let session = reply.header("mcp-session-id").to_owned();
    assert!(!session.is_empty(), "{}", reply.text());
    session
}

#[tokio::test]
async fn whatever_is_denied_looks_unknown_on_every_surface() {
    let gw = gateway().await;
    let caller = gw.principal("reader", ["files:read", "tools:*"]).await;
    let session = session(&caller).await;
    let (source, name) = UNKNOWN;
    let unknown = every_surface(&caller, &session, source, name).await;
    let unknown: Vec<String> = unknown.iter().map(|reply| visible(reply, source, name)).collect();
    for (reason, source, name) in REASONS {
        // Twice: a rate limit would show at the second call.
        for round in 0..2 {
            let replies = every_surface(&caller, &session, source, name).await;
            assert_eq!(replies.len(), unknown.len());
            for (reply, unknown) in replies.iter().zip(&unknown) {
                assert_eq!(&visible(reply, source, name), unknown, "{reason}, round {round}");
            }
        }
    }
    // A usable tool looks different everywhere, which proves that the comparison works.
    let usable = every_surface(&caller, &session, "crib", "usable").await;
    let shown = usable.iter().zip(&unknown).filter(|(reply, unknown)| {
        // Names outside the dialect and unknown versions are rejected for all callers.
        visible(reply, "crib", "usable") == **unknown
    });
    let same = shown.count();
    assert!(same * 2 < unknown.len(), "{same} of {}", unknown.len());
}

/// Callers denied for other reasons: an anonymous one where a mount allows that, a key without
/// scopes, and one of another tenant with every scope of a tool.
#[tokio::test]
async fn whoever_is_denied_cannot_tell() {
    let gw = gateway().await;
    let none = gw.principal("none", []).await;
    let third = gw.principal_of("third", "all", &["files:*", "tools:*"]).await;
    for (caller, tools) in [
        (none, &[("crib", "usable"), ("crib", "scoped"), ("frgn", "scoped")][..]),
        (third, &[("crib", "narrow"), ("frgn", "scoped"), ("pins", "drifts")][..]),
    ] {
        let session = session(&caller).await;
        let (source, name) = UNKNOWN;
        let unknown = every_surface(&caller, &session, source, name).await;
        for (source, name) in tools {
            let replies = every_surface(&caller, &session, source, name).await;
            for (reply, unknown) in replies.iter().zip(&unknown) {
                let unknown = visible(unknown, UNKNOWN.0, UNKNOWN.1);
                assert_eq!(visible(reply, source, name), unknown, "{source} {name}");
            }
        }
    }
}
