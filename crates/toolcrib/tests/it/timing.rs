//! I-9, I-81: the duration of a refusal does not depend on the existence of the tool or of the run.
//!
//! The only tests that measure time. They compare no number of milliseconds: requests for hidden,
//! foreign and unknown names alternate, and their ranks are compared. A slow machine slows all of
//! them down alike.

use std::time::Instant;

use bytes::Bytes;
use http::Method;
use serde_json::{Value, json};
use toolcrib_core::call::CallError;
use toolcrib_gateway::{CallRequest, ToolRef, metrics::Surface};
use toolcrib_testkit::gateway::{Actor, TestGateway, TestSource, TestTool};

/// Source and tool of each kind of name. All have the same length, because responses repeat them.
const KINDS: [(&str, &str); 4] =
    [("crib", "absent"), ("crib", "scoped"), ("crib", "forbid"), ("frgn", "scoped")];
const POLICIES: &str = r#"
permit(principal, action, resource);
forbid(principal, action, resource == Tool::"mcp:crib.forbid");
"#;

/// Within these bounds the kinds are indistinguishable.
const BOUNDS: std::ops::RangeInclusive<f64> = 0.35..=0.65;

/// Samples of each kind.
const ROUNDS: usize = 200;

async fn gateway(denied_calls: &str) -> TestGateway {
    let input = json!({
        "type": "object",
        "properties": { "n": { "type": "integer", "x-mcp-header": "n" } },
    });
    let tool = |name: &str| TestTool::new(name).scopes(["files:read"]).input(input.clone());
    TestGateway::builder()
        .config(&format!("[gate]\ndenied_calls = \"{denied_calls}\""))
        .config("[policy]\ncedar = [\"*.cedar\"]")
        .config("[toolset.found]\nallow = [\"*\"]\nmeta = \"search\"")
        .file("some.cedar", POLICIES)
        .source(
            TestSource::new("crib")
                .tool(tool("usable"))
                .tool(tool("forbid"))
                .tool(TestTool::new("scoped").scopes(["files:write"]).input(input.clone())),
        )
        .source(TestSource::new("frgn").tenants(["other"]).tool(tool("scoped")))
        .start()
        .await
}

/// Returns the probability that a sample of `one` is greater than one of `other`: 0.5 when they are
/// alike.
fn auc(one: &[u128], other: &[u128]) -> f64 {
    let mut wins = 0.0;
    for a in one {
        for b in other {
            wins += match a.cmp(b) {
                std::cmp::Ordering::Greater => 1.0,
                std::cmp::Ordering::Equal => 0.5,
                std::cmp::Ordering::Less => 0.0,
            };
        }
    }
    wins / (one.len() as f64 * other.len() as f64)
}

/// Creates a request about the named tool.
type Ask<'a> = dyn Fn(&str, &str) -> (Actor, Method, String, Option<Bytes>) + 'a;

/// Measures each kind: samples are taken in rounds, each in a different order.
async fn sampled(
    measured: &impl AsyncFn(&str, &str) -> u128,
    kinds: &[(&str, &str)],
    rounds: usize,
) -> Vec<Vec<u128>> {
    let mut samples = vec![Vec::new(); kinds.len()];
    let mut order: Vec<usize> = (0..kinds.len()).collect();
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    for round in 0..rounds + 2 {
        for last in (1..order.len()).rev() {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            order.swap(last, (state >> 33) as usize % (last + 1));
        }
        for kind in &order {
            let (source, name) = kinds[*kind];
            let took = measured(source, name).await;
            // The first rounds create connections and views.
            if round >= 2 {
                samples[*kind].push(took);
            }
        }
    }
    samples
}

/// Fails when a kind differs from the unknown name twice.
async fn indistinguishable(
    what: &str,
    measured: impl AsyncFn(&str, &str) -> u128,
    kinds: &[(&str, &str)],
    rounds: usize,
) {
    let mut seen = Vec::new();
    for _ in 0..2 {
        let samples = sampled(&measured, kinds, rounds).await;
        let ranks: Vec<f64> = samples[1..].iter().map(|kind| auc(kind, &samples[0])).collect();
        println!("{what}: {ranks:.3?}");
        if ranks.iter().all(|rank| BOUNDS.contains(rank)) {
            return;
        }
        seen.push(ranks);
    }
    panic!("{what}: told apart from an unknown name: {seen:.3?}");
}

fn members(count: usize) -> Value {
    (0..count).map(|i| (format!("m{i}"), json!(i))).collect::<serde_json::Map<_, _>>().into()
}

fn typed(caller: &Actor) -> Actor {
    caller
        .with("content-type", "application/json")
        .with("accept", "application/json, text/event-stream")
}

/// A body into which a tool name is inserted, so that serialization is not measured.
fn body(template: &Value, name: &str) -> Option<Bytes> {
    Some(template.to_string().replacen("NAME", name, 1).into())
}

/// At the gate itself, without other sources of delay.
#[tokio::test]
async fn sixty_thousand_arguments_do_not_tell_whether_there_is_a_tool() {
    let arguments = members(60_000);
    for (denied_calls, kinds) in [("not_found", &KINDS[..]), ("forbidden", &[KINDS[0], KINDS[3]])] {
        let gw = gateway(denied_calls).await;
        let caller = gw.principal("reader", ["files:read"]).await;
        let caller = gw.gateway.authenticator().authenticate(caller.key().unwrap()).unwrap();
        let (gate, arguments) = (&gw.gateway, &arguments);
        let call = async |source: &str, name: &str| {
            let name = format!("{source}__{name}");
            let tool = ToolRef::Wire(&name);
            let request = CallRequest::new(
                gate.snapshot(),
                Surface::new("otc", "Otc"),
                tool,
                arguments.clone(),
            );
            let start = Instant::now();
            let called = gate.call(&caller, request).await;
            let took = start.elapsed().as_nanos();
            assert!(matches!(called.result, Err(CallError::NoSuchTool)));
            took
        };
        indistinguishable(denied_calls, call, kinds, ROUNDS).await;
    }
}

/// Every way to call, validate and read a tool. Few arguments, so that parsing the request takes
/// little of the time.
#[tokio::test]
async fn no_surface_tells_by_its_time_whether_there_is_a_tool() {
    let gw = gateway("not_found").await;
    let plain = gw.principal("reader", ["files:read"]).await;
    let caller = typed(&plain);
    let session = session(&caller).await;
    let input = members(200);
    let message = |params: Value| json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params });
    let stateless = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let ask = |id: &str| json!({ "request": { "tool_id": id, "input": input } });
    let mut named = ask("NAME");
    named["request"]["call_id"] = "CALL".into();
    let call = message(json!({ "name": "NAME", "arguments": input }));
    let modern = message(json!({ "name": "NAME", "arguments": input, "_meta": stateless }));
    let meta = message(json!({
        "name": "call_tool", "arguments": { "name": "NAME", "arguments": input },
    }));
    let describe = message(json!({
        "name": "describe_tool", "arguments": { "name": "NAME" },
    }));
    let otc = |source: &str, name: &str| format!("{source}.{name}");
    let wire = |source: &str, name: &str| format!("{source}__{name}");
    let next = std::sync::atomic::AtomicUsize::new(100_000);
    let post = |caller: &Actor, path: &str, template: &Value, name: &str| {
        (caller.clone(), Method::POST, path.to_owned(), body(template, name))
    };
    let get = |path: String| (plain.clone(), Method::GET, path, None);
    let in_session = caller.with("mcp-session-id", &session);
    let surfaces: [(&str, Box<Ask<'_>>); 16] = [
        ("otc", Box::new(|s, n| post(&caller, "/tools/call", &ask("NAME"), &otc(s, n)))),
        (
            "otc in one version",
            Box::new(|s, n| post(&caller, "/tools/call", &ask("NAME@7.0.0"), &otc(s, n))),
        ),
        (
            "otc with a call_id",
            Box::new(|s, n| {
                let id = next.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                let named = named.to_string().replacen("NAME", &otc(s, n), 1);
                let named = named.replacen("CALL", &id.to_string(), 1);
                (caller.clone(), Method::POST, "/tools/call".to_owned(), Some(named.into()))
            }),
        ),
        ("oxp", Box::new(|s, n| post(&caller, "/oxp/tools/call", &ask("NAME"), &wire(s, n)))),
        (
            "explorer call",
            Box::new(|s, n| {
                post(&caller, &format!("/explorer/tools/{}/call", wire(s, n)), &input, "")
            }),
        ),
        (
            "explorer validate",
            Box::new(|s, n| {
                post(&caller, &format!("/explorer/tools/{}/validate", wire(s, n)), &input, "")
            }),
        ),
        ("explorer detail", Box::new(|s, n| get(format!("/explorer/tools/{}", wire(s, n))))),
        ("mcp", Box::new(|s, n| post(&caller, "/mcp", &call, &wire(s, n)))),
        ("mcp in a session", Box::new(|s, n| post(&in_session, "/mcp", &call, &wire(s, n)))),
        (
            "mcp with headers",
            Box::new(|s, n| {
                let caller = caller
                    .with("mcp-protocol-version", "2026-07-28")
                    .with("mcp-method", "tools/call")
                    .with("mcp-name", &wire(s, n))
                    .with("mcp-param-n", "7");
                post(&caller, "/mcp", &modern, &wire(s, n))
            }),
        ),
        ("call_tool", Box::new(|s, n| post(&caller, "/mcp/found", &meta, &wire(s, n)))),
        ("describe_tool", Box::new(|s, n| post(&caller, "/mcp/found", &describe, &wire(s, n)))),
        ("/v1/tools", Box::new(|s, n| get(format!("/v1/tools/mcp:{}", otc(s, n))))),
        ("/tools", Box::new(|s, n| get(format!("/tools/mcp:{}", otc(s, n))))),
        ("/tools, compact", Box::new(|s, n| get(format!("/tools/mcp:{}?view=compact", otc(s, n))))),
        ("/v1/explain", Box::new(|s, n| get(format!("/v1/explain?tool={}", wire(s, n))))),
    ];
    for (surface, ask) in surfaces {
        let measured = async |source: &str, name: &str| {
            let (caller, method, path, body) = ask(source, name);
            let start = Instant::now();
            let reply = caller.send(method, &path, body).await;
            assert_ne!(reply.status, 401);
            start.elapsed().as_nanos()
        };
        indistinguishable(surface, measured, &KINDS, ROUNDS).await;
    }
}

/// The routes of both generations of OpenWOP that name a run.
#[tokio::test]
async fn no_route_tells_by_its_time_whether_there_is_a_run() {
    let gw = TestGateway::builder()
        .tool(TestTool::new("usable").scopes(["files:read"]))
        .workflow("flow", "steps: [{ id: a, tool: 'mcp:crib.usable' }]\noutputs: {}")
        .start()
        .await;
    let scopes = ["files:read", "tools:flows"];
    let reader = gw.principal("reader", scopes).await;
    let run = async |holder: Actor| {
        let ask = json!({ "request": { "tool_id": "flows__flow" } });
        holder.post("/tools/call", ask).await.header("toolcrib-run-id").to_owned()
    };
    let hidden = run(gw.principal("holder", scopes).await).await;
    let foreign = run(gw.principal_of("other", "holder", &scopes).await).await;
    let unknown = hidden.replace(|digit: char| digit.is_ascii_digit(), "0");
    assert_eq!((hidden.len(), foreign.len()), (unknown.len(), unknown.len()));
    let kinds = [("unknown", &*unknown), ("hidden", &*hidden), ("foreign", &*foreign)];
    for (method, before, after) in [
        (Method::GET, "/v1/runs/", "/events"),
        (Method::POST, "/v1/runs/", "/cancel"),
        (Method::GET, "/runs/", ""),
        (Method::GET, "/runs/acme~2F", ""),
        (Method::GET, "/runs/", "/events"),
        (Method::POST, "/runs/", "/cancel"),
    ] {
        let measured = async |_: &str, run: &str| {
            let path = format!("{before}{run}{after}");
            let start = Instant::now();
            let reply = reader.send(method.clone(), &path, None).await;
            let took = start.elapsed().as_nanos();
            assert_eq!(reply.status, 404, "{path}");
            took
        };
        indistinguishable(&format!("{before}…{after}"), measured, &kinds, ROUNDS).await;
    }
}

/// As many arguments as fit into a body.
#[tokio::test]
async fn sixty_thousand_arguments_over_http_do_not_reveal_whether_a_tool_exists() {
    let gw = gateway("not_found").await;
    let caller = typed(&gw.principal("reader", ["files:read"]).await);
    let call = json!({ "request": { "tool_id": "NAME", "input": members(60_000) } }).to_string();
    let measured = async |source: &str, name: &str| {
        let body = Bytes::from(call.replacen("NAME", &format!("{source}.{name}"), 1));
        let start = Instant::now();
        let reply = caller.send(Method::POST, "/tools/call", Some(body)).await;
        let took = start.elapsed().as_nanos();
        assert!(![401, 413].contains(&reply.status), "{}", reply.text());
        took
    };
    indistinguishable("otc", measured, &[KINDS[0], KINDS[1], KINDS[3]], ROUNDS).await;
}

async fn session(caller: &Actor) -> String {
    let initialize = json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": "2025-11-25", "capabilities": {},
        "clientInfo": { "name": "test", "version": "1" },
    } });
    let reply = caller.send(Method::POST, "/mcp", Some(initialize.to_string().into())).await;
    let session = reply.header("mcp-session-id").to_owned();
    assert!(!session.is_empty(), "{}", reply.text());
    session
}
