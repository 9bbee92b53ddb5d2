//! Toolsets: their URLs, listing and calling through them, and the three meta tools that replace
//! all others.

use http::Method;
use serde_json::{Value, json};
use toolcrib_testkit::gateway::{Actor, Events, Reply, TestGateway, TestGatewayBuilder};

use crate::support::{gateway, legacy_at, listen_at, message, modern_at};

const TOOLSETS: &str = r#"
[toolset.talk]
title = "Talking"
allow = ["mcp:crib.e*", "crib__bare", "mcp:foreign.*", "mcp:crib.secret"]
[toolset.all]
allow = ["*"]
deny = ["crib__dies", "mcp:crib.fail"]
meta = "search"
"#;

fn toolsets() -> TestGatewayBuilder {
    gateway().config(TOOLSETS)
}

/// Sends a message to `path` in the era of `modern`.
async fn ask(actor: &Actor, path: &str, modern: bool, method: &str, params: Value) -> Reply {
    match modern {
        true => modern_at(actor, path, method, params).await,
        false => legacy_at(actor, path, method, params).await,
    }
}

async fn names(actor: &Actor, path: &str, modern: bool) -> Vec<String> {
    let list = ask(actor, path, modern, "tools/list", json!({})).await;
    assert_eq!(list.status, 200, "{}", list.text());
    let list = list.json()["result"]["tools"].clone();
    let tools = list.as_array().unwrap().iter();
    tools.map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
}

async fn call(actor: &Actor, path: &str, modern: bool, name: &str, arguments: Value) -> Value {
    let params = json!({ "name": name, "arguments": arguments });
    message(&ask(actor, path, modern, "tools/call", params).await)
}

/// Returns the text of a result, and whether it is an error.
fn said(answer: &Value) -> (&str, bool) {
    let result = &answer["result"];
    let text = result["content"][0]["text"].as_str();
    (text.unwrap_or_else(|| panic!("{answer}")), result["isError"] == true)
}

/// Opens a subscription to the list at `path`, acknowledged.
async fn follow(actor: &Actor, path: &str) -> Events {
    let mut events = listen_at(actor, path, json!({ "toolsListChanged": true })).await;
    events.next().await.unwrap();
    events
}

async fn rig() -> (TestGateway, Actor) {
    let gw = toolsets().start().await;
    let ann = gw.principal("ann", []).await;
    (gw, ann)
}

// I-76
#[tokio::test]
async fn a_toolset_lists_and_calls_its_tools_alone() {
    let (gw, ann) = rig().await;
    let keeper = gw.principal("keeper", ["*"]).await;
    let eve = gw.principal_of("other", "eve", &["*"]).await;
    for modern in [false, true] {
        assert_eq!(names(&ann, "/mcp/talk", modern).await, ["crib__bare", "crib__echo"]);
        // A toolset narrows a caller's view and never widens it.
        let seen = names(&keeper, "/mcp/talk", modern).await;
        assert_eq!(seen, ["crib__bare", "crib__echo", "crib__secret"]);
        assert!(names(&eve, "/mcp/talk", modern).await.contains(&"foreign__tool".to_owned()));
        assert!(names(&ann, "/mcp", modern).await.len() > 8, "the whole is still there");

        let bare = call(&ann, "/mcp/talk", modern, "crib__bare", json!({ "a": 1 })).await;
        assert_eq!(said(&bare), ("{\"a\":1}", false));
        // Tools outside the toolset are unknown here, byte for byte.
        let elsewhere = call(&ann, "/mcp/talk", modern, "crib__pretty", json!({})).await;
        let nowhere = call(&ann, "/mcp/talk", modern, "crib__nothing", json!({})).await;
        assert_eq!(elsewhere, nowhere);
        assert_eq!(elsewhere["error"]["code"], -32602);
        assert_eq!(call(&keeper, "/mcp/talk", modern, "crib__pretty", json!({})).await, nowhere);
    }
    assert_eq!(gw.runs("crib", "pretty"), 0);
    let unknown = ask(&ann, "/mcp/none", false, "tools/list", json!({})).await;
    assert_eq!((unknown.status, &unknown.json()["error"]["code"]), (404, &json!(-32600)));
    assert_eq!(ask(&gw.anonymous(), "/mcp/none", false, "ping", json!({})).await.status, 401);
    assert_eq!(ask(&gw.anonymous(), "/mcp/talk", false, "ping", json!({})).await.status, 401);
    let words = ask(&ann, "/mcp/talk", false, "initialize", json!({})).await.json();
    let words = words["result"]["instructions"].as_str().unwrap().to_owned();
    assert!(words.starts_with("Talking. "), "{words}");
}

#[tokio::test]
async fn a_session_and_its_news_belong_to_the_url_where_it_was_opened() {
    let (gw, ann) = rig().await;
    let opened = ask(&ann, "/mcp/talk", false, "initialize", json!({})).await;
    let with = ann.with("mcp-session-id", opened.header("mcp-session-id"));
    assert_eq!(names(&with, "/mcp/talk", false).await.len(), 2);
    for path in ["/mcp", "/mcp/all"] {
        assert_eq!(ask(&with, path, false, "tools/list", json!({})).await.status, 404);
        assert_eq!(with.send(Method::DELETE, path, None).await.status, 404);
        assert_eq!(with.open(Method::GET, path, None).await.status, 404);
    }

    // A reload that changes the toolset notifies only its listeners.
    let mut heard = follow(&ann, "/mcp/talk").await;
    let mut others = follow(&ann, "/mcp/all").await;
    gw.reload("[toolset.talk]\nallow = [\"crib__echo\"]\n[toolset.all]\nallow = [\"*\"]\nmeta = \"search\"\n")
        .await;
    assert_eq!(names(&with, "/mcp/talk", false).await, ["crib__echo"]);
    let news = heard.next().await.unwrap();
    assert_eq!(news["method"], "notifications/tools/list_changed", "{news}");
    // Removed: an empty list, and then the URL is gone.
    gw.reload("").await;
    let news = heard.next().await.unwrap();
    assert_eq!(news["method"], "notifications/tools/list_changed", "{news}");
    assert_eq!(ask(&with, "/mcp/talk", false, "tools/list", json!({})).await.status, 404);
    assert_eq!(with.send(Method::DELETE, "/mcp/talk", None).await.status, 404);
    let news = others.next().await.unwrap();
    assert_eq!(
        news["method"], "notifications/tools/list_changed",
        "the first of the other: {news}"
    );
}

// I-77, I-78
#[tokio::test]
async fn three_tools_stand_for_all_others() {
    let (gw, ann) = rig().await;
    let keeper = gw.principal("keeper", ["*"]).await;
    for modern in [false, true] {
        let three = ["search_tools", "describe_tool", "call_tool"];
        assert_eq!(names(&ann, "/mcp/all", modern).await, three);
        let find = async |actor: &Actor, query: &str| {
            let found =
                call(actor, "/mcp/all", modern, "search_tools", json!({ "query": query })).await;
            serde_json::from_str::<Value>(said(&found).0).unwrap()
        };
        let found = find(&ann, "say something again").await;
        assert_eq!(
            found["tools"],
            json!([{ "name": "crib__echo", "description": "says it again" }])
        );
        let nothing = find(&ann, "fail").await;
        assert_eq!(nothing["tools"], json!([]), "denied by the toolset");
        assert_eq!(nothing["sources"], json!(["crib"]), "and not the foreign one");
        assert!(find(&ann, "crib").await["tools"].as_array().unwrap().len() > 4);
        assert_eq!(find(&ann, "secret").await["tools"], json!([]), "hidden from the caller");
        assert_eq!(find(&keeper, "secret").await["tools"][0]["name"], "crib__secret");

        let about = async |actor: &Actor, name: &str| {
            call(actor, "/mcp/all", modern, "describe_tool", json!({ "name": name })).await
        };
        let described = about(&ann, "crib__echo").await;
        let described: Value = serde_json::from_str(said(&described).0).unwrap();
        let list = ask(&ann, "/mcp", modern, "tools/list", json!({})).await.json();
        let listed = list["result"]["tools"].as_array().unwrap().iter();
        let listed = listed.clone().find(|tool| tool["name"] == "crib__echo").unwrap();
        assert_eq!(described, *listed, "as it is listed");
        let hidden = about(&ann, "crib__secret").await;
        for name in ["crib__dies", "crib__nothing", "foreign__tool"] {
            assert_eq!(about(&ann, name).await, hidden, "{name}");
        }
        assert!(said(&hidden).1);

        let run = async |actor: &Actor, arguments: Value| {
            call(actor, "/mcp/all", modern, "call_tool", arguments).await
        };
        let echo = json!({ "name": "crib__echo", "arguments": { "text": "hi" } });
        let ran = run(&ann, echo).await;
        assert_eq!(said(&ran), ("hi", false));
        assert_eq!(ran["result"]["structuredContent"], json!({ "echo": "hi" }));
        let run_id = ran["result"]["_meta"]["dev.toolcrib/runId"].as_str().unwrap().to_owned();
        // The gate sees and records the tool itself.
        let event =
            gw.event(|event| event["runId"] == run_id && event["type"] == "agent.toolCalled").await;
        assert_eq!(event["payload"]["toolName"], "mcp:crib.echo", "{event}");
        // A header repeats only arguments for which the schema requires it.
        let region = json!({ "name": "crib__region", "arguments": { "region": "eu" } });
        assert!(!said(&run(&ann, region).await).1);
        let wrong = run(&ann, json!({ "name": "crib__echo" })).await;
        assert!(
            said(&wrong).1 && said(&wrong).0.contains("text"),
            "the tool's own schema: {wrong}"
        );
        let asks = run(&ann, json!({ "name": "crib__secret" })).await;
        assert_eq!(asks["error"]["code"], -31403, "as a call by name is told");
        for name in ["crib__dies", "crib__nothing", "foreign__tool", "call_tool"] {
            let answer = run(&ann, json!({ "name": name })).await;
            assert_eq!(answer["error"]["code"], -32602, "{name}: {answer}");
        }
        for arguments in [
            json!({}),
            json!({ "name": 1 }),
            json!({ "name": "crib__echo", "arguments": "{\"text\":\"hi\"}" }),
        ] {
            assert!(said(&run(&ann, arguments).await).1);
        }
        for (name, arguments) in [
            ("search_tools", json!({})),
            ("search_tools", json!({ "query": "echo", "limit": "many" })),
            ("describe_tool", json!({})),
        ] {
            assert!(said(&call(&ann, "/mcp/all", modern, name, arguments).await).1);
        }
        // The tool can also be called by its name, and the meta tools do not exist elsewhere.
        let direct = call(&ann, "/mcp/all", modern, "crib__bare", json!({})).await;
        assert_eq!(said(&direct), ("{}", false));
        let elsewhere =
            call(&ann, "/mcp", modern, "search_tools", json!({ "query": "echo" })).await;
        assert_eq!(elsewhere["error"]["code"], -32602);
    }
    assert_eq!(gw.runs("crib", "dies"), 0);
}
