//! How clients are notified of changes to their list.

use std::time::Duration;

use serde_json::{Value, json};
use toolcrib_testkit::gateway::{Events, TestGateway, TestGatewayBuilder, TestSource, TestTool};

use crate::support::{legacy, listen, modern, session, stream};

/// Longer than changes are collected for.
const A_WHILE: Duration = Duration::from_millis(900);

/// One public source, with a tool that requires a scope, and one for another tenant.
fn sources() -> TestGatewayBuilder {
    TestGateway::builder()
        .tool(TestTool::new("one").scopes([]))
        .tool(TestTool::new("two").scopes([]))
        .tool(TestTool::new("hidden").scopes(["vault"]))
        .source(TestSource::new("foreign").tenants(["other"]).tool(TestTool::new("x").scopes([])))
}

fn named(names: &[&str]) -> Vec<TestTool> {
    names.iter().map(|name| TestTool::new(name)).collect()
}

fn changed(id: Option<i64>) -> Value {
    match id {
        None => json!({ "jsonrpc": "2.0", "method": "notifications/tools/list_changed" }),
        Some(id) => json!({
            "jsonrpc": "2.0", "method": "notifications/tools/list_changed",
            "params": { "_meta": { "io.modelcontextprotocol/subscriptionId": id } },
        }),
    }
}

async fn acknowledged(events: &mut Events, filter: Value) {
    assert_eq!(
        events.next().await,
        Some(json!({
            "jsonrpc": "2.0", "method": "notifications/subscriptions/acknowledged",
            "params": {
                "notifications": filter,
                "_meta": { "io.modelcontextprotocol/subscriptionId": 7 },
            },
        }))
    );
}

async fn subscribed(actor: &toolcrib_testkit::gateway::Actor) -> Events {
    let mut events = listen(actor, json!({ "toolsListChanged": true })).await;
    acknowledged(&mut events, json!({ "toolsListChanged": true })).await;
    events
}

/// I-34: one notification per visible change, in both eras, and no others.
#[tokio::test]
async fn a_listener_hears_once_of_each_change_that_it_can_see() {
    let gw = sources().start().await;
    let caller = gw.principal("a", []).await;
    let mut older = stream(&session(&caller).await).await;
    let mut newer = subscribed(&caller).await;

    // Many changes at once become one.
    for names in [&["one"][..], &["two"], &["hidden"], &["one", "hidden"]] {
        gw.announce("crib", named(names));
        tokio::time::sleep(Duration::from_millis(40)).await;
    }
    assert_eq!(older.next().await, Some(changed(None)));
    assert_eq!(newer.next().await, Some(changed(Some(7))));
    let list = legacy(&caller, "tools/list", json!({})).await.json();
    assert_eq!(
        list["result"]["tools"].as_array().unwrap().len(),
        1,
        "the tool is listed at the notification"
    );

    // I-9: changes to hidden tools and to another tenant's tools are not notified.
    gw.change("crib", named(&["one"])).await;
    gw.change("foreign", named(&["y"])).await;
    tokio::join!(older.silent(A_WHILE), newer.silent(A_WHILE));

    gw.change("crib", named(&["one", "two"])).await;
    assert_eq!(older.next().await, Some(changed(None)));
    assert_eq!(newer.next().await, Some(changed(Some(7))));
    tokio::join!(older.silent(A_WHILE), newer.silent(A_WHILE));
}

/// No change between a client's list and its stream is lost, and none that it has seen is repeated.
#[tokio::test]
async fn a_session_knows_what_its_client_has_seen() {
    let gw = sources().start().await;
    let inside = session(&gw.principal("a", []).await).await;
    legacy(&inside, "tools/list", json!({})).await;
    gw.change("crib", named(&["one"])).await;
    let mut late = stream(&inside).await;
    assert_eq!(late.next().await, Some(changed(None)), "changed before the stream");
    gw.change("crib", named(&["two"])).await;
    legacy(&inside, "tools/list", json!({})).await;
    late.silent(A_WHILE).await;
}

#[tokio::test]
async fn only_what_changes_is_acknowledged() {
    let gw = sources().start().await;
    let caller = gw.principal("a", []).await;
    let more = json!({
        "toolsListChanged": true, "promptsListChanged": true, "resourcesListChanged": true,
        "resourceSubscriptions": ["file:///x"],
    });
    let mut all = listen(&caller, more).await;
    assert_eq!(all.headers["content-type"], "text/event-stream");
    assert_eq!(all.headers["x-accel-buffering"], "no");
    acknowledged(&mut all, json!({ "toolsListChanged": true })).await;
    let mut none = listen(&caller, json!({ "promptsListChanged": true })).await;
    acknowledged(&mut none, json!({})).await;
    gw.change("crib", named(&["one"])).await;
    assert_eq!(all.next().await, Some(changed(Some(7))));
    none.silent(Duration::from_millis(100)).await;
    for (filter, code) in [(json!(7), -32602), (json!({ "toolsListChanged": 1 }), -32602)] {
        let (status, body) =
            modern(&caller, "subscriptions/listen", json!({ "notifications": filter }))
                .await
                .parts();
        assert_eq!((status, &body["error"]["code"]), (200, &json!(code)));
    }
    let (_, body) = modern(&caller, "subscriptions/listen", json!({})).await.parts();
    assert_eq!(body["error"]["code"], -32602);
    let older = legacy(&caller, "subscriptions/listen", json!({ "notifications": {} })).await;
    assert_eq!(older.json()["error"]["code"], -32601, "a method of the stateless revision");
}

/// I-27
#[tokio::test]
async fn a_principal_has_so_many_subscriptions() {
    let gw = sources().config("[mcp]\nmax_listeners_per_principal = 2").start().await;
    let (caller, other) = (gw.principal("a", []).await, gw.principal("b", []).await);
    let first = subscribed(&caller).await;
    let _second = subscribed(&caller).await;
    let filter = json!({ "notifications": { "toolsListChanged": true } });
    let ask = async || modern(&caller, "subscriptions/listen", filter.clone()).await;
    assert_eq!(ask().await.json()["error"]["code"], -31429);
    let _others = subscribed(&other).await;
    drop(first);
    // The server notices the closed connection with a delay.
    let freed = async {
        loop {
            let mut events = listen(&caller, json!({ "toolsListChanged": true })).await;
            if events.next().await.is_some_and(|message| message.get("error").is_none()) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(10), freed).await.unwrap();
}

/// I-34
#[tokio::test]
async fn a_key_that_is_taken_back_ends_its_streams() {
    let gw = sources().start().await;
    let (caller, other) = (gw.principal("a", []).await, gw.principal("a", []).await);
    let mut older = stream(&session(&caller).await).await;
    let mut newer = subscribed(&caller).await;
    let mut others = subscribed(&other).await;
    gw.revoke(&caller).await;
    assert_eq!(older.next().await, None);
    let last = newer.next().await.unwrap();
    assert_eq!((&last["id"], &last["error"]["code"]), (&json!(7), &json!(-31401)));
    assert_eq!(newer.next().await, None);
    others.silent(Duration::from_millis(100)).await;
}

/// Changed grants change the list.
#[tokio::test]
async fn grants_that_change_are_news() {
    let open = |scopes: &str| {
        format!("[mcp]\nauth = \"optional\"\n[anonymous]\ntenant = \"acme\"\nscopes = [{scopes}]")
    };
    let gw = sources().config(&open("")).start().await;
    let mut events = subscribed(&gw.anonymous()).await;
    gw.reload(&open("\"other:scope\"")).await;
    events.silent(A_WHILE).await;
    gw.reload(&open("\"vault\"")).await;
    assert_eq!(events.next().await, Some(changed(Some(7))));
    let list = modern(&gw.anonymous(), "tools/list", json!({})).await.text();
    assert!(list.contains("crib__hidden"));
    events.silent(A_WHILE).await;
}

#[tokio::test]
async fn the_end_of_the_server_is_an_answer() {
    let gw = sources().start().await;
    let caller = gw.principal("a", []).await;
    let mut older = stream(&session(&caller).await).await;
    let mut newer = subscribed(&caller).await;
    let stopped = tokio::spawn(gw.stop());
    assert_eq!(older.next().await, None);
    let last = newer.next().await.unwrap();
    assert_eq!(last["id"], 7);
    assert_eq!(last["result"]["resultType"], "complete");
    assert_eq!(last["result"]["_meta"]["io.modelcontextprotocol/subscriptionId"], 7);
    assert_eq!(last["result"]["_meta"]["io.modelcontextprotocol/serverInfo"]["name"], "toolcrib");
    assert_eq!(newer.next().await, None);
    tokio::time::timeout(Duration::from_secs(8), stopped)
        .await
        .expect("nothing holds the server up")
        .unwrap();
}
