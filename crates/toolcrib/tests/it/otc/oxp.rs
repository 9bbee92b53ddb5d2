use serde_json::{Value, json};
use toolcrib_testkit::gateway::Actor;

use super::spec::{answers, valid};
use crate::support::fixture;

#[tokio::test]
async fn definitions_hold_the_schema_itself() {
    let gw = fixture().start().await;
    let reader = gw.principal("reader", ["files:read"]).await;
    let reply = reader.get("/oxp/tools").await;
    assert_eq!(reply.header("cache-control"), "private, no-cache");
    let list = answers(&reply, 200);
    insta::assert_snapshot!(list["items"][5], @r#"{"id":"crib.read@1.0.0","name":"crib__read","description":"Reads a file","version":"1.0.0","input_schema":{"type":"object","properties":{"path":{"type":"string","description":"Which file"},"count":{"type":"integer","description":"count"}},"required":["path"],"additionalProperties":false},"output_schema":{},"requirements":{"scopes":["files:read"]}}"#);
    insta::assert_snapshot!(list["items"][3], @r#"{"id":"crib.open@1.0.0","name":"crib__open","description":"","version":"1.0.0","input_schema":{},"output_schema":{}}"#);
    let etag = reply.header("etag");
    let again = reader.with("if-none-match", etag).get("/oxp/tools").await;
    assert_eq!((again.status, again.header("oxp-version")), (304, "1.0"));
}

/// The same tools on both mounts, and the same calls.
#[tokio::test]
async fn both_mounts_offer_the_same() {
    let gw = fixture().start().await;
    let reader = gw.principal("reader", ["files:read"]).await;
    let (otc, oxp) = (reader.get("/tools").await.json(), reader.get("/oxp/tools").await.json());
    let (otc, oxp) = (otc["tools"].as_array().unwrap(), oxp["items"].as_array().unwrap());
    assert_eq!(otc.len(), oxp.len());
    for (otc, oxp) in otc.iter().zip(oxp) {
        let mut flat = otc.clone();
        flat["input_schema"] = flat["input_schema"]["parameters"].clone();
        assert_eq!(flat, *oxp);
    }
}

async fn flat(caller: &Actor, request: Value, status: u16) -> Value {
    let reply = caller.post("/oxp/tools/call", request).await;
    assert_eq!(reply.header("oxp-version"), "1.0");
    answers(&reply, status)
}

/// The later draft has no envelope, neither around the call nor around its closed response.
#[tokio::test]
async fn a_call_without_an_envelope_is_answered_without_one() {
    let gw = fixture().start().await;
    let reader = gw.principal("reader", ["files:read"]).await.with("oxp-version", "1.0");
    let request = json!({ "tool_id": "crib.read@1", "call_id": "c", "input": { "path": "a" } });
    let result = flat(&reader, request.clone(), 200).await;
    valid("Result", &result);
    assert_eq!((&result["call_id"], &result["value"]), (&json!("c"), &json!("read: a")));
    assert_eq!(flat(&reader, request.clone(), 200).await, result);
    let failed = flat(&reader, json!({ "tool_id": "crib.fail" }), 200).await;
    valid("Result", &failed);
    assert_eq!(failed["error"]["message"], "kaboom");
    for (request, status) in [
        (json!({ "tool_id": "no.such" }), 400),
        (json!({ "tool_id": 1 }), 400),
        (json!({ "tool_id": "crib.read" }), 422),
        (json!({ "tool_id": "crib.write" }), 403),
        (json!({ "tool_id": "crib.open", "call_id": "c" }), 400),
    ] {
        flat(&reader, request, status).await;
    }
    // A call in an envelope gets a response in one, with or without the header.
    let wrapped = json!({ "request": request });
    assert_eq!(flat(&reader, wrapped, 200).await["result"], result);
    assert_eq!(gw.runs("crib", "read"), 1);
    // Open Tool Calling rejects calls without an envelope.
    let otc = reader.post("/tools/call", json!({ "tool_id": "crib.open" })).await;
    answers(&otc, 400);
}

#[tokio::test]
async fn the_mount_can_be_left_out() {
    let gw = fixture().config("[oxp]\nenabled = false").start().await;
    let reader = gw.principal("reader", ["files:read"]).await;
    for path in ["/oxp/health", "/oxp/tools", "/oxp"] {
        let reply = reader.get(path).await;
        assert_eq!((reply.status, reply.header("oxp-version")), (404, ""), "{path}");
    }
    let document = reader.get("/v1/openapi.json").await.json();
    assert!(document["paths"].get("/oxp/tools").is_none());
    assert_eq!(reader.get("/tools").await.status, 200);
}

/// Each mount has its own access rule.
#[tokio::test]
async fn the_mounts_are_opened_one_by_one() {
    let anonymous = "[anonymous]\ntenant = \"acme\"\nscopes = [\"files:read\"]";
    for (config, otc, oxp) in
        [("[otc]\nauth = \"optional\"", 200, 401), ("[oxp]\nauth = \"optional\"", 401, 200)]
    {
        let gw = fixture().config(config).config(anonymous).start().await;
        let nobody = gw.anonymous();
        let got = (nobody.get("/tools").await.status, nobody.get("/oxp/tools").await.status);
        assert_eq!(got, (otc, oxp));
        assert_eq!(nobody.get("/v1/tools").await.status, 401);
    }
}
