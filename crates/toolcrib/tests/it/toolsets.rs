//! Toolsets and search over HTTP: the lists of every surface, and entries without a tool.

use serde_json::{Value, json};
use toolcrib_testkit::gateway::{Actor, TestGateway, TestSource, TestTool};

const TOOLSETS: &str = r#"
[toolset.files]
title = "Files"
allow = ["mcp:up.*_file", "up__list", "mcp:gone.*"]
deny = ["mcp:up.delete_*"]
[toolset.none]
allow = ["mcp:up.delete_file"]
deny = ["mcp:up.*"]
"#;

async fn rig() -> (TestGateway, Actor) {
    let tool = |name: &str, text: &str| TestTool::new(name).description(text).scopes(["up:use"]);
    let gw = TestGateway::builder()
        .config(TOOLSETS)
        .source(
            TestSource::new("up")
                .tenants(["acme"])
                .tool(tool("read_file", "Reads the text of a file."))
                .tool(tool("write_file", "Writes text into a file."))
                .tool(tool("delete_file", "Removes a file for ever."))
                .tool(tool("list", "Names of all files in a directory."))
                .tool(TestTool::new("mail").description("Sends a file.").scopes(["up:mail"])),
        )
        .workflow("copy", "steps: [{ id: a, tool: 'mcp:up.read_file' }]\noutputs: {}")
        .start()
        .await;
    let ann = gw.principal("ann", ["up:use", "tools:*"]).await;
    (gw, ann)
}

/// Returns `member` of each tool in the list at `path`.
async fn listed(caller: &Actor, path: &str, member: &str) -> Vec<String> {
    let reply = caller.get(path).await;
    assert_eq!(reply.status, 200, "{path}: {}", reply.text());
    let mut list = reply.json();
    for name in ["tools", "items"] {
        if list.get(name).is_some() {
            list = list[name].take();
        }
    }
    let tools = list.as_array().unwrap().iter();
    tools.map(|tool| tool[member].as_str().unwrap().to_owned()).collect()
}

// I-76
#[tokio::test]
async fn every_list_can_be_that_of_a_toolset() {
    let (gw, ann) = rig().await;
    let eve = gw.principal_of("other", "eve", &["*"]).await;
    let ids = ["mcp:up.list", "mcp:up.read_file", "mcp:up.write_file"];
    assert_eq!(listed(&ann, "/v1/tools?toolset=files", "toolId").await, ids);
    assert_eq!(listed(&ann, "/v1/tools?view=compact&toolset=files", "toolId").await, ids);
    assert_eq!(listed(&ann, "/v1/tools?toolset=files&source=workflow", "toolId").await.len(), 0);
    assert_eq!(listed(&ann, "/v1/tools?toolset=none", "toolId").await.len(), 0);
    for (path, member) in [("/tools", "id"), ("/oxp/tools", "id"), ("/explorer/tools", "name")] {
        let within = listed(&ann, &format!("{path}?toolset=files"), member).await;
        assert_eq!(within.len(), 3, "{path}: {within:?}");
        assert!(listed(&ann, path, member).await.len() > 3);
        assert!(listed(&eve, &format!("{path}?toolset=files"), member).await.is_empty());
    }
    let (whole, part) = (ann.get("/v1/tools").await, ann.get("/v1/tools?toolset=files").await);
    assert_ne!(whole.header("etag"), part.header("etag"));
    for path in ["/v1/tools", "/tools", "/oxp/tools", "/explorer/tools"] {
        for name in ["nothing", "", "FILES", "files%00"] {
            let reply = ann.get(&format!("{path}?toolset={name}")).await;
            assert_eq!(reply.status, 400, "{path} {name}");
        }
    }
}

// I-77
#[tokio::test]
async fn a_search_finds_what_the_caller_may_see_the_best_first() {
    let (gw, ann) = rig().await;
    let all = listed(&ann, "/v1/tools?q=file", "toolId").await;
    assert_eq!(all.len(), 4, "the mail is hidden: {all:?}");
    assert_eq!(listed(&ann, "/v1/tools?q=read+files", "toolId").await[0], "mcp:up.read_file");
    assert_eq!(listed(&ann, "/v1/tools?q=file&limit=2", "toolId").await.len(), 2);
    assert_eq!(
        listed(&ann, "/v1/tools?q=delete&toolset=files", "toolId").await,
        Vec::<String>::new()
    );
    let compact = listed(&ann, "/v1/tools?q=write&view=compact", "toolId").await;
    assert_eq!(compact[0], "mcp:up.write_file");
    assert_eq!(listed(&ann, "/v1/tools?q=copy&source=workflow", "toolId").await.len(), 1);
    assert_eq!(listed(&ann, "/v1/tools?q=copy&source=mcp", "toolId").await.len(), 0);
    assert_eq!(
        listed(&ann, "/v1/tools?q=+", "toolId").await,
        listed(&ann, "/v1/tools", "toolId").await,
        "no word, no search"
    );
    let mailer = gw.principal("mailer", ["up:mail"]).await;
    assert_eq!(listed(&mailer, "/v1/tools?q=file", "toolId").await, ["mcp:up.mail"]);
    let eve = gw.principal_of("other", "eve", &["*"]).await;
    assert!(listed(&eve, "/v1/tools?q=file", "toolId").await.is_empty());
    for limit in ["0", "101", "x", "-1"] {
        assert_eq!(ann.get(&format!("/v1/tools?q=file&limit={limit}")).await.status, 400);
    }
    // New tools are found, and removed ones are not.
    gw.change("up", vec![TestTool::new("read_file").description("Fetches a page.")]).await;
    assert_eq!(listed(&ann, "/v1/tools?q=fetch+file", "toolId").await, ["mcp:up.read_file"]);
}

// RFC 0064: an allow-list entry that resolves to no tool is recorded as forbidden, without a call.
#[tokio::test]
async fn an_entry_without_a_tool_is_recorded_once_and_reported() {
    let (gw, ann) = rig().await;
    let row = gw.event(|event| event["payload"]["toolName"] == "mcp:gone.*").await;
    assert_eq!(row["type"], "agent.toolReturned");
    assert_eq!(row["payload"]["status"], "forbidden");
    assert_eq!(row["payload"]["agentId"], "toolset.files");
    let id = row["payload"]["callId"].as_str().unwrap();
    assert!(id.starts_with("forbidden:") && id.len() == "forbidden:".len() + 64, "{id}");
    let denied = gw.event(|event| event["payload"]["agentId"] == "toolset.none").await;
    assert_eq!(denied["payload"]["toolName"], "mcp:up.delete_file", "denied is not reached");
    assert_eq!(
        gw.gateway.supply().unresolved_references(),
        ["toolset \"files\": mcp:gone.*", "toolset \"none\": mcp:up.delete_file"]
    );
    let operator = gw.principal("operator", ["sources:read", "up:use"]).await;
    let told = operator.get("/v1/sources").await.json();
    assert_eq!(
        told["toolsets"],
        json!([
            { "name": "files", "title": "Files", "tools": 3, "unresolved": 1 },
            { "name": "none", "tools": 0, "unresolved": 1 },
        ])
    );
    // A further missing tool is reported, too; reported ones are not repeated.
    gw.change("up", vec![TestTool::new("read_file")]).await;
    gw.event(|event| event["payload"]["toolName"] == "up__list").await;
    let rows = async || {
        let events = gw.events().await;
        let events: Vec<Value> =
            events.iter().map(|it| serde_json::to_value(&it.event).unwrap()).collect();
        let forbidden =
            |event: &&Value| event["payload"]["callId"].to_string().contains("forbidden:");
        let opened = events.iter().any(|event| event["type"] == "agent.toolCalled");
        assert!(!opened, "nothing was called");
        events.iter().filter(forbidden).count()
    };
    assert_eq!(rows().await, 3);
    assert_eq!(listed(&ann, "/v1/tools?toolset=files", "toolId").await, ["mcp:up.read_file"]);
}
