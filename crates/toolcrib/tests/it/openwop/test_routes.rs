//! The test routes, and the assertions of a conformance suite about hooks and sessions. Advertising
//! a capability without its test route fails here, as with the suite's `OPENWOP_REQUIRE_BEHAVIOR`.

use std::collections::HashSet;

use http::Method;
use serde_json::{Value, json};
use toolcrib_core::store::Storage as _;
use toolcrib_testkit::gateway::{Actor, Reply, TestGateway};

use crate::support::{column, fixture};

const INVOKE: &str = "/v1/host/sample/toolhooks/invoke";
const SESSION: &str = "/v1/host/sample/tools/session-run";
const RESET: &str = "/v1/host/sample/test/reset";

async fn start() -> (TestGateway, Actor) {
    let gw = fixture().test_routes().start().await;
    let caller = gw.principal("suite", ["files:read"]).await;
    (gw, caller)
}

fn events_of(run: &str) -> String {
    format!("/v1/host/sample/test/runs/{run}/events")
}

/// Checks the precondition of the suite: the family at the root, each facet a boolean, and the
/// named facet advertised.
async fn facet(caller: &Actor, family: &str, facet: &str) {
    let document = caller.get("/.well-known/openwop").await.json();
    assert_eq!(document[family]["supported"], true);
    assert_eq!(document[family][facet], true, "{family}.{facet}");
}

/// `tool-hooks-shape`.
#[tokio::test]
async fn the_families_have_their_shape() {
    let (_gw, caller) = start().await;
    let document = caller.get("/.well-known/openwop").await.json();
    let hooks = document["toolHooks"].as_object().unwrap();
    let members: HashSet<_> = hooks.keys().map(String::as_str).collect();
    let known = ["supported", "prePostEvents", "perToolAuthorization", "perToolRateLimit"].into();
    assert_eq!(members, known);
    assert!(hooks.values().all(Value::is_boolean));
    assert_eq!(document["toolCatalog"]["sessionLifecycle"], true);
}

/// `tool-hooks-content-free`.
#[tokio::test]
async fn a_call_is_recorded_with_hash_status_and_duration() {
    let (gw, caller) = start().await;
    facet(&caller, "toolHooks", "prePostEvents").await;
    let body =
        json!({ "principal": "core.system", "toolName": "web.search", "args": { "q": "hello" } });
    let reply = caller.post(INVOKE, body).await;
    assert_eq!(reply.status, 200);
    assert!(!reply.text().contains("hello"), "{}", reply.text());
    let told = reply.json();
    assert_eq!(
        told["toolCalled"],
        json!({
            "argsHash": "08576d040e5f5ced47690f2c76fef94fd91c9c5e5e77c3392e13cdacacebc7f2",
            "principal": "core.system",
            "transport": "native",
            "toolName": "web.search",
        })
    );
    assert_eq!(told["toolReturned"]["status"], "ok");
    assert!(told["toolReturned"]["durationMs"].is_u64());
    assert_eq!(told["toolReturned"].as_object().unwrap().len(), 2);
    // The response matches the event log.
    let run = reply.header("toolcrib-run-id");
    assert!(run.starts_with("probe-"));
    let events = caller.get(&events_of(run)).await.json();
    let kept: Vec<_> = gw.events().await.into_iter().map(|logged| logged.event).collect();
    assert_eq!(events["events"], serde_json::to_value(kept).unwrap());
    assert_eq!(events["events"][0]["payload"]["argsHash"], told["toolCalled"]["argsHash"]);
    // Absent arguments count as none.
    let body = json!({ "principal": "core.system", "toolName": "web.search" });
    let told = caller.post(INVOKE, body).await.json();
    assert_eq!(
        told["toolCalled"]["argsHash"],
        "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a"
    );
}

/// `tool-hooks-authorization-fail-closed`. I-8.
#[tokio::test]
async fn a_required_scope_without_a_grant_is_forbidden() {
    let (gw, caller) = start().await;
    facet(&caller, "toolHooks", "perToolAuthorization").await;
    let body = json!({
        "principal": "conformance-unprivileged",
        "toolName": "db.delete",
        "requiredScopes": ["db:write"],
        "grantedScopes": ["db:write"],
    });
    let reply = caller.post(INVOKE, body).await;
    assert_eq!(reply.status, 403);
    assert_eq!(reply.header("www-authenticate"), "");
    let told = reply.json();
    assert_eq!(told["toolReturned"]["status"], "forbidden", "what a body grants is no grant");
    assert_eq!(told["toolReturned"].get("durationMs"), None);
    assert_eq!(told["toolCalled"]["principal"], "conformance-unprivileged");
    assert_eq!(told["error"], "forbidden");
    let details = json!({
        "scope": "tool", "toolName": "db.delete", "requiredScopes": ["db:write"],
    });
    assert_eq!(told["details"], details);
    let events = caller.get(&events_of(reply.header("toolcrib-run-id"))).await.json();
    let list = &events["events"];
    assert_eq!(
        column(list, "type"),
        ["agent.toolCalled", "authorization.decided", "agent.toolReturned"]
    );
    assert_eq!(
        column(&json!([list[1], list[2]]), "causationId"),
        [list[0]["eventId"].as_str().unwrap(); 2]
    );
    assert_eq!(list[1]["payload"]["allowed"], false);
    // A caller acting for itself has its own scopes.
    let own = json!({
        "principal": "suite", "toolName": "db.read", "requiredScopes": ["files:read"],
    });
    assert_eq!(caller.post(INVOKE, own).await.status, 200);
    drop(gw);
}

/// `tool-hooks-rate-limit`, and its entry in the error table. I-12.
#[tokio::test]
async fn an_exhausted_bucket_is_rate_limited_for_that_principal_and_tool_alone() {
    let (_gw, caller) = start().await;
    facet(&caller, "toolHooks", "perToolRateLimit").await;
    let limited = json!({
        "principal": "core.system",
        "toolName": "web.search",
        "args": { "q": "x" },
        "simulateRateLimitExhausted": true,
    });
    let reply = caller.post(INVOKE, limited.clone()).await;
    assert_eq!(reply.status, 429);
    let told = reply.json();
    assert_eq!(told["toolReturned"]["status"], "rate_limited");
    assert_eq!(told["toolReturned"].get("durationMs"), None);
    assert_eq!(told["error"], "rate_limited");
    assert_eq!(told["details"]["scope"], "tool");
    assert_eq!(told["details"]["toolName"], "web.search");
    assert_eq!(told["details"]["limit"], 1);
    agrees(&reply, &told["details"]);
    // Later scenarios use the same names.
    for body in [
        json!({ "principal": "core.system", "toolName": "web.search" }),
        json!({ "principal": "core.system", "toolName": "web.other" }),
        json!({ "principal": "somebody", "toolName": "web.search" }),
    ] {
        assert_eq!(caller.post(INVOKE, body.clone()).await.status, 200, "{body}");
    }
    assert_eq!(caller.post(RESET, json!({})).await.status, 200);
    assert_eq!(caller.post(INVOKE, limited).await.status, 429, "emptied anew");
}

/// `Retry-After` in whole seconds and `retryAfterMs` agree within a second and a half.
fn agrees(reply: &Reply, details: &Value) {
    let seconds: u64 = reply.header("retry-after").parse().unwrap();
    let millis = details["retryAfterMs"].as_u64().unwrap();
    assert!(millis >= 1 && seconds >= 1);
    assert!((seconds * 1000).abs_diff(millis) <= 1500, "{seconds} s, {millis} ms");
    assert!(seconds * 1000 >= millis, "who waits for the header does not come too early");
}

/// The limits of real tools produce the same error.
#[tokio::test]
async fn the_limit_of_a_real_tool_has_the_same_details() {
    let tool = toolcrib_testkit::gateway::TestTool::new("slow").scopes([]).rule("rate = \"1/m\"");
    let gw = TestGateway::builder().tool(tool).start().await;
    let caller = gw.principal("suite", []).await;
    let call = json!({ "request": { "tool_id": "crib.slow" } });
    assert_eq!(caller.post("/tools/call", call.clone()).await.status, 200);
    for (path, body) in [("/tools/call", call), ("/explorer/tools/crib__slow/call", json!({}))] {
        let reply = caller.post(path, body).await;
        assert_eq!(reply.status, 429);
        let details = &reply.json()["details"];
        assert_eq!((&details["scope"], &details["limit"]), (&json!("tool"), &json!(1)));
        assert_eq!(details["toolName"], "mcp:crib.slow");
        agrees(&reply, details);
        let events =
            caller.get(&format!("/v1/runs/{}/events", reply.header("toolcrib-run-id"))).await;
        let returned = &events.json()["events"][1]["payload"];
        assert_eq!(returned["status"], "rate_limited");
        assert_eq!(returned["error"]["code"], "rate_limited");
        assert_eq!(returned.get("durationMs"), None);
    }
}

/// `tool-hooks-secret-redaction`. I-20.
#[tokio::test]
async fn a_secret_in_the_arguments_is_nowhere() {
    const CANARY: &str = "sk-canary-rfc0064-do-not-leak-xyz789";
    let (gw, caller) = start().await;
    let with = |key: &str| json!({ "principal": "core.system", "toolName": "web.search", "args": { "apiKey": key } });
    let reply = caller.post(INVOKE, with(CANARY)).await;
    assert_eq!(reply.status, 200);
    assert!(!reply.text().contains("canary"), "{}", reply.text());
    let other = caller.post(INVOKE, with("sk-canary-another")).await;
    let hash = |reply: &Reply| reply.json()["toolCalled"]["argsHash"].clone();
    assert_eq!(hash(&reply), hash(&other), "redacted before it was hashed");
    let kept: Vec<_> = gw.events().await.into_iter().map(|logged| logged.event).collect();
    assert!(!serde_json::to_string(&kept).unwrap().contains("canary"));
    for broken in [
        json!({ "principal": CANARY, "toolName": CANARY.replace('-', " ") }),
        json!({ "principal": "p", "toolName": "t", "requiredScopes": [CANARY, "  "] }),
        json!({ "principal": "p", "toolName": "t", "simulateToolError": CANARY }),
        json!([CANARY]),
    ] {
        let reply = caller.post(INVOKE, broken.clone()).await;
        assert_eq!(reply.status, 400, "{broken}");
        assert!(!reply.text().contains("canary"), "{}", reply.text());
    }
}

/// `tool-hooks-failure-honesty`.
#[tokio::test]
async fn a_failure_says_what_it_is() {
    let (_gw, caller) = start().await;
    let failing =
        json!({ "principal": "core.system", "toolName": "web.search", "simulateToolError": true });
    let reply = caller.post(INVOKE, failing).await;
    assert_eq!(reply.status, 200);
    let returned = &reply.json()["toolReturned"];
    assert_eq!(returned["status"], "error");
    for member in ["code", "message"] {
        assert!(!returned["error"][member].as_str().unwrap().is_empty(), "{member}");
    }
    assert_eq!(returned.get("outcome"), None);
    assert!(returned["durationMs"].is_u64(), "it ran");
    // A call that never started has no duration, whatever its error.
    let invalid = json!({ "principal": "core.system", "toolName": "web.search", "args": [1] });
    let returned = &caller.post(INVOKE, invalid).await.json()["toolReturned"];
    assert_eq!(returned["error"]["code"], "validation_error");
    assert_eq!(returned.get("durationMs"), None);
}

/// `tool-session-lifecycle`.
#[tokio::test]
async fn a_session_brackets_its_calls() {
    let (_gw, caller) = start().await;
    facet(&caller, "toolCatalog", "sessionLifecycle").await;
    let probe = caller.get(&events_of("__probe__")).await;
    assert_eq!(probe.parts(), (200, json!({ "events": [] })), "how the suite finds the seam");
    let reset = caller.post(RESET, json!({})).await;
    assert!((200..300).contains(&reset.status));
    for (body, tool) in
        [(json!({}), "probe.session"), (json!({ "toolId": "web.search" }), "web.search")]
    {
        let ran = caller.post(SESSION, body).await;
        assert_eq!(ran.status, 200);
        let ran = ran.json();
        assert_eq!(ran["toolId"], tool);
        let events = caller.get(&events_of(ran["runId"].as_str().unwrap())).await.json();
        let list = &events["events"];
        assert_eq!(
            column(list, "type"),
            [
                "tool.session.opened",
                "agent.toolCalled",
                "agent.toolReturned",
                "tool.session.closed"
            ]
        );
        let sequences: Vec<_> =
            list.as_array().unwrap().iter().map(|event| event["sequence"].as_u64()).collect();
        assert_eq!(sequences, (0..4).map(Some).collect::<Vec<_>>());
        let id = &ran["sessionId"];
        assert_eq!(list[0]["payload"], json!({ "sessionId": id, "toolId": tool }));
        assert_eq!(
            list[3]["payload"],
            json!({ "sessionId": id, "toolId": tool, "outcome": "completed" })
        );
        assert_eq!(list[3]["causationId"], list[0]["eventId"]);
        assert_eq!(list[2]["payload"]["status"], "ok");
    }
}

#[tokio::test]
async fn events_are_filtered_by_all_given_parameters() {
    let (_gw, caller) = start().await;
    let ran = caller.post(SESSION, json!({})).await.json();
    let path = events_of(ran["runId"].as_str().unwrap());
    let all = caller.get(&path).await.json();
    let called = all["events"][1]["eventId"].as_str().unwrap();
    for (query, expected) in [
        ("type=agent.toolReturned".to_owned(), vec![2]),
        ("type=agent.tool".to_owned(), vec![]),
        (format!("causationId={called}"), vec![2]),
        (format!("causationId={called}&type=agent.toolReturned"), vec![2]),
        (format!("causationId={called}&type=agent.toolCalled"), vec![]),
        ("correlationId=x".to_owned(), vec![]),
        ("nodeId=x&type=agent.toolCalled".to_owned(), vec![]),
    ] {
        let found = caller.get(&format!("{path}?{query}")).await.json();
        let wanted: Vec<_> = expected.iter().map(|at: &usize| &all["events"][*at]).collect();
        assert_eq!(found["events"], json!(wanted), "{query}");
    }
}

/// I-9: a run of another principal in the same tenant has the same access rule as at `/v1/runs`.
#[tokio::test]
async fn the_test_routes_show_no_more_than_the_product_does() {
    let (gw, caller) = start().await;
    let real = caller
        .post(
            "/tools/call",
            json!({ "request": { "tool_id": "crib.read", "input": { "path": "p" } } }),
        )
        .await;
    let real = real.header("toolcrib-run-id").to_owned();
    let probed = caller.post(SESSION, json!({})).await.header("toolcrib-run-id").to_owned();
    let colleague = gw.principal("colleague", []).await;
    let stranger = gw.principal_of("other", "suite", &["*"]).await;
    let count = async |who: &Actor, run: &str| {
        let reply = who.get(&events_of(run)).await;
        assert_eq!(reply.status, 200);
        reply.json()["events"].as_array().unwrap().len()
    };
    assert_eq!((count(&caller, &real).await, count(&caller, &probed).await), (2, 4));
    assert_eq!((count(&colleague, &real).await, count(&colleague, &probed).await), (0, 4));
    assert_eq!((count(&stranger, &real).await, count(&stranger, &probed).await), (0, 0));
    assert_eq!(count(&caller, "%FF").await, 0);
    // No list shows a probe, and a probe cannot be called as a tool.
    for path in ["/v1/tools", "/tools", "/explorer/tools"] {
        assert!(!caller.get(path).await.text().contains("probe"), "{path}");
    }
    assert_eq!(caller.get("/v1/tools/probe.session").await.status, 404);
    for taken in ["mcp:crib.read", "mcp:other.secret", "mcp:no.such"] {
        for (path, body) in [
            (INVOKE, json!({ "principal": "p", "toolName": taken })),
            (SESSION, json!({ "toolId": taken })),
        ] {
            let reply = caller.post(path, body).await;
            assert_eq!(reply.status, 400, "{taken}");
            assert!(!reply.text().contains(taken));
        }
    }
}

#[tokio::test]
async fn requests_without_a_required_member_name_it_in_the_error() {
    let (_gw, caller) = start().await;
    for (body, member) in [
        (json!({ "toolName": "t" }), "principal"),
        (json!({ "principal": "", "toolName": "t" }), "principal"),
        (json!({ "principal": 7, "toolName": "t" }), "principal"),
        (json!({ "principal": "p" }), "toolName"),
        (json!({ "principal": "p", "toolName": "" }), "toolName"),
        (json!({ "principal": "p", "toolName": "t", "requiredScopes": "a" }), "requiredScopes"),
        (json!({ "principal": "p", "toolName": "t", "requiredScopes": [""] }), "requiredScopes"),
    ] {
        let (status, told) = caller.post(INVOKE, body.clone()).await.parts();
        assert_eq!((status, &told["error"]), (400, &json!("validation_error")), "{body}");
        assert_eq!(told["details"]["parameter"], member, "{body}");
    }
    for body in ["", "[]", "{", "7"] {
        assert_eq!(caller.post_text(INVOKE, body).await.status, 400, "{body}");
        assert_eq!(caller.post_text(SESSION, body).await.status, 400, "{body}");
    }
}

/// The test routes and their responses: anonymous, a key without scopes, another tenant's key. An
/// absent route responds like an unknown path, after the 401 (I-10, I-11); no test route is
/// described.
#[tokio::test]
async fn test_routes_require_a_key_and_are_absent_unless_enabled() {
    let body = json!({ "principal": "p", "toolName": "t" });
    let rows = [
        (Method::POST, INVOKE.to_owned(), body),
        (Method::POST, SESSION.to_owned(), json!({})),
        (Method::GET, events_of("__probe__"), json!({})),
        (Method::POST, RESET.to_owned(), json!({})),
    ];
    // `test-seam-unauthenticated` requests these; they do not exist here.
    let unknown = [
        "/v1/host/sample/test/mock-ai/program",
        "/v1/host/sample/governance/approval-gate",
        "/v1/host/sample/packs/install-gate",
        "/v1/host/sample/subrun/attest",
    ];
    for there in [true, false] {
        let builder = fixture();
        let gw = if there { builder.test_routes() } else { builder }.start().await;
        let keys =
            [gw.principal("none", []).await, gw.principal_of("other", "admin", &["*"]).await];
        for (method, path, body) in &rows {
            let sent = (method.clone(), path.as_str(), Some(body.to_string().into()));
            let nobody = gw.anonymous().send(sent.0.clone(), sent.1, sent.2.clone()).await;
            assert_eq!((nobody.status, &nobody.json()["error"]), (401, &json!("unauthenticated")));
            assert_eq!(nobody.header("www-authenticate"), "Bearer");
            for key in &keys {
                let reply = key.send(sent.0.clone(), sent.1, sent.2.clone()).await;
                assert_eq!(reply.status, if there { 200 } else { 404 }, "{path}: {}", reply.text());
                if !there {
                    assert_eq!(reply.body, key.get("/v1/no-such-thing").await.body);
                }
            }
        }
        for path in unknown {
            for method in [Method::GET, Method::POST] {
                let nobody = gw.anonymous().send(method.clone(), path, Some("{}".into())).await;
                assert_eq!(nobody.status, 401, "{path}");
                let reply = keys[0].send(method, path, Some("{}".into())).await;
                assert_eq!(reply.status, 404, "{path}");
            }
        }
        let wrong = keys[0].get(INVOKE).await;
        assert_eq!(wrong.status, if there { 405 } else { 404 });
        assert!(!gw.anonymous().get("/v1/openapi.json").await.text().contains("/v1/host"));
        assert!(!gw.anonymous().get("/.well-known/openwop").await.text().contains("host/sample"));
    }
}

/// A return event without a call is stored, read, and does not disturb the search for open calls.
#[tokio::test]
async fn a_return_without_a_call_is_an_event_like_others() {
    let gw = fixture().start().await;
    let auditor = gw.principal("auditor", ["audit:read"]).await;
    let (tenant, agent) = ("acme".parse().unwrap(), "agent:one".parse().unwrap());
    let told = gw.gateway.audit().forbidden_at_load(&tenant, &agent, ["mcp:crib.gone"]);
    let run = told.await.unwrap();
    let events = auditor.get(&format!("/v1/runs/{run}/events")).await.json();
    let row = &events["events"][0];
    assert_eq!(column(&events["events"], "type"), ["agent.toolReturned"]);
    assert_eq!(row["payload"]["status"], "forbidden");
    assert_eq!((row.get("causationId"), row["payload"].get("durationMs")), (None, None));
    let page = auditor.get("/v1/events?after=0").await.json();
    assert_eq!(page["events"][0]["event"], *row);
    assert_eq!(gw.store.recover(gw.gateway.clock().now()).await.unwrap(), 0);
    let reader = gw.principal("reader", []).await;
    assert_eq!(reader.get(&format!("/v1/runs/{run}/events")).await.status, 404);
}
