//! Access tokens: requested when needed and cached until shortly before they expire.
//!
//! Invariants:
//! - each credential has at most one token request in flight, and all its callers wait for that
//!   one;
//! - a token request completes even when its caller is cancelled, so that a refresh token issued by
//!   it is stored;
//! - the output of a token endpoint is never repeated in errors or logs.

mod exchange;

use std::{collections::HashMap, sync::Arc, time::Duration};

use parking_lot::Mutex;
use tokio_util::task::TaskTracker;
use toolcrib_core::{
    clock::Clock,
    credential::{
        CredentialKind, CredentialProblem, CredentialStore, Material, UnsealedCredential,
    },
    egress::EgressTrail,
    id::CredentialId,
};

use self::exchange::{TokenDenial, TokenGrant};
use super::{
    refusal::{Cause, Refusal},
    token::{AccessToken, Slot, State},
};
use crate::egress::{EgressError, Guard, Network};

/// Time limit of one request to a token endpoint.
const TIMEOUT: Duration = Duration::from_secs(20);
/// Largest response body, in bytes.
const MAX_ANSWER: usize = 64 << 10;
/// A token is not sent in this last part of its lifetime, because it could expire in transit.
const SKEW: Duration = Duration::from_secs(60);
/// Lifetime of a token when the response states no lifetime.
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

    /// Waits until no token request is in flight; each takes at most a few [`TIMEOUT`]s.
    pub(super) async fn wait_for_requests(&self) {
        self.running.wait().await;
    }

    /// Gets the access token of an OAuth credential, from the cache if possible.
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
        let mut granted = self.exchange().await;
        if matches!(granted, Err(TokenDenial::Permanent(_))) && self.was_rotated().await? {
            granted = self.exchange().await;
        }
        match granted {
            Ok(granted) => Ok(self.keep(granted).await),
            Err(denied) => Err(self.failed(&denied)),
        }
    }

    /// Whether the rejected values have been replaced in the store. Another process may have
    /// exchanged the refresh token and be about to store its successor.
    async fn was_rotated(&mut self) -> Result<bool, Cause> {
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

    async fn exchange(&self) -> Result<TokenGrant, TokenDenial> {
        let request = exchange::request(&self.opened.credential.kind, &self.material())?;
        let guard = Guard::new(Default::default(), Some(&request.url));
        let egress = self.network.egress(guard).map_err(TokenDenial::Temporary)?;
        let answered = async {
            // Belongs to no single call: the endpoint is the operator's, and the token serves all
            // callers.
            let answer = egress.send(request, &EgressTrail::default()).await?;
            let status = answer.status();
            Ok::<_, EgressError>((status, answer.collect(MAX_ANSWER).await?))
        };
        match tokio::time::timeout(TIMEOUT, answered).await {
            Ok(Ok((status, body))) => exchange::read(status, &body),
            // The cause of a failed connection contains addresses but no data of the request.
            Ok(Err(error)) => Err(TokenDenial::Temporary(format!("the token endpoint: {error}"))),
            Err(_) => {
                Err(TokenDenial::Temporary("the token endpoint did not answer in time".to_owned()))
            }
        }
    }

    /// Stores a new refresh token, and caches the access token.
    async fn keep(&self, granted: TokenGrant) -> Arc<AccessToken> {
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
                    tracing::error!(credential = %credential.id, %error, "a refresh token could not be stored; it is lost when this process exits");
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

    fn failed(&self, denied: &TokenDenial) -> Cause {
        let id = &self.opened.credential.id;
        tracing::warn!(credential = %id, %denied, "no access token was issued");
        let (cause, pause) = match denied {
            TokenDenial::Permanent(_) => {
                (Cause::Credential(CredentialProblem::AuthExpired), PAUSE_DENIED)
            }
            TokenDenial::Temporary(why) => (Cause::Unavailable(why.clone()), PAUSE_SILENT),
        };
        let mut state = self.slot.state.lock();
        state.revision = self.opened.credential.revision;
        state.token = None;
        state.failed = Some(cause.clone());
        state.until = self.clock.monotonic_nanos().saturating_add(nanos(pause));
        cause
    }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
