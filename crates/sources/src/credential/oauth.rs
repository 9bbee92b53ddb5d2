//! Access tokens: requested when needed and cached until shortly before they expire.
//!
//! Invariants:
//! - each credential has at most one token request in flight, and all its callers wait for that
//!   one;
//! - a token request completes even when its caller is cancelled, so that a refresh token issued by
//!   it is stored;
//! - the output of a token endpoint is never repeated in errors or logs.

use std::{collections::HashMap, sync::Arc, time::Duration};

use parking_lot::Mutex;
use tokio_util::task::TaskTracker;
use toolcrib_core::{
    clock::Clock,
    credential::{
        AccessToken, Credential, CredentialKind, CredentialProblem, CredentialStore, Material,
        RefusalCause, UnsealedCredential,
    },
    egress::{AllowList, is_loopback},
    id::CredentialId,
    key_set::DocumentRequest,
};
use toolcrib_oauth::token::{self, Client, Grant, TokenAnswer, TokenError};
use url::Url;

use super::{
    refusal::Refusal,
    token::{PAUSE_DENIED, PAUSE_SILENT, Slot, State, nanos, usable},
};
use crate::{egress::Network, key_set::send_form};

/// Time limit of one request to a token endpoint.
const TIMEOUT: Duration = Duration::from_secs(20);
/// How often, and at which interval, the store is read for a token that another process may have
/// obtained.
const LOOKS: usize = 5;
const BETWEEN_LOOKS: Duration = Duration::from_millis(200);
/// Largest number of credentials whose tokens are cached.
const MAX_SLOTS: usize = 4_096;

/// The access tokens of all credentials.
pub(super) struct Tokens {
    clock: Arc<dyn Clock>,
    network: Arc<Network>,
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
    pub(super) fn new(clock: Arc<dyn Clock>, network: Arc<Network>) -> Self {
        let running = TaskTracker::new();
        running.close();
        Self { clock, network, slots: Mutex::default(), running }
    }

    /// Waits until no token request is in flight; each takes at most a few [`TIMEOUT`]s.
    pub(super) async fn wait_for_requests(&self) {
        self.running.wait().await;
    }

    /// The access token of an OAuth credential, or its refusal, if neither needs a request now.
    pub(super) fn known(
        &self,
        credential: &Credential,
    ) -> Option<Result<Arc<AccessToken>, Refusal>> {
        let slot = self.slots.lock().get(&credential.id).cloned()?;
        let now = self.clock.monotonic_nanos();
        let known = slot.state.lock().known(credential.revision, now)?;
        Some(known.map_err(|cause| Refusal(cause, Some(credential.id.clone()))))
    }

    /// Requests the access token of an OAuth credential that is not [`known`](Self::known).
    pub(super) async fn request(
        &self,
        opened: UnsealedCredential,
        store: &Arc<dyn CredentialStore>,
    ) -> Result<Arc<AccessToken>, Refusal> {
        let id = opened.credential.id.clone();
        let request = TokenRequest {
            clock: Arc::clone(&self.clock),
            store: Arc::clone(store),
            network: Arc::clone(&self.network),
            slot: self.slot(&id),
            opened,
        };
        let ended = self.running.spawn(request.run()).await.unwrap_or_else(|_| {
            Err(RefusalCause::Unavailable("the token request was interrupted".to_owned()))
        });
        ended.map_err(|cause| Refusal(cause, Some(id)))
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
    async fn run(mut self) -> Result<Arc<AccessToken>, RefusalCause> {
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
        if granted.as_ref().is_err_and(TokenError::is_permanent) && self.was_rotated().await? {
            granted = self.exchange().await;
        }
        let kept = match granted {
            Ok(granted) => self.keep(granted).await,
            Err(denied) => Err(denied),
        };
        kept.map_err(|denied| self.failed(&denied))
    }

    /// Whether the rejected values have been replaced in the store. Another process may have
    /// exchanged the refresh token and be about to store its successor.
    async fn was_rotated(&mut self) -> Result<bool, RefusalCause> {
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

    async fn read_again(&mut self) -> Result<(), RefusalCause> {
        let credential = &self.opened.credential;
        match self.store.get(&credential.owner, &credential.name).await {
            Ok(Some(opened)) if opened.credential.id == credential.id => {
                self.opened = opened;
                Ok(())
            }
            Ok(_) => Err(RefusalCause::Credential(CredentialProblem::NotFound)),
            Err(error) => Err(Refusal::from(error).0),
        }
    }

    /// Returns the values to send: the stored ones, or their successors that could not be stored.
    fn material(&self) -> Material {
        let state = self.slot.state.lock();
        let unstored = state.unstored.as_ref();
        let current = unstored.filter(|_| state.revision == self.opened.credential.revision);
        current.unwrap_or(&self.opened.material).clone()
    }

    async fn exchange(&self) -> Result<TokenAnswer, TokenError> {
        let (kind, material) = (&self.opened.credential.kind, self.material());
        let oauth2 = kind.oauth2().ok_or(TokenError::Unusable("it is not an OAuth credential"))?;
        let (grant, secret) = match kind {
            CredentialKind::RefreshToken(_) => {
                (Grant::Refresh(&material.value), material.client_secret.as_ref())
            }
            _ => (Grant::Client, Some(&material.value)),
        };
        let secret = secret.map(|secret| (secret, oauth2.client_auth));
        let client = Client { id: &oauth2.client_id, secret };
        let request = token::TokenRequest {
            client,
            grant,
            scopes: &oauth2.scopes,
            resource: oauth2.resource.as_deref(),
        };
        let url = endpoint(&oauth2.token_url)?;
        let allow = AllowList::default();
        let to = DocumentRequest { url, named: url, allow: &allow };
        let answer = send_form(&self.network, &to, &request.form(), TIMEOUT).await;
        TokenAnswer::read(&answer.map_err(TokenError::Unreachable)?)
    }

    /// Stores a new refresh token, and caches the access token.
    async fn keep(&self, granted: TokenAnswer) -> Result<Arc<AccessToken>, TokenError> {
        let value = granted.bearer()?.clone();
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
        let lasts = nanos(usable(granted.lifetime));
        let until = self.clock.monotonic_nanos().saturating_add(lasts);
        let token = Arc::new(AccessToken::new(value));
        let kept = Some(Arc::clone(&token));
        *self.slot.state.lock() = State { revision, token: kept, until, failed: None, unstored };
        tracing::debug!(credential = %credential.id, "an access token was issued");
        Ok(token)
    }

    fn failed(&self, denied: &TokenError) -> RefusalCause {
        let id = &self.opened.credential.id;
        tracing::warn!(credential = %id, %denied, "no access token was issued");
        let (cause, pause) = match denied.is_permanent() {
            true => (RefusalCause::Credential(CredentialProblem::AuthExpired), PAUSE_DENIED),
            false => (RefusalCause::Unavailable(denied.to_string()), PAUSE_SILENT),
        };
        let mut state = self.slot.state.lock();
        state.revision = self.opened.credential.revision;
        state.token = None;
        state.failed = Some(cause.clone());
        state.until = self.clock.monotonic_nanos().saturating_add(nanos(pause));
        cause
    }
}

/// Checks the address of a token endpoint. It receives secrets, so it requires TLS or a loopback
/// address.
fn endpoint(text: &str) -> Result<&str, TokenError> {
    match Url::parse(text) {
        Ok(url) if url.scheme() == "https" => Ok(text),
        Ok(url) if url.scheme() == "http" && is_loopback(&url) => Ok(text),
        Ok(_) | Err(_) => Err(TokenError::Unusable("its token endpoint is not an https URL")),
    }
}
