//! Two real upstreams, one of each protocol era, the same through every surface.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::rig::{FILE_TEXT, Server, Tools};

fn names(list: &Value, member: &str) -> BTreeSet<String> {
    list.as_array().unwrap().iter().map(|tool| tool[member].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn the_same_tools_everywhere_and_a_file_read_through_each_calling_surface() {
    let Some(tools) = Tools::find() else { return };
    let server = Server::start(&tools).await;

    let descriptors = server.get("/v1/tools").await;
    let ids = names(&descriptors, "toolId");
    assert!(ids.contains("mcp:files.read_text_file") && ids.contains("mcp:clock.get_current_time"));
    let otc = names(&server.get("/tools").await["tools"], "name");
    let explorer = names(&server.get("/explorer/tools").await, "name");
    let mcp = names(&server.mcp("tools/list", json!({})).await["result"]["tools"], "name");
    assert_eq!(otc, explorer);
    assert_eq!(otc, mcp);
    assert_eq!(otc.len(), ids.len());
    assert!(otc.contains("files__read_text_file"), "{otc:?}");

    let arguments = json!({ "path": server.file() });
    let request = json!({ "request": { "tool_id": "files.read_text_file", "input": arguments } });
    let (status, answer) = server.post("/tools/call", &request).await;
    assert_eq!((status, &answer["result"]["success"]), (200, &json!(true)), "{answer}");
    assert!(answer["result"]["value"].to_string().contains(FILE_TEXT), "{answer}");

    let (status, answer) =
        server.post("/explorer/tools/files__read_text_file/call", &arguments).await;
    assert_eq!((status, &answer["content"][0]["text"]), (200, &json!(FILE_TEXT)), "{answer}");

    let params = json!({ "name": "files__read_text_file", "arguments": arguments });
    let answer = server.mcp("tools/call", params).await;
    assert_eq!(answer["result"]["content"][0]["text"], json!(FILE_TEXT), "{answer}");

    let params = json!({ "name": "clock__get_current_time", "arguments": { "timezone": "UTC" } });
    let answer = server.mcp("tools/call", params).await;
    assert!(answer["result"]["content"][0]["text"].as_str().unwrap().contains("UTC"), "{answer}");
}

/// I-7: what a role may not use is on no list, and its call is refused with what was missing.
#[tokio::test]
async fn a_reader_neither_sees_nor_calls_what_writes() {
    let Some(tools) = Tools::find() else { return };
    let mut server = Server::start(&tools).await;
    std::mem::swap(&mut server.admin, &mut server.reader);
    let ids = names(&server.get("/v1/tools").await, "toolId");
    assert!(ids.contains("mcp:files.read_text_file"));
    assert!(
        !ids.contains("mcp:files.write_file") && !ids.iter().any(|id| id.starts_with("mcp:clock"))
    );
    let input = json!({ "path": server.file(), "content": "overwritten" });
    let request = json!({ "request": { "tool_id": "files.write_file", "input": input } });
    let (status, answer) = server.post("/tools/call", &request).await;
    assert_eq!(status, 403, "{answer}");
    assert_eq!(answer["details"]["requiredScopes"], json!(["files:write"]), "{answer}");
    assert_eq!(std::fs::read_to_string(server.file()).unwrap(), FILE_TEXT);
}
