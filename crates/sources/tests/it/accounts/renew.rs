//! How the tokens of an account are renewed.

use std::{sync::Arc, time::Duration};

use toolcrib_core::{
    clock::Clock as _,
    credential::{
        AccountGrant, CredentialCaller, CredentialNeed, CredentialProblem, CredentialRefusal,
        CredentialResolver, GrantState, RefusalCause, Secret,
    },
    source::SourceFactory as _,
};
use toolcrib_testkit::upstream::OAuthBehaviour;

use super::{Stage, factory, person, tenant};
use crate::rig::eventually;

impl Stage {
    fn need(&self) -> CredentialNeed {
        CredentialNeed::Account {
            source: self.spec.id.clone(),
            account: self.spec.account.clone().unwrap(),
            destination: self.server.url("/mcp"),
        }
    }

    fn renewals(&self) -> usize {
        let requests = self.server.arrived("/token");
        requests.iter().filter(|it| it.body.contains("\"grant_type\":\"refresh_token\"")).count()
    }

    async fn token(
        &self,
        resolver: &Arc<dyn CredentialResolver>,
    ) -> Result<String, CredentialRefusal> {
        let (need, tenant, ann) = (self.need(), tenant(), "ann".parse().unwrap());
        let caller = CredentialCaller::without_call(&tenant, &ann);
        let resolved = resolver.resolve(&need, caller).await?.unwrap();
        Ok(resolved.token.as_ref().unwrap().value().expose().to_owned())
    }

    async fn refusal(&self, resolver: &Arc<dyn CredentialResolver>) -> RefusalCause {
        let refusal = self.token(resolver).await.unwrap_err();
        assert!(!format!("{refusal:?}").contains("canary"), "{refusal:?}");
        refusal.cause
    }
}

/// I-116: a rotating refresh token that is sent twice ends all tokens of the account.
#[tokio::test(flavor = "multi_thread")]
async fn two_processes_never_send_one_refresh_token_twice() {
    let stage = Stage::new(OAuthBehaviour::default());
    stage.connect(person("ann"), "ann").await;
    // Two resolvers with one store are two processes.
    let resolvers: Vec<_> = (0..2)
        .map(|_| factory(&stage.clock, &stage.grants))
        .map(|it| (it.credentials(), it))
        .collect();
    for (_, factory) in &resolvers {
        let _source = crate::rig::Rig::of(&stage.spec, factory);
    }
    for round in 1..=200 {
        stage.pass(3_600);
        let calls = (0..6).map(|number| stage.token(&resolvers[number % 2].0));
        let tokens = futures_util::future::join_all(calls).await;
        let tokens: Vec<_> = tokens.into_iter().map(Result::unwrap).collect();
        assert!(tokens.iter().all(|token| *token == tokens[0]), "{tokens:?}");
        assert_eq!(stage.renewals(), round);
    }
    assert_eq!(stage.server.replays(), 0);
    assert_eq!(stage.grant(person("ann")).await.unwrap().revision, 201);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_is_renewed_shortly_before_it_ends() {
    let stage = Stage::new(OAuthBehaviour::default());
    stage.connect(person("ann"), "ann").await;
    let rig = stage.rig();
    for (seconds, renewals) in [(0, 0), (3_539, 0), (1, 1), (3_539, 1), (90_000, 2)] {
        stage.pass(seconds);
        stage.token(&rig.credentials).await.unwrap();
        assert_eq!(stage.renewals(), renewals, "after {seconds} s more");
    }
    let form = stage.server.arrived("/token").pop().unwrap().body;
    assert!(form.contains("/mcp"), "the resource is named in renewals, too: {form}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_renewal_requires_a_new_consent() {
    let stage = Stage::new(OAuthBehaviour::default());
    stage.connect(person("ann"), "ann").await;
    let rig = stage.rig();
    stage.server.end_refresh_tokens();
    stage.pass(4_000);
    for _ in 0..2 {
        let cause = stage.refusal(&rig.credentials).await;
        let needed = CredentialProblem::NeedsConsent;
        assert!(matches!(cause, RefusalCause::Credential(problem) if problem == needed));
        assert_eq!(stage.renewals(), 1, "it is not asked again");
    }
    let grant = stage.grant(person("ann")).await.unwrap();
    assert_eq!(grant.terms.state, GrantState::NeedsConsent);
    // Without a request, the same is found.
    let (tenant, ann) = (tenant(), "ann".parse().unwrap());
    let caller = CredentialCaller::without_call(&tenant, &ann);
    let found = rig.credentials.find(&stage.need(), caller).await;
    assert!(matches!(
        found.unwrap_err().cause,
        RefusalCause::Credential(CredentialProblem::NeedsConsent)
    ));
    stage.connect(person("ann"), "ann").await;
    stage.token(&rig.credentials).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn trouble_keeps_the_grant() {
    let stage = Stage::new(OAuthBehaviour::default());
    stage.connect(person("ann"), "ann").await;
    let rig = stage.rig();
    stage.pass(4_000);
    let refused = "{\"error\":\"invalid_grant\",\"canary\":1}".to_owned();
    for (status, body) in [(503, refused.clone()), (429, refused), (200, "canary".to_owned())] {
        stage.server.behave(|it| it.token_answer = Some((status, body)));
        let before = stage.renewals();
        for _ in 0..3 {
            let cause = stage.refusal(&rig.credentials).await;
            assert!(matches!(cause, RefusalCause::Unavailable(_)), "{cause:?}");
        }
        assert_eq!(stage.renewals(), before + 1, "there is a pause after a failure");
        let grant = stage.grant(person("ann")).await.unwrap();
        assert_eq!((grant.terms.state, grant.revision), (GrantState::Active, 1));
        tokio::time::sleep(Duration::from_millis(2_100)).await;
    }
    stage.server.behave(|it| it.token_answer = None);
    stage.token(&rig.credentials).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn the_result_of_another_process_is_used() {
    let stage = Stage::new(OAuthBehaviour::default());
    let grant = stage.connect(person("ann"), "ann").await;
    let rig = stage.rig();
    stage.pass(4_000);
    let now = stage.clock.now();
    let until = now + Duration::from_secs(60);
    assert!(stage.grants.lease(&grant.id, "other", now, until).await.unwrap());
    let other = async {
        tokio::time::sleep(Duration::from_millis(300)).await;
        let place = stage.place(person("ann"));
        let (mut grant, mut secrets) = stage.grants.get(&place, now).await.unwrap().unwrap();
        secrets.access_token = Some(Secret::new("of-the-other".to_owned()));
        grant.terms.token_expires_at = Some(now + Duration::from_secs(3_600));
        grant.changed_at = now;
        assert!(stage.grants.change(grant, secrets).await.unwrap());
    };
    let (token, ()) = tokio::join!(stage.token(&rig.credentials), other);
    assert_eq!(token.unwrap(), "of-the-other");
    assert_eq!(stage.renewals(), 0);
}

/// The tokens of a renewal that ends after the account was disconnected or replaced are revoked.
#[tokio::test(flavor = "multi_thread")]
async fn a_renewal_that_comes_too_late_is_revoked() {
    for next in [None, Some("carl"), Some("ann")] {
        let stage = Stage::new(OAuthBehaviour::default());
        let old = stage.connect(person("ann"), "ann").await;
        let rig = stage.rig();
        stage.pass(4_000);
        stage.server.hold_tokens(true);
        let meanwhile = async {
            eventually("a renewal", || stage.renewals() == 1).await;
            let place = stage.place(person("ann"));
            let now = stage.clock.now();
            let (grant, secrets) = stage.grants.get(&place, now).await.unwrap().unwrap();
            assert!(stage.grants.remove(&tenant(), &old.id).await.unwrap());
            stage.factory.accounts().revoke(&grant, &secrets).await;
            if let Some(next) = next {
                let mut later = AccountGrant { id: "later".parse().unwrap(), ..grant };
                later.terms.account = Some(format!("{next}@service.example"));
                stage.grants.put(later, secrets).await.unwrap();
            }
            stage.server.hold_tokens(false);
        };
        let (token, ()) = tokio::join!(stage.token(&rig.credentials), meanwhile);
        let refused = token.unwrap_err().cause;
        let missing = CredentialProblem::NotConnected;
        assert!(matches!(refused, RefusalCause::Credential(problem) if problem == missing));
        // Those of the same account would end with them.
        let left = if next == Some("ann") { 2 } else { 0 };
        assert_eq!(stage.server.tokens_of("ann"), left, "{next:?}");
    }
}

/// What a call notes in a grant during its renewal does not cost the renewed tokens.
#[tokio::test(flavor = "multi_thread")]
async fn a_note_during_a_renewal_is_kept_with_its_tokens() {
    let stage = Stage::new(OAuthBehaviour::default());
    stage.connect(person("ann"), "ann").await;
    let rig = stage.rig();
    stage.pass(4_000);
    stage.server.hold_tokens(true);
    let meanwhile = async {
        eventually("a renewal", || stage.renewals() == 1).await;
        let place = stage.place(person("ann"));
        let found = stage.grants.get(&place, stage.clock.now()).await.unwrap();
        let (mut grant, secrets) = found.unwrap();
        grant.terms.missing_scopes = vec!["admin".to_owned()];
        assert!(stage.grants.change(grant, secrets).await.unwrap());
        stage.server.hold_tokens(false);
    };
    let (token, ()) = tokio::join!(stage.token(&rig.credentials), meanwhile);
    token.unwrap();
    let grant = stage.grant(person("ann")).await.unwrap();
    assert_eq!((grant.revision, grant.terms.missing_scopes), (3, vec!["admin".to_owned()]));
    stage.pass(4_000);
    stage.token(&rig.credentials).await.unwrap();
    assert_eq!((stage.renewals(), stage.server.replays()), (2, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_renewal_completes_without_its_caller() {
    let stage = Stage::new(OAuthBehaviour::default());
    stage.connect(person("ann"), "ann").await;
    let rig = stage.rig();
    stage.pass(4_000);
    let cancelled = tokio::time::timeout(Duration::from_millis(1), stage.token(&rig.credentials));
    drop(cancelled.await);
    rig.source.close().await;
    let grant = stage.grant(person("ann")).await.unwrap();
    let renewed = u64::try_from(stage.renewals()).unwrap();
    assert_eq!(grant.revision, 1 + renewed, "each issued token is stored");
    assert_eq!(stage.server.replays(), 0);
}
