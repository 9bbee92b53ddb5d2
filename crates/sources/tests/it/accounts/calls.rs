//! Which account a call uses.

use std::{collections::BTreeSet, path::Path, time::Duration};

use serde_json::{Value, json};
use toolcrib_core::{
    call::{UpstreamError, UpstreamErrorKind},
    clock::{Clock as _, Timestamp},
    credential::{
        AccountOf, CredentialCaller, CredentialNeed, CredentialProblem, GrantState, Owner,
        RefusalCause, Secret,
    },
    source::{
        SourceFactory as _, UpstreamSpec,
        connector::{ConnectorSpec, OpenApiLocation},
    },
    store::Storage as _,
};
use toolcrib_oauth::scopes::MAX_SCOPES;
use toolcrib_store::{Options, SealKey, SealKeys, SqliteStore};
use toolcrib_testkit::upstream::{OAuthBehaviour, OAuthServer};

use super::{Stage, call, eras, factory, person, tenant};
use crate::rig::eventually;

fn problem_of(error: &UpstreamError) -> Option<CredentialProblem> {
    match error.kind {
        UpstreamErrorKind::Credential(problem) => Some(problem),
        _ => None,
    }
}

/// I-114
#[tokio::test(flavor = "multi_thread")]
async fn each_call_uses_the_account_of_its_own_caller() {
    for behaviour in eras() {
        let has_sessions = behaviour.has_sessions;
        let stage = Stage::connected(behaviour).await;
        let rig = stage.rig();
        rig.ready().await;
        let calls = (0..40).map(|number| {
            let name = if number % 2 == 0 { "ann" } else { "bob" };
            let rig = &rig;
            async move { assert_eq!(call(rig, name, "whoami").await.unwrap(), name) }
        });
        futures_util::future::join_all(calls).await;
        let requests = stage.server.arrived("/mcp");
        let mut accounts: Vec<_> = requests
            .iter()
            .filter(|request| !request.session.is_empty())
            .map(|request| (request.session.clone(), request.account.clone()))
            .collect();
        accounts.sort();
        accounts.dedup();
        // The shared session and one for each person, each with one account.
        assert_eq!(accounts.len(), if has_sessions { 3 } else { 0 }, "{accounts:?}");
        // Only the tenant's account lists tools.
        let lists = requests.iter().filter(|request| request.body.contains("tools/list"));
        assert!(lists.map(|request| &request.account).all(|account| account == "robot"));
        // A lost session is replaced by one of the same account.
        stage.server.end_sessions();
        assert_eq!(call(&rig, "ann", "whoami").await.unwrap(), "ann");
        // The sessions of a removed grant and of a closed source end.
        let deleted = |account: &str| {
            let requests = stage.server.arrived("/mcp");
            requests.iter().any(|it| it.method == "DELETE" && it.account == account)
        };
        let (grant, mut secrets) = stage
            .grants
            .get(&stage.place(person("ann")), Timestamp::UNIX_EPOCH)
            .await
            .unwrap()
            .unwrap();
        secrets.access_token = None;
        stage.factory.accounts().revoke(&grant, &secrets).await;
        if has_sessions {
            eventually("ann's session ends", || deleted("ann")).await;
        }
        rig.source.close().await;
        assert_eq!((deleted("robot"), deleted("bob")), (has_sessions, has_sessions));
        // No session was ever used with another account.
        let requests = stage.server.arrived("/mcp");
        let named = requests.iter().filter(|request| !request.session.is_empty());
        let pairs: BTreeSet<_> = named.clone().map(|it| (&it.session, &it.account)).collect();
        let sessions: BTreeSet<_> = named.map(|request| &request.session).collect();
        assert_eq!(pairs.len(), sessions.len(), "{pairs:?}");
    }
}

/// I-36: another service on the same host gets no token.
#[tokio::test(flavor = "multi_thread")]
async fn a_token_goes_to_no_other_port_of_its_host() {
    let mut stage = Stage::connected(OAuthBehaviour::default()).await;
    let other = OAuthServer::start(OAuthBehaviour::default());
    let UpstreamSpec::McpHttp(http) = &mut stage.spec.upstream else { unreachable!() };
    http.url = other.url("/mcp");
    let rig = stage.rig();
    let failed = call(&rig, "ann", "whoami").await.unwrap_err();
    assert_eq!(problem_of(&failed), Some(CredentialProblem::OutOfAudience));
    assert!(other.whole().iter().all(|request| !request.contains("Bearer")));
}

/// I-114: two names have no account, and an account is for keys of the ancestry that connected it.
#[tokio::test(flavor = "multi_thread")]
async fn a_key_that_somebody_else_made_uses_no_account() {
    let stage = Stage::connected(OAuthBehaviour::default()).await;
    let rig = stage.rig();
    rig.ready().await;
    for name in ["anonymous", "operator"] {
        stage.connect(person(name), "eve").await;
        let failed = call(&rig, name, "whoami").await.unwrap_err();
        assert_eq!(problem_of(&failed), Some(CredentialProblem::NotConnected));
    }
    let place = stage.place(person("ann"));
    let (mut grant, secrets) = stage.grants.get(&place, stage.clock.now()).await.unwrap().unwrap();
    let ids = |names: &[&str]| names.iter().map(|it| it.parse().unwrap()).collect::<Vec<_>>();
    grant.terms.makers = ids(&["root"]);
    assert!(stage.grants.change(grant, secrets).await.unwrap());
    let need = rig.source.credential_for(crate::rig::permit("whoami", None, None).entry());
    let (tenant, ann) = (tenant(), "ann".parse().unwrap());
    for (makers, may) in [
        (ids(&["root"]), true),
        (ids(&["root", "ann"]), true),
        (ids(&[]), false),
        (ids(&["eve"]), false),
        (ids(&["root", "eve"]), false),
    ] {
        let caller = CredentialCaller::without_call(&tenant, &ann);
        let caller = CredentialCaller { makers: Some(&makers), ..caller };
        let found = rig.credentials.find(&need, caller).await;
        let resolved = rig.credentials.resolve(&need, caller).await;
        assert_eq!((found.is_ok(), resolved.is_ok()), (may, may), "{makers:?}");
        if let Err(refusal) = found {
            let RefusalCause::Credential(problem) = refusal.cause else { panic!("{refusal:?}") };
            assert_eq!(problem, CredentialProblem::OtherMakers);
        }
    }
}

/// Without the key that sealed it, an account is kept, and the call names the missing key.
#[tokio::test(flavor = "multi_thread")]
async fn an_account_waits_for_its_seal_key() {
    let place = tempfile::tempdir().unwrap();
    let key = |digit: &str| SealKey::parse(&Secret::new(digit.repeat(64))).unwrap();
    let open = |seal_keys| {
        let options = Options { seal_keys, ..Options::default() };
        SqliteStore::open(place.path().join("store.db"), options).unwrap().grants()
    };
    let mut stage = Stage::new(OAuthBehaviour::default());
    let reopen = |stage: &mut Stage, keys| {
        stage.grants = open(keys);
        stage.factory = factory(&stage.clock, &stage.grants);
    };
    reopen(&mut stage, SealKeys::new(key("a"), []));
    stage.connect(Owner::tenant(tenant()), "robot").await;
    stage.connect(person("ann"), "ann").await;
    for (keys, problem, said) in [
        (SealKeys::new(key("b"), []), CredentialProblem::OtherKey, "`[store] old_seal_key`"),
        (SealKeys::none(), CredentialProblem::NoKey, "`[store] seal_key`"),
    ] {
        reopen(&mut stage, keys);
        let failed = call(&stage.rig(), "ann", "whoami").await.unwrap_err();
        assert_eq!(problem_of(&failed), Some(problem));
        assert!(failed.to_string().contains(said), "{failed}");
    }
    // Another person can connect: the server registers itself again.
    reopen(&mut stage, SealKeys::new(key("b"), []));
    stage.connect(person("bob"), "bob").await;
    assert_eq!(stage.server.arrived("/register").len(), 2);
    reopen(&mut stage, SealKeys::new(key("b"), [key("a")]));
    let rig = stage.rig();
    rig.ready().await;
    for name in ["ann", "bob"] {
        assert_eq!(call(&rig, name, "whoami").await.unwrap(), name);
    }
}

/// I-114
#[tokio::test(flavor = "multi_thread")]
async fn without_an_own_account_nothing_is_sent() {
    for behaviour in eras() {
        let stage = Stage::connected(behaviour).await;
        let rig = stage.rig();
        rig.ready().await;
        let before = stage.server.arrived("/mcp").len();
        // Neither that of the tenant nor that of another is used.
        let failed = call(&rig, "eve", "whoami").await.unwrap_err();
        assert_eq!(problem_of(&failed), Some(CredentialProblem::NotConnected));
        let need = rig.source.credential_for(crate::rig::permit("whoami", None, None).entry());
        let CredentialNeed::Account { .. } = &need else { panic!("{need:?}") };
        let (other, eve) = ("other".parse().unwrap(), "eve".parse().unwrap());
        for (tenant, principal) in [(tenant(), eve), (other, "ann".parse().unwrap())] {
            let caller = CredentialCaller::without_call(&tenant, &principal);
            let refused = rig.credentials.find(&need, caller).await.unwrap_err();
            let RefusalCause::Credential(problem) = refused.cause else { panic!("{refused:?}") };
            assert_eq!(problem, CredentialProblem::NotConnected);
        }
        assert_eq!(stage.server.arrived("/mcp").len(), before);
        let ann = stage.grant(person("ann")).await.unwrap();
        let (own, principal) = (tenant(), "ann".parse().unwrap());
        let caller = CredentialCaller::without_call(&own, &principal);
        let found = rig.credentials.find(&need, caller).await.unwrap();
        assert_eq!(found.unwrap().id, ann.id);
        assert!(stage.grants.remove(&tenant(), &ann.id).await.unwrap());
        let failed = call(&rig, "ann", "whoami").await.unwrap_err();
        assert_eq!(problem_of(&failed), Some(CredentialProblem::NotConnected));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn tools_are_listed_with_the_account_of_the_tenant() {
    let mut stage = Stage::new(OAuthBehaviour::default());
    stage.connect(person("ann"), "ann").await;
    let asked = stage.server.arrived("/mcp").len();
    let rig = stage.rig();
    let detail = rig.degraded().await.detail.unwrap();
    assert!(detail.contains("toolcrib connections connect crib --tenant"), "{detail}");
    assert_eq!(stage.server.arrived("/mcp").len(), asked, "ann's is not used to list tools");
    stage.connect(Owner::tenant(tenant()), "robot").await;
    rig.ready().await;
    assert_eq!(rig.names().await, ["whoami", "admin"]);
    // One account for all.
    stage.configure(|account| account.of = AccountOf::Tenant);
    let rig = stage.rig();
    rig.ready().await;
    for name in ["ann", "eve"] {
        assert_eq!(call(&rig, name, "whoami").await.unwrap(), "robot");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rejected_token_is_renewed_once() {
    for behaviour in eras() {
        let stage = Stage::connected(behaviour).await;
        let rig = stage.rig();
        rig.ready().await;
        call(&rig, "ann", "whoami").await.unwrap();
        let renewals = || {
            stage
                .server
                .arrived("/token")
                .iter()
                .filter(|it| it.body.contains("\"refresh_token\""))
                .count()
        };
        stage.server.end_access_tokens();
        let calls = (0..10).map(|_| call(&rig, "ann", "whoami"));
        for said in futures_util::future::join_all(calls).await {
            assert_eq!(said.unwrap(), "ann");
        }
        assert_eq!(renewals(), 1, "one renewal for all calls");
        // A token that is rejected again at once cannot be helped by a third one.
        stage.server.behave(|it| it.rejects = "ann".to_owned());
        let failed = call(&rig, "ann", "whoami").await.unwrap_err();
        assert_eq!(problem_of(&failed), Some(CredentialProblem::NeedsConsent), "{failed:?}");
        let grant = stage.grant(person("ann")).await.unwrap();
        assert_eq!(grant.terms.state, GrantState::NeedsConsent);
        let sent = stage.server.arrived("/mcp").len();
        let failed = call(&rig, "ann", "whoami").await.unwrap_err();
        assert_eq!(problem_of(&failed), Some(CredentialProblem::NeedsConsent));
        assert_eq!(stage.server.arrived("/mcp").len(), sent);
        // The account of another still works, and a new consent helps.
        assert_eq!(call(&rig, "bob", "whoami").await.unwrap(), "bob");
        stage.server.behave(|it| it.rejects.clear());
        stage.connect(person("ann"), "ann").await;
        assert_eq!(call(&rig, "ann", "whoami").await.unwrap(), "ann");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_missing_scope_requires_a_consent_for_its_tool() {
    for behaviour in eras() {
        let mut stage = Stage::connected(behaviour).await;
        let rig = stage.rig();
        rig.ready().await;
        for _ in 0..2 {
            let failed = call(&rig, "ann", "admin").await.unwrap_err();
            assert_eq!(problem_of(&failed), Some(CredentialProblem::NeedsScopes), "{failed:?}");
            let grant = stage.grant(person("ann")).await.unwrap();
            assert_eq!(grant.terms.missing_scopes, ["admin"]);
            assert_eq!((grant.terms.state, grant.revision), (GrantState::Active, 2));
            assert_eq!(call(&rig, "ann", "whoami").await.unwrap(), "ann", "others still work");
        }
        let grant = stage.connect(person("ann"), "ann").await;
        assert_eq!(grant.terms.oauth2.scopes, ["read", "admin"]);
        assert_eq!(call(&rig, "ann", "admin").await.unwrap(), "ann");
        // The operator's scopes are the most: then the refusal is final.
        stage.configure(|account| account.scopes = vec!["read".to_owned()]);
        let rig = stage.rig();
        rig.ready().await;
        let failed = call(&rig, "bob", "admin").await.unwrap_err();
        assert_eq!(problem_of(&failed), None, "{failed:?}");
        let bob = stage.grant(person("bob")).await.unwrap();
        assert_eq!((bob.terms.state, bob.terms.missing_scopes.len()), (GrantState::Active, 0));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_scope_that_is_never_granted_is_asked_for_once() {
    for behaviour in eras() {
        let withholds = vec!["admin".to_owned()];
        let mut stage = Stage::connected(OAuthBehaviour { withholds, ..behaviour }).await;
        let rig = stage.rig();
        rig.ready().await;
        let failed = call(&rig, "ann", "admin").await.unwrap_err();
        assert_eq!(problem_of(&failed), Some(CredentialProblem::NeedsScopes), "{failed:?}");
        let begun = stage.begin().await.unwrap();
        assert_eq!(begun.prospect().scopes, ["read", "admin"]);
        for _ in 0..2 {
            // A consent that did not give it is not requested again.
            let grant = stage.connect(person("ann"), "ann").await;
            if grant.terms.withheld_scopes.is_empty() {
                break;
            }
            assert_eq!(grant.terms.oauth2.scopes, ["read"]);
            for _ in 0..2 {
                let failed = call(&rig, "ann", "admin").await.unwrap_err();
                let withheld = Some(CredentialProblem::NotGranted);
                assert_eq!(problem_of(&failed), withheld, "{failed:?}");
                assert!(failed.to_string().starts_with("`admin` was not granted"), "{failed}");
                assert_eq!(call(&rig, "ann", "whoami").await.unwrap(), "ann");
            }
            assert_eq!(stage.begin().await.unwrap().prospect().scopes, ["read"]);
        }
        // The service changes its mind, and the person connects the account again: the next call
        // gets a link.
        stage.server.behave(|it| it.withholds.clear());
        let failed = call(&rig, "ann", "admin").await.unwrap_err();
        assert_eq!(problem_of(&failed), Some(CredentialProblem::NeedsScopes), "{failed:?}");
        stage.connect(person("ann"), "ann").await;
        assert_eq!(call(&rig, "ann", "admin").await.unwrap(), "ann");
        // Configured scopes are always requested.
        stage.server.behave(|it| it.withholds = vec!["admin".to_owned()]);
        stage.configure(|it| it.scopes = vec!["read".to_owned(), "admin".to_owned()]);
        let rig = stage.rig();
        rig.ready().await;
        let grant = stage.connect(person("bob"), "bob").await;
        assert_eq!(grant.terms.withheld_scopes, ["admin"]);
        let failed = call(&rig, "bob", "admin").await.unwrap_err();
        assert_eq!(problem_of(&failed), Some(CredentialProblem::NotGranted), "{failed:?}");
        let prospect = stage.begin_for(person("bob"), None).await.unwrap().prospect();
        assert_eq!(prospect.scopes, ["read", "admin"]);
    }
}

/// I-29: a service cannot make its own token a scope, which people and agents see.
#[tokio::test(flavor = "multi_thread")]
async fn a_token_is_no_scope() {
    for behaviour in eras() {
        let behaviour = OAuthBehaviour { repeats_tokens: true, ..behaviour };
        let stage = Stage::connected(behaviour).await;
        let rig = stage.rig();
        rig.ready().await;
        let failed = call(&rig, "ann", "admin").await.unwrap_err();
        assert!(!format!("{failed} {failed:?}").contains("canary"), "{failed:?}");
        let terms = stage.grant(person("ann")).await.unwrap().terms;
        assert!(terms.missing_scopes.is_empty(), "{:?}", terms.missing_scopes);
    }
}

/// Without configured scopes the list of a grant is bounded: a service cannot make it grow with
/// each consent.
#[tokio::test(flavor = "multi_thread")]
async fn requested_scopes_are_bounded() {
    let stage = Stage::connected(OAuthBehaviour::default()).await;
    let rig = stage.rig();
    rig.ready().await;
    let place = stage.place(person("ann"));
    let (mut grant, secrets) =
        stage.grants.get(&place, Timestamp::UNIX_EPOCH).await.unwrap().unwrap();
    grant.terms.oauth2.scopes = (0..MAX_SCOPES).map(|number| format!("s{number}")).collect();
    assert!(stage.grants.change(grant.clone(), secrets).await.unwrap());
    // A further one does not fit, so no consent would help.
    let failed = call(&rig, "ann", "admin").await.unwrap_err();
    assert_eq!(problem_of(&failed), None, "{failed:?}");
    assert_eq!(stage.begin().await.unwrap().prospect().scopes, grant.terms.oauth2.scopes);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_scope_that_the_list_needs_requires_a_consent_of_the_tenant() {
    for behaviour in eras() {
        let stage = Stage::new(OAuthBehaviour { limits_lists: true, ..behaviour });
        let robot = Owner::tenant(tenant());
        stage.connect(robot.clone(), "robot").await;
        let rig = stage.rig();
        let detail = rig.degraded().await.detail.unwrap();
        let terms = stage.grant(robot.clone()).await.unwrap().terms;
        assert!(detail.contains("toolcrib connections connect crib --tenant"), "{detail}");
        assert_eq!(terms.state, GrantState::Active);
        assert_eq!(terms.missing_scopes, ["admin"]);
        let grant = stage.connect(robot, "robot").await;
        assert_eq!(grant.terms.oauth2.scopes, ["read", "admin"]);
        rig.ready().await;
    }
}

/// A service whose operations are those of `paths` in a document.
fn with_operations(folder: &Path, paths: &Value) -> Stage {
    let document = folder.join("openapi.json");
    let openapi = json!({ "openapi": "3.1.0", "info": { "title": "t", "version": "1" },
        "paths": paths });
    std::fs::write(&document, openapi.to_string()).unwrap();
    let mut stage = Stage::new(OAuthBehaviour { challenges: false, ..OAuthBehaviour::default() });
    let issuer = stage.server.issuer();
    stage.configure(|account| account.issuer = Some(issuer));
    stage.spec.upstream = UpstreamSpec::Connector(ConnectorSpec {
        document: OpenApiLocation::Path(document),
        base_url: Some(stage.server.url("")),
        operations: Vec::new(),
        variables: std::collections::BTreeMap::new(),
        headers: std::collections::BTreeMap::new(),
        allow: toolcrib_core::egress::AllowList::default(),
    });
    stage
}

#[tokio::test(flavor = "multi_thread")]
async fn operations_of_a_document_use_accounts_too() {
    let folder = tempfile::tempdir().unwrap();
    let paths = json!({ "/whoami": { "get": { "operationId": "whoami" } } });
    let stage = with_operations(folder.path(), &paths);
    stage.connect(person("ann"), "ann").await;
    stage.connect(person("bob"), "bob").await;
    let rig = stage.rig();
    rig.ready().await;
    for name in ["ann", "bob"] {
        let said = call(&rig, name, "whoami").await.unwrap();
        assert!(said.contains(&format!("\"{name}\"")), "{said}");
    }
    stage.server.end_access_tokens();
    assert!(call(&rig, "ann", "whoami").await.unwrap().contains("\"ann\""));
    stage.server.behave(|it| it.rejects = "ann".to_owned());
    let failed = call(&rig, "ann", "whoami").await.unwrap_err();
    assert_eq!(problem_of(&failed), Some(CredentialProblem::NeedsConsent));
    let failed = call(&rig, "eve", "whoami").await.unwrap_err();
    assert_eq!(problem_of(&failed), Some(CredentialProblem::NotConnected));
    tokio::time::timeout(Duration::from_secs(5), rig.source.close()).await.unwrap();
}

/// The request before a redirect may have had its effect. Only a call that the service has not run
/// is sent again.
#[tokio::test(flavor = "multi_thread")]
async fn a_redirected_call_is_sent_once() {
    let folder = tempfile::tempdir().unwrap();
    let paths = json!({
        "/moved": { "post": { "operationId": "moved" } },
        "/whoami": { "post": { "operationId": "whoami" } },
    });
    let stage = with_operations(folder.path(), &paths);
    stage.connect(person("ann"), "ann").await;
    stage.connect(person("bob"), "bob").await;
    let rig = stage.rig();
    rig.ready().await;
    let arrived = || {
        let posted = |path: &str| {
            let requests = stage.server.arrived(path);
            requests.iter().filter(|it| it.method == "POST" && !it.token.is_empty()).count()
        };
        (posted("/moved"), posted("/whoami"))
    };
    let said = call(&rig, "ann", "moved").await.unwrap();
    assert!(said.contains("\"ann\""), "{said}");
    assert_eq!(arrived(), (1, 1));

    stage.server.end_access_tokens();
    let said = call(&rig, "ann", "moved").await.unwrap();
    assert!(said.starts_with("HTTP 401"), "{said}");
    assert_eq!(arrived(), (2, 2));
    // The next call has a new token.
    let said = call(&rig, "ann", "moved").await.unwrap();
    assert!(said.contains("\"ann\""), "{said}");
    assert_eq!(arrived(), (3, 3));
    // Without a redirect, the same answer leads to a second request.
    let said = call(&rig, "bob", "whoami").await.unwrap();
    assert!(said.contains("\"bob\""), "{said}");
    assert_eq!(arrived(), (3, 5));
}
