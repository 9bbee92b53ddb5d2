//! I-9: what a caller may not know of looks, to the byte, like what does not exist.

use serde_json::json;
use toolcrib_testkit::gateway::Reply;

use crate::support::fixture;

/// Everything of an answer that a caller can compare; times and ids of requests differ anyway.
fn visible(reply: &Reply, name: &str) -> String {
    let mut headers: Vec<String> = reply
        .headers
        .iter()
        .filter(|(name, _)| {
            !matches!(name.as_str(), "date" | "x-request-id" | "toolcrib-run-id" | "content-length")
        })
        .map(|(name, value)| format!("{name}: {value:?}"))
        .collect();
    headers.sort();
    // The explorer repeats the name that was asked for.
    let body = if name.is_empty() { reply.text() } else { reply.text().replace(name, "NAME") };
    format!("{} {headers:#?} {body}", reply.status)
}

#[tokio::test]
async fn unknown_hidden_and_foreign_tools_look_the_same_when_read() {
    let gw = fixture().start().await;
    let reader = gw.principal("reader", ["files:read"]).await;
    for (before, after, hidden, foreign, unknown) in [
        ("/v1/tools/", "", "mcp:crib.write", "mcp:other.secret", "mcp:crib.absent"),
        ("/v1/tools/", "?view=compact", "mcp:crib.write", "mcp:other.secret", "%FF"),
        ("/explorer/tools/", "", "crib__write", "other__secret", "crib__absent"),
    ] {
        let mut answers = std::collections::BTreeSet::new();
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
        assert!(!reply.header("toolcrib-run-id").is_empty());
        assert_eq!(visible(&reply, ""), unknown, "{id}");
    }
    let explorer = |name: &'static str| {
        let reader = reader.clone();
        async move { reader.post(&format!("/explorer/tools/{name}/call"), json!({})).await }
    };
    let foreign = visible(&explorer("other__secret").await, "other__secret");
    assert_eq!(foreign, visible(&explorer("no__such").await, "no__such"));
}

/// Bad arguments of a foreign tool are not looked at before the tool is found to be foreign.
#[tokio::test]
async fn arguments_do_not_tell_whether_a_tool_exists() {
    let gw = fixture().start().await;
    let reader = gw.principal_of("third", "reader", &["files:read"]).await;
    let ask = |id: &str| json!({ "request": { "tool_id": id, "input": { "n": 9_007_199_254_740_993_u64 } } });
    let foreign = reader.post("/tools/call", ask("other.secret")).await;
    let unknown = reader.post("/tools/call", ask("no.such")).await;
    assert_eq!(visible(&foreign, ""), visible(&unknown, ""));
}
