//! The stderr and the environment of child processes.

use serde_json::json;
use toolcrib_testkit::upstream::faulty_program;

use crate::support::{Server, dir, eventually, eventually_async, key, run, write_config};

fn config(more: &str) -> String {
    let program = faulty_program();
    format!(
        "[server]\nlisten = \"127.0.0.1:0\"\n{more}\n[[source]]\nid = \"crib\"\nkind = \"mcp\"\n\
         command = [{program:?}]\n[source.tools.\"*\"]\nscopes = [\"demo:read\"]\nsafety_tier = \"read\"\n"
    )
}

// I-92
#[tokio::test(flavor = "multi_thread")]
async fn lines_of_a_child_are_for_the_operator_and_reach_no_log() {
    let dir = dir();
    let own = config("").replace("kind = \"mcp\"", "kind = \"mcp\"\ntenants = [\"default\"]");
    let own = own.replace("\"crib\"", "\"own\"").split_once("[[source]]").unwrap().1.to_owned();
    write_config(dir.path(), &format!("{}[[source]]{own}", config("")));
    let scopes = ["--scope", "demo:read", "--scope", "sources:logs", "--scope", "sources:read"];
    let (_, ada) = key(dir.path(), &[&["--principal", "ada"], &scopes[..]].concat());
    let (_, eve) =
        key(dir.path(), &[&["--principal", "eve", "--tenant", "b"], &scopes[..]].concat());
    let (_, bob) =
        key(dir.path(), &["--principal", "bob", "--scope", "demo:read", "--scope", "sources:read"]);
    let server = Server::start(dir.path());
    let (ada, eve) = (server.caller(Some(&ada)), server.caller(Some(&eve)));
    let bobs = server.caller(Some(&bob));
    eventually("both sources are there", || {
        let listed = run(dir.path(), &["tools", "list", "--url", &server.url, "--key", &bob]);
        listed.stdout.contains("crib__complain") && listed.stdout.contains("own__complain")
    });
    for tool in ["crib__complain", "own__complain"] {
        let (status, _) = ada.otc(tool, json!({ "text": "canary-argument" })).await;
        assert_eq!(status, 200);
    }
    let logs = |source: &str| format!("/v1/sources/{source}/logs");
    let lines = loop {
        let (status, told) = ada.get(&logs("crib")).await;
        assert_eq!(status, 200, "{told}");
        if told.to_string().contains("canary-argument") {
            break told;
        }
    };
    assert!(lines["lines"][0]["at"].is_string(), "{lines}");
    let args = ["sources", "logs", "own", "--url", &server.url];
    let shown = run(dir.path(), &[&args[..], &["--key", &bob]].concat());
    assert_eq!(shown.code, 1);
    assert!(shown.stderr.contains("sources:logs"), "{}", shown.stderr);

    // Lines with arguments of another tenant are hidden, and a foreign source is unknown.
    assert_eq!(eve.get(&logs("crib")).await.0, 403, "ada's arguments are among them");
    let (foreign, unknown) = (eve.get(&logs("own")).await, eve.get(&logs("nothing")).await);
    assert_eq!((foreign.0, &foreign), (404, &unknown));
    assert_eq!(eve.otc("crib__complain", json!({ "text": "of eve" })).await.0, 200);
    assert_eq!(ada.get(&logs("crib")).await.0, 403);
    assert_eq!(ada.get(&logs("own")).await.0, 200);

    // When it dies, its lines are no reason that others see.
    bobs.otc("own__die", json!({})).await;
    let (_, told) = bobs.get("/v1/sources").await;
    assert!(!told.to_string().contains("canary"), "{told}");
    assert!(!told.to_string().contains("dying as asked"), "{told}");
    let log = server.stop();
    assert!(!log.contains("canary") && !log.contains("of eve"), "{log}");
}

#[test]
fn lines_are_shown_of_a_source_that_is_started_here() {
    let dir = dir();
    let failing = config("").replace("\"]\n[source.tools", "\", \"start=exit\"]\n[source.tools");
    write_config(dir.path(), &failing);
    let shown = run(dir.path(), &["sources", "logs", "crib"]).ok();
    assert!(shown.stdout.contains("cannot open the database"), "{shown:?}");
    let checked = run(dir.path(), &["sources", "check"]);
    assert_eq!(checked.code, 1);
    assert!(checked.stdout.contains("the child exited with status 4"), "{checked:?}");
    assert!(checked.stderr.contains("crib (stderr): cannot open the database"), "{checked:?}");
    let unknown = run(dir.path(), &["sources", "logs", "other"]);
    assert_eq!(unknown.code, 1);
    assert!(unknown.stderr.contains("no such source"), "{unknown:?}");
}

#[test]
fn every_child_has_the_shared_environment_and_its_own_wins() {
    let dir = dir();
    let more = "[sources]\nenv = { SSL_CERT_FILE = \"/etc/ours.pem\", NODE_EXTRA_CA_CERTS = \"/etc/ours.pem\" }\n";
    let text = config(more).replace(
        "kind = \"mcp\"",
        "kind = \"mcp\"\nenv = { NODE_EXTRA_CA_CERTS = \"/etc/own.pem\" }",
    );
    write_config(dir.path(), &text);
    let told = run(dir.path(), &["call", "crib__env", "{}"]).ok();
    assert!(told.stdout.contains("/etc/own.pem"), "{told:?}");
    assert!(
        told.stdout.contains("SSL_CERT_FILE") && told.stdout.contains("/etc/ours.pem"),
        "{told:?}"
    );
    write_config(
        dir.path(),
        &config("[sources]\nenv = { API_TOKEN = \"plain\", \"A=B\" = \"x\" }\n"),
    );
    let checked = run(dir.path(), &["config", "check"]);
    assert_ne!(checked.code, 0);
    for said in ["sources.env.API_TOKEN", "sources.env.\"A=B\""] {
        assert!(checked.stdout.contains(said), "{checked:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_offered_is_said_and_tools_for_apps_are_unknown() {
    let dir = dir();
    let text =
        config("").replace("\"]\n[source.tools", "\", \"list=apps\", \"more=yes\"]\n[source.tools");
    write_config(dir.path(), &text);
    let not_offered = "not offered: 3 resources, 1 prompt, instructions (13 characters), \
                       icons of the server, icons of 1 tool, _meta of 2 tools";
    let app = "note: tool `late` is left out: it is for MCP Apps only, which are not offered";
    let task = "note: tool `fail` is left out: it only runs as a task, which is not supported";
    let listed = run(dir.path(), &["sources", "list"]).ok();
    for line in [not_offered, app, task] {
        assert!(listed.stdout.contains(&format!("\ncrib: {line}\n")), "{}", listed.stdout);
    }
    // Notes are no problems.
    run(dir.path(), &["sources", "check"]).ok();
    let checked = run(dir.path(), &["config", "check", "--connect"]).ok();
    for line in [not_offered, app, task] {
        assert!(checked.stdout.contains(&format!(": source `crib`: {line}\n")), "{checked:?}");
    }
    assert!(checked.stdout.contains(": ok (1 source, "), "{checked:?}");
    let checked = run(dir.path(), &["config", "check", "--connect", "--json"]).ok().json();
    assert_eq!(checked["ok"], true);
    assert_eq!(checked["notes"][2], format!("source `crib`: {not_offered}"), "{checked}");

    let (_, ada) =
        key(dir.path(), &["--principal", "ada", "--scope", "demo:read", "--scope", "sources:read"]);
    let server = Server::start(dir.path());
    let ada = server.caller(Some(&ada));
    eventually_async("the parts were counted", async || {
        let (_, told) = ada.get("/v1/sources").await;
        told["sources"][0]["notOffered"]
            == json!({
                "resources": { "count": 3, "complete": true },
                "resourceTemplates": { "count": 0, "complete": true },
                "prompts": { "count": 1, "complete": true },
                "instructions": 13, "serverIcons": true, "toolIcons": 1, "toolMeta": 2,
            })
    })
    .await;
    // The parts can be counted before the tools are offered.
    eventually_async("the tools are offered", async || {
        ada.get("/v1/tools").await.1.as_array().is_some_and(|it| it.len() == 3)
    })
    .await;
    let unknown = ada.otc("crib__nothing", json!({})).await;
    assert_eq!(ada.otc("crib__late", json!({})).await.0, unknown.0);
    let (_, called) = ada.mcp("tools/call", json!({ "name": "crib__late", "arguments": {} })).await;
    assert_eq!(called["error"]["message"], "Unknown tool", "{called}");
    let (_, list) = ada.mcp("tools/list", json!({})).await;
    let names: Vec<_> = list["result"]["tools"]
        .as_array()
        .unwrap()
        .iter()
        .map(|tool| tool["name"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(names, ["crib__add", "crib__echo", "crib__region"]);
}
