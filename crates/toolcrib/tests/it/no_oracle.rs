//! I-9: tools and runs that a caller may not know of are byte-for-byte indistinguishable from unknown
//! ones.

use std::collections::BTreeSet;

use http::Method;
use serde_json::json;
use toolcrib_testkit::gateway::{Actor, Reply};

use crate::support::fixture;

/// Returns every comparable part of a response; times and request ids differ anyway.
fn visible(reply: &Reply, echoed: &str) -> String {
    let mut headers: Vec<String> = reply
        .headers
        .iter()
        .filter(|(name, _)| {
            // The length of a response that repeats the name depends on the name.
            let skipped = name.as_str() == "content-length" && !echoed.is_empty();
            !skipped && !matches!(name.as_str(), "date" | "x-request-id")
        })
        .map(|(name, value)| format!("{name}: {value:?}"))
        .collect();
    headers.sort();
    // The explorer repeats the requested name.
    let body = if echoed.is_empty() { reply.text() } else { reply.text().replace(echoed, "NAME") };
    format!("{} {headers:#?} {body}", reply.status)
}

#[tokio::test]
async fn unknown_hidden_and_foreign_tools_look_the_same_when_read() {
    let gw = fixture().start().await;
    let reader = gw.principal("reader", ["files:read"]).await;
    for (before, after, hidden, foreign, unknown) in [
        ("/v1/tools/", "", "mcp:crib.write", "mcp:other.secret", "mcp:crib.absent"),
        ("/v1/tools/", "?view=compact", "mcp:crib.write", "mcp:other.secret", "%FF"),
        ("/tools/", "", "mcp:crib.write", "mcp:other.secret", "mcp:crib.absent"),
        ("/tools/", "?view=compact", "mcp:crib.write", "mcp:other.secret", "%FF"),
        ("/explorer/tools/", "", "crib__write", "other__secret", "crib__absent"),
    ] {
        let mut answers = BTreeSet::new();
        for name in [hidden, foreign, unknown, "conformance.absent-1", "__nonexistent__"] {
            let reply = reader.get(&format!("{before}{name}{after}")).await;
            assert_eq!(reply.status, 404);
            assert_eq!(reply.header("www-authenticate"), "");
            let echoed = if before.starts_with("/explorer") { name } else { "" };
            answers.insert(visible(&reply, echoed));
        }
        assert_eq!(answers.len(), 1, "{answers:#?}");
    }
    let path = |name: &str| format!("/explorer/tools/{name}/validate");
    let hidden = reader.post(&path("crib__write"), json!({})).await;
    let unknown = reader.post(&path("crib__absent"), json!({})).await;
    assert_eq!(visible(&hidden, "crib__write"), visible(&unknown, "crib__absent"));
}

#[tokio::test]
async fn unknown_and_foreign_tools_look_the_same_when_called() {
    let gw = fixture().start().await;
    let reader = gw.principal("reader", ["files:read"]).await;
    let otc = |id: &'static str| {
        let reader = reader.clone();
        async move { reader.post("/tools/call", json!({ "request": { "tool_id": id } })).await }
    };
    let unknown = visible(&otc("no.such").await, "");
    for id in ["other.secret", "other.secret@1.0.0", "other.secret@9.9.9", "other__secret"] {
        let reply = otc(id).await;
        assert_eq!(reply.header("toolcrib-run-id"), "", "there is no run");
        assert_eq!(visible(&reply, ""), unknown, "{id}");
    }
    let explorer = |name: &'static str| {
        let reader = reader.clone();
        async move { reader.post(&format!("/explorer/tools/{name}/call"), json!({})).await }
    };
    let foreign = visible(&explorer("other__secret").await, "other__secret");
    assert_eq!(foreign, visible(&explorer("no__such").await, "no__such"));
}

/// The arguments for a foreign tool are ignored before it is found to be foreign.
#[tokio::test]
async fn arguments_do_not_reveal_whether_a_tool_exists() {
    let gw = fixture().start().await;
    let reader = gw.principal_of("third", "reader", &["files:read"]).await;
    let ask = |id: &str| json!({ "request": { "tool_id": id, "input": { "n": 9_007_199_254_740_993_u64 } } });
    let foreign = reader.post("/tools/call", ask("other.secret")).await;
    let unknown = reader.post("/tools/call", ask("no.such")).await;
    assert_eq!(visible(&foreign, ""), visible(&unknown, ""));
}

/// Returns the ids of a run of a single call and of a run of a workflow.
async fn runs(caller: &Actor) -> [String; 2] {
    let call = async |tool: &str| {
        let body = json!({ "request": { "tool_id": tool } });
        let run = caller.post("/tools/call", body).await.header("toolcrib-run-id").to_owned();
        assert!(!run.is_empty(), "{tool}");
        run
    };
    [call("crib.open").await, call("flows__flow").await]
}

/// In both generations of OpenWOP.
#[tokio::test]
async fn unknown_hidden_and_foreign_runs_look_the_same() {
    let steps = "steps: [{ id: a, tool: 'mcp:crib.open' }]\noutputs: {}";
    let gw = fixture().workflow("flow", steps).start().await;
    let scopes = ["files:read", "tools:flows"];
    let reader = gw.principal("reader", scopes).await;
    let hidden = runs(&gw.principal("holder", scopes).await).await;
    let foreign = runs(&gw.principal_of("other", "holder", &scopes).await).await;
    let unknown = ["absent".to_owned(), sibling(&hidden[0])];
    for (method, version, before, after) in [
        (Method::GET, "1.0", "/v1/runs/", "/events"),
        (Method::POST, "1.0", "/v1/runs/", "/cancel"),
        (Method::GET, "1.0", "/v1/runs?runId=", ""),
        (Method::GET, "2.0", "/runs/", ""),
        (Method::GET, "2.0", "/runs/", "/events"),
        (Method::GET, "2.0", "/runs/", "/events?streamMode=debug"),
        (Method::POST, "2.0", "/runs/", "/cancel"),
        (Method::GET, "2.0", "/runs/acme~2F", ""),
        (Method::GET, "2.0", "/runs/acme~2F", "/events"),
        (Method::POST, "2.0", "/runs/acme%2F", "/cancel"),
        // Another tenant is refused as such, whatever follows.
        (Method::GET, "2.0", "/runs/other~2F", ""),
        (Method::GET, "2.0", "/runs/other~2F", "/events"),
        (Method::POST, "2.0", "/runs/nowhere~2F", "/cancel"),
    ] {
        let reader = reader.with("openwop-version", version);
        let mut answers = BTreeSet::new();
        for run in hidden.iter().chain(&foreign).chain(&unknown) {
            let path = format!("{before}{run}{after}");
            let reply = reader.send(method.clone(), &path, None).await;
            let expected = match before {
                "/v1/runs?runId=" => 200,
                "/runs/other~2F" | "/runs/nowhere~2F" => 403,
                _ => 404,
            };
            assert_eq!(reply.status, expected, "{path}");
            answers.insert(visible(&reply, ""));
        }
        assert_eq!(answers.len(), 1, "{answers:#?}");
    }
}

/// Returns an id of the same form that no run has.
fn sibling(id: &str) -> String {
    let last = if id.ends_with('0') { "1" } else { "0" };
    format!("{}{last}", &id[..id.len() - 1])
}

/// With `denied_calls = "not_found"` a denial is recorded as one, and the response does not lead to
/// the record.
#[tokio::test]
async fn hidden_and_unknown_tools_look_the_same_when_denials_do() {
    let gw = fixture().config("[gate]\ndenied_calls = \"not_found\"").start().await;
    let reader = gw.principal("reader", ["files:read"]).await;
    let mut replies = Vec::new();
    for (otc, wire) in [("crib.write", "crib__write"), ("crib.wrong", "crib__wrong")] {
        let ask = json!({ "request": { "tool_id": otc } });
        let by_otc = reader.post("/tools/call", ask).await;
        let path = format!("/explorer/tools/{wire}/call");
        let by_explorer = reader.post(&path, json!({})).await;
        assert_eq!((by_otc.status, by_explorer.status), (400, 404));
        replies.push((visible(&by_otc, ""), visible(&by_explorer, wire)));
        for reply in [by_otc, by_explorer] {
            let request = reply.header("x-request-id").to_owned();
            let run = reader.get(&format!("/v1/runs/{request}/events")).await;
            assert_eq!(run.status, 404, "the id of a request leads to no run");
        }
    }
    assert_eq!(replies[0], replies[1]);
    gw.event(|event| event["payload"]["status"] == "forbidden").await;
    for logged in gw.events().await {
        let run = logged.event.run_id.as_str();
        let told =
            replies.iter().any(|(otc, explorer)| otc.contains(run) || explorer.contains(run));
        assert!(!told, "{run}");
    }
    assert_eq!(reader.get("/v1/events").await.status, 403);
}
