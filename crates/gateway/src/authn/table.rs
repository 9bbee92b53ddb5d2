//! The keys in memory, by digest and by id.
//!
//! A change only touches its keys: creating ten thousand keys one by one costs ten thousand
//! insertions. A reader locks one of several parts during a look-up.

use std::{
    collections::{BTreeMap, HashMap},
    hash::{BuildHasher as _, Hash, RandomState},
    sync::{Arc, atomic::AtomicI64},
};

use parking_lot::RwLock;
use toolcrib_core::{
    clock::Timestamp,
    id::{KeyId, TenantId},
    principal::{AuthMethod, Principal},
    scope::Grant,
    store::{KeyRecord, SessionCredential},
};

use super::roles::{Rights, rights};

/// The parts of a map. Growing locks a part for longest; with more keys a part grows rarely.
const PARTS: usize = 16;

type Roles = BTreeMap<String, Vec<Grant>>;

#[derive(Default)]
pub(super) struct Table {
    by_digest: Parts<[u8; 32]>,
    by_id: Parts<KeyId>,
}

/// A map in parts with a lock each.
struct Parts<K> {
    parts: [RwLock<HashMap<K, Arc<KeyEntry>>>; PARTS],
    hasher: RandomState,
}

/// A key without its text and the fields for display.
pub(super) struct KeyEntry {
    pub(super) id: KeyId,
    /// For a session or an access token: its principal and the credential behind it, without rights.
    pub(super) principal: Arc<Principal>,
    digest: [u8; 32],
    /// Its roles, unconfigured ones included.
    roles: Box<[String]>,
    /// Scopes in addition to those of its roles.
    scopes: Box<[Grant]>,
    pub(super) expires_at: Option<Timestamp>,
    revoked: bool,
    pub(super) used: Arc<LastUse>,
}

/// The last use of a key, in milliseconds of 1970; 0 if unused.
#[derive(Default)]
pub(super) struct LastUse {
    pub(super) seen: AtomicI64,
    pub(super) written: AtomicI64,
}

/// The result of a read.
pub(super) enum KeyUpdate {
    /// All keys.
    Whole(Vec<KeyRecord>),
    /// The changed keys.
    Changed(Vec<KeyRecord>),
}

// === impl Table ===

impl Table {
    pub(super) fn by_digest(&self, digest: &[u8; 32]) -> Option<Arc<KeyEntry>> {
        self.by_digest.get(digest)
    }

    pub(super) fn by_id(&self, id: &KeyId) -> Option<Arc<KeyEntry>> {
        self.by_id.get(id)
    }

    pub(super) fn all(&self) -> Vec<Arc<KeyEntry>> {
        let parts = self.by_digest.parts.iter();
        parts.flat_map(|part| part.read().values().cloned().collect::<Vec<_>>()).collect()
    }

    /// Adds new and changed keys.
    pub(super) fn put(&self, records: Vec<KeyRecord>, roles: &Roles) {
        for record in records {
            let used = self.by_digest(&record.digest).map(|known| Arc::clone(&known.used));
            self.insert(KeyEntry::new(record, used.unwrap_or_default(), roles));
        }
    }

    /// Returns a table of `records`, with the uses noted in this one.
    pub(super) fn replaced(&self, records: Vec<KeyRecord>, roles: &Roles) -> Self {
        let table = Self::default();
        for record in records {
            let used = self.by_digest(&record.digest).map(|known| Arc::clone(&known.used));
            table.insert(KeyEntry::new(record, used.unwrap_or_default(), roles));
        }
        table
    }

    /// Returns the same keys with the grants of `roles`.
    pub(super) fn granting(&self, roles: &Roles) -> Self {
        let table = Self::default();
        for known in self.all() {
            let id = known.id.clone();
            let Rights { roles, scopes } = rights(roles, &known.roles, &known.scopes);
            let principal = Principal { roles, scopes, ..Principal::clone(&known.principal) };
            table.insert(KeyEntry {
                id,
                principal: Arc::new(principal),
                digest: known.digest,
                roles: known.roles.clone(),
                scopes: known.scopes.clone(),
                expires_at: known.expires_at,
                revoked: known.revoked,
                used: Arc::clone(&known.used),
            });
        }
        table
    }

    /// Removes the sessions and access tokens that have expired at `now`; every sign-in creates one.
    pub(super) fn forget_sessions(&self, now: Timestamp) {
        let is_kept =
            |known: &KeyEntry| known.is_key() || known.expires_at.is_none_or(|end| now < end);
        self.by_digest.retain(is_kept);
        self.by_id.retain(is_kept);
    }

    fn insert(&self, known: KeyEntry) {
        let known = Arc::new(known);
        self.by_id.insert(known.id.clone(), Arc::clone(&known));
        self.by_digest.insert(known.digest, known);
    }
}

impl<K> Default for Parts<K> {
    fn default() -> Self {
        Self { parts: Default::default(), hasher: RandomState::default() }
    }
}

impl<K: Eq + Hash> Parts<K> {
    fn part(&self, key: &K) -> Option<&RwLock<HashMap<K, Arc<KeyEntry>>>> {
        let [first, ..] = self.hasher.hash_one(key).to_be_bytes();
        self.parts.get(usize::from(first) % PARTS)
    }

    fn get(&self, key: &K) -> Option<Arc<KeyEntry>> {
        self.part(key)?.read().get(key).cloned()
    }

    fn retain(&self, is_kept: impl Fn(&KeyEntry) -> bool) {
        for part in &self.parts {
            part.write().retain(|_, known| is_kept(known));
        }
    }

    fn insert(&self, key: K, known: Arc<KeyEntry>) {
        if let Some(part) = self.part(&key) {
            part.write().insert(key, known);
        }
    }
}

// === impl KeyEntry ===

impl KeyEntry {
    fn new(record: KeyRecord, used: Arc<LastUse>, roles: &Roles) -> Self {
        let is_operators = record.tenant.as_str() == TenantId::OPERATOR;
        let Rights { roles, scopes } = rights(roles, &record.roles, &record.scopes);
        let (auth, session) = match record.session {
            None => (AuthMethod::ApiKey(record.id.clone()), None),
            Some(SessionCredential::Key(key)) => (AuthMethod::ApiKey(key), Some(record.id.clone())),
            Some(SessionCredential::Token(token)) => {
                (AuthMethod::Jwt(token), Some(record.id.clone()))
            }
            Some(SessionCredential::Access(token)) => (AuthMethod::Jwt(token), None),
        };
        let principal = Principal {
            scopes,
            id: record.principal,
            tenant: record.tenant,
            roles,
            makers: record.makers,
            auth,
            session,
        };
        Self {
            id: record.id,
            principal: Arc::new(principal),
            digest: record.digest,
            roles: record.roles.into(),
            scopes: record.scopes.into(),
            expires_at: record.expires_at,
            revoked: record.revoked_at.is_some() || is_operators,
            used,
        }
    }

    /// Whether it is neither a browser session nor an access token.
    pub(super) fn is_key(&self) -> bool {
        self.principal.auth.key().is_some() && !self.is_session()
    }

    /// Whether it is a browser session instead of a key.
    pub(super) fn is_session(&self) -> bool {
        self.principal.session.is_some()
    }

    pub(super) fn is_valid(&self, now: Timestamp) -> bool {
        !self.revoked && self.expires_at.is_none_or(|end| now < end)
    }
}
