//! Probes pass the same pipeline as calls, and are never listed.

use serde_json::json;
use toolcrib_core::{call::CallError, id::PrincipalId};
use toolcrib_gateway::{
    CatalogScope, ToolRef,
    probe::{Act, InvalidProbe, Probe, RUN_PREFIX},
};

use crate::support::{principal, rig};

fn probe(tool: &str, scopes: &[&str], act: Act) -> Probe {
    let scopes = scopes.iter().map(|scope| scope.parse().unwrap()).collect();
    Probe::new(tool.parse().unwrap(), scopes, act).unwrap()
}

fn name(id: &str) -> PrincipalId {
    id.parse().unwrap()
}

#[tokio::test]
async fn a_probe_is_called_and_recorded_like_a_tool_and_never_listed() {
    let rig = rig(&["echo"], "").await;
    let caller = principal("t", &["*"]);
    let search = probe("web.search", &[], Act::Succeed);
    let called = rig.gateway.probe(&caller, name("core.system"), &search, json!({})).await;
    assert!(called.run_id.as_str().starts_with(RUN_PREFIX), "runs of probes show what they are");
    assert!(called.duration.is_some());
    called.result.unwrap();
    let failing = probe("web.search", &[], Act::Fail);
    let failed = rig.gateway.probe(&caller, name("core.system"), &failing, json!({})).await;
    assert!(failed.result.unwrap().is_error);
    assert_eq!(
        rig.log.recorded(),
        ["called", "returned Ok ran", "called", "returned Error tool_execution_failed ran"]
    );
    assert_eq!(rig.listed(&caller), ["mcp:s.echo"]);
    assert!(
        rig.gateway
            .find(
                &rig.gateway.snapshot(),
                &caller,
                ToolRef::Id("web.search"),
                &CatalogScope::default()
            )
            .is_none()
    );
    assert!(
        rig.gateway
            .find(
                &rig.gateway.snapshot(),
                &caller,
                ToolRef::Wire("probe__probe"),
                &CatalogScope::default()
            )
            .is_none()
    );
}

/// I-8: a name in a request proves nothing.
#[tokio::test]
async fn whoever_is_not_the_caller_holds_nothing() {
    let rig = rig(&["echo"], "").await;
    let caller = principal("t", &["db:write"]);
    let delete = probe("db.delete", &["db:write"], Act::Succeed);
    let other = rig.gateway.probe(&caller, name("unprivileged"), &delete, json!({})).await;
    assert!(matches!(other.result, Err(CallError::Forbidden { .. })));
    let itself = rig.gateway.probe(&caller, caller.id.clone(), &delete, json!({})).await;
    itself.result.unwrap();
    let more = probe("db.delete", &["db:write", "db:drop"], Act::Succeed);
    let itself = rig.gateway.probe(&caller, caller.id.clone(), &more, json!({})).await;
    assert!(matches!(itself.result, Err(CallError::Forbidden { .. })));
}

/// I-12: a probe has a real rate limit, per principal and tool, and a denial uses nothing of it.
#[tokio::test]
async fn an_exhausted_probe_leaves_others_alone() {
    let rig = rig(&["echo"], "").await;
    let caller = principal("t", &["*"]);
    let limited = probe("web.search", &[], Act::Exhaust);
    for _ in 0..2 {
        let called = rig.gateway.probe(&caller, name("a"), &limited, json!([])).await;
        let Err(CallError::RateLimited { limit, .. }) = called.result else { panic!("{called:?}") };
        assert_eq!(limit, 1);
        assert_eq!(called.duration, None);
    }
    let plain = probe("web.search", &[], Act::Succeed);
    for who in ["a", "b"] {
        let called = rig.gateway.probe(&caller, name(who), &plain, json!({})).await;
        assert!(called.result.is_ok(), "{who}: {called:?}");
    }
    let denied = probe("db.delete", &["db:write"], Act::Exhaust);
    let called = rig.gateway.probe(&caller, name("a"), &denied, json!({})).await;
    assert!(matches!(called.result, Err(CallError::Forbidden { .. })));
}

#[tokio::test]
async fn resetting_fills_the_buckets_of_one_tenant() {
    let rig = rig(&["echo"], "[source.tools.\"*\"]\nrate = \"1/h\"").await;
    let (ours, theirs) = (principal("t", &["*"]), principal("u", &["*"]));
    for caller in [&ours, &theirs] {
        rig.call(caller, "s__echo", json!({})).await.result.unwrap();
        assert!(rig.call(caller, "s__echo", json!({})).await.result.is_err());
    }
    rig.gateway.reset_limits(&ours.tenant).await.unwrap();
    rig.call(&ours, "s__echo", json!({})).await.result.unwrap();
    assert!(rig.call(&theirs, "s__echo", json!({})).await.result.is_err());
}

#[test]
fn a_probe_cannot_have_the_id_of_a_tool() {
    for taken in ["mcp:s.echo", "connector:a.b", "openwop:workflow.x", "x-host-a-b"] {
        let made = Probe::new(taken.parse().unwrap(), Vec::new(), Act::Exhaust);
        assert_eq!(made.unwrap_err(), InvalidProbe::Taken, "{taken}");
    }
}
