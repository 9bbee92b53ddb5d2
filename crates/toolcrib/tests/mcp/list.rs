//! `tools/list`.

use serde_json::{Value, json};
use toolcrib_testkit::gateway::{TestGateway, TestTool};

use crate::support::{gateway, legacy, modern};

fn tool<'a>(tools: &'a [Value], name: &str) -> &'a Value {
    tools.iter().find(|tool| tool["name"] == name).unwrap()
}

#[tokio::test]
async fn a_list_has_the_members_of_its_era() {
    let gw = gateway().start().await;
    let caller = gw.principal("a", []).await;
    let newer = modern(&caller, "tools/list", json!({})).await.json()["result"].clone();
    assert_eq!(newer["resultType"], "complete");
    assert_eq!((&newer["ttlMs"], &newer["cacheScope"]), (&json!(0), &json!("private")));
    assert_eq!(newer["_meta"]["io.modelcontextprotocol/serverInfo"]["name"], "toolcrib");
    assert!(newer.get("nextCursor").is_none());
    let older = legacy(&caller, "tools/list", json!({})).await.json()["result"].clone();
    assert_eq!(older.as_object().unwrap().keys().collect::<Vec<_>>(), ["tools"]);

    let tools = newer["tools"].as_array().unwrap();
    assert_eq!(
        tool(tools, "crib__echo"),
        &json!({
            "name": "crib__echo",
            "description": "says it again",
            "inputSchema": {
                "type": "object",
                "properties": { "text": { "type": "string" } },
                "required": ["text"],
            },
            "annotations": {
                "title": "Echo!", "readOnlyHint": true, "destructiveHint": false,
                "idempotentHint": true, "openWorldHint": false,
            },
            "_meta": {
                "dev.toolcrib/toolId": "mcp:crib.echo",
                "dev.toolcrib/sourceId": "crib",
                "dev.toolcrib/otcId": "crib.echo@1.0.0",
            },
        })
    );
    assert_eq!(tool(tools, "crib__bare")["inputSchema"], json!({ "type": "object" }));
}

/// Clients drop a tool with invalid header annotations, so those are removed.
#[tokio::test]
async fn broken_header_annotations_are_not_shown() {
    let gw = gateway().start().await;
    let caller = gw.principal("a", []).await;
    let list = modern(&caller, "tools/list", json!({})).await.json();
    let tools = list["result"]["tools"].as_array().unwrap();
    let property = |name: &str, property: &str| {
        tool(tools, name)["inputSchema"]["properties"][property].clone()
    };
    assert_eq!(property("crib__odd", "a"), json!({ "type": "number" }));
    assert_eq!(property("crib__region", "region")["x-mcp-header"], "Region");
}

/// I-7, I-9: the list contains exactly the callable tools.
#[tokio::test]
async fn a_list_shows_what_the_caller_may_call() {
    let gw = gateway().start().await;
    let names = async |actor| {
        let list = legacy(actor, "tools/list", json!({})).await.json();
        let tools = list["result"]["tools"].as_array().unwrap().clone();
        tools.iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let reader = gw.principal("reader", []).await;
    let keeper = gw.principal("keeper", ["vault:*"]).await;
    let other = gw.principal_of("other", "o", &[]).await;
    let (reader, keeper, other) = (names(&reader).await, names(&keeper).await, names(&other).await);
    assert!(!reader.iter().any(|name| name == "crib__secret" || name == "foreign__tool"));
    assert!(keeper.contains(&"crib__secret".to_owned()));
    assert!(other.contains(&"foreign__tool".to_owned()));
    let mut sorted = reader.clone();
    sorted.sort();
    assert_eq!(reader, sorted, "the order is that of the ids");
}

/// I-24: two reads are byte-for-byte equal; request ids are returned unchanged.
#[tokio::test]
async fn a_list_is_spliced_around_the_id() {
    let gw = gateway().start().await;
    let caller = gw.principal("a", []).await;
    let mut lists = Vec::new();
    for id in [
        "1",
        "\"an \\\"id\\\"\"",
        "-9007199254740993",
        "18446744073709551615",
        "123456789012345678901",
    ] {
        let body = format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"tools/list\"}}");
        let text = crate::support::post(&caller, &body).await.text();
        let open = format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":");
        lists.push(text.strip_prefix(&open).unwrap_or_else(|| panic!("{text}")).to_owned());
    }
    assert!(lists.windows(2).all(|pair| pair[0] == pair[1]));
}

#[tokio::test]
async fn a_list_follows_the_catalog() {
    let gw = TestGateway::builder().tool(TestTool::new("one").scopes([])).start().await;
    let caller = gw.principal("a", ["tools:crib"]).await;
    let names = async || {
        let list = modern(&caller, "tools/list", json!({})).await.json();
        list["result"]["tools"]
            .as_array()
            .unwrap()
            .iter()
            .map(|t| t["name"].clone())
            .collect::<Vec<_>>()
    };
    assert_eq!(names().await, ["crib__one"]);
    gw.change("crib", vec![TestTool::new("two")]).await;
    assert_eq!(names().await, ["crib__two"]);
}
