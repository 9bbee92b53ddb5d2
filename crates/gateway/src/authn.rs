//! Authentication: bearer API keys, and signed tokens (`tokens`).
//!
//! Keys are looked up by their SHA-256 in a table in memory (`table`) that follows the store, key
//! by key: a key that this process creates or revokes ([`manage`]) takes effect before the
//! response, and one of another process after the store announces it. If the store has not
//! confirmed the keys for [`MAX_READ_AGE`](toolcrib_core::clock::MAX_READ_AGE), keys are rejected until it
//! does, because a revocation could have been missed (I-110).
//!
//! The last use of a key is noted in memory and stored every [`USED_EVERY`], outside of requests.

pub(crate) mod access;
mod ceiling;
mod claims;
mod endpoints;
mod error;
mod givers;
mod issuer;
mod jwk;
mod jws;
mod keys;
mod links;
pub mod manage;
mod proof;
pub(crate) mod provider;
mod roles;
pub mod session;
pub mod sign_in;
mod table;
mod tokens;

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use arc_swap::ArcSwap;
use chrono::DateTime;
use parking_lot::Mutex;
use sha2::{Digest as _, Sha256};
use tokio::sync::watch;
use toolcrib_config::{BridgeConfig, Config, SourceConfig};
use toolcrib_core::{
    clock::{Clock, ReadStart, Timestamp},
    id::{KeyId, PrincipalId},
    key_set::KeySetSource,
    principal::{AuthMethod, Principal},
    scope::Grant,
    store::{Changes, KeyStore, Storage, StoreError},
};

pub(crate) use self::endpoints::SignInLimits;
pub use self::givers::RoleGivers;
pub use self::keys::{KEY_PREFIX, KeyRequest, NewKey, is_kept_for_tokens, new_key, next_key};
pub use self::{
    error::AuthError,
    roles::{Rights, Roles, rights},
};
use self::{
    issuer::{Issuer, IssuerContext},
    links::SignInLinks,
    table::{KeyEntry, KeyUpdate, Table},
    tokens::{Tokens, Verdict},
};
use crate::{background::Services, freshness::Confirmation};

/// How long the store may leave keys unconfirmed before the server reports that it is unavailable.
/// This is longer than a confirmation is valid, so that probes do not see each short wait.
const MAX_UNREAD: Duration = Duration::from_secs(5);

/// How often the last uses of keys are stored.
pub const USED_EVERY: Duration = Duration::from_secs(60);

/// Identifies callers by their credentials.
#[derive(Clone)]
pub struct Authenticator {
    inner: Arc<Inner>,
}

struct Inner {
    storage: Arc<dyn Storage>,
    keys: Arc<dyn KeyStore>,
    clock: Arc<dyn Clock>,
    policy: ArcSwap<Policy>,
    table: ArcSwap<Table>,
    /// Counts reads of the store, at their start.
    reads: AtomicU64,
    /// Locked while the table is changed or replaced.
    state: Mutex<TableState>,
    /// Whether the store has been read.
    is_read: AtomicBool,
    /// The last time when the store confirmed the table.
    confirmation: Confirmation,
    /// Set before the store is closed; afterwards it is not read.
    stopped: AtomicBool,
    /// Counts changes of keys, roles, issuers and the anonymous caller.
    changes: watch::Sender<u64>,
    issuers: IssuerContext,
    /// Monotonic nanoseconds of the last time uses were stored.
    used_at: AtomicU64,
    /// For sign-ins of all issuers.
    sign_ins: SignInLimits,
    links: SignInLinks,
}

/// The configured roles, issuers and anonymous caller.
struct Policy {
    roles: Roles,
    anonymous: Option<Arc<Principal>>,
    tokens: Tokens,
    /// Whether a source exchanges the tokens of callers.
    exchanges: bool,
    /// The authorization server whose access tokens are accepted.
    bridge: Option<BridgeConfig>,
}

/// The credentials that a mount accepts, in addition to keys and the tokens of issuers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AcceptedCredentials {
    /// Only these.
    Usual,
    /// Tokens signed with a shared secret, if the configuration has one (`[otc.jwt]`).
    Shared,
}

/// The origin of the table.
#[derive(Debug, Clone, Copy, Default)]
struct TableState {
    /// The changes of keys that it contains; `None` before the first read.
    epoch: Option<u64>,
    /// The number of the last read in it.
    read: u64,
    /// Counts the reads of all keys. Changes are only added to the read that they follow.
    whole: u64,
}

// === impl Authenticator ===

impl Authenticator {
    /// Reads the keys, and follows the store as long as the authenticator lives.
    pub(crate) async fn start(
        services: &Services,
        config: &Config,
        key_sets: Option<Arc<dyn KeySetSource>>,
    ) -> Self {
        let clock = Arc::clone(&services.clock);
        let confirmation = Confirmation::new(Arc::clone(&clock));
        let changes = watch::Sender::new(0);
        let issuers = IssuerContext {
            source: key_sets,
            clock: Arc::clone(&clock),
            changes: changes.clone(),
            background: services.background.clone(),
        };
        let tokens = Tokens::new(config, None, &issuers);
        let inner = Inner {
            storage: Arc::clone(&services.storage),
            keys: services.storage.keys(),
            used_at: AtomicU64::new(clock.monotonic_nanos()),
            clock,
            policy: ArcSwap::from_pointee(Policy::new(config, tokens)),
            table: ArcSwap::from_pointee(Table::default()),
            reads: AtomicU64::new(0),
            state: Mutex::default(),
            is_read: AtomicBool::new(false),
            confirmation,
            stopped: AtomicBool::new(false),
            changes,
            issuers,
            sign_ins: SignInLimits::new(),
            links: SignInLinks::default(),
        };
        let authenticator = Self { inner: Arc::new(inner) };
        authenticator.refresh().await;
        let inner = Arc::clone(&authenticator.inner);
        services.follow("keys", move |began, changes| {
            let inner = Arc::clone(&inner);
            async move {
                if !inner.stopped.load(Ordering::Relaxed) {
                    inner.take(began, changes).await;
                    inner.policy.load().tokens.refresh_if_due();
                    inner.write_uses(USED_EVERY).await;
                }
            }
        });
        authenticator
    }

    /// Applies roles, issuers and the anonymous caller of `config`.
    pub(crate) async fn configure(&self, config: &Config) {
        let Inner { policy, issuers, .. } = &*self.inner;
        let before = policy.load();
        let tokens = Tokens::new(config, Some(&before.tokens), issuers);
        tokens.refresh_if_due();
        policy.store(Arc::new(Policy::new(config, tokens)));
        let _state = self.inner.state.lock();
        let table = self.inner.table.load().granting(&self.inner.policy.load().roles);
        self.inner.table.store(Arc::new(table));
        self.inner.changes.send_modify(|count| *count += 1);
    }

    /// Stores the last uses, and stops following the store.
    pub(crate) async fn stop(&self) {
        self.inner.stopped.store(true, Ordering::Relaxed);
        self.inner.write_uses(Duration::ZERO).await;
    }

    /// Reads the keys again now, instead of after an announced change.
    pub async fn refresh(&self) {
        let began = ReadStart::now(&*self.inner.clock);
        self.inner.take(began, self.inner.storage.changes(None).await).await;
    }

    /// Returns the principal of the key or token `text`, without a request to an issuer or a wait for
    /// the store.
    pub fn authenticate(&self, text: &str) -> Result<Arc<Principal>, AuthError> {
        self.inner.judge(text, AcceptedCredentials::Usual, None).map_err(|open| open.problem())
    }

    /// Whether the store has confirmed the keys recently.
    pub fn is_available(&self) -> bool {
        self.inner.confirmation.is_within(MAX_UNREAD)
    }

    /// Returns the principal of the key or token `text`. If the key of a token is unknown, fetches
    /// the keys of its issuer, unless they were fetched moments ago. Waits for the store if it has
    /// not confirmed the keys recently.
    pub async fn identify(
        &self,
        text: &str,
        accepted: AcceptedCredentials,
    ) -> Result<Arc<Principal>, AuthError> {
        self.identify_where(text, accepted, None).await
    }

    /// As [`identify`](Self::identify), for a request to `path`. Also accepts the access tokens of
    /// clients that are for this path.
    pub async fn identify_at(
        &self,
        text: &str,
        accepted: AcceptedCredentials,
        path: &str,
    ) -> Result<Arc<Principal>, AuthError> {
        self.identify_where(text, accepted, Some(path)).await
    }

    async fn identify_where(
        &self,
        text: &str,
        accepted: AcceptedCredentials,
        path: Option<&str>,
    ) -> Result<Arc<Principal>, AuthError> {
        match self.inner.judge(text, accepted, path) {
            Err(CredentialFailure::Open(issuer)) => issuer.settle().await,
            // For keys only: tokens do not depend on the store.
            Err(CredentialFailure::Refused(AuthError::Unavailable)) => {
                self.inner.confirmation.wait().await;
            }
            verdict => return verdict.map_err(|error| error.problem()),
        }
        self.inner.judge(text, accepted, path).map_err(|error| error.problem())
    }

    /// Returns `principal` with its current scopes, for long-lived connections and delayed calls.
    /// Waits for the store if it has not confirmed the keys recently.
    ///
    /// # Errors
    /// Fails if its credentials have become invalid.
    pub async fn renew(&self, principal: &Arc<Principal>) -> Result<Arc<Principal>, AuthError> {
        if let Some(session) = &principal.session {
            self.inner.confirmation.wait().await;
            return self.inner.session_holder(|table| table.by_id(session));
        }
        if principal.auth.client().is_some() {
            self.inner.confirmation.wait().await;
            return self.confirm(principal);
        }
        if let AuthMethod::ApiKey(id) = &principal.auth {
            self.inner.confirmation.wait().await;
            return self.inner.holder(|table| table.by_id(id));
        }
        self.confirm(principal)
    }

    /// As [`renew`](Self::renew) outside of a request: the key is not marked as used, and the store
    /// is not awaited.
    pub(crate) fn confirm(&self, principal: &Arc<Principal>) -> Result<Arc<Principal>, AuthError> {
        match &principal.auth {
            AuthMethod::ApiKey(id) => {
                self.inner.valid(|table| table.by_id(id)).map(|known| Arc::clone(&known.principal))
            }
            AuthMethod::Jwt(token) => {
                if let Some(client) = &token.client {
                    self.inner.valid(|table| table.by_id(&client.key))?;
                }
                let policy = self.inner.policy.load();
                policy.tokens.renew(principal, token, &policy.roles, self.inner.clock.now())
            }
            AuthMethod::Anonymous => self.anonymous().ok_or(AuthError::Missing),
            AuthMethod::Operator => Ok(Arc::clone(principal)),
        }
    }

    /// Counts changes of keys, roles and issuers: after each, the result of [`renew`](Self::renew)
    /// may differ. The expiry of a key or token is not counted.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.inner.changes.subscribe()
    }

    /// Returns the latest expiry of a key that `creator` creates now; `None` for no limit. A key
    /// never outlives the credential that created it, unless the issuer of a token has a
    /// `key_lifetime`.
    ///
    /// # Errors
    /// Fails if the credential is unknown by now.
    pub fn key_limit(&self, creator: &Principal) -> Result<Option<Timestamp>, AuthError> {
        match &creator.auth {
            AuthMethod::ApiKey(id) => {
                let known = self.inner.table.load().by_id(id).ok_or(AuthError::Invalid)?;
                Ok(known.expires_at)
            }
            AuthMethod::Jwt(token) => {
                let now = self.inner.clock.now();
                Ok(Some(self.inner.policy.load().tokens.key_limit(token, now)))
            }
            AuthMethod::Anonymous | AuthMethod::Operator => Ok(None),
        }
    }

    /// Returns the expiry of the credentials of `principal`, if they have one.
    pub fn expiry(&self, principal: &Principal) -> Option<Timestamp> {
        let table = self.inner.table.load();
        let end_of = |id: &KeyId| table.by_id(id).and_then(|known| known.expires_at);
        let credential = match &principal.auth {
            AuthMethod::ApiKey(id) => end_of(id),
            AuthMethod::Jwt(token) => Some(token.expires_at),
            AuthMethod::Anonymous | AuthMethod::Operator => None,
        };
        let session = principal.session.as_ref().and_then(end_of);
        credential.into_iter().chain(session).min()
    }

    /// The caller without credentials, if configured. Only for mounts that admit it.
    pub fn anonymous(&self) -> Option<Arc<Principal>> {
        self.inner.policy.load().anonymous.clone()
    }
}

impl Authenticator {
    pub(crate) fn roles(&self) -> BTreeMap<String, Vec<Grant>> {
        self.inner.policy.load().roles.clone()
    }
}

/// Why credentials have no principal.
enum CredentialFailure {
    Refused(AuthError),
    /// The keys of its issuer were not fetched so far.
    Open(Arc<Issuer>),
}

impl CredentialFailure {
    /// The error for the caller if the issuer is not contacted.
    fn problem(&self) -> AuthError {
        match self {
            Self::Refused(error) => *error,
            Self::Open(issuer) if issuer.keys().is_none() => AuthError::Unavailable,
            Self::Open(_) => AuthError::Invalid,
        }
    }
}

impl Inner {
    fn judge(
        &self,
        text: &str,
        accepted: AcceptedCredentials,
        path: Option<&str>,
    ) -> Result<Arc<Principal>, CredentialFailure> {
        if is_token(text) {
            let policy = self.policy.load();
            let shared = accepted == AcceptedCredentials::Shared;
            return match policy.tokens.judge(text, shared, &policy.roles, self.clock.now()) {
                Verdict::Holder(principal) if policy.exchanges => {
                    Ok(Tokens::presenting(&principal, text))
                }
                Verdict::Holder(principal) => Ok(principal),
                Verdict::Refused => Err(CredentialFailure::Refused(AuthError::Invalid)),
                Verdict::Open(issuer) => Err(CredentialFailure::Open(issuer)),
            };
        }
        // Looking up by digest leaks no timing about the key: the digest cannot be steered. A
        // session alone is not a credential, whatever its text.
        let key =
            |table: &Table| table.by_digest(&digest(text)).filter(|known| !known.is_session());
        let holder = self.holder(key).map_err(CredentialFailure::Refused)?;
        self.with_rights(holder, path).map_err(CredentialFailure::Refused)
    }

    /// The last use of the key by this process.
    fn last_use(&self, id: &KeyId) -> Option<Timestamp> {
        let known = self.table.load().by_id(id)?;
        match known.used.seen.load(Ordering::Relaxed) {
            0 => None,
            seen => DateTime::from_timestamp_millis(seen),
        }
    }

    /// Stores the last uses of keys, unless that was done within `pause`.
    async fn write_uses(&self, pause: Duration) {
        let now = self.clock.monotonic_nanos();
        let since = now.saturating_sub(self.used_at.load(Ordering::Relaxed));
        if u128::from(since) < pause.as_nanos() {
            return;
        }
        self.used_at.store(now, Ordering::Relaxed);
        self.table.load().forget_sessions(self.clock.now());
        let (mut noted, mut uses) = (Vec::new(), Vec::new());
        for known in self.table.load_full().all() {
            let seen = known.used.seen.load(Ordering::Relaxed);
            if seen > known.used.written.load(Ordering::Relaxed)
                && let Some(at) = DateTime::from_timestamp_millis(seen)
            {
                noted.push((known.id.clone(), at));
                uses.push((Arc::clone(&known.used), seen));
            }
        }
        if noted.is_empty() {
            return;
        }
        match self.keys.note_used(noted).await {
            Ok(()) => {
                uses.iter().for_each(|(used, seen)| used.written.store(*seen, Ordering::Relaxed));
            }
            Err(error) => tracing::warn!(%error, "the last use of keys could not be written"),
        }
    }

    /// The principal of the key that `find` selects; marks the key as used.
    fn holder(
        &self,
        find: impl FnOnce(&Table) -> Option<Arc<KeyEntry>>,
    ) -> Result<Arc<Principal>, AuthError> {
        let known = self.valid(find)?;
        known.used.seen.store(self.clock.now().timestamp_millis(), Ordering::Relaxed);
        Ok(Arc::clone(&known.principal))
    }

    /// The key that `find` selects, if it is valid now.
    fn valid(
        &self,
        find: impl FnOnce(&Table) -> Option<Arc<KeyEntry>>,
    ) -> Result<Arc<KeyEntry>, AuthError> {
        if !self.is_read.load(Ordering::Acquire) || !self.confirmation.is_fresh() {
            return Err(AuthError::Unavailable);
        }
        match find(&self.table.load()) {
            Some(known) if known.is_valid(self.clock.now()) => Ok(known),
            Some(_) | None => Err(AuthError::Invalid),
        }
    }

    /// Reads the changed keys. The numbers of changes were read before, at `began`, so that later
    /// changes are seen the next time.
    async fn take(&self, began: ReadStart, changes: Result<Changes, StoreError>) {
        let epoch = changes.map(|changes| changes.keys);
        match self.follow(epoch).await {
            Ok(()) => self.confirmation.confirm(began),
            Err(error) => {
                self.confirmation.fail();
                if !self.stopped.load(Ordering::Relaxed) {
                    tracing::error!(%error, "API keys cannot be read");
                }
            }
        }
    }

    async fn follow(&self, epoch: Result<u64, StoreError>) -> Result<(), StoreError> {
        let epoch = epoch?;
        loop {
            let read = self.reads.fetch_add(1, Ordering::Relaxed) + 1;
            let state = *self.state.lock();
            let news = match state.epoch {
                Some(known) if known == epoch => return Ok(()),
                Some(known) if known < epoch => {
                    KeyUpdate::Changed(self.keys.changed_since(known).await?)
                }
                // The first read, or the store's file was replaced.
                Some(_) | None => KeyUpdate::Whole(self.keys.list().await?),
            };
            if self.put(news, epoch, read, state.whole) {
                return Ok(());
            }
        }
    }

    /// Applies the result of the read number `read`. Returns `false` if it has changes of other
    /// keys than those of the table.
    fn put(&self, news: KeyUpdate, epoch: u64, read: u64, whole: u64) -> bool {
        let mut state = self.state.lock();
        // A slow read must not replace the result of a later one.
        if read <= state.read {
            return true;
        }
        let policy = self.policy.load();
        match news {
            KeyUpdate::Changed(_) if whole != state.whole => return false,
            KeyUpdate::Changed(records) => self.table.load().put(records, &policy.roles),
            KeyUpdate::Whole(records) => {
                let table = self.table.load().replaced(records, &policy.roles);
                self.table.store(Arc::new(table));
                state.whole += 1;
            }
        }
        (state.epoch, state.read) = (Some(epoch), read);
        self.is_read.store(true, Ordering::Release);
        self.changes.send_modify(|count| *count += 1);
        true
    }
}

impl Policy {
    fn new(config: &Config, tokens: Tokens) -> Self {
        let anonymous = config.anonymous.as_ref().and_then(|anonymous| {
            Some(Arc::new(Principal {
                id: PrincipalId::parse("anonymous").ok()?,
                tenant: anonymous.tenant.clone(),
                scopes: anonymous.scopes.clone(),
                roles: Vec::new(),
                makers: Vec::new(),
                session: None,
                auth: AuthMethod::Anonymous,
            }))
        });
        let exchanges = |source: &SourceConfig| {
            source.spec.account.as_ref().is_some_and(|account| account.exchange.is_some())
        };
        let exchanges = config.sources.iter().any(exchanges);
        Self {
            roles: config.roles.clone(),
            anonymous,
            tokens,
            exchanges,
            bridge: config.bridge.clone(),
        }
    }
}

/// Reads `sent` as a token, as header and claims of a token (with a zero between them), and as a
/// key set, and verifies the result.
#[cfg(any(fuzzing, test))]
pub(crate) fn fuzz(sent: &[u8]) {
    use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};

    use toolcrib_config::{ClaimPath, JwtAlgorithm};

    let own = br#"{"keys":[{"kty":"OKP","crv":"Ed25519",
        "x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}]}"#;
    let sets = [own.as_slice(), sent].map(|set| jwk::KeySet::read(set, &JwtAlgorithm::ALL));
    let split = sent.iter().position(|&byte| byte == 0).unwrap_or(sent.len());
    let (header, claims) = sent.split_at(split);
    let encoded = |part: &[u8]| URL_SAFE_NO_PAD.encode(part);
    let made = format!(
        "{}.{}.{}",
        encoded(header),
        encoded(claims.get(1..).unwrap_or_default()),
        encoded(&[7; 64])
    );
    for text in [String::from_utf8_lossy(sent).as_ref(), &made] {
        let Ok(token) = jws::Jws::read(text) else { continue };
        assert!(jws::is_token(text));
        for set in sets.iter().flatten() {
            for algorithm in JwtAlgorithm::ALL {
                set.find(&token, algorithm);
            }
        }
        let now = DateTime::from_timestamp_secs(1_000_000).unwrap_or_default();
        if let Ok(end) = claims::end_of(&token.claims, now, Duration::from_secs(60)) {
            assert!(end > now);
        }
        let paths = ["sub", "a.b", "/aud/0"].iter().filter_map(|path| ClaimPath::parse(path));
        for value in paths.filter_map(|path| claims::at(&token.claims, &path).cloned()) {
            claims::scopes(Some(&value));
            claims::roles(Some(&value));
            if let Some(text) = value.as_str() {
                assert!(
                    claims::principal("id|", text).is_ok() || text.is_empty() || text.len() > 40
                );
            }
        }
    }
}

/// Whether `text` is a token instead of a key.
fn is_token(text: &str) -> bool {
    !text.starts_with(KEY_PREFIX) && jws::is_token(text)
}

fn digest(text: &str) -> [u8; 32] {
    Sha256::digest(text.as_bytes()).into()
}

#[cfg(test)]
mod tests {
    /// Runs the fuzz target on its seeds.
    #[test]
    fn whatever_is_sent_is_read_without_a_panic() {
        for sent in [
            "",
            "..",
            "a.b.c",
            "eyJhbGciOiJFZERTQSJ9.e30.cw",
            "{\"alg\":\"EdDSA\"}\0{\"exp\":1000010,\"sub\":\"a b\",\"aud\":[\"x\"]}",
            "{\"alg\":\"EdDSA\",\"kid\":\"\u{e4}\"}\0{\"exp\":1e308,\"a\":{\"b\":\"\"}}",
            "{\"keys\":[{\"kty\":\"EC\",\"crv\":\"P-256\",\"x\":\"AA\",\"y\":\"AA\"}]}",
        ] {
            super::fuzz(sent.as_bytes());
        }
    }
}
