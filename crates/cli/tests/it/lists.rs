//! Long lists, and lists for clients with special needs.

use serde_json::{Value, json};

use crate::support::{Server, dir, eventually, key, run, write_config};

/// A document with `count` operations, whose bodies refer to schemas.
fn document(count: usize) -> String {
    let reference = |name: &str| json!({ "$ref": format!("#/components/schemas/{name}") });
    let operation = |n: usize| {
        let body = json!({ "content": { "application/json": { "schema": reference("Order") } } });
        let answer = json!({ "200": { "description": "ok",
            "content": { "application/json": { "schema": reference("Node") } } } });
        let post = json!({ "operationId": format!("op{n:04}"), "requestBody": body,
            "responses": answer });
        (format!("/op{n}"), json!({ "post": post }))
    };
    let paths: serde_json::Map<String, Value> = (0..count).map(operation).collect();
    json!({
        "openapi": "3.1.0", "info": { "title": "Many", "version": "1" }, "paths": paths,
        "components": { "schemas": {
            "Order": { "type": "object", "properties": { "to": reference("Place") } },
            "Place": { "type": "object", "properties": { "zip": { "type": "string" } } },
            "Node": { "type": "object", "properties": { "child": reference("Node") } },
        } },
    })
    .to_string()
}

fn config(more: &str) -> String {
    format!(
        "[server]\nlisten = \"127.0.0.1:0\"\n{more}\n[[source]]\nid = \"many\"\n\
         kind = \"connector\"\ndocument = \"many.json\"\nbase_url = \"http://127.0.0.1:9/\"\n\
         [source.tools.\"*\"]\nscopes = [\"demo:read\"]\n"
    )
}

#[test]
fn a_list_with_more_than_one_page_is_a_warning() {
    let dir = dir();
    std::fs::write(dir.path().join("many.json"), document(1_226)).unwrap();
    let toolset = "[toolset.all]\nallow = [\"*\"]\n[toolset.few]\nallow = [\"many__op000*\"]\n\
                   [toolset.search]\nallow = [\"*\"]\nmeta = \"search\"";
    write_config(dir.path(), &config(toolset));
    let advice = "has 1226 tools; clients that read no further pages see only the first 1000: serve \
                  them a toolset (`[toolset.NAME]`), or raise `[mcp] page_size`";
    let whole = format!("the MCP list of the whole catalog {advice}");
    let all = format!("the MCP list of toolset \"all\" {advice}");
    let listed = run(dir.path(), &["tools", "list"]).ok();
    assert!(listed.stderr.contains(&whole), "{}", listed.stderr);
    assert!(listed.stderr.contains(&all), "{}", listed.stderr);
    assert!(!listed.stderr.contains("few") && !listed.stderr.contains("search"), "{listed:?}");
    let checked = run(dir.path(), &["config", "check", "--connect", "--json"]);
    assert_eq!(checked.code, 3, "{checked:?}");
    let checked = checked.json();
    assert_eq!(checked["warnings"], json!([whole, all]));

    // One page holds them.
    write_config(dir.path(), &config("[mcp]\npage_size = 2000"));
    let listed = run(dir.path(), &["tools", "list"]).ok();
    assert!(!listed.stderr.contains("pages"), "{}", listed.stderr);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_toolset_can_have_schemas_without_references() {
    let dir = dir();
    std::fs::write(dir.path().join("many.json"), document(4)).unwrap();
    let plain = "[mcp]\npage_size = 3\n[toolset.plain]\nallow = [\"*\"]\ninline_refs = true\n";
    write_config(dir.path(), &config(plain));
    let (_, text) = key(dir.path(), &["--scope", "demo:read"]);
    let server = Server::start(dir.path());
    eventually("the tools are there", || {
        let listed = run(dir.path(), &["tools", "list", "--url", &server.url, "--key", &text]);
        listed.stdout.contains("many__op0003")
            && listed.stderr.contains(
                "the MCP list of this key has 4 tools; clients that read no further pages see only \
                 the first 3",
            )
    });
    let list = async |path: &str, revision: &str| -> Value {
        let meta = json!({ "io.modelcontextprotocol/protocolVersion": revision,
            "io.modelcontextprotocol/clientCapabilities": {} });
        let body = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/list",
            "params": { "_meta": meta } });
        rustls::crypto::aws_lc_rs::default_provider().install_default().ok();
        #[expect(clippy::disallowed_methods, reason = "a client of the server")]
        let client = reqwest::Client::new();
        let request = client
            .post(format!("{}{path}", server.url))
            .bearer_auth(&text)
            .header("accept", "application/json, text/event-stream")
            .header("mcp-protocol-version", revision)
            .header("mcp-method", "tools/list")
            .json(&body);
        request.send().await.unwrap().json().await.unwrap()
    };
    for revision in ["2025-11-25", "2026-07-28"] {
        let usual = list("/mcp", revision).await;
        let body = &usual["result"]["tools"][0]["inputSchema"]["properties"]["body"];
        assert_eq!(body["$ref"], "#/$defs/Order", "{usual}");
        let plain = list("/mcp/plain", revision).await;
        let tool = &plain["result"]["tools"][0];
        assert_eq!(
            tool["inputSchema"]["properties"]["body"],
            json!({ "type": "object", "properties": { "to":
                { "type": "object", "properties": { "zip": { "type": "string" } } } } })
        );
        assert_eq!(tool["outputSchema"], Value::Null, "services answer otherwise");
        let text = plain.to_string();
        assert!(!text.contains("$ref") && !text.contains("$defs"), "{text}");
        assert_eq!(plain["result"]["tools"].as_array().unwrap().len(), 3);
    }
}
