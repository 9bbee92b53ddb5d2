use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use http::Method;
use parking_lot::Mutex;
use serde_json::json;
use toolcrib::{Annotations, Tool, ToolDefinition};
use toolcrib_testkit::gateway::Reply;

use super::{config, fixture_f, serve, serve_f};
use crate::support::{column, page_script};

fn named(name: &str) -> Arc<dyn Tool> {
    ToolDefinition::new(name).shared()
}

fn is_json(reply: &Reply) -> bool {
    reply.header("content-type") == "application/json"
}

/// 9, 10, 11. In the order of the provider, without members outside the protocol.
#[tokio::test]
async fn all_tools_are_listed() {
    let served = serve_f(config()).await;
    let reply = served.anonymous().get("/explorer/tools").await;
    assert_eq!((reply.status, is_json(&reply)), (200, true));
    assert_eq!(
        reply.text(),
        r#"[{"name":"echo","description":"Echoes","annotations":{"readOnlyHint":true}},{"name":"boom","description":"Fails"}]"#
    );
    let none = serve(Vec::new(), config()).await.anonymous().get("/explorer/tools").await;
    assert_eq!(none.text(), "[]");
    let empty = ToolDefinition::new("t").annotations(Annotations::default()).shared();
    let list = serve(vec![empty], config()).await.anonymous().get("/explorer/tools").await;
    assert_eq!(list.text(), r#"[{"name":"t","description":""}]"#, "no hints are no annotations");
}

/// 12. Extra: a schema keeps the order of its members.
#[tokio::test]
async fn a_detail_has_the_schema() {
    let served = serve_f(config()).await;
    let caller = served.anonymous();
    let detail = caller.get("/explorer/tools/echo").await;
    assert_eq!((detail.status, is_json(&detail)), (200, true));
    assert_eq!(
        detail.text(),
        r#"{"name":"echo","description":"Echoes","annotations":{"readOnlyHint":true},"inputSchema":{"type":"object","properties":{"msg":{"type":"string"}}}}"#
    );
    let bare = caller.get("/explorer/tools/boom").await.json();
    assert_eq!(bare, json!({ "name": "boom", "description": "Fails", "inputSchema": {} }));
}

/// 13. Extra: names are decoded once, `%2F` is part of a name.
#[tokio::test]
async fn an_unknown_tool_is_404() {
    let served = serve_f(config()).await;
    for (path, name) in [
        ("nonexistent", "nonexistent"),
        ("%3Cscript%3E", "<script>"),
        ("a%2Fb", "a/b"),
        ("%FF", ""),
    ] {
        let reply = served.anonymous().get(&format!("/explorer/tools/{path}")).await;
        assert_eq!(reply.parts(), (404, json!({ "error": format!("Tool not found: {name}") })));
        assert!(is_json(&reply));
        assert_eq!(reply.header("x-content-type-options"), "nosniff");
    }
    for path in ["/explorer/tools/", "/explorer/none"] {
        let reply = served.anonymous().get(path).await;
        assert_eq!((reply.status, is_json(&reply)), (404, true), "{path}");
    }
    let post = served.anonymous().send(Method::POST, "/explorer/tools", None).await;
    assert_eq!((post.status, post.header("allow"), is_json(&post)), (405, "GET,HEAD", true));
    let odd = serve(vec![named("grp/sub"), named("")], config()).await;
    let sub = odd.anonymous().get("/explorer/tools/grp%2Fsub").await;
    assert_eq!(sub.json()["name"], "grp/sub");
    assert_eq!(odd.anonymous().get("/explorer/tools/%FF").await.status, 404, "not a valid name");
}

/// 31.
#[tokio::test]
async fn lists_and_details_need_no_execution() {
    let served = serve_f(config().allow_execute(false)).await;
    assert_eq!(served.anonymous().get("/explorer/tools").await.status, 200);
    assert_eq!(served.anonymous().get("/explorer/tools/echo").await.status, 200);
}

/// 35.
#[tokio::test]
async fn an_async_closure_is_a_provider() {
    let provider = || async {
        tokio::task::yield_now().await;
        vec![named("dynamic")]
    };
    let list = serve(provider, config()).await.anonymous().get("/explorer/tools").await.json();
    assert_eq!(column(&list, "name"), ["dynamic"]);
}

/// Extra: the provider is called once per request that needs tools, and for no other.
#[tokio::test]
async fn a_provider_is_called_on_every_request() {
    let tools = Arc::new(Mutex::new(fixture_f()));
    let asked = Arc::new(AtomicUsize::new(0));
    let (shown, count) = (Arc::clone(&tools), Arc::clone(&asked));
    let provider = move || {
        count.fetch_add(1, Ordering::SeqCst);
        shown.lock().clone()
    };
    let served = serve(provider, config().allow_execute(true)).await;
    let caller = served.anonymous();
    for times in 1..=2 {
        caller.get("/explorer/tools").await;
        caller.get("/explorer/tools/echo").await;
        caller.post("/explorer/tools/echo/validate", json!({})).await;
        caller.post("/explorer/tools/echo/call", json!({})).await;
        assert_eq!(asked.load(Ordering::SeqCst), 4 * times);
    }
    let page = caller.get("/explorer").await.text();
    caller.get(page_script(&page)).await;
    assert_eq!(asked.load(Ordering::SeqCst), 8);

    assert_eq!(caller.get("/explorer/tools/late").await.status, 404);
    *tools.lock() = vec![named("late")];
    assert_eq!(column(&caller.get("/explorer/tools").await.json(), "name"), ["late"]);
    assert_eq!(caller.get("/explorer/tools/late").await.status, 200);
    assert_eq!(caller.post("/explorer/tools/late/validate", json!({})).await.status, 200);
    assert_eq!(caller.post("/explorer/tools/echo/call", json!({})).await.status, 404);

    let before = asked.load(Ordering::SeqCst);
    let (shown, count) = (Arc::clone(&tools), Arc::clone(&asked));
    let provider = move || {
        count.fetch_add(1, Ordering::SeqCst);
        shown.lock().clone()
    };
    let off = serve(provider, config()).await;
    off.anonymous().post("/explorer/tools/late/call", json!({})).await;
    assert_eq!(asked.load(Ordering::SeqCst), before, "not for a call that is switched off");
}

/// Extra: a provider that panics does not break the connection.
#[tokio::test]
async fn a_provider_that_panics_is_a_500() {
    let provider = || -> Vec<Arc<dyn Tool>> { panic!("a provider that panics, on purpose") };
    let reply = serve(provider, config()).await.anonymous().get("/explorer/tools").await;
    assert_eq!(reply.parts(), (500, json!({ "error": "internal error" })));
}
