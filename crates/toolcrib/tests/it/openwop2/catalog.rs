//! The catalog of RFC 0204.

use proptest::prelude::*;
use serde_json::{Value, json};
use toolcrib_testkit::gateway::{TestGateway, TestTool};

use super::schemas;
use crate::support::{column, fixture};

#[tokio::test]
async fn a_reader_sees_its_tools_with_hints() {
    let gw = fixture().start().await;
    let caller = gw.principal("reader", ["files:read"]).await.with("openwop-version", "2.0");
    let tools = caller.get("/tools").await.json();
    insta::assert_snapshot!(column(&tools, "toolId").join(" "), @"mcp:crib.ask mcp:crib.down mcp:crib.fail mcp:crib.open mcp:crib.panic mcp:crib.read mcp:crib.sum");
    schemas::check(&schemas::tools(), &tools);
    // The claims of the server are not repeated: its source says that `read` only reads, and so does
    // the operator.
    assert_eq!(
        tools[5]["annotations"],
        json!({
            "readOnlyHint": true, "destructiveHint": false,
            "idempotentHint": false, "openWorldHint": true,
        })
    );
    let id = caller.get("/tools/mcp%3Acrib.read").await;
    assert_eq!(id.json(), tools[5]);
    // Parameters of the first version mean nothing here.
    let all = caller.get("/tools?source=workflow&limit=1&cursor=x&q=read&view=full").await;
    assert_eq!(all.json(), tools);
}

#[tokio::test]
async fn the_compact_view_has_two_keywords() {
    let gw = fixture().start().await;
    let caller = gw.principal("reader", ["files:read"]).await.with("openwop-version", "2.0");
    let compact = caller.get("/tools?view=compact").await.json();
    schemas::check(&schemas::compact_tools(), &compact);
    let standard = caller.get("/tools").await.json();
    assert_eq!(column(&compact["tools"], "toolId"), column(&standard, "toolId"));
    let read = caller.get("/tools/mcp:crib.read?view=compact").await.json();
    assert_eq!(read, compact["tools"][5]);
    let properties = json!({
        "path": { "type": "string", "description": "Which file" }, "count": { "type": "integer" },
    });
    assert_eq!(read["inputSchema"], json!({ "type": "object", "properties": properties }));
}

/// I-9.
#[tokio::test]
async fn hidden_foreign_and_unknown_tools_look_the_same() {
    let gw = fixture().start().await;
    let caller = gw.principal("reader", ["files:read"]).await.with("openwop-version", "2.0");
    let mut seen = std::collections::BTreeSet::new();
    for id in ["mcp:crib.write", "mcp:other.secret", "mcp:crib.absent", "%FF", "a%2Fb", "~2F"] {
        for view in ["", "?view=compact"] {
            let reply = caller.get(&format!("/tools/{id}{view}")).await;
            let mut headers = reply.headers.clone();
            for name in ["date", "x-request-id"] {
                headers.remove(name);
            }
            assert_eq!((reply.status, reply.header("www-authenticate")), (404, ""));
            seen.insert(format!("{headers:?} {}", reply.text()));
        }
    }
    assert_eq!(seen.len(), 1, "{seen:#?}");
}

/// A closed set of values for every member that the hints depend on.
fn rules() -> impl Strategy<Value = (&'static str, Option<&'static str>, Option<&'static str>)> {
    (
        prop::sample::select(vec!["pure", "read", "write"]),
        prop::option::of(prop::sample::select(vec![
            "deterministic",
            "idempotent",
            "non-deterministic",
        ])),
        prop::option::of(prop::sample::select(vec![
            "none",
            "safe-fetch",
            "host-mediated",
            "host-owned",
        ])),
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// I-13: the hints follow from the operator's rules, whatever the server claims.
    #[test]
    fn hints_follow_from_the_classification(
        (tier, replay, egress) in rules(),
        claims in prop::collection::vec(any::<bool>(), 4),
    ) {
        // A configuration with one of these pairs is refused.
        prop_assume!((tier, replay) != ("write", Some("deterministic")));
        prop_assume!(tier != "pure" || egress.is_none_or(|it| it == "none"));
        let claimed = json!({
            "readOnlyHint": claims[0], "destructiveHint": claims[1],
            "idempotentHint": claims[2], "openWorldHint": claims[3], "title": "trust me",
        });
        let mut tool = TestTool::new("t").scopes([]).tier(tier).annotations(claimed);
        for (member, value) in [("replay_policy", replay), ("egress", egress)] {
            if let Some(value) = value {
                tool = tool.rule(&format!("{member} = \"{value}\""));
            }
        }
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let served: Value = runtime.block_on(async {
            let gw = TestGateway::builder().tool(tool).start().await;
            let caller = gw.principal("new", []).await.with("openwop-version", "2.0");
            caller.get("/tools").await.json()
        });
        schemas::check(&schemas::tools(), &served);
        let hints = &served[0]["annotations"];
        prop_assert_eq!(&hints["readOnlyHint"], &json!(tier != "write"));
        let repeatable = replay.is_some_and(|it| it != "non-deterministic");
        prop_assert_eq!(&hints["idempotentHint"], &json!(repeatable));
        let closed = served[0]["egress"] == "none";
        prop_assert_eq!(&hints["openWorldHint"], &json!(!closed));
    }
}
