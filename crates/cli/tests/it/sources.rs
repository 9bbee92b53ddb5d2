//! The stderr and the environment of child processes.

use serde_json::json;
use toolcrib_testkit::upstream::faulty_program;

use crate::support::{Server, dir, eventually, key, run, write_config};

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
