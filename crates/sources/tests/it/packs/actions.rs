//! Connector packs (RFC 0045).

use serde_json::{Value, json};
use toolcrib_core::{
    descriptor::SourceKind,
    source::{
        SourceLimits,
        pack::{PackOffer, PackSpec},
    },
};

use super::{
    everyday::{CRON, DIFF},
    make, pack_of_the_tree as everyday, spec, structured,
};
use crate::rig::Rig;

fn connector(dir: &std::path::Path, block: &Value) -> PackSpec {
    make::copy(&everyday(), dir);
    let mut manifest = make::manifest(dir);
    manifest["connector"] = block.clone();
    make::write_manifest(dir, &manifest);
    PackSpec { offers: PackOffer::Actions, ..spec(dir) }
}

#[tokio::test]
async fn actions_are_nodes_under_their_own_titles() {
    let dir = tempfile::tempdir().unwrap();
    let block = json!({ "id": "everyday", "displayName": "Everyday", "auth": { "type": "credential", "key": "k" }, "actions": [
        { "typeId": CRON, "displayName": "When next", "idempotent": true,
          "rateLimit": { "requests": 3, "perSeconds": 60 } },
        { "typeId": CRON, "displayName": "The same again" },
        { "typeId": DIFF, "displayName": "Compare" },
    ] });
    let rig = Rig::pack(connector(dir.path(), &block), SourceLimits::default());
    let found = rig.discover().await;
    assert_eq!(rig.source.kind(), SourceKind::Connector);
    let tools: Vec<_> =
        found.offers.iter().map(|tool| (tool.name.as_str(), tool.title.as_deref())).collect();
    assert_eq!(tools, [("cron-next", Some("When next")), ("json-diff", Some("Compare"))]);
    assert!(found.offers[0].input_schema.is_some(), "those of the node");
    assert_eq!(found.offers[0].annotations, Some(json!({ "idempotentHint": true })));
    assert_eq!(found.rates.len(), 1);
    assert_eq!(found.rates["cron-next"], "3/m".parse().unwrap());
    assert_eq!(found.problems.len(), 2, "{:?}", found.problems);
    let arguments = json!({ "from": 1, "to": 1 });
    let outcome = rig.call("json-diff", arguments).await;
    assert_eq!(structured(&outcome), json!({ "equal": true, "patch": [] }));
}

#[tokio::test]
async fn a_connector_that_cannot_be_used_says_why() {
    for (block, why) in [
        (json!(null), "pack_kind_invalid"),
        (
            json!({ "id": "x", "displayName": "x", "actions": [
                { "typeId": "vendor.toolcrib.everyday.other", "displayName": "x" }] }),
            "connector_action_unresolved",
        ),
        (
            json!({ "id": "x", "displayName": "x", "actions": [
                { "typeId": DIFF, "displayName": "x", "requiredScopes": [] }] }),
            "invalid_manifest",
        ),
        (json!({ "id": "X", "displayName": "x", "actions": [] }), "invalid_manifest"),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let rig = Rig::pack(connector(dir.path(), &block), SourceLimits::default());
        let detail = rig.degraded().await.detail.unwrap();
        assert!(detail.starts_with(why), "{why}: {detail}");
    }
}
