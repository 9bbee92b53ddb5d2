//! Access tokens: requested when needed and cached until shortly before they expire.
//!
//! Invariants:
//! - each credential has at most one token request in flight, and all its callers wait for that
//!   one;
//! - a token request runs to its end even when its caller is cancelled, so that a refresh token
//!   issued by it is stored;
//! - the output of a token endpoint is never repeated in errors or logs.

mod exchange;

use std::{
    collections::HashMap,
    sync::{Arc, Weak},
    time::Duration,
};

use http::Method;
use parking_lot::Mutex;
use tokio_util::task::TaskTracker;
use toolcrib_core::{
    clock::Clock,
    credential::{
        CredentialKind, CredentialProblem, CredentialStore, Material, OAuth2, Secret,
        UnsealedCredential,
    },
    egress::EgressTrail,
    id::CredentialId,
};
use url::Url;

use self::exchange::{Denied, Granted};
use super::{Cause, Refusal, held::is_loopback};
use crate::egress::{Egress, Guard, Network, Outgoing};

/// Time limit of one request to a token endpoint.
const TIMEOUT: Duration = Duration::from_secs(20);
/// Largest response body, in bytes.
const MAX_ANSWER: usize = 64 << 10;
/// A token is not sent in this last part of its lifetime, because it could expire in transit.
const SKEW: Duration = Duration::from_secs(60);
/// Lifetime of a token when the response names none.
const UNSAID: Duration = Duration::from_secs(300);
/// Pause before the token endpoint is called again after a rejection, and after no response.
const PAUSE_DENIED: Duration = Duration::from_secs(5);
const PAUSE_SILENT: Duration = Duration::from_secs(1);
/// How often, and at which interval, the store is read for a token that another process may have
/// obtained.
const LOOKS: usize = 5;
const BETWEEN_LOOKS: Duration = Duration::from_millis(200);
/// Largest number of credentials whose tokens are cached.
const MAX_SLOTS: usize = 4_096;

/// The access tokens of all credentials.
pub(super) struct Tokens {
    clock: Arc<dyn Clock>,
    slots: Mutex<HashMap<CredentialId, Arc<Slot>>>,
    /// Token requests in flight. The tracker is closed from the start, which only makes `wait`
    /// possible.
    running: TaskTracker,
}

/// A token that can be sent now.
pub(super) struct AccessToken {
    pub(super) value: Secret,
    slot: Weak<Slot>,
}

/// The token of one credential.
#[derive(Default)]
struct Slot {
    state: Mutex<State>,
    turn: tokio::sync::Mutex<()>,
}

#[derive(Default)]
struct State {
    /// Revision of the credential that the other fields belong to.
    revision: u64,
    token: Option<Arc<AccessToken>>,
    /// In nanoseconds of the clock: when the token, or the cached failure, expires.
    until: u64,
    failed: Option<Cause>,
    /// The successor of the stored refresh token, when it could not be stored.
    unstored: Option<Material>,
}

/// The data a task needs to get a token after its caller has gone.
struct TokenRequest {
    clock: Arc<dyn Clock>,
    store: Arc<dyn CredentialStore>,
    network: Arc<Network>,
    slot: Arc<Slot>,
    opened: UnsealedCredential,
}

// === impl Tokens ===

impl Tokens {
    pub(super) fn new(clock: Arc<dyn Clock>) -> Self {
        let running = TaskTracker::new();
        running.close();
        Self { clock, slots: Mutex::default(), running }
    }

    /// Waits until no token request is in flight; none takes longer than a few [`TIMEOUT`]s.
    pub(super) async fn settled(&self) {
        self.running.wait().await;
    }

    /// Returns the access token of an OAuth credential, from the cache if possible.
    pub(super) async fn token(
        &self,
        opened: UnsealedCredential,
        store: &Arc<dyn CredentialStore>,
        network: &Arc<Network>,
    ) -> Result<Arc<AccessToken>, Refusal> {
        let id = opened.credential.id.clone();
        let slot = self.slot(&id);
        let now = self.clock.monotonic_nanos();
        let known = slot.state.lock().known(opened.credential.revision, now);
        let result = match known {
            Some(known) => known,
            None => {
                let request = TokenRequest {
                    clock: Arc::clone(&self.clock),
                    store: Arc::clone(store),
                    network: Arc::clone(network),
                    slot,
                    opened,
                };
                let ended = self.running.spawn(request.run()).await;
                ended.unwrap_or_else(|_| {
                    Err(Cause::Unavailable("the token request was interrupted".to_owned()))
                })
            }
        };
        result.map_err(|cause| Refusal { cause, id: Some(id) })
    }

    fn slot(&self, id: &CredentialId) -> Arc<Slot> {
        let mut slots = self.slots.lock();
        if slots.len() >= MAX_SLOTS && !slots.contains_key(id) {
            // Dropped tokens can be requested again; slots that a caller is waiting for stay.
            slots.retain(|_, slot| Arc::strong_count(slot) > 1);
        }
        Arc::clone(slots.entry(id.clone()).or_default())
    }
}

// === impl AccessToken ===

impl AccessToken {
    /// Discards this token if it is the cached one, so that the next call requests a new one.
    pub(super) fn forget(&self) {
        let Some(slot) = self.slot.upgrade() else { return };
        let mut state = slot.state.lock();
        if state.token.as_ref().is_some_and(|token| token.value.expose() == self.value.expose()) {
            state.token = None;
        }
    }
}

// === impl State ===

impl State {
    /// Returns the cached token or failure for a credential of this revision, if it is still valid
    /// at `now`.
    fn known(&self, revision: u64, now: u64) -> Option<Result<Arc<AccessToken>, Cause>> {
        // A credential that the operator rotated needs a new token. A lower revision was read
        // before this process rotated the credential, so the cached state is newer.
        if revision > self.revision || now >= self.until {
            return None;
        }
        match (&self.token, &self.failed) {
            (Some(token), _) => Some(Ok(Arc::clone(token))),
            (None, Some(cause)) => Some(Err(cause.clone())),
            (None, None) => None,
        }
    }
}

// === impl TokenRequest ===

impl TokenRequest {
    async fn run(mut self) -> Result<Arc<AccessToken>, Cause> {
        let slot = Arc::clone(&self.slot);
        let _turn = slot.turn.lock().await;
        let now = self.clock.monotonic_nanos();
        if let Some(known) = slot.state.lock().known(self.opened.credential.revision, now) {
            return known;
        }
        // Another process, or the previous holder of the lock, may have exchanged the refresh
        // token.
        self.read_again().await?;
        let mut granted = self.ask().await;
        if matches!(granted, Err(Denied::Final(_))) && self.was_followed().await? {
            granted = self.ask().await;
        }
        match granted {
            Ok(granted) => Ok(self.keep(granted).await),
            Err(denied) => Err(self.failed(&denied)),
        }
    }

    /// Returns whether the rejected values have been replaced in the store. Another process may
    /// have exchanged the refresh token and be about to store its successor.
    async fn was_followed(&mut self) -> Result<bool, Cause> {
        let before = self.opened.credential.revision;
        let refreshes = matches!(self.opened.credential.kind, CredentialKind::RefreshToken(_));
        for _ in 0..if refreshes { LOOKS } else { 1 } {
            self.read_again().await?;
            if self.opened.credential.revision != before {
                return Ok(true);
            }
            tokio::time::sleep(BETWEEN_LOOKS).await;
        }
        Ok(false)
    }

    async fn read_again(&mut self) -> Result<(), Cause> {
        let credential = &self.opened.credential;
        match self.store.get(&credential.owner, &credential.name).await {
            Ok(Some(opened)) if opened.credential.id == credential.id => {
                self.opened = opened;
                Ok(())
            }
            Ok(_) => Err(Cause::Credential(CredentialProblem::NotFound)),
            Err(error) => Err(Refusal::from(error).cause),
        }
    }

    /// Returns the values to send: the stored ones, or their successors that could not be stored.
    fn material(&self) -> Material {
        let state = self.slot.state.lock();
        let unstored = state.unstored.as_ref();
        let current = unstored.filter(|_| state.revision == self.opened.credential.revision);
        current.unwrap_or(&self.opened.material).clone()
    }

    async fn ask(&self) -> Result<Granted, Denied> {
        let kind = &self.opened.credential.kind;
        let Some(oauth2) = kind.oauth2() else {
            return Err(Denied::Final("it is not an OAuth credential"));
        };
        let url = endpoint(oauth2)?;
        let request = exchange::request(kind, oauth2, &self.material())?;
        let mut outgoing = Outgoing::new(Method::POST, url);
        outgoing.headers = request.headers;
        outgoing.body = Some(request.body.into());
        let egress = self.egress(&outgoing.url).map_err(Denied::Silent)?;
        let answered = async {
            // Belongs to no single call: the endpoint is the operator's, and the token serves all
            // callers.
            let answer = egress.send(outgoing, &EgressTrail::default()).await?;
            let status = answer.status();
            Ok::<_, crate::egress::EgressError>((status, answer.collect(MAX_ANSWER).await?))
        };
        match tokio::time::timeout(TIMEOUT, answered).await {
            Ok(Ok((status, body))) => exchange::read(status, &body),
            // The cause of a failed connection contains addresses and nothing that was sent.
            Ok(Err(error)) => Err(Denied::Silent(format!("the token endpoint: {error}"))),
            Err(_) => Err(Denied::Silent("the token endpoint did not answer in time".to_owned())),
        }
    }

    fn egress(&self, url: &Url) -> Result<Egress, String> {
        self.network.egress(Guard::new(Default::default(), Some(url)))
    }

    /// Stores a new refresh token, and caches the access token.
    async fn keep(&self, granted: Granted) -> Arc<AccessToken> {
        let credential = &self.opened.credential;
        let mut revision = credential.revision;
        let mut unstored = None;
        let refreshes = matches!(credential.kind, CredentialKind::RefreshToken(_));
        let sent = self.material();
        let next = granted.refresh_token.filter(|_| refreshes);
        let next = next.unwrap_or_else(|| sent.value.clone());
        if refreshes && next.expose() != self.opened.material.value.expose() {
            let material = Material { value: next, client_secret: sent.client_secret };
            let (expires, at) = (credential.expires_at, self.clock.now());
            let stored = self.store.rotate(&credential.id, revision, material.clone(), expires, at);
            match stored.await {
                Ok(true) => revision += 1,
                Ok(false) => {
                    tracing::warn!(credential = %credential.id, "a refresh token was not stored: the credential was changed meanwhile");
                }
                Err(error) => {
                    tracing::error!(credential = %credential.id, %error, "a refresh token could not be stored; it is lost when this process ends");
                    unstored = Some(material);
                }
            }
        }
        let lifetime = granted.lifetime.unwrap_or(UNSAID);
        let usable = lifetime.saturating_sub(SKEW.min(lifetime / 10));
        let until = self.clock.monotonic_nanos().saturating_add(nanos(usable));
        let token =
            Arc::new(AccessToken { value: granted.access_token, slot: Arc::downgrade(&self.slot) });
        let kept = Some(Arc::clone(&token));
        *self.slot.state.lock() = State { revision, token: kept, until, failed: None, unstored };
        tracing::debug!(credential = %credential.id, "an access token was issued");
        token
    }

    fn failed(&self, denied: &Denied) -> Cause {
        let id = &self.opened.credential.id;
        tracing::warn!(credential = %id, %denied, "no access token was issued");
        let (cause, pause) = match denied {
            Denied::Final(_) => (Cause::Credential(CredentialProblem::AuthExpired), PAUSE_DENIED),
            Denied::Silent(why) => (Cause::Unavailable(why.clone()), PAUSE_SILENT),
        };
        let mut state = self.slot.state.lock();
        state.revision = self.opened.credential.revision;
        state.token = None;
        state.failed = Some(cause.clone());
        state.until = self.clock.monotonic_nanos().saturating_add(nanos(pause));
        cause
    }
}

/// Returns the token endpoint. It receives secrets, so it requires TLS or a loopback address.
fn endpoint(oauth2: &OAuth2) -> Result<Url, Denied> {
    let unusable = Denied::Final("its token endpoint is not an https URL");
    let Ok(url) = Url::parse(&oauth2.token_url) else { return Err(unusable) };
    match url.scheme() {
        "https" => Ok(url),
        "http" if is_loopback(&url) => Ok(url),
        _ => Err(unusable),
    }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
