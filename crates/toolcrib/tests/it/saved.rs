//! Views and calls that people save for others of their tenant.

use http::Method;
use serde_json::{Value, json};
use toolcrib_core::store::{SavedInsertion, SavedItem, SavedKind, Storage as _};
use toolcrib_testkit::gateway::{Actor, Reply};

use crate::support::{column, fixture};

async fn names(caller: &Actor, query: &str) -> Vec<String> {
    let reply = caller.get(&format!("/v1/saved?{query}")).await;
    assert_eq!(reply.status, 200, "{}", reply.text());
    column(&reply.json()["saved"], "name").into_iter().map(str::to_owned).collect()
}

async fn save_view(caller: &Actor, name: &str, query: &str) -> Reply {
    caller.post("/v1/saved", json!({ "kind": "view", "name": name, "query": query })).await
}

async fn save_call(caller: &Actor, name: &str, tool: &str, arguments: Value) -> Reply {
    let body = json!({ "kind": "call", "name": name, "tool": tool, "arguments": arguments });
    caller.post("/v1/saved", body).await
}

async fn remove(caller: &Actor, id: &str) -> Reply {
    caller.send(Method::DELETE, &format!("/v1/saved/{id}"), None).await
}

fn id(reply: &Reply) -> String {
    reply.json()["id"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn a_view_is_shared_with_those_who_read_the_record() {
    let gw = fixture().start().await;
    let ada = gw.principal("ada", ["audit:read"]).await;
    let bob = gw.principal("bob", ["audit:read"]).await;
    let foreign = gw.principal_of("other", "ada", &["audit:read", "keys:manage"]).await;
    let saved = save_view(&ada, "Denied today", "q=status%3Adenied&range=24h").await;
    assert_eq!(saved.status, 201, "{}", saved.text());
    let view = saved.json();
    assert_eq!((&view["kind"], &view["savedBy"]), (&json!("view"), &json!("ada")));
    assert_eq!(view["canRemove"], true);
    let list = bob.get("/v1/saved?kind=view").await.json();
    assert_eq!(list["saved"][0]["query"], "q=status%3Adenied&range=24h");
    assert_eq!(list["saved"][0]["canRemove"], false);
    assert!(names(&foreign, "kind=view").await.is_empty());
    assert!(names(&ada, "kind=view&tool=crib__read").await.is_empty(), "no view is of a tool");
    assert_eq!(remove(&foreign, &id(&saved)).await.status, 404);
    // The same name is replaced by its principal alone.
    let refused = save_view(&bob, "Denied today", "q=x").await;
    assert_eq!(refused.status, 409);
    assert!(refused.text().contains("another principal saved this name"), "{}", refused.text());
    let refused = remove(&bob, &id(&saved)).await;
    assert_eq!(refused.status, 409);
    assert!(refused.text().contains("may remove it"), "{}", refused.text());
    let again = save_view(&ada, "Denied today", "q=status%3Adenied").await;
    assert_eq!((again.status, id(&again)), (200, id(&saved)));
    assert_eq!(remove(&ada, &id(&saved)).await.status, 200);
    assert_eq!(remove(&ada, &id(&saved)).await.status, 404);
    assert!(names(&bob, "kind=view").await.is_empty());
    let events = gw.events().await;
    let events: Vec<String> = events
        .iter()
        .map(|logged| serde_json::to_value(&logged.event).unwrap())
        .filter(|event| event["type"] == "saved.changed")
        .map(|event| {
            assert_eq!(event["payload"]["principal"], "ada");
            assert!(!event.to_string().contains("enied"), "no name and no query: {event}");
            event["payload"]["action"].as_str().unwrap().to_owned()
        })
        .collect();
    assert_eq!(events, ["added", "replaced", "removed"]);
}

#[tokio::test]
async fn administrators_of_keys_may_remove_and_not_replace() {
    let gw = fixture().start().await;
    let ada = gw.principal("ada", ["audit:read"]).await;
    let admin = gw.principal("admin", ["audit:read", "keys:manage"]).await;
    let first = save_view(&ada, "one", "q=a").await;
    // An item keeps the content of the principal that it names.
    assert_eq!(save_view(&admin, "one", "q=b").await.status, 409);
    let kept = ada.get("/v1/saved?kind=view").await.json();
    assert_eq!(
        (&kept["saved"][0]["query"], &kept["saved"][0]["savedBy"]),
        (&json!("q=a"), &json!("ada"))
    );
    assert_eq!(remove(&admin, &id(&first)).await.status, 200);
    // Without the right to read the record there is no view, whatever else one may do.
    let view = save_view(&ada, "two", "q=a").await;
    let keys = gw.principal("keys", ["keys:manage"]).await;
    assert_eq!(remove(&keys, &id(&view)).await.status, 404);
    assert_eq!(keys.get("/v1/saved?kind=view").await.status, 403);
    assert_eq!(save_view(&keys, "x", "q=a").await.status, 403);
}

/// A call of a hidden tool answers like one that does not exist.
#[tokio::test]
async fn a_call_exists_only_for_callers_of_its_tool() {
    let gw = fixture().start().await;
    let ada = gw.principal("ada", ["files:read", "files:write"]).await;
    let bob = gw.principal("bob", ["files:read", "keys:manage"]).await;
    let arguments = json!({ "path": "/tickets/{{ticket}}", "count": 12345678901234567890u64 });
    let read = save_call(&ada, "Ticket", "crib__read", arguments.clone()).await;
    assert_eq!((read.status, &read.json()["tool"]), (201, &json!("mcp:crib.read")));
    let write = save_call(&ada, "Secret plan", "mcp:crib.write", json!({})).await;
    assert_eq!(write.status, 201);
    assert_eq!(names(&bob, "kind=call&tool=mcp:crib.read").await, ["Ticket"]);
    assert!(names(&bob, "kind=call").await.is_empty());
    assert_eq!(names(&ada, "kind=call").await, ["Ticket", "Secret plan"]);
    assert_eq!(names(&ada, "kind=call&tool=crib__write").await, ["Secret plan"]);
    let listed = bob.get("/v1/saved?kind=call&tool=crib__read").await.json();
    assert_eq!(listed["saved"][0]["arguments"], arguments);
    // Byte for byte, headers included, apart from the date and the id of the request.
    let hidden = bob.get("/v1/saved?kind=call&tool=crib__write").await;
    let unknown = bob.get("/v1/saved?kind=call&tool=crib__nothing").await;
    assert_eq!((hidden.status, hidden.text()), (unknown.status, unknown.text()));
    let hidden = remove(&bob, &id(&write)).await;
    let unknown = remove(&bob, "0190-nothing").await;
    assert_eq!((hidden.status, hidden.text()), (404, unknown.text()));
    // Neither is a name a sign of it, nor can a hidden tool get a call.
    let hidden = save_call(&bob, "Secret plan", "crib__write", json!({})).await;
    let unknown = save_call(&bob, "Secret plan", "crib__nothing", json!({})).await;
    assert_eq!((hidden.status, hidden.text()), (404, unknown.text()));
    assert_eq!(save_call(&bob, "Secret plan", "crib__read", json!({})).await.status, 201);
}

#[tokio::test]
async fn arguments_with_secrets_are_rejected() {
    let gw = fixture().start().await;
    let ada = gw.principal("ada", ["files:read"]).await;
    for (arguments, place) in [
        (json!({ "path": "a", "apiKey": "canary" }), "/apiKey"),
        (json!({ "path": [{ "Session_ID": 7 }] }), "/path/0/Session_ID"),
        (json!({ "path": "sk-canary-1234567890" }), "/path"),
        (json!({ "path": "postgres://ann:canary@db/x" }), "/path"),
        (
            json!({ "headers": [{ "name": "Authorization", "value": "canary" }] }),
            "/headers/0/value",
        ),
    ] {
        let reply = save_call(&ada, "x", "crib__read", arguments).await;
        let text = reply.text();
        assert_eq!(reply.status, 400, "{text}");
        assert_eq!(reply.json()["details"]["pointer"], place);
        assert!(text.contains("looks like a secret") && !text.contains("canary"), "{text}");
    }
    let named = save_call(&ada, "sk-canary-1234567890", "crib__read", json!({})).await;
    assert_eq!((named.status, &named.json()["details"]["parameter"]), (400, &json!("name")));
    let reader = gw.principal("eve", ["audit:read"]).await;
    let view = save_view(&reader, "mine", "q=sk%2Dcanary-1234567890").await;
    assert_eq!((view.status, &view.json()["details"]["parameter"]), (400, &json!("query")));
    assert!(!named.text().contains("canary") && !view.text().contains("canary"));
    let variable = save_call(&ada, "ok", "crib__read", json!({ "path": "{{password}}" })).await;
    assert_eq!(variable.status, 201, "{}", variable.text());
    assert_eq!(names(&ada, "kind=call&tool=crib__read").await, ["ok"]);
}

/// Names that look the same are the same.
#[tokio::test]
async fn names_have_one_form() {
    let gw = fixture().start().await;
    let ada = gw.principal("ada", ["audit:read"]).await;
    let first = save_view(&ada, "Caf\u{e9} today", "q=a").await;
    assert_eq!(first.status, 201);
    for name in ["Cafe\u{301} today", "Caf\u{e9}\u{a0}today ", "Caf\u{e9}  today\u{2003}"] {
        let again = save_view(&ada, name, "q=a").await;
        assert_eq!((again.status, id(&again)), (200, id(&first)), "{name:?}");
    }
    for name in ["\u{a0}x", " x", "\u{3000}"] {
        assert_eq!(save_view(&ada, name, "q=a").await.status, 400, "{name:?}");
    }
}

#[tokio::test]
async fn invalid_items_are_rejected_with_their_reason() {
    let gw = fixture().start().await;
    let ada = gw.principal("ada", ["files:read", "audit:read"]).await;
    let long = "x".repeat(9_000);
    for (body, reason) in [
        (json!({ "kind": "canary", "name": "n" }), "`kind` must be one of view, call"),
        (json!({ "kind": "view", "name": "n" }), "`query` is required for a view"),
        (json!({ "kind": "view", "query": "q=a" }), "`name` is missing"),
        (json!({ "kind": "view", "name": "a\u{202e}", "query": "q" }), "`name` must be 1 to 128"),
        (json!({ "kind": "view", "name": "n", "query": "a#b" }), "`query` must be the query of an"),
        (json!({ "kind": "view", "name": "n", "query": "q=a", "tool": "x" }), "`tool` does not"),
        (json!({ "kind": "view", "name": "n", "query": "q=a", "more": 1 }), "unknown member"),
        (json!({ "kind": "call", "name": "n", "tool": "crib__read" }), "`arguments` is required"),
        (json!({ "kind": "call", "name": "n", "arguments": {} }), "`tool` is required for a call"),
        (
            json!({ "kind": "call", "name": "n", "tool": "crib__read", "arguments": { "path": long } }),
            "`arguments` must be at most 8192 bytes",
        ),
    ] {
        let reply = ada.post("/v1/saved", body).await;
        assert_eq!(reply.status, 400, "{reason}");
        let text = reply.json()["message"].as_str().unwrap().to_owned();
        assert!(text.contains(reason) && !text.contains("canary"), "{text}");
    }
    let reply = ada.get("/v1/saved?kind=canary").await;
    assert_eq!(reply.status, 400);
    assert!(reply.text().contains("must be one of view, call"), "{}", reply.text());
    for (query, reason) in [("kind=view&kind=call", "the parameter `kind` must be given once")] {
        let reply = ada.get(&format!("/v1/saved?{query}")).await;
        assert_eq!(reply.status, 400, "{query}");
        assert!(reply.text().contains(reason), "{}", reply.text());
    }
}

/// A refused principal sees the items that fill its place, and can remove them.
#[tokio::test]
async fn a_principal_has_a_limited_number_of_items() {
    let gw = fixture().start().await;
    let ada = gw.principal("ada", ["audit:read", "files:read"]).await;
    for number in 0..100 {
        assert_eq!(save_view(&ada, &format!("v{number}"), "q=a").await.status, 201);
    }
    let full = save_view(&ada, "more", "q=a").await;
    assert_eq!(full.status, 409);
    assert!(full.text().contains("you have saved 100 of this kind"), "{}", full.text());
    assert_eq!(save_view(&ada, "v7", "q=b").await.status, 200, "it replaces one");
    let of_a_removed_tool = |number: i64| SavedItem {
        id: format!("old-{number}").parse().unwrap(),
        tenant: "acme".parse().unwrap(),
        kind: SavedKind::Call,
        tool: Some("mcp:crib.gone".parse().unwrap()),
        name: format!("n{number}"),
        content: Some("{}".to_owned()),
        principal: "ada".parse().unwrap(),
        saved_at: gw.gateway.now(),
    };
    for number in 0..100 {
        let stored = gw.store.saved().insert(of_a_removed_tool(number)).await;
        assert_eq!(stored.unwrap(), SavedInsertion::Stored);
    }
    assert_eq!(save_call(&ada, "new", "crib__read", json!({})).await.status, 409);
    assert_eq!(names(&ada, "").await.len(), 100);
    assert_eq!(remove(&ada, "old-7").await.status, 200);
    assert_eq!(save_call(&ada, "new", "crib__read", json!({})).await.status, 201);
}

/// The calls of a tool that others use and the caller does not take no place that it can notice.
#[tokio::test]
async fn hidden_calls_fill_no_place_of_others() {
    let gw = fixture().start().await;
    let ada = gw.principal("ada", ["files:read"]).await;
    let hidden = |number: i64| SavedItem {
        id: format!("hidden-{number}").parse().unwrap(),
        tenant: "acme".parse().unwrap(),
        kind: SavedKind::Call,
        tool: Some("mcp:crib.write".parse().unwrap()),
        name: format!("n{number}"),
        content: Some("{}".to_owned()),
        principal: format!("p{}", number / 100).parse().unwrap(),
        saved_at: gw.gateway.now(),
    };
    for number in 0..500 {
        let stored = gw.store.saved().insert(hidden(number)).await;
        assert_eq!(stored.unwrap(), SavedInsertion::Stored);
    }
    assert_eq!(gw.store.saved().insert(hidden(500)).await.unwrap(), SavedInsertion::PlaceFull);
    assert_eq!(save_call(&ada, "new", "crib__read", json!({})).await.status, 201);
}
