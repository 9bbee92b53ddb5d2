//! `tools/list` in pages.

use serde_json::{Value, json};
use toolcrib_testkit::gateway::{Actor, TestGateway, TestTool};

use crate::support::{gateway, legacy, modern};

async fn results(actor: &Actor, newer: bool) -> Vec<Value> {
    let mut results: Vec<Value> = Vec::new();
    loop {
        let cursor = results.last().and_then(|page| page.get("nextCursor").cloned());
        let params = match cursor {
            None if results.is_empty() => json!({}),
            None => return results,
            Some(cursor) => json!({ "cursor": cursor }),
        };
        let reply = match newer {
            true => modern(actor, "tools/list", params).await,
            false => legacy(actor, "tools/list", params).await,
        };
        results.push(reply.json()["result"].clone());
        assert!(results.len() < 100, "pages without an end");
    }
}

fn tools(results: &[Value]) -> Vec<Value> {
    results.iter().flat_map(|page| page["tools"].as_array().unwrap().clone()).collect()
}

/// I-7, I-24: the pages together are the list in its order, each with the same envelope.
#[tokio::test]
async fn pages_together_are_the_list() {
    let (paged, whole) = (gateway().config("[mcp]\npage_size = 2"), gateway());
    let (paged, whole) = (paged.start().await, whole.start().await);
    let (few, all) = (paged.principal("a", []).await, whole.principal("a", []).await);
    for newer in [true, false] {
        let (pages, list) = (results(&few, newer).await, results(&all, newer).await);
        assert_eq!(list.len(), 1, "the usual page holds everything");
        assert!(pages.len() > 3);
        assert_eq!(tools(&pages), tools(&list));
        let (last, others) = pages.split_last().unwrap();
        for page in others {
            assert_eq!(page["tools"].as_array().unwrap().len(), 2);
            assert_ne!(page["nextCursor"], "");
            for member in ["ttlMs", "cacheScope", "resultType", "_meta"] {
                assert_eq!(page.get(member), last.get(member), "{member}");
            }
        }
        assert_eq!(pages, results(&few, newer).await, "two reads are equal");
    }
}

#[tokio::test]
async fn a_cursor_is_good_for_one_list_of_one_caller() {
    let gw = TestGateway::builder()
        .config("[mcp]\npage_size = 1")
        .tool(TestTool::new("a").scopes([]))
        .tool(TestTool::new("b").scopes([]))
        .tool(TestTool::new("c").scopes(["more"]))
        .start()
        .await;
    let caller = gw.principal("a", ["tools:crib"]).await;
    let first = modern(&caller, "tools/list", json!({})).await.json();
    let cursor = first["result"]["nextCursor"].clone();
    assert!(cursor.is_string());
    let refused = async |actor: &Actor, cursor: &Value| {
        for reply in [
            modern(actor, "tools/list", json!({ "cursor": cursor })).await,
            legacy(actor, "tools/list", json!({ "cursor": cursor })).await,
        ] {
            let (status, body) = reply.parts();
            assert_eq!((status, &body["error"]["code"]), (200, &json!(-32602)), "{cursor}");
            assert!(body["error"]["message"].as_str().unwrap().contains("start again"));
        }
    };
    let other = gw.principal("b", ["tools:crib", "more"]).await;
    refused(&other, &cursor).await;
    for garbage in [json!(""), json!("next"), json!(7), json!({}), json!("A".repeat(27))] {
        refused(&caller, &garbage).await;
    }
    // Invisible tools do not affect the caller's list.
    let second = modern(&caller, "tools/list", json!({ "cursor": cursor })).await.json();
    assert_eq!(second["result"]["tools"][0]["name"], "crib__b");
    gw.change("crib", vec![TestTool::new("a"), TestTool::new("b")]).await;
    let again = modern(&caller, "tools/list", json!({ "cursor": cursor })).await.json();
    assert_eq!(again["result"], second["result"]);
    gw.change("crib", vec![TestTool::new("a"), TestTool::new("b"), TestTool::new("d")]).await;
    refused(&caller, &cursor).await;
}
