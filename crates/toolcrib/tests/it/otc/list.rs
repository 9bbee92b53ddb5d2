use http::Method;
use serde_json::{Value, json};
use toolcrib_testkit::gateway::{TestGateway, TestSource, TestTool};

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
    insta::assert_snapshot!(list["tools"][5], @r#"{"id":"crib.read@1.0.0","name":"crib__read","description":"Reads a file","version":"1.0.0","input_schema":{"parameters":{"type":"object","properties":{"path":{"type":"string","description":"Which file"},"count":{"type":"integer","description":"count"}},"required":["path"],"additionalProperties":false}},"output_schema":{}}"#);
    insta::assert_snapshot!(list["tools"][3], @r#"{"id":"crib.open@1.0.0","name":"crib__open","description":"","version":"1.0.0","input_schema":{"parameters":{}},"output_schema":{}}"#);
}

#[tokio::test]
async fn a_caller_without_tools_gets_an_empty_list() {
    let gw = TestGateway::builder().start().await;
    let reply = gw.principal("a", []).await.get("/tools").await;
    assert_eq!(reply.text(), r#"{"$schema":"otc://1.0","tools":[]}"#);
}

/// I-16: definitions have ids of the protocol's grammar, unique, and schemas without references.
#[tokio::test]
async fn every_definition_keeps_to_the_protocol() {
    let nested = json!({
        "type": "object",
        "properties": { "a": { "$ref": "#/$defs/x" }, "b": { "type": "array", "items": { "$ref": "#/$defs/x" } } },
        "$defs": { "x": { "type": "object", "properties": { "again": { "$ref": "#/$defs/x" } } } },
    });
    let long = "a-very-long-tool-name-that-does-not-fit-into-sixty-four-characters-of-a-name";
    let source = TestSource::new("team-files")
        .version("2.10.3-beta+7")
        .tool(TestTool::new("do.it").input(nested.clone()).output(nested))
        .tool(TestTool::new("undo-it"))
        .tool(TestTool::new("löschen"))
        .tool(TestTool::new(long));
    let gw = TestGateway::builder().source(source).start().await;
    let list = gw.principal("a", ["*"]).await.get("/tools").await.json();
    let tools = list["tools"].as_array().unwrap();
    assert_eq!(tools.len(), 4);
    let word = |text: &str| text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
    let mut ids = std::collections::HashSet::new();
    for tool in tools {
        let id = tool["id"].as_str().unwrap();
        let (name, version) = id.split_once('@').unwrap();
        let (toolkit, local) = name.split_once('.').unwrap();
        assert!(word(toolkit) && word(local), "{id}");
        assert_eq!((version, &tool["version"]), ("2.10.3", &json!("2.10.3")));
        assert!(ids.insert(id), "{id}");
        assert!(tool["name"].as_str().unwrap().len() <= 64);
        let text = tool.to_string();
        assert!(!text.contains("$ref") && !text.contains("$defs"), "{text}");
        let properties = tool["input_schema"]["parameters"]["properties"].as_object();
        for (name, schema) in properties.into_iter().flatten() {
            assert!(schema["description"].is_string(), "{name}");
        }
        let keys: Vec<_> = tool.as_object().unwrap().keys().collect();
        assert_eq!(keys, ["id", "name", "description", "version", "input_schema", "output_schema"]);
    }
}

#[tokio::test]
async fn a_request_may_say_its_version() {
    let gw = fixture().start().await;
    let caller = gw.principal("new", []).await;
    let plain = caller.get("/tools").await;
    let with_type = caller.with("content-type", "application/json").get("/tools").await;
    assert_eq!(with_type.body, plain.body, "some clients announce JSON and send nothing");
    let ask = |body: &'static str| {
        let caller = caller.clone();
        async move { caller.send(Method::GET, "/tools", Some(body.into())).await }
    };
    for good in [
        "{}",
        r#"{"$schema":"otc://1.0"}"#,
        r#"{"$schema":"urn:oxp:1.0","more":1}"#,
        r#"{"$schema":"https://github.com/x/y/tree/main/spec/http/1.0/openapi.json"}"#,
    ] {
        assert_eq!(ask(good).await.body, plain.body, "{good}");
    }
    for bad in [r#"{"$schema":"otc://9.9"}"#, r#"{"$schema":1}"#, "[]", "{", "nonsense"] {
        let reply = ask(bad).await;
        assert_eq!(reply.status, 400, "{bad}");
        assert_eq!(reply.json()["$schema"], "otc://1.0");
        assert!(reply.json()["message"].is_string());
    }
}

#[tokio::test]
async fn a_key_may_come_in_any_of_the_headers() {
    let gw = fixture().start().await;
    let key = gw.principal("reader", ["files:read"]).await.key().unwrap().to_owned();
    let nobody = gw.anonymous();
    for (name, value) in [
        ("authorization", format!("Bearer {key}")),
        ("authorization", format!("bearer {key}")),
        ("x-api-key", key.clone()),
        ("otc-api-key", key.clone()),
        ("OXP-API-Key", key.clone()),
    ] {
        assert_eq!(nobody.with(name, &value).get("/tools").await.status, 200, "{name}");
        // Only this dialect knows them.
        let v1 = nobody.with(name, &value).get("/v1/tools").await.status;
        assert_eq!(v1, if name == "authorization" { 200 } else { 401 }, "{name}");
    }
    for (name, value) in [
        ("authorization", format!("Basic {key}")),
        ("authorization", key.clone()),
        ("authorization", format!("Bearer {key}x")),
        ("x-api-key", "junk".to_owned()),
        ("x-other", key.clone()),
    ] {
        let reply = nobody.with(name, &value).get("/tools").await;
        assert_eq!((reply.status, reply.header("www-authenticate")), (401, "Bearer"), "{name}");
        assert_eq!(reply.json()["$schema"], "otc://1.0");
    }
}

#[tokio::test]
async fn anonymous_callers_come_in_where_the_operator_says_so() {
    let config =
        "[otc]\nauth = \"optional\"\n[anonymous]\ntenant = \"acme\"\nscopes = [\"files:read\"]";
    let gw = fixture().config(config).start().await;
    let list = gw.anonymous().get("/tools").await.json();
    assert_eq!(list["tools"].as_array().unwrap().len(), 7);
    // A key that is no good is told so, and the other mounts are as closed as before.
    assert_eq!(gw.bearer("junk").get("/tools").await.status, 401);
    assert_eq!(gw.anonymous().get("/v1/tools").await.status, 401);
    assert_eq!(gw.anonymous().get("/explorer/tools").await.status, 401);
}

#[tokio::test]
async fn a_list_that_did_not_change_is_not_sent_again() {
    let gw = fixture().start().await;
    let caller = gw.principal("new", []).await;
    let etag = caller.get("/tools").await.header("etag").to_owned();
    let again = caller.with("if-none-match", &etag).get("/tools").await;
    assert_eq!((again.status, again.body.len()), (304, 0));
}

/// The list and a call agree on ids: what is listed can be called by it.
#[tokio::test]
async fn listed_ids_can_be_called() {
    let gw = fixture().start().await;
    let caller = gw.principal("new", []).await;
    let list = caller.get("/tools").await.json();
    let id = list["tools"][0]["id"].clone();
    let reply = caller.post("/tools/call", json!({ "request": { "tool_id": id } })).await;
    assert_eq!(reply.json()["result"]["success"], Value::Bool(true));
}
