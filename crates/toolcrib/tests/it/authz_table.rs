//! The authorization of every route. A route without a row fails, and so does a row without a
//! route.

use std::collections::BTreeSet;

use http::Method;
use serde_json::{Value, json};
use toolcrib_testkit::gateway::{
    Actor, Reply, TestGateway, TestIssuer, TestKey, TestSource, TestTool,
};

use crate::support::page_script;

/// Expected responses for four callers: anonymous, a key without scopes, a key of another tenant
/// with all scopes, the right key. Two more callers get the same as the anonymous one: an expired
/// key with all scopes, and a token with a forged signature. For routes that show tools or events,
/// the word after the status states whether the tenant's own were visible.
struct Row {
    method: &'static str,
    /// As in openapi.json.
    route: &'static str,
    /// The requested path. `RUN` is a run of the right key, `FLOW` one with a workflow, `KEY` a key
    /// of its tenant, `VERSION` that of the page's files,
    /// `PART` a part of its catalog.
    path: &'static str,
    body: Option<Value>,
    answers: [&'static str; 4],
}

const OPEN: [&str; 4] = ["200", "200", "200", "200"];
/// For routes that exist only with certain settings.
const ABSENT: [&str; 4] = ["404", "404", "404", "404"];
/// The same below a path where every caller needs a key.
const HIDDEN: [&str; 4] = ["401", "404", "404", "404"];

fn rows() -> Vec<Row> {
    let get = |route, path, answers| Row { method: "get", route, path, body: None, answers };
    let post =
        |route, path, body, answers| Row { method: "post", route, path, body: Some(body), answers };
    let own = ["401", "404", "404", "200 sees"];
    let list = ["401", "200 blind", "200 blind", "200 sees"];
    vec![
        get("/.well-known/openwop", "/.well-known/openwop", OPEN),
        get("/v1/openapi.json", "/v1/openapi.json", OPEN),
        get("/v1/tools", "/v1/tools", list),
        get("/v1/tools/{toolId}", "/v1/tools/mcp%3Acrib.read", own),
        // Like a call: a missing scope is named (RFC 0064 §C), except to another tenant.
        get(
            "/v1/explain",
            "/v1/explain?tool=crib__read",
            ["401", "200 sees", "200 blind", "200 sees"],
        ),
        // About another principal, which is absent in a foreign tenant.
        get(
            "/v1/explain",
            "/v1/explain?tool=crib__read&principal=crib",
            ["401", "403", "404", "200 sees"],
        ),
        get("/v1/whoami", "/v1/whoami", ["401", "200", "200", "200"]),
        // The events are tested elsewhere; this checks only that the stream opens.
        get("/v1/changes", "/v1/changes", ["401", "200", "200", "200"]),
        get("/v1/runs/{runId}/events", "/v1/runs/RUN/events", own),
        get("/v1/runs", "/v1/runs", list),
        post(
            "/v1/runs/{runId}/cancel",
            "/v1/runs/FLOW/cancel",
            json!({}),
            ["401", "404", "404", "202"],
        ),
        get("/v1/events", "/v1/events?after=0", ["401", "403", "200 blind", "200 sees"]),
        get("/v1/events/summary", "/v1/events/summary?from=1h", ["401", "403", "200", "200"]),
        get(
            "/v1/events/export",
            "/v1/events/export?from=1h",
            ["401", "403", "200 blind", "200 sees"],
        ),
        get("/v1/record/checkpoints", "/v1/record/checkpoints", ["401", "403", "200", "200"]),
        get("/v1/record/forwarders", "/v1/record/forwarders", ["401", "403", "200", "200"]),
        get("/v1/sources", "/v1/sources", ["401", "403", "200 blind", "200 sees"]),
        get("/v1/sources/{sourceId}/logs", "/v1/sources/crib/logs", ["401", "403", "404", "200"]),
        post(
            "/v1/sources/{sourceId}/refresh",
            "/v1/sources/crib/refresh",
            json!({}),
            ["401", "403", "404", "202"],
        ),
        // The role grants nothing in the other tenant, so it is unknown there.
        get("/v1/roles", "/v1/roles", ["401", "403", "200 blind", "200 sees"]),
        get("/v1/roles/{role}", "/v1/roles/crib-role", ["401", "403", "404", "200 sees"]),
        // Without a configuration file; `config_edit.rs` of the program has the table with one.
        get("/v1/config", "/v1/config", HIDDEN),
        get("/v1/config/rules", "/v1/config/rules", HIDDEN),
        post("/v1/config/propose", "/v1/config/propose", json!({}), HIDDEN),
        post("/v1/config/write", "/v1/config/write", json!({}), HIDDEN),
        get("/v1/keys", "/v1/keys", ["401", "403", "200 blind", "200 sees"]),
        post(
            "/v1/keys",
            "/v1/keys",
            json!({ "name": "new", "scopes": ["files:read"] }),
            ["401", "403", "201", "201"],
        ),
        post(
            "/v1/keys/{id}/rotate",
            "/v1/keys/KEY/rotate",
            json!({}),
            ["401", "403", "404", "201"],
        ),
        Row {
            method: "delete",
            ..get("/v1/keys/{id}", "/v1/keys/KEY", ["401", "403", "404", "200"])
        },
        get("/v1/sessions", "/v1/sessions", ["401", "200", "200", "200"]),
        // Without an `Origin` it was not sent by the page.
        post("/v1/sessions", "/v1/sessions", json!({}), ["401", "403", "403", "403"]),
        Row {
            method: "delete",
            ..get("/v1/sessions/{id}", "/v1/sessions/KEY", ["401", "404", "404", "404"])
        },
        get("/v1/clients", "/v1/clients", ["401", "200", "200", "200"]),
        get("/v1/clients", "/v1/clients?all=true", ["401", "403", "200", "200"]),
        Row { method: "delete", ..get("/v1/clients/{id}", "/v1/clients/KEY", HIDDEN) },
        get(
            "/.well-known/oauth-authorization-server",
            "/.well-known/oauth-authorization-server",
            ABSENT,
        ),
        get("/oauth/authorize", "/oauth/authorize?client_id=a", ABSENT),
        post("/oauth/consent", "/oauth/consent", json!({}), ABSENT),
        get("/oauth/callback", "/oauth/callback?code=a&state=b", ABSENT),
        post("/oauth/token", "/oauth/token", json!({}), ABSENT),
        post("/oauth/revoke", "/oauth/revoke", json!({}), ABSENT),
        post("/oauth/register", "/oauth/register", json!({}), ABSENT),
        get("/v1/saved", "/v1/saved?kind=view", ["401", "403", "200 blind", "200 sees"]),
        // Calls are visible like their tools.
        get("/v1/saved", "/v1/saved?kind=call", list),
        post(
            "/v1/saved",
            "/v1/saved",
            json!({ "kind": "view", "name": "new", "query": "q=a" }),
            ["401", "403", "201", "201"],
        ),
        post(
            "/v1/saved",
            "/v1/saved",
            json!({ "kind": "call", "name": "new", "tool": "mcp:crib.read", "arguments": {} }),
            ["401", "404", "404", "201"],
        ),
        Row {
            method: "delete",
            ..get("/v1/saved/{id}", "/v1/saved/VIEW", ["401", "404", "404", "200"])
        },
        Row {
            method: "delete",
            ..get("/v1/saved/{id}", "/v1/saved/CALL", ["401", "404", "404", "200"])
        },
        // No source of this gateway has accounts.
        get("/v1/connections", "/v1/connections", ["401", "200", "200", "200"]),
        get("/v1/connections", "/v1/connections?all=true", ["401", "403", "200", "200"]),
        post("/v1/connections/link", "/v1/connections/link", json!({ "source": "crib" }), HIDDEN),
        post(
            "/v1/connections/link",
            "/v1/connections/link",
            json!({ "source": "crib", "tenant": true }),
            ["401", "403", "404", "404"],
        ),
        post(
            "/v1/connections/preview",
            "/v1/connections/preview",
            json!({ "source": "crib" }),
            HIDDEN,
        ),
        post("/v1/connections/begin", "/v1/connections/begin", json!({ "link": "a" }), HIDDEN),
        post(
            "/v1/connections/finish",
            "/v1/connections/finish",
            json!({ "source": "crib", "state": "a" }),
            // No one has started.
            ["401", "403", "403", "403"],
        ),
        Row { method: "delete", ..get("/v1/connections/{id}", "/v1/connections/KEY", HIDDEN) },
        get("/connect/{source}/callback", "/connect/crib/callback", ["303"; 4]),
        get("/connect/client.json", "/connect/client.json", ABSENT),
        get("/v1/pins", "/v1/pins", ["401", "403", "200 blind", "200 sees"]),
        post(
            "/v1/pins/approve",
            "/v1/pins/approve",
            json!({ "tools": [{ "toolId": "mcp:crib.read", "digest": "0".repeat(64) }] }),
            // It is unchanged since its approval, so nothing is pending.
            ["401", "403", "404", "409"],
        ),
        get("/v1/approvals", "/v1/approvals", list),
        get("/v1/approvals/{approvalId}", "/v1/approvals/GATE", own),
        post(
            "/v1/approvals/{approvalId}",
            "/v1/approvals/GATE",
            json!({ "verdict": "grant" }),
            // The requester may read the approval but not decide it.
            ["401", "404", "404", "403"],
        ),
        // The events are tested with approvals; this checks only that the stream opens.
        get("/v1/approvals/events", "/v1/approvals/events", ["401", "200", "200", "200"]),
        get("/health", "/health", OPEN),
        get("/tools", "/tools", list),
        post(
            "/tools/call",
            "/tools/call",
            json!({ "request": { "tool_id": "crib.read" } }),
            ["401", "403", "400", "200"],
        ),
        get("/otc/health", "/otc/health", OPEN),
        get("/otc/tools", "/otc/tools", list),
        post(
            "/otc/tools/call",
            "/otc/tools/call",
            json!({ "request": { "tool_id": "crib.read" } }),
            ["401", "403", "400", "200"],
        ),
        get("/oxp/health", "/oxp/health", OPEN),
        get("/oxp/tools", "/oxp/tools", list),
        post(
            "/oxp/tools/call",
            "/oxp/tools/call",
            json!({ "request": { "tool_id": "crib.read" } }),
            ["401", "403", "400", "200"],
        ),
        get("/explorer", "/explorer", OPEN),
        get("/explorer/assets/{version}/{file}", "/explorer/assets/VERSION/app.js", OPEN),
        get("/explorer/sign-in", "/explorer/sign-in", OPEN),
        // Without `[auth.jwt.sign_in]`, and with an invalid body, for every caller alike.
        post("/explorer/sign-in/start", "/explorer/sign-in/start", json!({}), ["400"; 4]),
        post("/explorer/sign-in/token", "/explorer/sign-in/token", json!({}), ["400"; 4]),
        post("/explorer/sign-in/link", "/explorer/sign-in/link", json!({}), ["400"; 4]),
        get("/explorer/signed-in", "/explorer/signed-in", OPEN),
        get("/explorer/tools", "/explorer/tools", list),
        get("/explorer/catalog", "/explorer/catalog", list),
        get(
            "/explorer/catalog/{part}",
            "/explorer/catalog/PART",
            ["401", "404", "404", "200 sees"],
        ),
        get("/explorer/tools/{name}", "/explorer/tools/crib__read", ["401", "404", "404", "200"]),
        post(
            "/explorer/tools/{name}/validate",
            "/explorer/tools/crib__read/validate",
            json!({}),
            ["401", "404", "404", "200"],
        ),
        post(
            "/explorer/tools/{name}/call",
            "/explorer/tools/crib__read/call",
            json!({}),
            ["401", "403", "404", "200"],
        ),
        post("/mcp", "/mcp", json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/list" }), list),
        get("/mcp", "/mcp", ["401", "405", "405", "405"]),
        Row { method: "delete", ..get("/mcp", "/mcp", ["401", "400", "400", "400"]) },
        post(
            "/mcp/{toolset}",
            "/mcp/some",
            json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/list" }),
            list,
        ),
        get("/mcp/{toolset}", "/mcp/some", ["401", "405", "405", "405"]),
        Row {
            method: "delete",
            ..get("/mcp/{toolset}", "/mcp/some", ["401", "400", "400", "400"])
        },
        get(
            "/.well-known/oauth-protected-resource",
            "/.well-known/oauth-protected-resource",
            ABSENT,
        ),
        get(
            "/.well-known/oauth-protected-resource/mcp",
            "/.well-known/oauth-protected-resource/mcp",
            ABSENT,
        ),
        get(
            "/.well-known/oauth-protected-resource/mcp/{toolset}",
            "/.well-known/oauth-protected-resource/mcp/some",
            ABSENT,
        ),
        get("/livez", "/livez", OPEN),
        get("/readyz", "/readyz", OPEN),
        // Metrics of the whole server: `metrics:all` belongs to the operator, in any tenant.
        get("/metrics", "/metrics", ["401", "403", "200", "200"]),
        get("/schemas/{file}", "/schemas/tool-descriptor.schema.json", OPEN),
    ]
}

/// The routes of OpenWOP v2, which have a description of their own.
fn second_rows() -> Vec<Row> {
    let get = |route, path, answers| Row { method: "get", route, path, body: None, answers };
    let own = ["401", "404", "404", "200 sees"];
    let list = ["401", "200 blind", "200 blind", "200 sees"];
    // The id names the tenant, so another one is refused before the run is looked for.
    let bound = ["401", "404", "403", "200 sees"];
    let post = |path, answers| {
        let route = "/runs/{runId}/cancel";
        Row { method: "post", route, path, body: None, answers }
    };
    vec![
        get("/.well-known/openwop", "/.well-known/openwop", OPEN),
        get("/openapi.json", "/openapi.json", OPEN),
        get("/tools", "/tools", list),
        get("/tools", "/tools?view=compact", list),
        get("/tools/{toolId}", "/tools/mcp%3Acrib.read", own),
        get("/tools/{toolId}", "/tools/mcp%3Acrib.read?view=compact", own),
        get("/runs", "/runs", list),
        get("/runs/{runId}", "/runs/FLOW", own),
        get("/runs/{runId}", "/runs/acme~2FFLOW", bound),
        get("/runs/{runId}/events", "/runs/RUN/events?streamMode=debug", own),
        get("/runs/{runId}/events", "/runs/acme~2FRUN/events?streamMode=debug", bound),
        // The workflow has ended.
        post("/runs/FLOW/cancel", ["401", "404", "404", "409"]),
        post("/runs/acme~2FFLOW/cancel", ["401", "404", "403", "409"]),
    ]
}

/// Routes outside the description: the test routes, when enabled, and the page with a trailing
/// slash. Probes belong to their caller, so every key may use them; runs do not.
fn undescribed() -> Vec<Row> {
    let row = |method, route, path, body, answers| Row { method, route, path, body, answers };
    let keyed = ["401", "200", "200", "200"];
    let list = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/list" });
    vec![
        row(
            "post",
            "/v1/host/sample/toolhooks/invoke",
            "/v1/host/sample/toolhooks/invoke",
            Some(json!({ "principal": "core.system", "toolName": "web.search", "args": {} })),
            keyed,
        ),
        row(
            "post",
            "/v1/host/sample/tools/session-run",
            "/v1/host/sample/tools/session-run",
            Some(json!({ "toolId": "web.search" })),
            keyed,
        ),
        row(
            "get",
            "/v1/host/sample/test/runs/{runId}/events",
            "/v1/host/sample/test/runs/RUN/events",
            None,
            ["401", "200 blind", "200 blind", "200 sees"],
        ),
        row("post", "/v1/host/sample/test/reset", "/v1/host/sample/test/reset", None, keyed),
        row("get", "/explorer/", "/explorer/", None, OPEN),
        // Only browsers are led to the page.
        row("get", "/", "/", None, ABSENT),
        row("post", "/mcp/", "/mcp/", Some(list.clone()), keyed),
        row("post", "/mcp/{toolset}/", "/mcp/some/", Some(list), keyed),
    ]
}

/// Runs of the right key, and a key of its tenant.
struct Known {
    plain: String,
    asked: String,
    flow: String,
    key: String,
    version: String,
    part: String,
    view: String,
    call: String,
}

/// Indexes into a row's responses; the last two callers count as anonymous.
const ANSWERS: [usize; 6] = [0, 1, 2, 3, 0, 0];

/// Returns the gateway of both tables, its six callers, and the ids of the tenant's data.
async fn callers() -> (TestGateway, [Actor; 6], Known) {
    let issuer = TestIssuer::start().await;
    let gw = TestGateway::builder()
        .config(&issuer.config("[toolset.some]\nallow = [\"mcp:*\"]\n"))
        .config("[[role]]\nname = \"crib-role\"\nscopes = [\"files:*\"]")
        .test_routes()
        .source(
            TestSource::new("crib")
                .tenants(["acme"])
                .pins("enforce")
                .tool(TestTool::new("read").scopes(["files:read"]))
                .tool(TestTool::new("ask").scopes(["files:read"]).rule("approval = \"always\"")),
        )
        .workflow("crib-flow", "steps: [{ id: a, tool: 'mcp:crib.read' }]\noutputs: {}")
        .start()
        .await;
    let everything = [
        "files:read",
        "audit:read",
        "config:write",
        "connections:manage",
        "explain:others",
        "keys:manage",
        "keys:impersonate",
        "metrics:all",
        "metrics:read",
        "pins:approve",
        "roles:read",
        "sources:logs",
        "sources:read",
        "sources:refresh",
        "tools:flows",
    ];
    let held = gw.principal("crib", ["files:read"]).await;
    let claims = issuer.claims(gw.gateway.clock().now());
    // The issuer and its signatures are valid: only the key of the forged token is wrong.
    assert_eq!(gw.bearer(&issuer.sign(&claims)).get("/v1/tools").await.status, 200);
    let forged = TestKey::ec("first").sign(&claims);
    let right = gw.principal("right", everything).await;
    let call = right.post("/tools/call", json!({ "request": { "tool_id": "crib.read" } })).await;
    let plain = call.header("toolcrib-run-id").to_owned();
    let call =
        right.post("/tools/call", json!({ "request": { "tool_id": "flows__crib-flow" } })).await;
    right.post("/tools/call", json!({ "request": { "tool_id": "crib.ask" } })).await;
    let asked = right.get("/v1/approvals").await.json()["approvals"][0]["approvalId"].clone();
    let asked = asked.as_str().unwrap().to_owned();
    let key = gw.key_id(&held).to_string();
    let page = gw.anonymous().get("/explorer").await.text();
    let version = page_script(&page).split('/').nth(3).unwrap().to_owned();
    let catalog = right.get("/explorer/catalog").await.json();
    let part = catalog["parts"][0]["tag"].as_str().unwrap().to_owned();
    let save = async |body: Value| {
        let saved = right.post("/v1/saved", body).await;
        saved.json()["id"].as_str().unwrap().to_owned()
    };
    let view = save(json!({ "kind": "view", "name": "crib-view", "query": "q=a" })).await;
    let saved = json!({ "kind": "call", "name": "a", "tool": "crib__read", "arguments": {} });
    let saved = save(saved).await;
    let flow = call.header("toolcrib-run-id").to_owned();
    let known = Known { asked, plain, flow, key, version, part, view, call: saved };
    let callers = [
        gw.anonymous(),
        gw.principal("none", []).await,
        gw.principal_of("other", "right", &everything).await,
        right,
        gw.expired("late").await,
        gw.bearer(&forged),
    ];
    (gw, callers, known)
}

/// I-11, I-8, I-9.
#[tokio::test]
async fn every_route_answers_each_caller_as_the_table_says() {
    let (_gw, callers, known) = callers().await;
    let mut wrong = Vec::new();
    for row in rows().into_iter().chain(undescribed()) {
        for (caller, answer) in callers.iter().zip(ANSWERS) {
            let expected = row.answers[answer];
            if ["/v1/approvals/events", "/v1/changes"].contains(&row.route) {
                let stream = caller.open(Method::GET, row.path, None).await;
                if stream.status.to_string() != expected {
                    let status = stream.status;
                    wrong.push(format!("{} {}: {status}, not {expected}", row.method, row.path));
                }
                continue;
            }
            let reply = ask(caller, &row, &known).await;
            let blind = !reply.text().contains("crib");
            let answer = match expected.split_once(' ') {
                Some(_) => format!("{} {}", reply.status, if blind { "blind" } else { "sees" }),
                None => reply.status.to_string(),
            };
            if answer != expected {
                wrong.push(format!("{} {}: {answer}, not {expected}", row.method, row.path));
            }
        }
    }
    for row in second_rows() {
        for (caller, answer) in callers.iter().zip(ANSWERS) {
            let reply = ask(&caller.with("openwop-version", "2.0"), &row, &known).await;
            assert_eq!(reply.header("openwop-version"), "2.0", "{}", row.path);
            let blind = !reply.text().contains("crib");
            let expected = row.answers[answer];
            let answer = match expected.split_once(' ') {
                Some(_) => format!("{} {}", reply.status, if blind { "blind" } else { "sees" }),
                None => reply.status.to_string(),
            };
            if answer != expected {
                wrong.push(format!("v2 {} {}: {answer}, not {expected}", row.method, row.path));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

async fn ask(caller: &Actor, row: &Row, known: &Known) -> Reply {
    let path = row.path.replace("RUN", &known.plain);
    let path = path.replace("FLOW", &known.flow).replace("KEY", &known.key);
    let path = path.replace("PART", &known.part);
    let path = path.replace("GATE", &known.asked).replace("VERSION", &known.version);
    let path = path.replace("VIEW", &known.view).replace("CALL", &known.call);
    let method = Method::try_from(row.method.to_uppercase().as_str()).unwrap();
    let caller = caller
        .with("content-type", "application/json")
        .with("accept", "application/json, text/event-stream");
    caller.send(method, &path, row.body.as_ref().map(|body| body.to_string().into())).await
}

/// I-11.
#[tokio::test]
async fn every_route_has_a_row() {
    let gw = TestGateway::builder().start().await;
    for (path, rows) in [("/v1/openapi.json", rows()), ("/openapi.json", second_rows())] {
        check_rows(&gw.anonymous().get(path).await.json(), &rows);
    }
}

/// Fails if `rows` are not those of the routes in `document`, or two of these have the same id.
fn check_rows(document: &Value, rows: &[Row]) {
    let served: BTreeSet<(String, String)> = document["paths"]
        .as_object()
        .unwrap()
        .iter()
        .flat_map(|(path, item)| {
            item.as_object().unwrap().keys().map(|method| (method.clone(), path.clone()))
        })
        .collect();
    let listed: BTreeSet<(String, String)> =
        rows.iter().map(|row| (row.method.to_owned(), row.route.to_owned())).collect();
    assert_eq!(served, listed, "left: served, right: in the table");

    // OpenAPI requires unique operation ids, and clients name their functions after them.
    let operations = document["paths"].as_object().unwrap().values();
    let ids = operations.flat_map(|item| item.as_object().unwrap().values());
    let ids: BTreeSet<&str> = ids.map(|it| it["operationId"].as_str().unwrap()).collect();
    assert_eq!(ids.len(), served.len(), "every operation has an id of its own");
}

/// I-11: routes without a description have a row as well.
#[test]
fn every_route_without_a_description_has_a_row() {
    let sources = [
        include_str!("../../src/openwop/test_routes.rs"),
        include_str!("../../src/mcp/http.rs"),
        include_str!("../../src/explorer.rs"),
        include_str!("../../src/resource.rs"),
    ];
    let mut made: BTreeSet<String> = BTreeSet::new();
    let mut others = 0;
    for call in sources.iter().flat_map(|source| source.split(".route(").skip(1)) {
        match call.strip_prefix('"').and_then(|rest| rest.split_once('"')) {
            Some((path, _)) => drop(made.insert(path.to_owned())),
            // Computed paths (`/mcp`, `/mcp/NAME`, the metadata and the page) have rows.
            None => others += 1,
        }
    }
    let listed: BTreeSet<String> = undescribed().iter().map(|row| row.route.to_owned()).collect();
    let mut expected = listed.clone();
    for computed in ["/explorer/", "/mcp/", "/mcp/{toolset}/"] {
        assert!(expected.remove(computed));
    }
    assert_eq!(made, expected, "left: in the program, right: in the table");
    assert_eq!(others, 9, "a route whose path is not written out needs a row");
    // OXP describes its routes like those of Open Tool Calling.
    let description = toolcrib::openapi();
    assert_eq!(description["info"].get("contact"), None, "a library's authors are not ours");
    for call in include_str!("../../src/otc/oxp.rs").split(".route(\"").skip(1) {
        let (path, _) = call.split_once('"').unwrap();
        assert!(description["paths"].get(path).is_some(), "{path}");
    }
    // No other file adds a route without a description.
    for (file, text) in dialects() {
        let known = [
            "openwop/test_routes.rs",
            "mcp/http.rs",
            "explorer.rs",
            "resource.rs",
            "serve.rs",
            "otc/oxp.rs",
        ];
        let plain = text.contains(".route(\"") || text.contains(".route(&");
        assert!(!plain || known.iter().any(|known| file.ends_with(known)), "{file}");
    }
}

/// Returns every file of the library.
fn dialects() -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut open = vec![std::path::PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/src"))];
    while let Some(directory) = open.pop() {
        for entry in std::fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                open.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let text = std::fs::read_to_string(&path).unwrap();
                found.push((path.display().to_string(), text));
            }
        }
    }
    found
}

/// The MCP methods. `ok` is a result without the tenant's tools, `sees` one with them; a number is
/// an error code.
const METHODS: [(&str, [&str; 4]); 6] = [
    ("initialize", ["401", "ok", "ok", "ok"]),
    ("ping", ["401", "ok", "ok", "ok"]),
    ("server/discover", ["401", "ok", "ok", "ok"]),
    ("subscriptions/listen", ["401", "ok", "ok", "ok"]),
    ("tools/list", ["401", "ok", "ok", "sees"]),
    ("tools/call", ["401", "-31403", "-32602", "sees"]),
];

/// I-11, I-8, I-9.
#[tokio::test]
async fn every_mcp_method_answers_each_caller_as_the_table_says() {
    let (_gw, callers, _) = callers().await;
    let mut wrong = Vec::new();
    for (method, answers) in METHODS {
        for (caller, answer) in callers.iter().zip(ANSWERS) {
            let expected = answers[answer];
            let answer = ask_mcp(caller, method).await;
            if answer != expected {
                wrong.push(format!("{method}: {answer}, not {expected}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

async fn ask_mcp(caller: &Actor, method: &str) -> String {
    let mut params = json!({});
    let mut caller = caller
        .with("accept", "application/json, text/event-stream")
        .with("content-type", "application/json");
    if ["server/discover", "subscriptions/listen"].contains(&method) {
        let version = "2026-07-28";
        caller = caller.with("mcp-protocol-version", version).with("mcp-method", method);
        params = json!({ "notifications": { "toolsListChanged": true }, "_meta": {
            "io.modelcontextprotocol/protocolVersion": version,
            "io.modelcontextprotocol/clientCapabilities": {},
        } });
    }
    if method == "tools/call" {
        params = json!({ "name": "crib__read", "arguments": { "say": "crib" } });
    }
    let message = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
    let mut reply = caller.open(Method::POST, "/mcp", Some(message.to_string().into())).await;
    if reply.status != 200 {
        return reply.status.to_string();
    }
    let first = match reply.headers["content-type"].to_str().unwrap() {
        "text/event-stream" => reply.next().await.unwrap(),
        _ => reply.rest().await,
    };
    let sees = first.to_string().contains("crib__") || method == "tools/call";
    match (&first["error"]["code"], sees) {
        (Value::Null, true) => "sees".to_owned(),
        (Value::Null, false) => "ok".to_owned(),
        (code, _) => code.to_string(),
    }
}

/// I-11: every method that the dialect handles has a row, and every row is handled.
#[test]
fn every_mcp_method_has_a_row() {
    let names = include_str!("../../../mcp/src/method.rs");
    let value_of = |name: &str| {
        let (_, rest) = names.split_once(&format!("pub const {name}: &str = \"")).unwrap();
        rest.split_once('"').unwrap().0
    };
    let source = include_str!("../../src/mcp/method.rs");
    let arms = source.lines().filter_map(|line| {
        let (pattern, _) = line.trim().split_once(" =>")?;
        let (_, name) = pattern.strip_prefix('(')?.strip_suffix(')')?.rsplit_once(", ")?;
        (name != "_").then(|| value_of(name))
    });
    let matched: BTreeSet<&str> = arms.collect();
    let listed: BTreeSet<&str> = METHODS.iter().map(|(method, _)| *method).collect();
    assert_eq!(matched, listed, "left: in the dialect, right: in the table");
}
