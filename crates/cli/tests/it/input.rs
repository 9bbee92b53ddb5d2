//! MCP end to end: elicitation and progress, from an upstream through the gate to a caller.

use serde_json::{Value, json};
use toolcrib_testkit::upstream::{Answers, FaultyHttp, faulty_program};

use crate::support::{Caller, Server, dir, key, run, toolcrib, write_config};

const CANARY: &str = "canary51c0de";

/// A configuration with one upstream on each transport, both of 2026-07-28 alone.
fn config(http: &FaultyHttp) -> String {
    let program = faulty_program();
    let rules = "[source.tools.\"*\"]\nscopes = [\"faulty:use\"]\nsafety_tier = \"read\"\n";
    format!(
        "[server]\nlisten = \"127.0.0.1:0\"\n\
         [[source]]\nid = \"near\"\nkind = \"mcp\"\ncommand = [{:?}, \"era=modern\"]\n{rules}\
         [[source]]\nid = \"far\"\nkind = \"mcp\"\nurl = {:?}\n{rules}",
        program.display().to_string(),
        http.url(),
    )
}

async fn listed(caller: &Caller, tool: &str) {
    for _ in 0..600 {
        let (_, list) = caller.mcp("tools/list", json!({})).await;
        let tools = list["result"]["tools"].as_array().cloned().unwrap_or_default();
        if tools.iter().any(|seen| seen["name"] == tool) {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    panic!("`{tool}` is never listed");
}

// I-20, I-28, I-50
#[tokio::test]
async fn tools_that_ask_back_and_tools_that_tell_how_far_they_are() {
    let dir = dir();
    let http = FaultyHttp::start(Answers::Splinters, &["era=modern"]);
    write_config(dir.path(), &config(&http));
    let (_, key) = key(dir.path(), &["--scope", "faulty:use"]);
    let server = Server::of(toolcrib(dir.path()).arg("serve").env("TOOLCRIB_LOG", "debug"));
    let caller = server.caller(Some(&key));

    for source in ["near", "far"] {
        let tool = format!("{source}__question");
        listed(&caller, &tool).await;
        let can = json!({ "io.modelcontextprotocol/clientCapabilities": { "elicitation": {} } });
        let (status, first) = caller.mcp("tools/call", json!({ "name": tool, "_meta": can })).await;
        let first = &first["result"];
        assert_eq!((status, &first["resultType"]), (200, &json!("input_required")), "{first}");
        assert_eq!(first["inputRequests"]["name"]["params"]["message"], "Who are you?");
        assert_eq!(first["requestState"], "c3RhdGU=.1");

        let answers = json!({ "name": { "action": "accept", "content": { "name": CANARY } } });
        let state = format!("{CANARY}.2");
        let (_, second) = caller
            .mcp(
                "tools/call",
                json!({ "name": tool, "_meta": can, "inputResponses": answers,
                    "requestState": state }),
            )
            .await;
        let text = second["result"]["content"][0]["text"].as_str().unwrap();
        let sent: Value = serde_json::from_str(text).unwrap();
        let expected = json!({ "inputResponses": answers, "requestState": state,
            "capabilities": { "elicitation": {} } });
        assert_eq!(sent, expected, "{source}");

        let (status, refused) =
            caller.mcp("tools/call", json!({ "name": tool, "requestState": "spoiled" })).await;
        assert_eq!((status, &refused["error"]["code"]), (200, &json!(-32602)));
        let (status, wanted) = caller
            .mcp(
                "tools/call",
                json!({ "name": tool,
                    "arguments": { "kind": "want", "wanted": { "sampling": {} } } }),
            )
            .await;
        assert_eq!((status, &wanted["error"]["code"]), (400, &json!(-32021)));

        let tool = format!("{source}__progress");
        for _ in 0..10 {
            let params = json!({ "name": tool, "arguments": { "n": 40 },
                "_meta": { "progressToken": "t" } });
            let messages = caller.mcp_messages("tools/call", params).await;
            let (answer, reports) = messages.split_last().unwrap();
            assert_eq!(answer["result"]["content"][0]["text"], "done");
            let steps: Vec<_> =
                reports.iter().filter_map(|said| said["params"]["progress"].as_u64()).collect();
            assert_eq!(steps, (0..40).collect::<Vec<_>>(), "{source}");
        }
    }
    let logs = server.stop();
    assert!(!logs.contains(CANARY), "{logs}");
    let events = run(dir.path(), &["audit", "export"]).ok().stdout;
    assert!(events.contains("agent.toolReturned") && events.contains("input_required"), "{events}");
    let canary = CANARY.as_bytes();
    for (file, bytes) in crate::record::contents(dir.path()) {
        assert!(!bytes.windows(canary.len()).any(|seen| seen == canary), "{file}");
    }
}
