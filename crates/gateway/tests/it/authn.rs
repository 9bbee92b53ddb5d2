//! Keys: created, accepted, expired, revoked.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use chrono::Utc;
use parking_lot::Mutex;
use tokio::sync::oneshot;
use toolcrib_core::{
    clock::Timestamp,
    id::{KeyId, PrincipalId, TenantId},
    scope::Grant,
    store::{KeyRecord, KeyRotation, KeyStore, StoreError},
};
use toolcrib_gateway::{
    GatewayBuilder,
    authn::{AuthError, KEY_PREFIX, KeyRequest, NewKey, new_key},
};
use toolcrib_store::MemoryStorage;

use crate::support::{Factory, Rig, one_source, parse, rig_with};

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

/// The rights of a long-lived principal follow the configuration, the store and the clock.
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
    let after = authenticator.renew(&before).await.unwrap();
    let scopes: Vec<&str> = after.scopes.iter().map(Grant::as_str).collect();
    assert_eq!((&after.id, scopes), (&before.id, vec!["extra:*"]));
    rig.keys.revoke(&key.record.id, Utc::now()).await.unwrap();
    authenticator.refresh().await;
    assert!(changes.has_changed().unwrap());
    assert_eq!(authenticator.renew(&before).await.err(), Some(AuthError::Invalid));
}

/// I-9: no caller may read the operator's part of the record.
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

/// Keys whose next read blocks until the test releases it.
struct Slow {
    keys: Arc<dyn KeyStore>,
    held: Mutex<Option<oneshot::Receiver<()>>>,
    /// How many keys were read.
    read: AtomicUsize,
}

impl Slow {
    fn new(keys: &Arc<dyn KeyStore>) -> Arc<Self> {
        let keys = Arc::clone(keys);
        Arc::new(Self { keys, held: Mutex::default(), read: AtomicUsize::new(0) })
    }

    fn counted(&self, keys: Vec<KeyRecord>) -> Vec<KeyRecord> {
        self.read.fetch_add(keys.len(), Ordering::SeqCst);
        keys
    }
}

#[async_trait]
impl KeyStore for Slow {
    async fn insert(&self, key: KeyRecord) -> Result<(), StoreError> {
        self.keys.insert(key).await
    }
    async fn insert_for_new_principal(&self, key: KeyRecord) -> Result<bool, StoreError> {
        self.keys.insert_for_new_principal(key).await
    }
    async fn list(&self) -> Result<Vec<KeyRecord>, StoreError> {
        Ok(self.counted(self.keys.list().await?))
    }
    async fn changed_since(&self, epoch: u64) -> Result<Vec<KeyRecord>, StoreError> {
        let changed = self.keys.changed_since(epoch).await?;
        let held = self.held.lock().take();
        if let Some(held) = held {
            held.await.unwrap();
        }
        Ok(self.counted(changed))
    }
    async fn revoke(&self, id: &KeyId, at: Timestamp) -> Result<bool, StoreError> {
        self.keys.revoke(id, at).await
    }
    async fn rotate(
        &self,
        old: &KeyId,
        new: KeyRecord,
        until: Timestamp,
    ) -> Result<KeyRotation, StoreError> {
        self.keys.rotate(old, new, until).await
    }
    async fn note_used(&self, used: Vec<(KeyId, Timestamp)>) -> Result<(), StoreError> {
        self.keys.note_used(used).await
    }
}

/// A slow read does not restore a key that a later read found revoked.
#[tokio::test(start_paused = true)]
async fn the_latest_read_counts() {
    let mut storage = MemoryStorage::default();
    let keys = Slow::new(&storage.keys);
    storage.keys = Arc::clone(&keys) as Arc<dyn KeyStore>;
    let sources = Arc::new(Factory::default());
    let builder = GatewayBuilder::new(parse(""), Arc::new(storage), sources);
    let gateway = builder.start().await.unwrap();
    let key = new_key(request(), Utc::now()).unwrap();
    keys.insert(key.record.clone()).await.unwrap();
    let (release, held) = oneshot::channel();
    *keys.held.lock() = Some(held);
    let slow = tokio::spawn({
        let gateway = gateway.clone();
        async move { gateway.authenticator().refresh().await }
    });
    while keys.held.lock().is_some() {
        tokio::task::yield_now().await;
    }
    keys.revoke(&key.record.id, Utc::now()).await.unwrap();
    gateway.authenticator().refresh().await;
    let text = key.text.expose();
    assert_eq!(gateway.authenticator().authenticate(text), Err(AuthError::Invalid));
    release.send(()).unwrap();
    slow.await.unwrap();
    assert_eq!(gateway.authenticator().authenticate(text), Err(AuthError::Invalid));
}

/// I-63: the cost of a new key does not grow with the other keys, and every change holds at once.
#[tokio::test(start_paused = true)]
async fn only_the_keys_that_changed_are_read() {
    let mut storage = MemoryStorage::default();
    let keys = Slow::new(&storage.keys);
    storage.keys = Arc::clone(&keys) as Arc<dyn KeyStore>;
    let sources = Arc::new(Factory::default());
    let builder = GatewayBuilder::new(parse(""), Arc::new(storage), sources);
    let gateway = builder.start().await.unwrap();
    let authenticator = gateway.authenticator();
    let mut made = Vec::new();
    for _ in 0..100 {
        let key = new_key(request(), Utc::now()).unwrap();
        keys.insert(key.record.clone()).await.unwrap();
        authenticator.refresh().await;
        made.push(key);
    }
    assert_eq!(keys.read.load(Ordering::SeqCst), 100, "each once");
    gateway.apply(parse("")).await.unwrap();
    for key in &made {
        let known = authenticator.authenticate(key.text.expose()).unwrap();
        keys.revoke(&key.record.id, Utc::now()).await.unwrap();
        authenticator.refresh().await;
        let text = key.text.expose();
        assert_eq!(authenticator.authenticate(text), Err(AuthError::Invalid));
        assert_eq!(authenticator.renew(&known).await, Err(AuthError::Invalid));
    }
    assert_eq!(keys.read.load(Ordering::SeqCst), 200);
}
