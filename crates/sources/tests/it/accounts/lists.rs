//! The list of one account, beside that of the tenant.

use std::collections::HashSet;

use toolcrib_core::{
    call::UpstreamError,
    credential::{AccountOf, CredentialCaller, CredentialNeed},
};
use toolcrib_testkit::upstream::OAuthBehaviour;

use super::{Stage, call, eras, tenant};
use crate::rig::Rig;

fn behaviours() -> [OAuthBehaviour; 2] {
    eras().map(|behaviour| OAuthBehaviour {
        hides: vec![("ann".to_owned(), "admin".to_owned())],
        ..behaviour
    })
}

async fn list_of(rig: &Rig, principal: &str) -> Result<HashSet<String>, UpstreamError> {
    let need = rig.source.own_list_need();
    let (tenant, principal) = (tenant(), principal.parse().unwrap());
    let caller = CredentialCaller::without_call(&tenant, &principal);
    let resolved = rig.credentials.resolve(&need, caller).await;
    rig.source.own_list(resolved.unwrap().unwrap()).await
}

fn names(all: &[&str]) -> HashSet<String> {
    all.iter().map(|name| (*name).to_owned()).collect()
}

/// I-119
#[tokio::test(flavor = "multi_thread")]
async fn each_account_has_its_own_list() {
    for behaviour in behaviours() {
        let has_sessions = behaviour.has_sessions;
        let stage = Stage::connected(behaviour).await;
        let rig = stage.rig();
        rig.ready().await;
        assert_eq!(list_of(&rig, "ann").await.unwrap(), names(&["whoami"]));
        assert_eq!(list_of(&rig, "bob").await.unwrap(), names(&["whoami", "admin"]));
        assert_eq!(call(&rig, "ann", "whoami").await.unwrap(), "ann");
        let sessions = || {
            let requests = stage.server.arrived("/mcp").into_iter();
            let named = requests.filter(|request| !request.session.is_empty());
            named.map(|it| (it.session, it.account)).collect::<HashSet<_>>()
        };
        // Calls and lists of an account share its session.
        assert_eq!(sessions().len(), if has_sessions { 3 } else { 0 });
        stage.server.end_sessions();
        assert_eq!(list_of(&rig, "ann").await.unwrap(), names(&["whoami"]));
        // No session was ever used with another account.
        let pairs = sessions();
        let ids: HashSet<_> = pairs.iter().map(|(session, _)| session).collect();
        assert_eq!(pairs.len(), ids.len(), "{pairs:?}");
        // The list of the tenant is the same as before.
        assert_eq!(rig.names().await, ["whoami", "admin"]);
        rig.source.close().await;
        list_of(&rig, "ann").await.unwrap_err();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_list_concerns_its_own_account() {
    for status in [401, 403, 500] {
        for behaviour in behaviours() {
            let refuses_lists = Some(("ann".to_owned(), status));
            let stage = Stage::connected(OAuthBehaviour { refuses_lists, ..behaviour }).await;
            let rig = stage.rig();
            rig.ready().await;
            for _ in 0..3 {
                list_of(&rig, "ann").await.unwrap_err();
                if status == 401 {
                    // The token counts as rejected, so that the next request renews it.
                    break;
                }
            }
            assert!(rig.source.status().state.is_ready(), "the connection is that of all callers");
            assert_eq!(call(&rig, "ann", "whoami").await.unwrap(), "ann");
            assert_eq!(list_of(&rig, "bob").await.unwrap(), names(&["whoami", "admin"]));
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_list_beyond_the_limits_is_an_error() {
    let mut stage = Stage::connected(OAuthBehaviour::default()).await;
    stage.spec.limits.max_tools = 1;
    let rig = stage.rig();
    rig.ready().await;
    assert_eq!(rig.names().await, ["whoami"]);
    let failed = list_of(&rig, "bob").await.unwrap_err();
    assert!(failed.detail.contains("list of the account"), "{failed:?}");
    // With one account for all, there is one list.
    stage.configure(|account| account.of = AccountOf::Tenant);
    let rig = stage.rig();
    assert_eq!(rig.source.own_list_need(), CredentialNeed::None);
}
