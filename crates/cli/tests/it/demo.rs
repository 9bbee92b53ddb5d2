//! `serve --demo`, end to end over real sockets.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::support::{Caller, Server, demo_key, dir, eventually, facts, run, toolcrib};

/// Tool id, wire name, and whether the reader may use it.
const TOOLS: &[(&str, &str, bool)] = &[
    ("connector:library.borrow_book", "library__borrow_book", false),
    ("connector:library.find_books", "library__find_books", true),
    ("mcp:demo.add", "demo__add", true),
    ("mcp:demo.echo", "demo__echo", true),
    ("mcp:demo.fail", "demo__fail", false),
    ("mcp:demo.slow", "demo__slow", true),
    ("mcp:demo.structured", "demo__structured", true),
    ("mcp:demo.wipe", "demo__wipe", false),
    ("openwop:vendor.toolcrib.everyday.cron-next", "everyday__cron-next", true),
    ("openwop:vendor.toolcrib.everyday.json-diff", "everyday__json-diff", true),
    ("openwop:workflow.forecast", "flows__forecast", true),
    ("openwop:workflow.welcome", "flows__welcome", true),
    ("x-host-host-digest", "host__digest", true),
    ("x-host-host-version", "host__version", false),
];

/// The names in the lists of OpenWOP, OTC, the explorer and MCP for `caller`.
async fn lists(caller: &Caller) -> [Vec<String>; 4] {
    let names = |list: &Value, key: &str| {
        let list = list.as_array().unwrap_or_else(|| panic!("{list}"));
        let mut names: Vec<String> =
            list.iter().map(|tool| tool[key].as_str().unwrap().to_owned()).collect();
        names.sort();
        names
    };
    let openwop = caller.get("/v1/tools").await.1;
    let otc = caller.get("/tools").await.1;
    let explorer = caller.get("/explorer/tools").await.1;
    let mcp = caller.mcp("tools/list", json!({})).await.1;
    [
        names(&openwop, "toolId"),
        names(&otc["tools"], "name"),
        names(&explorer, "name"),
        names(&mcp["result"]["tools"], "name"),
    ]
}

/// Those lists, of the tools of the table that `wanted` takes.
fn expected(wanted: impl Fn(bool) -> bool) -> [Vec<String>; 4] {
    let tools: Vec<_> = TOOLS.iter().filter(|(.., reader)| wanted(*reader)).collect();
    let ids: Vec<String> = tools.iter().map(|(id, ..)| (*id).to_owned()).collect();
    let mut names: Vec<String> = tools.iter().map(|(_, name, _)| (*name).to_owned()).collect();
    names.sort();
    [ids, names.clone(), names.clone(), names]
}

#[tokio::test]
async fn it_introduces_itself() {
    let dir = dir();
    let data = dir.path().join("data");
    let server = Server::demo(&data);
    let shown = server.process.stdout();
    for (id, name, _) in TOOLS {
        assert!(shown.contains(id) && shown.contains(name), "{shown}");
    }
    for url in ["/explorer", "/mcp", "/v1/tools", "/tools"] {
        assert!(shown.contains(&format!("{}{url}", server.url)), "{shown}");
    }
    assert!(shown.contains("curl -s") && shown.contains("always"), "{shown}");
    let facts = facts(&data);
    assert_eq!(facts["url"], server.url.as_str());
    assert_eq!(facts["keys"].as_object().unwrap().len(), 4);
    let told = server.caller(facts["keys"]["admin"].as_str()).get("/v1/sources").await.1;
    assert_eq!(told["sources"].as_array().unwrap().len(), 5, "{told}");
    let help = run(dir.path(), &["serve", "--help"]).ok().stdout;
    assert!(help.contains("five sources and four keys"), "{help}");
    let mode = std::os::unix::fs::PermissionsExt::mode(
        &data.join("demo.json").metadata().unwrap().permissions(),
    );
    assert_eq!(mode & 0o777, 0o600);
}

#[tokio::test]
async fn every_dialect_lists_the_same_tools() {
    // I-7
    let dir = dir();
    let data = dir.path().join("data");
    let server = Server::demo(&data);
    let admin = server.caller(Some(&demo_key(&data, "admin")));
    let reader = server.caller(Some(&demo_key(&data, "reader")));
    let other = server.caller(Some(&demo_key(&data, "other-tenant")));
    assert_eq!(lists(&admin).await, expected(|_| true));
    assert_eq!(lists(&reader).await, expected(|reader| reader));
    // I-9
    for listed in lists(&other).await {
        assert!(listed.is_empty(), "{listed:?}");
    }
}

#[tokio::test]
async fn every_calling_surface_calls() {
    let dir = dir();
    let data = dir.path().join("data");
    let server = Server::demo(&data);
    let admin = server.caller(Some(&demo_key(&data, "admin")));

    let (status, body) = admin.otc("demo.echo", json!({ "text": "over otc" })).await;
    assert_eq!((status, &body["result"]["success"]), (200, &json!(true)), "{body}");
    assert!(body["result"]["value"].to_string().contains("over otc"), "{body}");

    let (status, body) =
        admin.post("/explorer/tools/demo__add/call", &json!({ "a": 40, "b": 2.5 })).await;
    assert_eq!((status, &body["isError"]), (200, &json!(false)), "{body}");
    assert_eq!(body["content"][0]["text"], "42.5");

    let call = json!({ "name": "demo__structured", "arguments": { "city": "Bonn" } });
    let (status, body) = admin.mcp("tools/call", call).await;
    assert_eq!(status, 200, "{body}");
    assert_eq!(body["result"]["structuredContent"]["city"], "Bonn", "{body}");

    let (status, body) = admin.otc("demo__fail", json!({ "message": "as agreed" })).await;
    assert_eq!((status, &body["result"]["success"]), (200, &json!(false)), "{body}");

    let (status, body) = admin.otc("demo__echo", json!({ "txt": 1 })).await;
    assert_eq!(status, 422, "{body}");

    let document = json!({ "document": "{\"b\":1,\"a\":2}" });
    let (status, body) = admin.otc("host__digest", document).await;
    assert_eq!((status, &body["result"]["success"]), (200, &json!(true)), "{body}");

    let (status, body) = admin.otc("library__find_books", json!({ "author": "austen" })).await;
    assert_eq!((status, &body["result"]["success"]), (200, &json!(true)), "{body}");
    assert_eq!(body["result"]["value"]["books"][1]["title"], "Emma", "{body}");
    let loan = json!({ "isbn": "9780141439587", "body": { "days": 14 } });
    let (status, body) = admin.post("/explorer/tools/library__borrow_book/call", &loan).await;
    assert_eq!((status, &body["structuredContent"]["days"]), (200, &json!(14)), "{body}");
    let cities = json!({ "cities": ["Bonn", "Riga"] });
    let (status, body) = admin.otc("flows__forecast", cities).await;
    assert_eq!((status, &body["result"]["success"]), (200, &json!(true)), "{body}");
    assert_eq!(body["result"]["value"]["reports"][1]["city"], "Riga", "{body}");
    let (status, body) =
        admin.post("/explorer/tools/flows__welcome/call", &json!({ "name": "Ann" })).await;
    assert_eq!((status, &body["isError"]), (200, &json!(false)), "{body}");
    assert_eq!(body["structuredContent"]["text"], "Hello, Ann! It is a fine day.", "{body}");
    let call = json!({ "name": "flows__welcome", "arguments": { "name": "Ann", "city": "Bonn" },
        "_meta": { "progressToken": "p" } });
    let messages = admin.mcp_messages("tools/call", call).await;
    let progress = messages.iter().filter(|it| it["method"] == "notifications/progress").count();
    assert_eq!(progress, 4, "one for each step: {messages:#?}");
    assert_eq!(messages.last().unwrap()["result"]["structuredContent"]["weather"], "ok");

    // I-15
    let (status, body) = admin.otc("demo__wipe", json!({})).await;
    assert!(body.to_string().contains("approval required"), "{status} {body}");
    assert!(!body.to_string().contains("nothing was deleted"));
}

/// Valid arguments, and the expected result of a call.
fn fitting(tool: &str) -> (Value, &'static str) {
    match tool {
        "library__borrow_book" => (json!({ "isbn": "9780141439587", "body": { "days": 7 } }), "ok"),
        "demo__add" => (json!({ "a": 1, "b": 2 }), "ok"),
        "demo__echo" => (json!({ "text": "hi" }), "ok"),
        "demo__fail" => (json!({}), "failed"),
        "demo__slow" => (json!({ "steps": 1, "step_ms": 0 }), "ok"),
        "demo__structured" => (json!({ "city": "Bonn", "wind": true }), "ok"),
        "demo__wipe" | "host__version" => (json!({}), "approval required"),
        "everyday__cron-next" => {
            (json!({ "expression": "0 0 * * *", "after": "2026-01-01T00:00:00Z" }), "ok")
        }
        "everyday__json-diff" => (json!({ "from": 1, "to": 2 }), "ok"),
        "flows__forecast" => (json!({ "cities": ["Bonn"] }), "ok"),
        "flows__welcome" => (json!({ "name": "Ann" }), "ok"),
        "host__digest" => (json!({ "document": "{}" }), "ok"),
        _ => (json!({}), "ok"),
    }
}

#[tokio::test]
async fn every_kind_of_source_is_listed_and_every_tool_called_on_every_surface() {
    let dir = dir();
    let data = dir.path().join("data");
    let server = Server::demo(&data);
    let admin = server.caller(Some(&demo_key(&data, "admin")));

    let (_, discovery) = admin.get("/.well-known/openwop").await;
    let kinds = discovery["capabilities"]["toolCatalog"]["sources"].as_array();
    let kinds = kinds.or_else(|| discovery["toolCatalog"]["sources"].as_array()).unwrap();
    let mut told: Vec<&str> = kinds.iter().map(|kind| kind.as_str().unwrap()).collect();
    told.sort_unstable();
    assert_eq!(told, ["connector", "host-extension", "mcp", "node-pack", "workflow"]);
    let mut listed = 0;
    for kind in told {
        let (status, tools) = admin.get(&format!("/v1/tools?source={kind}")).await;
        let tools = tools.as_array().unwrap();
        assert!(status == 200 && tools.len() >= 2, "{kind}: {tools:?}");
        assert!(tools.iter().all(|tool| tool["source"] == kind), "{kind}: {tools:?}");
        listed += tools.len();
    }
    assert_eq!(listed, TOOLS.len());

    for (_, tool, _) in TOOLS {
        let (input, expected) = fitting(tool);
        let (_, otc) = admin.otc(tool, input.clone()).await;
        let call = json!({ "request": { "tool_id": tool, "input": input } });
        let (_, oxp) = admin.post("/oxp/tools/call", &call).await;
        let (_, explorer) = admin.post(&format!("/explorer/tools/{tool}/call"), &input).await;
        let (_, mcp) = admin.mcp("tools/call", json!({ "name": tool, "arguments": input })).await;
        let succeeded = [
            &otc["result"]["success"],
            &oxp["result"]["success"],
            &json!(explorer["isError"] == false),
            &json!(mcp["result"]["isError"] == false),
        ];
        for (answer, succeeded) in [&otc, &oxp, &explorer, &mcp].into_iter().zip(succeeded) {
            let says = answer.to_string().to_lowercase();
            match expected {
                "ok" => assert_eq!(succeeded, &json!(true), "{tool}: {answer}"),
                "failed" => assert_eq!(succeeded, &json!(false), "{tool}: {answer}"),
                refusal => {
                    assert!(says.contains(refusal), "{tool}: {answer}");
                    assert_ne!(succeeded, &json!(true), "{tool}: {answer}");
                }
            }
        }
    }
}

#[tokio::test]
async fn who_may_not_is_told_so_or_nothing() {
    let dir = dir();
    let data = dir.path().join("data");
    let server = Server::demo(&data);
    let reader = server.caller(Some(&demo_key(&data, "reader")));
    let other = server.caller(Some(&demo_key(&data, "other-tenant")));
    let nobody = server.caller(None);

    // A scope is missing: reads say 404, calls 403.
    assert_eq!(reader.get("/v1/tools/mcp:demo.echo").await.0, 200);
    assert_eq!(reader.get("/v1/tools/mcp:demo.fail").await.0, 404);
    assert_eq!(reader.otc("demo__fail", json!({})).await.0, 403);

    // Another tenant: as if it did not exist (I-9).
    let foreign = other.get("/v1/tools/mcp:demo.echo").await;
    let unknown = other.get("/v1/tools/mcp:demo.nothing").await;
    assert_eq!(foreign.0, 404);
    assert_eq!(foreign, unknown);
    let foreign = other.otc("demo__echo", json!({ "text": "x" })).await;
    assert_eq!(foreign, other.otc("demo__nothing", json!({ "text": "x" })).await);
    assert_ne!(foreign.0, 200);

    // Without a key (I-10).
    for path in ["/v1/tools", "/v1/tools/mcp:demo.echo", "/v1/no/such/route", "/tools"] {
        assert_eq!(nobody.get(path).await.0, 401, "{path}");
    }
    assert_eq!(nobody.otc("demo__echo", json!({ "text": "x" })).await.0, 401);
    assert_eq!(nobody.mcp("tools/list", json!({})).await.0, 401);
}

#[tokio::test]
async fn keys_are_kept_and_a_lost_file_is_made_again() {
    let dir = dir();
    let data = dir.path().join("data");
    Server::demo(&data).stop();
    let first = facts(&data)["keys"].clone();
    Server::demo(&data).stop();
    assert_eq!(facts(&data)["keys"], first, "working keys are kept");
    std::fs::remove_file(data.join("demo.json")).unwrap();
    let server = Server::demo(&data);
    assert_ne!(facts(&data)["keys"], first);
    let admin = server.caller(Some(&demo_key(&data, "admin")));
    assert_eq!(admin.get("/v1/tools").await.0, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_command_line_talks_to_it() {
    let dir = dir();
    let data = dir.path().join("data");
    let server = Server::demo(&data);
    std::fs::write(dir.path().join("key"), demo_key(&data, "admin") + "\n").unwrap();
    let remote = |args: &[&str]| {
        run(dir.path(), &[&["--url", &server.url, "--key-file", "key"], args].concat())
    };
    let listed = remote(&["tools", "list", "--source", "mcp"]).ok().stdout;
    assert_eq!(listed.lines().count(), 7, "{listed}");
    assert!(remote(&["tools", "show", "mcp:demo.echo"]).ok().stdout.contains("Answers the text"));
    assert_eq!(remote(&["tools", "show", "mcp:demo.nothing"]).code, 1);
    for name in ["demo__echo", "demo.echo", "mcp:demo.echo"] {
        assert_eq!(remote(&["call", name, r#"{"text":"hi"}"#]).ok().stdout, "hi\n", "{name}");
    }
    assert_eq!(remote(&["call", "mcp:demo.nothing"]).code, 1);
    let failed = remote(&["call", "demo__fail", "{}"]);
    assert_eq!(failed.code, 1);
    assert!(failed.stdout.contains("it did not work"), "{}", failed.stdout);
    let wrong = remote(&["call", "demo__echo", "{}"]);
    assert_eq!(wrong.code, 1);
    assert!(wrong.stderr.contains("text"), "{}", wrong.stderr);
    let sources = remote(&["sources", "check"]).ok().stdout;
    assert!(sources.contains("demo") && sources.contains("ready"), "{sources}");
    let events = remote(&["audit", "export"]).ok();
    assert!(events.stdout.lines().count() >= 8, "{}", events.stdout);
    let denied = run(dir.path(), &["--url", &server.url, "tools", "list"]);
    assert_eq!(denied.code, 1);
    assert!(denied.stderr.contains("hint: set TOOLCRIB_KEY"), "{}", denied.stderr);
}

#[test]
fn its_keys_are_printed_for_a_shell() {
    let dir = dir();
    let data = dir.path().join("data");
    let there = data.to_str().unwrap();
    let none = run(dir.path(), &["demo", "keys", "admin", "--data-dir", there]);
    assert_eq!(none.code, 1, "{none:?}");
    assert!(none.stderr.contains("no demo found") && none.stderr.contains("serve --demo"));
    assert_eq!(none.stdout, "");

    let _server = Server::demo(&data);
    for name in ["admin", "reader", "approver", "other-tenant"] {
        let printed = run(dir.path(), &["demo", "keys", name, "--data-dir", there]).ok().stdout;
        assert_eq!(printed, format!("{}\n", demo_key(&data, name)));
    }
    let all = run(dir.path(), &["demo", "keys", "--data-dir", there]).ok().stdout;
    assert_eq!(all.lines().count(), 4, "{all}");
    let all = run(dir.path(), &["--json", "demo", "keys", "--data-dir", there]).ok().json();
    assert_eq!(all, facts(&data)["keys"]);
    let unknown = run(dir.path(), &["demo", "keys", "nobody", "--data-dir", there]);
    assert!(unknown.code == 2 && unknown.stderr.contains("other-tenant"), "{unknown:?}");
}

/// As in the README: the record of a demo can be verified seconds after the first calls.
#[test]
fn its_record_is_verified_soon() {
    let dir = dir();
    let data = dir.path().join("data");
    let empty = run(dir.path(), &["--data-dir", "data", "demo", "keys"]);
    assert!(empty.code == 1 && empty.stderr.contains("toolcrib serve --demo"), "{empty:?}");
    let server = Server::demo(&data);
    let key = demo_key(&data, "admin");
    run(dir.path(), &["--url", &server.url, "--key", &key, "call", "demo__add", "a=2", "b=3"]).ok();
    let verify = || run(dir.path(), &["--data-dir", "data", "audit", "verify"]);
    eventually("the first events are signed", || verify().code == 0);
    let said = verify().ok().stdout;
    assert!(said.contains("verified, nothing was changed"), "{said}");
}

/// The demo's own calls: every kind of result, under names that say so, and only once.
#[test]
fn it_makes_a_history_once() {
    let dir = dir();
    let start = |until: &str| {
        let args = ["-v", "serve", "--demo", "--listen", "127.0.0.1:0", "--data-dir", "data"];
        let mut server = Server::of(toolcrib(dir.path()).args(args));
        server.process.until(until, |it| it.stderr().contains(until).then_some(()));
        server
    };
    let export = || {
        let lines = run(dir.path(), &["--data-dir", "data", "audit", "export"]).ok().stdout;
        lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect::<Vec<Value>>()
    };
    let text = |event: &Value, pointer: &str| {
        event.pointer(pointer).and_then(Value::as_str).map(str::to_owned)
    };
    let server = start("the demo has made its history: ");
    let admin = demo_key(&dir.path().join("data"), "admin");
    let pending = || {
        let args = ["--url", &server.url, "--key", &admin, "--json", "approvals", "list"];
        run(dir.path(), &[&args[..], &["--state", "pending"]].concat()).ok().json()
    };
    assert_eq!(pending().as_array().map(Vec::len), Some(1), "{}", pending());
    server.stop();
    let events = export();
    let all =
        |pointer: &str| events.iter().filter_map(|it| text(it, pointer)).collect::<BTreeSet<_>>();
    let called = events.iter().filter(|it| it["type"] == "agent.toolCalled").count();
    assert!(called >= 250, "{called} calls");
    let principals = all("/payload/principal");
    assert!(principals.len() >= 6, "{principals:?}");
    assert!(principals.iter().all(|it| it.starts_with("demo-")), "{principals:?}");
    assert!(all("/payload/toolName").len() >= 10, "{:?}", all("/payload/toolName"));
    let statuses = all("/payload/status");
    for status in ["ok", "error"] {
        assert!(statuses.contains(status), "{statuses:?}");
    }
    let types = all("/type");
    for kind in [
        "agent.toolReturned",
        "approval.granted",
        "approval.rejected",
        "authorization.decided",
        "interrupt.requested",
        "tool.session.closed",
    ] {
        assert!(types.contains(kind), "{types:?}");
    }
    start("the record has the demo's history already").stop();
    let again = export();
    let made =
        |events: &[Value]| events.iter().filter(|it| it["type"] == "agent.toolCalled").count();
    assert_eq!(made(&again), called);
}
