//! Keys: made, honoured, expired, revoked.

use std::{sync::Arc, time::Duration};

use chrono::Utc;
use toolcrib_core::{
    id::{PrincipalId, TenantId},
    scope::Grant,
    store::KeyStore,
};
use toolcrib_gateway::authn::{AuthError, KEY_PREFIX, KeyRequest, NewKey, new_key};

use crate::support::{Rig, one_source, rig_with};

fn request() -> KeyRequest {
    KeyRequest {
        name: "laptop".to_owned(),
        tenant: TenantId::parse("t").unwrap(),
        principal: PrincipalId::parse("ada").unwrap(),
        roles: vec!["reader".to_owned(), "no-such-role".to_owned()],
        scopes: vec![Grant::parse("extra:*").unwrap()],
        expires_at: None,
    }
}

async fn with_role() -> Rig {
    let text =
        format!("[[role]]\nname = \"reader\"\nscopes = [\"files:read\"]\n{}", one_source(""));
    rig_with(None, &text, Default::default()).await
}

async fn made(rig: &Rig, request: KeyRequest) -> NewKey {
    let key = new_key(request, Utc::now()).unwrap();
    rig.keys.insert(key.record.clone()).await.unwrap();
    rig.gateway.authenticator().refresh().await;
    key
}

#[tokio::test]
async fn a_key_is_its_principal_with_the_scopes_of_known_roles() {
    let rig = with_role().await;
    let key = made(&rig, request()).await;
    assert!(key.text.expose().starts_with(KEY_PREFIX));
    assert_eq!(key.text.expose().len(), KEY_PREFIX.len() + 43);
    let principal = rig.gateway.authenticator().authenticate(key.text.expose()).unwrap();
    assert_eq!(principal.id.as_str(), "ada");
    let scopes: Vec<&str> = principal.scopes.iter().map(Grant::as_str).collect();
    assert_eq!(scopes, ["extra:*", "files:read"]);
}

/// I-29: neither the record nor the debug form of a key shows it.
#[tokio::test]
async fn a_key_cannot_be_printed() {
    let key = new_key(request(), Utc::now()).unwrap();
    assert!(!format!("{key:?}").contains(key.text.expose()));
}

#[tokio::test]
async fn wrong_expired_and_revoked_keys_are_nobody() {
    let rig = with_role().await;
    let authenticator = rig.gateway.authenticator().clone();
    let good = made(&rig, request()).await;
    let mut old = request();
    old.expires_at = Some(Utc::now() - Duration::from_secs(1));
    let old = made(&rig, old).await;
    let mut mangled = good.text.expose().to_owned();
    mangled.pop();
    for text in ["", "tc_", &mangled, old.text.expose(), &"x".repeat(100_000)] {
        assert_eq!(authenticator.authenticate(text).err(), Some(AuthError::Invalid));
    }
    assert!(authenticator.authenticate(good.text.expose()).is_ok());
    assert!(rig.keys.revoke(&good.record.id, Utc::now()).await.unwrap());
    crate::support::eventually("the revocation is seen without being told", || {
        authenticator.authenticate(good.text.expose()).is_err()
    })
    .await;
}

/// What somebody known for long may do follows the configuration, the store and the clock.
#[tokio::test]
async fn a_principal_can_be_renewed() {
    let rig = with_role().await;
    let authenticator = rig.gateway.authenticator().clone();
    let key = made(&rig, request()).await;
    let before = authenticator.authenticate(key.text.expose()).unwrap();
    let mut changes = authenticator.changes();
    let fewer = crate::support::parse(&one_source(""));
    rig.gateway.apply(fewer).await.unwrap();
    assert!(changes.has_changed().unwrap());
    changes.mark_unchanged();
    let after = authenticator.renew(&before).unwrap();
    let scopes: Vec<&str> = after.scopes.iter().map(Grant::as_str).collect();
    assert_eq!((&after.id, scopes), (&before.id, vec!["extra:*"]));
    rig.keys.revoke(&key.record.id, Utc::now()).await.unwrap();
    authenticator.refresh().await;
    assert!(changes.has_changed().unwrap());
    assert_eq!(authenticator.renew(&before).err(), Some(AuthError::Invalid));
}

/// I-9: the operator's part of the record belongs to no caller.
#[tokio::test]
async fn a_key_of_the_operators_tenant_is_nobody() {
    let rig = with_role().await;
    let mut request = request();
    request.tenant = TenantId::parse(TenantId::OPERATOR).unwrap();
    let key = made(&rig, request).await;
    let told = rig.gateway.authenticator().authenticate(key.text.expose());
    assert_eq!(told.err(), Some(AuthError::Invalid));
}

#[tokio::test]
async fn reload_changes_what_a_role_grants() {
    let rig = with_role().await;
    let key = made(&rig, request()).await;
    rig.gateway.apply(crate::support::parse(&one_source(""))).await.unwrap();
    let principal: Arc<_> = rig.gateway.authenticator().authenticate(key.text.expose()).unwrap();
    assert_eq!(principal.scopes.iter().count(), 1, "the role is gone, and so is its scope");
}
