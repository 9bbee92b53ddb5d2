//! Who is calling: bearer API keys.
//!
//! Keys are looked up by their SHA-256 in a table in memory that follows the store: a key that any
//! process makes or revokes takes effect here within [`POLL`]. When the store has not been readable
//! for [`MAX_STALE`], no key is accepted, because a revocation could have been missed.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use arc_swap::ArcSwap;
use base64::Engine as _;
use parking_lot::Mutex;
use sha2::{Digest as _, Sha256};
use tokio::sync::watch;
use toolcrib_core::{
    clock::{Clock, Timestamp},
    credential::Secret,
    id::{KeyId, PrincipalId, TenantId},
    principal::{AuthMethod, Principal},
    scope::{Grant, ScopeSet},
    store::{KeyRecord, KeyStore, StoreError},
};

use crate::{config::Config, record};

/// How often the store is asked whether keys changed.
pub const POLL: Duration = Duration::from_millis(200);
/// How long keys are honoured while the store cannot be read.
pub const MAX_STALE: Duration = Duration::from_secs(30);

/// Every key starts with this, so that scanners can find leaked ones.
pub const KEY_PREFIX: &str = "tc_";

/// Tells callers apart.
#[derive(Clone)]
pub struct Authenticator {
    inner: Arc<Inner>,
}

struct Inner {
    keys: Arc<dyn KeyStore>,
    clock: Arc<dyn Clock>,
    policy: ArcSwap<Policy>,
    table: ArcSwap<Table>,
    /// Counts reads of the store, as they begin.
    reads: AtomicU64,
    /// Held while a table is replaced.
    replacing: Mutex<()>,
    /// Monotonic nanoseconds of the last time the store confirmed the table.
    confirmed_at: AtomicU64,
    /// Set when the store is about to go: from then on nobody asks it.
    stopped: AtomicBool,
    /// Counts changes of keys, roles and the anonymous caller.
    changes: watch::Sender<u64>,
}

/// What the configuration says about callers.
struct Policy {
    roles: BTreeMap<String, Vec<Grant>>,
    anonymous: Option<Arc<Principal>>,
}

#[derive(Default)]
struct Table {
    by_digest: HashMap<[u8; 32], Known>,
    by_id: HashMap<KeyId, [u8; 32]>,
    records: Vec<KeyRecord>,
    epoch: Option<u64>,
    /// Which read it is from.
    read: u64,
}

struct Known {
    principal: Arc<Principal>,
    expires_at: Option<Timestamp>,
    revoked: bool,
}

/// Why a caller is nobody.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum AuthError {
    /// No credentials were presented.
    #[error("credentials are required: send `Authorization: Bearer <key>`")]
    Missing,
    /// The credentials are not (or no longer) valid. Which of the two is not told.
    #[error("the credentials are not valid")]
    Invalid,
    /// Keys cannot be checked right now.
    #[error("credentials cannot be checked right now; try again later")]
    Unavailable,
}

/// A key that has just been made: the only moment its text exists.
#[derive(Debug)]
pub struct NewKey {
    /// What is stored.
    pub record: KeyRecord,
    /// The text to hand over.
    pub text: Secret,
}

/// What a new key is to be.
#[derive(Debug, Clone)]
pub struct KeyRequest {
    /// Name for people.
    pub name: String,
    /// Tenant.
    pub tenant: TenantId,
    /// Principal.
    pub principal: PrincipalId,
    /// Roles.
    pub roles: Vec<String>,
    /// Scopes beside the roles'.
    pub scopes: Vec<Grant>,
    /// When it stops working.
    pub expires_at: Option<Timestamp>,
}

// === impl Authenticator ===

impl Authenticator {
    /// Reads the keys and follows the store from now on, as long as the authenticator lives.
    pub(crate) async fn start(
        keys: Arc<dyn KeyStore>,
        clock: Arc<dyn Clock>,
        config: &Config,
    ) -> Self {
        let inner = Inner {
            keys,
            clock,
            policy: ArcSwap::from_pointee(Policy::of(config)),
            table: ArcSwap::from_pointee(Table::default()),
            reads: AtomicU64::new(0),
            replacing: Mutex::default(),
            confirmed_at: AtomicU64::new(0),
            stopped: AtomicBool::new(false),
            changes: watch::Sender::new(0),
        };
        let authenticator = Self { inner: Arc::new(inner) };
        authenticator.inner.follow().await;
        let weak = Arc::downgrade(&authenticator.inner);
        tokio::spawn(async move {
            loop {
                tokio::time::sleep(POLL).await;
                match weak.upgrade() {
                    Some(inner) if !inner.stopped.load(Ordering::Relaxed) => inner.follow().await,
                    Some(_) | None => return,
                }
            }
        });
        authenticator
    }

    /// Takes over roles and the anonymous caller of `config`.
    pub(crate) async fn configure(&self, config: &Config) {
        self.inner.policy.store(Arc::new(Policy::of(config)));
        let replacing = self.inner.replacing.lock();
        let table = self.inner.table.load();
        self.inner.build(table.records.clone(), table.epoch, table.read);
        drop(replacing);
    }

    /// Ends following the store.
    pub(crate) fn stop(&self) {
        self.inner.stopped.store(true, Ordering::Relaxed);
    }

    /// Reads the keys again now instead of at the next poll.
    pub async fn refresh(&self) {
        self.inner.follow().await;
    }

    /// Who holds the key `text`.
    pub fn authenticate(&self, text: &str) -> Result<Arc<Principal>, AuthError> {
        // Looking up by digest leaks no timing about the key: the digest cannot be steered.
        self.inner.holder(|_| Some(digest(text)))
    }

    /// `principal` with what it holds now, for those who have known it for long.
    ///
    /// # Errors
    /// What it proved itself with is no longer accepted.
    pub fn renew(&self, principal: &Arc<Principal>) -> Result<Arc<Principal>, AuthError> {
        match &principal.auth {
            AuthMethod::ApiKey(id) => self.inner.holder(|table| table.by_id.get(id).copied()),
            AuthMethod::Jwt(_) => Err(AuthError::Invalid),
            AuthMethod::Anonymous => self.anonymous().ok_or(AuthError::Missing),
            AuthMethod::Operator => Ok(Arc::clone(principal)),
        }
    }

    /// Counts changes of keys and roles: the moments at which [`renew`](Self::renew) may answer
    /// something else. A key that expires is no change.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.inner.changes.subscribe()
    }

    /// The caller without credentials, if the configuration knows one. Only for mounts that say so.
    pub fn anonymous(&self) -> Option<Arc<Principal>> {
        self.inner.policy.load().anonymous.clone()
    }
}

impl Authenticator {
    /// The roles of the configuration.
    pub(crate) fn roles(&self) -> BTreeMap<String, Vec<Grant>> {
        self.inner.policy.load().roles.clone()
    }
}

impl Inner {
    /// Who holds the key whose digest `find` tells.
    fn holder(
        &self,
        find: impl FnOnce(&Table) -> Option<[u8; 32]>,
    ) -> Result<Arc<Principal>, AuthError> {
        let table = self.table.load();
        let confirmed_at = self.confirmed_at.load(Ordering::Relaxed);
        let age = self.clock.monotonic_nanos().saturating_sub(confirmed_at);
        if table.epoch.is_none() || u128::from(age) > MAX_STALE.as_nanos() {
            return Err(AuthError::Unavailable);
        }
        match find(&table).and_then(|digest| table.by_digest.get(&digest)) {
            Some(known)
                if !known.revoked && known.expires_at.is_none_or(|end| self.clock.now() < end) =>
            {
                Ok(Arc::clone(&known.principal))
            }
            Some(_) | None => Err(AuthError::Invalid),
        }
    }

    /// Reads the keys if the store says that they changed.
    async fn follow(&self) {
        let now = self.clock.monotonic_nanos();
        let read = self.reads.fetch_add(1, Ordering::Relaxed) + 1;
        match self.read().await {
            Ok(news) => {
                if let Some((records, epoch)) = news {
                    let _replacing = self.replacing.lock();
                    // A read that began earlier and took longer must not bring back what was.
                    if read > self.table.load().read {
                        self.build(records, Some(epoch), read);
                    }
                }
                self.confirmed_at.store(now, Ordering::Relaxed);
            }
            Err(_closed) if self.stopped.load(Ordering::Relaxed) => {}
            Err(error) => tracing::error!(%error, "API keys cannot be read"),
        }
    }

    async fn read(&self) -> Result<Option<(Vec<KeyRecord>, u64)>, StoreError> {
        // The epoch comes first: a change after it is seen by the next poll.
        let epoch = self.keys.epoch().await?;
        if self.table.load().epoch == Some(epoch) {
            return Ok(None);
        }
        Ok(Some((self.keys.list().await?, epoch)))
    }

    /// Replaces the table; the caller holds `replacing`.
    fn build(&self, records: Vec<KeyRecord>, epoch: Option<u64>, read: u64) {
        let policy = self.policy.load();
        let known = |record: &KeyRecord| {
            let of_roles = record.roles.iter().filter_map(|role| policy.roles.get(role)).flatten();
            let principal = Principal {
                id: record.principal.clone(),
                tenant: record.tenant.clone(),
                scopes: ScopeSet::new(of_roles.chain(&record.scopes).cloned()),
                auth: AuthMethod::ApiKey(record.id.clone()),
            };
            let nobodys = record.tenant.as_str() == TenantId::OPERATOR;
            let revoked = record.revoked_at.is_some() || nobodys;
            Known { principal: Arc::new(principal), expires_at: record.expires_at, revoked }
        };
        let by_digest = records.iter().map(|record| (record.digest, known(record))).collect();
        let by_id = records.iter().map(|record| (record.id.clone(), record.digest)).collect();
        self.table.store(Arc::new(Table { by_digest, by_id, records, epoch, read }));
        self.changes.send_modify(|count| *count += 1);
    }
}

impl Policy {
    fn of(config: &Config) -> Self {
        let anonymous = config.anonymous.as_ref().and_then(|anonymous| {
            Some(Arc::new(Principal {
                id: PrincipalId::parse("anonymous").ok()?,
                tenant: anonymous.tenant.clone(),
                scopes: anonymous.scopes.clone(),
                auth: AuthMethod::Anonymous,
            }))
        });
        Self { roles: config.roles.clone(), anonymous }
    }
}

/// Makes a key: 256 random bits behind [`KEY_PREFIX`]. Nothing is stored yet.
///
/// # Errors
/// The operating system has no randomness to give.
pub fn new_key(request: KeyRequest, now: Timestamp) -> Result<NewKey, getrandom::Error> {
    let mut bits = [0_u8; 32];
    getrandom::fill(&mut bits)?;
    let text =
        format!("{KEY_PREFIX}{}", base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(bits));
    let id: KeyId = record::new_id();
    let record = KeyRecord {
        id,
        name: request.name,
        tenant: request.tenant,
        principal: request.principal,
        digest: digest(&text),
        roles: request.roles,
        scopes: request.scopes,
        created_at: now,
        expires_at: request.expires_at,
        revoked_at: None,
        last_used_at: None,
        replaces: None,
    };
    Ok(NewKey { record, text: Secret::new(text) })
}

fn digest(text: &str) -> [u8; 32] {
    Sha256::digest(text.as_bytes()).into()
}
