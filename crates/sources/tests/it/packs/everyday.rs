//! The pack in this repository, and changes that make it unusable.

use serde_json::json;
use toolcrib_core::source::{SourceLimits, pack::PackSpec};

use super::{make, pack_of_the_tree as everyday, refused, spec, structured};
use crate::rig::Rig;

pub(super) const DIFF: &str = "vendor.toolcrib.everyday.json-diff";
pub(super) const CRON: &str = "vendor.toolcrib.everyday.cron-next";

#[tokio::test]
async fn the_pack_of_the_tree_compares_documents_and_knows_when() {
    let rig = Rig::pack(spec(&everyday()), SourceLimits::default());
    let found = rig.discover().await;
    assert_eq!((found.version.as_deref(), &found.problems[..]), (Some("1.0.0"), &[][..]));
    let names: Vec<_> = found.offers.iter().map(|tool| tool.name.as_str()).collect();
    assert_eq!(names, [DIFF, CRON]);
    let tool = &found.offers[0];
    assert_eq!(tool.title.as_deref(), Some("JSON diff"));
    assert_eq!(tool.input_schema.as_ref().unwrap()["required"], json!(["from", "to"]));
    assert!(tool.output_schema.is_some());

    let arguments = json!({ "from": { "a": 1, "b": 1.50 }, "to": { "a": 2, "b": 1.50 } });
    let patch = json!([{ "op": "replace", "path": "/a", "value": 2 }]);
    let diff = rig.call(DIFF, arguments).await;
    assert_eq!(structured(&diff), json!({ "equal": false, "patch": patch }));

    let arguments = json!({ "expression": "30 8 * * mon", "after": "2026-11-20T10:00:00Z" });
    let next = rig.call(CRON, arguments).await;
    assert_eq!(structured(&next), json!({ "next": ["2026-11-23T08:30:00Z"] }));

    let failed = rig.call(CRON, json!({ "expression": "60 * * * *", "after": "x" })).await;
    assert!(failed.is_error && failed.content.get().contains("invalid_arguments"));
}

#[tokio::test]
async fn only_chosen_nodes_are_offered() {
    let spec = PackSpec { nodes: vec!["*.cron-*".to_owned()], ..spec(&everyday()) };
    let rig = Rig::pack(spec, SourceLimits::default());
    assert_eq!(rig.names().await, [CRON]);
    assert!(rig.try_call(DIFF, json!({ "from": 1, "to": 1 })).await.is_err());
}

/// A thousand concurrent calls, each with its own result (I-44).
#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_calls_at_once_do_not_mix() {
    let limits = SourceLimits { max_concurrency: 1_000, ..SourceLimits::default() };
    let rig = Rig::pack(spec(&everyday()), limits);
    rig.ready().await;
    let calls = (0..1_000).map(|n: u32| {
        let arguments =
            json!({ "from": { "n": vec![n; 50] }, "to": { "n": vec![n; 49], "more": n } });
        rig.call(DIFF, arguments)
    });
    for (n, outcome) in futures_util::future::join_all(calls).await.iter().enumerate() {
        let patch = json!([
            { "op": "remove", "path": "/n/49" }, { "op": "add", "path": "/more", "value": n },
        ]);
        assert_eq!(structured(outcome)["patch"], patch, "call {n}");
    }
}

#[tokio::test]
async fn a_pack_that_changes_is_loaded_anew_and_one_that_breaks_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    make::copy(&everyday(), dir.path());
    let rig = Rig::pack(spec(dir.path()), SourceLimits::default());
    assert_eq!(rig.names().await, [DIFF, CRON]);

    let mut manifest = make::manifest(dir.path());
    manifest["version"] = json!("1.1.0");
    manifest["nodes"].as_array_mut().unwrap().pop();
    make::write_manifest(dir.path(), &manifest);
    let found = rig.discover().await;
    assert_eq!(found.version.as_deref(), Some("1.1.0"));
    assert_eq!(found.offers.len(), 1);

    std::fs::write(dir.path().join("pack.json"), "{").unwrap();
    assert!(rig.source.discover().await.is_err());
    let detail = rig.degraded().await.detail.unwrap();
    assert!(detail.starts_with("invalid_manifest"), "{detail}");
    let outcome = rig.try_call(DIFF, json!({ "from": 1, "to": 1 })).await.unwrap();
    assert_eq!(structured(&outcome)["equal"], true, "what was loaded still runs");

    make::write_manifest(dir.path(), &manifest);
    rig.source.discover().await.unwrap();
    rig.ready().await;
}

#[tokio::test]
async fn packs_that_cannot_be_used_say_why_with_the_code_of_the_protocol() {
    let dir = tempfile::tempdir().unwrap();
    make::copy(&everyday(), dir.path());
    let good = make::manifest(dir.path());
    let missing = dir.path().join("none");
    assert!(refused(spec(&missing)).await.starts_with("pack_unreadable"));
    for (pointer, value, code) in [
        ("/kind", json!("prompt"), "pack_kind_invalid"),
        ("/name", json!("everyday"), "invalid_pack_scope"),
        ("/engines/openwop", json!(">=2.0.0"), "pack_engine_unsupported"),
        ("/runtime/language", json!("python"), "unsupported_runtime"),
        ("/runtime/language", json!("wasm-component"), "invalid_manifest"),
        ("/runtime/requires", json!(["fs.read"]), "pack_runtime_requirement_unmet"),
        ("/runtime/requires", json!(["clock"]), "pack_runtime_requirement_unmet"),
        ("/runtime/entry", json!("../x.wasm"), "invalid_manifest"),
        ("/runtime/entry", json!("pack.json"), "invalid_manifest"),
        ("/name", json!("vendor.toolcrib.other"), "invalid_manifest"),
        (
            "/peerDependencies",
            json!({ "aiProviders": "supported" }),
            "pack_peer_dependency_missing",
        ),
        (
            "/connector",
            json!({ "id": "x", "displayName": "x", "auth": {},
                    "actions": [{ "typeId": "none", "displayName": "x" }] }),
            "connector_action_unresolved",
        ),
    ] {
        let mut manifest = good.clone();
        let (parent, member) = pointer.rsplit_once('/').unwrap();
        manifest.pointer_mut(parent).unwrap()[member] = value.clone();
        make::write_manifest(dir.path(), &manifest);
        let detail = refused(spec(dir.path())).await;
        assert!(detail.starts_with(code), "{pointer} {value}: {detail}");
    }
}

#[tokio::test]
async fn a_node_that_cannot_be_offered_is_left_out_and_reported() {
    let dir = tempfile::tempdir().unwrap();
    make::copy(&everyday(), dir.path());
    let good = make::manifest(dir.path());
    for (member, value, why) in [
        ("inputSchemaRef", json!("schemas/none.json"), "not in the pack"),
        ("inputSchemaRef", json!("everyday.wasm"), "not a JSON object"),
        ("requires", json!(["subprocess"]), "pack_runtime_requirement_unmet"),
        ("requiresSecrets", json!([{ "id": "key" }]), "credential_unavailable"),
        ("typeId", json!("vendor.toolcrib.everyday.shell"), "promises to run commands"),
        ("typeId", json!("vendor.toolcrib.everyday.other"), "code of the pack does not have it"),
        ("x-toolcrib-request", json!({ "path": "/" }), "only for packs with"),
    ] {
        let mut manifest = good.clone();
        manifest["nodes"][0][member] = value.clone();
        make::write_manifest(dir.path(), &manifest);
        let rig = Rig::pack(spec(dir.path()), SourceLimits::default());
        let found = rig.discover().await;
        assert_eq!(found.offers.len(), 1, "{member} {value}");
        assert!(found.problems[0].contains(why), "{:?}", found.problems);
    }
}
