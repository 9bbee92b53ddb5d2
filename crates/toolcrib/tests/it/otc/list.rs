use serde_json::{Value, json};

use crate::support::{column, fixture};

#[tokio::test]
async fn a_reader_sees_its_tools() {
    let gw = fixture().start().await;
    let reply = gw.principal("reader", ["files:read"]).await.get("/tools").await;
    assert_eq!((reply.status, reply.header("content-type")), (200, "application/json"));
    assert_eq!(reply.header("cache-control"), "private, no-cache");
    let list = reply.json();
    assert_eq!(list["$schema"], "otc://1.0");
    insta::assert_snapshot!(column(&list["tools"], "id").join(" "), @"crib.ask@1.0.0 crib.down@1.0.0 crib.fail@1.0.0 crib.open@1.0.0 crib.panic@1.0.0 crib.read@1.0.0 crib.sum@1.0.0");
    insta::assert_snapshot!(list["tools"][5], @r#"{"id":"crib.read@1.0.0","name":"crib__read","description":"Reads a file","version":"1.0.0","input_schema":{"parameters":{"type":"object","properties":{"path":{"type":"string","description":"Which file"},"count":{"type":"integer","description":"count"}},"required":["path"],"additionalProperties":false}},"output_schema":{},"requirements":{"scopes":["files:read"]}}"#);
    insta::assert_snapshot!(list["tools"][3], @r#"{"id":"crib.open@1.0.0","name":"crib__open","description":"","version":"1.0.0","input_schema":{"parameters":{}},"output_schema":{}}"#);
}

#[tokio::test]
async fn a_list_that_did_not_change_is_not_sent_again() {
    let gw = fixture().start().await;
    let caller = gw.principal("new", []).await;
    let etag = caller.get("/tools").await.header("etag").to_owned();
    let again = caller.with("if-none-match", &etag).get("/tools").await;
    assert_eq!((again.status, again.body.len()), (304, 0));
}

/// The list and a call agree on ids: a listed id can be called.
#[tokio::test]
async fn listed_ids_can_be_called() {
    let gw = fixture().start().await;
    let caller = gw.principal("new", []).await;
    let list = caller.get("/tools").await.json();
    let id = list["tools"][0]["id"].clone();
    let reply = caller.post("/tools/call", json!({ "request": { "tool_id": id } })).await;
    assert_eq!(reply.json()["result"]["success"], Value::Bool(true));
}
