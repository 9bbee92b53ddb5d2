//! A published server that prints its arguments to stderr.

use serde_json::json;

use crate::rig::{Server, Tools};

// I-92
#[tokio::test]
async fn what_a_server_prints_of_its_arguments_reaches_no_log() {
    let Some(tools) = Tools::find() else { return };
    let script = tools.package("@modelcontextprotocol/server-sequential-thinking/dist/index.js");
    let folder = tempfile::tempdir().unwrap();
    let config = format!(
        "[[role]]\nname = \"reader\"\nscopes = [\"a:b\"]\n[[source]]\nid = \"think\"\nkind = \"mcp\"\n\
         command = [{:?}, {script:?}]\n",
        tools.node
    );
    let server = Server::over(folder, &config, &["think"]).await;
    let thought = json!({
        "thought": "canary-4711", "nextThoughtNeeded": false, "thoughtNumber": 1, "totalThoughts": 1,
    });
    let params = json!({ "name": "think__sequentialthinking", "arguments": thought });
    let told = server.mcp("tools/call", params).await;
    assert!(told["result"].is_object() && told["result"]["isError"] != true, "{told}");
    let mut lines = json!(null);
    for _ in 0..100 {
        lines = server.get("/v1/sources/think/logs").await;
        if lines.to_string().contains("canary-4711") {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
    assert!(lines.to_string().contains("canary-4711"), "it does print its arguments: {lines}");
    let sources = server.get("/v1/sources").await;
    assert!(!sources.to_string().contains("canary"), "{sources}");
    let log = std::fs::read_to_string(server.folder.path().join("log")).unwrap();
    assert!(log.contains("source is ready"), "{log}");
    assert!(!log.contains("canary"), "{log}");
}
