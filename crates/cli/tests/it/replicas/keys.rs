//! Idempotency keys of several servers over one database.

use serde_json::json;
use toolcrib_testkit::{
    postgres,
    upstream::{Answers, FaultyHttp},
};

use super::{Replica, has_tool, is_success, runs};
use crate::support::{dir, eventually_async as eventually, key, run, write_config};

// I-31
/// Two servers over one database without a seal key could run one call each.
#[test]
fn a_shared_store_needs_a_seal_key() {
    let dir = dir();
    let text = "[server]\nlisten = \"127.0.0.1:0\"\n\
                [store]\nurl = \"postgres://nobody@127.0.0.1:1/none\"\n\
                [record]\nsigning_key = { file = \"signing.key\" }\n";
    write_config(dir.path(), text);
    for args in [&["serve"][..], &["config", "check"]] {
        let refused = run(dir.path(), args);
        assert_ne!(refused.code, 0, "{refused:?}");
        let said = refused.stderr + &refused.stdout;
        for part in ["`[store] seal_key` is not set", "credentials new-key --out seal.key"] {
            assert!(said.contains(part), "{said}");
        }
    }
}

// I-31, I-75
#[tokio::test(flavor = "multi_thread")]
async fn a_call_under_one_key_runs_at_one_server() {
    let Some(database) = postgres::database() else { return };
    let upstream = FaultyHttp::start(Answers::Json, &["era=modern"]);
    let (one, two) = Replica::pair(&database, &upstream, "");
    let (_, text) = key(one.dir.path(), &["--scope", "up:use"]);
    let callers = [one.caller(&text), two.caller(&text)];
    for caller in &callers {
        eventually("the tool is offered", async || has_tool(caller, "mcp:up.echo").await).await;
    }
    for n in 0..5 {
        let body = json!({ "request": { "call_id": format!("pay-{n}"), "tool_id": "up__echo",
            "input": { "text": format!("pay-{n}") } } });
        let (first, second) = tokio::join!(
            callers[0].post("/tools/call", &body),
            callers[1].post("/tools/call", &body),
        );
        assert!(is_success(&first) || is_success(&second), "{first:?} {second:?}");
        for caller in &callers {
            eventually("both have the answer", async || {
                is_success(&caller.post("/tools/call", &body).await)
            })
            .await;
        }
    }
    for n in 0..5 {
        assert_eq!(runs(&upstream, "echo", &format!("pay-{n}")), 1, "each call ran once");
    }
    one.server.stop();
    two.server.stop();
}
