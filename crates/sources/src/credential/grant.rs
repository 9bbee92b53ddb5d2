//! The access tokens of connected accounts.
//!
//! The access token of a grant is stored with it, so that all processes send the same one. It is
//! renewed when it ends or is rejected, by the one process that has the lease of the grant.
//!
//! Invariants:
//! - a grant is used for its own place only, and its token sent to its audiences only;
//! - a refresh token is sent once, unless no answer came, and its successor is stored before the
//!   access token that came with it is used;
//! - a renewal completes even when its caller is cancelled.

use std::{collections::HashMap, sync::Arc, time::Duration};

use parking_lot::Mutex;
use tokio::time::Instant;
use tokio_util::task::TaskTracker;
use toolcrib_core::{
    clock::{ReadStart, Timestamp},
    credential::{
        AccessToken, AccountGrant, AccountSpec, Credential, CredentialKind, CredentialProblem,
        CredentialStoreError, GrantPlace, GrantSecrets, GrantState, GrantStore, Material,
        RefusalCause, ResolvedCredential, Secret,
    },
    id::{CredentialId, CredentialName, PrincipalId},
};
use toolcrib_oauth::{
    scopes,
    token::{Client, Grant, TokenAnswer, TokenError, TokenRequest},
};
use url::Url;

use super::{refusal::Refusal, sendable};
use crate::account::{Hub, revoke, token_end};

/// A token is not sent in this last part of its lifetime, because it could expire in transit.
const SKEW: Duration = Duration::from_secs(60);
/// How long a process may renew a grant alone. A request to the token endpoint takes at most a
/// sixth of it.
const LEASE: Duration = Duration::from_secs(60);
/// How long a call waits for a renewal by another process.
const WAIT: Duration = Duration::from_secs(20);
const BETWEEN_LOOKS: Duration = Duration::from_millis(100);
/// The pause after a renewal without an answer.
const PAUSE: Duration = Duration::from_secs(2);
/// A token that is rejected so soon after its renewal cannot be helped by another one.
const AT_ONCE: Duration = Duration::from_secs(60);
/// How often a change of a grant is tried against other changes.
const ATTEMPTS: usize = 5;
/// Largest number of grants whose rejected tokens are remembered.
const MAX_SLOTS: usize = 16_384;

/// The grants of a store, and their access tokens.
pub(super) struct Grants {
    hub: Arc<Hub>,
    /// The name of this process in leases.
    holder: String,
    slots: Mutex<HashMap<CredentialId, Arc<Slot>>>,
    /// Renewals in flight. The tracker is closed from the start, which only makes `wait` possible.
    running: TaskTracker,
}

/// The account that a request needs.
#[derive(Clone)]
pub(super) struct AccountQuery {
    pub(super) place: GrantPlace,
    pub(super) account: Arc<AccountSpec>,
    /// The address that the request goes to.
    pub(super) url: Url,
    /// The creators of the key of a call; `None` if it is for no call.
    pub(super) makers: Option<Vec<PrincipalId>>,
}

/// What this process knows about the token of one grant.
#[derive(Default)]
struct Slot {
    state: Mutex<State>,
    /// Held during a renewal.
    turn: tokio::sync::Mutex<()>,
}

#[derive(Default)]
struct State {
    /// The revision of the grant that the token belongs to.
    revision: u64,
    token: Option<Arc<AccessToken>>,
    /// When a rejected token was last replaced.
    replaced_at: Option<Instant>,
    /// Why the last renewal failed, and when the next one is permitted.
    failed: Option<(String, Instant)>,
    /// Renewed values that could not be stored.
    unstored: Option<(AccountGrant, GrantSecrets)>,
}

/// A grant with a token that can be sent.
struct Ready {
    grant: Arc<(AccountGrant, GrantSecrets)>,
    token: Arc<AccessToken>,
}

/// What follows for a call whose service wants further scopes.
pub(super) enum Lacking {
    /// A consent to them is the next step.
    Consent,
    /// A consent did not give these.
    Withheld(Vec<String>),
    /// A consent would not give more: the grant has them already, or the operator does not permit
    /// them. The answer of the service is final.
    Nothing,
}

/// What a task needs to renew a grant after its caller has gone.
struct Renewal {
    hub: Arc<Hub>,
    store: Arc<dyn GrantStore>,
    holder: String,
    slot: Arc<Slot>,
    query: AccountQuery,
    id: CredentialId,
}

fn refused(problem: CredentialProblem, id: &CredentialId) -> Refusal {
    Refusal::of(problem, Some(id.clone()))
}

fn not_connected() -> Refusal {
    Refusal::of(CredentialProblem::NotConnected, None)
}

fn unavailable(problem: impl Into<String>, id: &CredentialId) -> Refusal {
    Refusal(RefusalCause::Unavailable(problem.into()), Some(id.clone()))
}

/// Whether the stored access token is too old to be sent at `now`.
fn has_ended(grant: &AccountGrant, now: Timestamp) -> bool {
    grant.terms.token_expires_at.is_some_and(|end| {
        let lifetime = (end - grant.changed_at).to_std().unwrap_or_default();
        let skew = SKEW.min(lifetime / 10);
        (end - now).to_std().unwrap_or_default() <= skew
    })
}

/// The grant in the form of a credential.
fn resolved(ready: &Ready) -> Result<ResolvedCredential, Refusal> {
    let Ready { grant, token } = ready;
    let (grant, secrets) = &**grant;
    let name = CredentialName::parse(grant.place.source.as_str());
    let name = name.or_else(|_| CredentialName::parse("account"));
    let name = name.map_err(|_| refused(CredentialProblem::Unreadable, &grant.id))?;
    let value = secrets.refresh_token.as_ref().unwrap_or_else(|| token.value()).clone();
    let credential = Credential {
        id: grant.id.clone(),
        name,
        owner: grant.place.owner.clone(),
        kind: CredentialKind::RefreshToken(grant.terms.oauth2.clone()),
        audiences: grant.terms.audiences.clone(),
        created_at: grant.created_at,
        rotated_at: grant.changed_at,
        expires_at: grant.expires_at,
        revision: grant.revision,
    };
    let material = Material { value, client_secret: secrets.client_secret.clone() };
    Ok(ResolvedCredential { credential, material, token: Some(Arc::clone(token)) })
}

// === impl AccountQuery ===

impl AccountQuery {
    /// Whether the call may use the grant, and its token be sent to the address.
    fn admit(&self, grant: &AccountGrant) -> Result<(), Refusal> {
        let problem = if self.makers.as_ref().is_some_and(|makers| !grant.is_for(makers)) {
            CredentialProblem::OtherMakers
        } else if grant.terms.state == GrantState::NeedsConsent {
            CredentialProblem::NeedsConsent
        } else if !sendable::may_reach(&grant.terms.audiences, &self.url) {
            CredentialProblem::OutOfAudience
        } else {
            return Ok(());
        };
        Err(refused(problem, &grant.id))
    }
}

// === impl Grants ===

impl Grants {
    pub(super) fn new(hub: Arc<Hub>) -> Self {
        let running = TaskTracker::new();
        running.close();
        let holder = getrandom::u64().unwrap_or_else(|_| std::process::id().into());
        let holder = format!("{holder:016x}-{:x}", std::process::id());
        Self { hub, holder, slots: Mutex::default(), running }
    }

    fn store(&self) -> Result<&Arc<dyn GrantStore>, Refusal> {
        self.hub.store.as_ref().ok_or_else(not_connected)
    }

    pub(super) async fn wait_for_renewals(&self) {
        self.running.wait().await;
    }

    /// The grant of exactly this place, if its token may be sent to the address.
    pub(super) async fn load(
        &self,
        query: &AccountQuery,
    ) -> Result<(AccountGrant, GrantSecrets), Refusal> {
        let found = self.store()?.get(&query.place, self.hub.clock.now()).await?;
        let (grant, secrets) = found.ok_or_else(not_connected)?;
        query.admit(&grant)?;
        Ok((grant, secrets))
    }

    /// As [`load`](Self::load), without a request to the store for each call.
    async fn recent(
        &self,
        query: &AccountQuery,
    ) -> Result<Arc<(AccountGrant, GrantSecrets)>, Refusal> {
        let found = self.store()?.recent(&query.place, ReadStart::now(&*self.hub.clock)).await?;
        let found = found.ok_or_else(not_connected)?;
        query.admit(&found.0)?;
        Ok(found)
    }

    /// Checks that the grant `id` is still that of its place, and in use.
    pub(super) async fn check(
        &self,
        place: &GrantPlace,
        id: &CredentialId,
    ) -> Result<(), CredentialProblem> {
        let store = self.hub.store.as_ref().ok_or(CredentialProblem::NotConnected)?;
        // An account that cannot be read may have been removed.
        let found = store.recent(place, ReadStart::now(&*self.hub.clock)).await;
        let found = found.ok().flatten().ok_or(CredentialProblem::NotConnected)?;
        match found.0.terms.state {
            _ if found.0.id != *id => Err(CredentialProblem::Replaced),
            GrantState::Active => Ok(()),
            GrantState::NeedsConsent => Err(CredentialProblem::NeedsConsent),
        }
    }

    /// Checks that [`prepare`](Self::prepare) would find a grant, without a request.
    pub(super) async fn find(&self, query: &AccountQuery) -> Result<CredentialId, Refusal> {
        let found = self.recent(query).await?;
        let (grant, secrets) = &*found;
        let is_over = secrets.refresh_token.is_none()
            && (secrets.access_token.is_none() || has_ended(grant, self.hub.clock.now()));
        match is_over {
            true => Err(refused(CredentialProblem::NeedsConsent, &grant.id)),
            false => Ok(grant.id.clone()),
        }
    }

    /// The grant with an access token, which is renewed if it has ended or was rejected.
    pub(super) async fn prepare(
        &self,
        query: &AccountQuery,
    ) -> Result<ResolvedCredential, Refusal> {
        let grant = self.recent(query).await?;
        let id = grant.0.id.clone();
        let slot = self.slot(&id);
        if let Some(token) = slot.known(&grant, self.hub.clock.now()) {
            return resolved(&Ready { grant, token });
        }
        let renewal = Renewal {
            hub: Arc::clone(&self.hub),
            store: Arc::clone(self.store()?),
            holder: self.holder.clone(),
            slot,
            query: query.clone(),
            id: id.clone(),
        };
        let ended = self.running.spawn(renewal.run()).await;
        let ready =
            ended.unwrap_or_else(|_| Err(unavailable("the renewal was interrupted", &id)))?;
        // The account may have been disconnected meanwhile.
        match self.load(query).await? {
            (grant, _) if grant.id == id => resolved(&ready),
            _ => Err(not_connected()),
        }
    }

    /// Notes that a call needs these scopes; the next consent requests them then. The grant
    /// stays in use for all other calls.
    pub(super) async fn needs_scopes(
        &self,
        query: &AccountQuery,
        id: &CredentialId,
        asked: &[String],
    ) -> Result<Lacking, Refusal> {
        let store = self.store()?;
        for _ in 0..ATTEMPTS {
            let (mut grant, secrets) = self.load(query).await?;
            if grant.id != *id {
                return Ok(Lacking::Nothing);
            }
            let terms = &mut grant.terms;
            let granted = &terms.oauth2.scopes;
            let permitted = scopes::union(&[], asked, &query.account.scopes);
            let lacking: Vec<_> =
                permitted.into_iter().filter(|scope| !granted.contains(scope)).collect();
            let is_withheld = |scope: &&String| terms.withheld_scopes.contains(scope);
            let withheld: Vec<_> = lacking.iter().filter(is_withheld).cloned().collect();
            if !withheld.is_empty() {
                return Ok(Lacking::Withheld(withheld));
            }
            // The next request has at most as many scopes as a list can have.
            let noted = scopes::union(granted, &terms.missing_scopes, &[]);
            let next = scopes::union(&noted, &lacking, &[]);
            if lacking.is_empty() || !lacking.iter().all(|scope| next.contains(scope)) {
                return Ok(Lacking::Nothing);
            }
            if next == noted {
                return Ok(Lacking::Consent);
            }
            let missing = next.into_iter().filter(|scope| !granted.contains(scope)).collect();
            terms.missing_scopes = missing;
            if store.change(grant, secrets).await? {
                return Ok(Lacking::Consent);
            }
        }
        Ok(Lacking::Nothing)
    }

    fn slot(&self, id: &CredentialId) -> Arc<Slot> {
        let mut slots = self.slots.lock();
        if slots.len() >= MAX_SLOTS && !slots.contains_key(id) {
            // Slots that a call uses stay, and those with values that are nowhere else.
            slots.retain(|_, slot| {
                Arc::strong_count(slot) > 1 || slot.state.lock().unstored.is_some()
            });
        }
        Arc::clone(slots.entry(id.clone()).or_default())
    }
}

// === impl Slot ===

impl Slot {
    /// The stored access token, unless it has ended or was rejected.
    fn known(
        &self,
        (grant, secrets): &(AccountGrant, GrantSecrets),
        now: Timestamp,
    ) -> Option<Arc<AccessToken>> {
        let mut state = self.state.lock();
        if state.token.is_none() || grant.revision > state.revision {
            let same = state.token.as_ref().map(|token| token.value().expose())
                == secrets.access_token.as_ref().map(Secret::expose);
            if !same {
                let token = secrets.access_token.clone();
                state.token = token.map(|token| Arc::new(AccessToken::new(token)));
            }
            state.revision = grant.revision;
        }
        if has_ended(grant, now) {
            return None;
        }
        state.token.clone().filter(|token| !token.is_rejected())
    }

    fn is_rejected(&self) -> bool {
        self.state.lock().token.as_ref().is_some_and(|token| token.is_rejected())
    }
}

// === impl Renewal ===

impl Renewal {
    async fn run(self) -> Result<Ready, Refusal> {
        let slot = Arc::clone(&self.slot);
        let _turn = slot.turn.lock().await;
        let deadline = Instant::now() + WAIT;
        loop {
            let found = self.read().await?;
            let now = self.hub.clock.now();
            if let Some(token) = self.slot.known(&found, now) {
                return Ok(Ready { grant: Arc::new(found), token });
            }
            if let Some((problem, until)) = self.slot.state.lock().failed.clone()
                && Instant::now() < until
            {
                return Err(unavailable(problem, &self.id));
            }
            if self.store.lease(&self.id, &self.holder, now, now + LEASE).await? {
                let renewed = self.renew().await;
                if let Err(error) = self.store.end_lease(&self.id, &self.holder).await {
                    tracing::warn!(grant = %self.id, %error, "a lease ends only by its time");
                }
                if let Some(ready) = renewed? {
                    return Ok(ready);
                }
            }
            if Instant::now() >= deadline {
                return Err(unavailable("the account's token is being renewed", &self.id));
            }
            tokio::time::sleep(BETWEEN_LOOKS).await;
        }
    }

    /// The grant as it is now.
    async fn read(&self) -> Result<(AccountGrant, GrantSecrets), Refusal> {
        match self.store.get(&self.query.place, self.hub.clock.now()).await? {
            Some((grant, secrets)) if grant.id == self.id => match grant.terms.state {
                GrantState::Active => Ok((grant, secrets)),
                GrantState::NeedsConsent => Err(refused(CredentialProblem::NeedsConsent, &self.id)),
            },
            Some(_) | None => Err(not_connected()),
        }
    }

    /// Renews the grant while this process has its lease; `None` if it was changed meanwhile.
    async fn renew(&self) -> Result<Option<Ready>, Refusal> {
        let found = self.read().await?;
        let asked_at = self.hub.clock.now();
        if let Some(token) = self.slot.known(&found, asked_at) {
            return Ok(Some(Ready { grant: Arc::new(found), token }));
        }
        let (grant, secrets) = found;
        let unstored = self.slot.state.lock().unstored.clone();
        if let (Some((renewed, values)), Some(sent)) = (unstored, &secrets.refresh_token)
            && renewed.revision == grant.revision
        {
            return self.keep(renewed, values, sent, false).await;
        }
        let is_rejected = self.slot.is_rejected();
        let replaced = self.slot.state.lock().replaced_at;
        let again = is_rejected && replaced.is_some_and(|at| at.elapsed() < AT_ONCE);
        let Some(refresh) = secrets.refresh_token.clone().filter(|_| !again) else {
            tracing::info!(grant = %self.id, again, "the service rejects the account's tokens");
            return self.end(grant, secrets).await;
        };
        let granted = match self.exchange(&grant, &secrets, &refresh).await {
            Ok(granted) => granted,
            Err(error) if self.is_final(&error) => {
                tracing::warn!(grant = %self.id, %error, "the account has to be connected again");
                return self.end(grant, secrets).await;
            }
            Err(error) => {
                tracing::warn!(grant = %self.id, %error, "the account's token was not renewed");
                let problem = error.to_string();
                let until = Instant::now() + PAUSE;
                self.slot.state.lock().failed = Some((problem.clone(), until));
                return Err(unavailable(problem, &self.id));
            }
        };
        let (token, granted) = granted;
        let mut grant = grant;
        if let Some(scopes) = granted.scopes {
            grant.terms.oauth2.scopes = scopes;
        }
        let lifetime = granted.lifetime;
        grant.terms.token_expires_at = lifetime.and_then(|it| token_end(asked_at, it));
        grant.changed_at = asked_at;
        let secrets = GrantSecrets {
            access_token: Some(token),
            refresh_token: Some(granted.refresh_token.unwrap_or_else(|| refresh.clone())),
            client_secret: secrets.client_secret,
        };
        self.keep(grant, secrets, &refresh, is_rejected).await
    }

    async fn exchange(
        &self,
        grant: &AccountGrant,
        secrets: &GrantSecrets,
        refresh: &Secret,
    ) -> Result<(Secret, TokenAnswer), TokenError> {
        let oauth2 = &grant.terms.oauth2;
        // The operator may have changed the secret.
        let preset = self.query.account.client.as_ref();
        let preset = preset.filter(|client| client.id == oauth2.client_id);
        let preset = preset.and_then(|client| client.secret.as_ref()).map(|secret| &secret.0);
        let secret = preset.or(secrets.client_secret.as_ref());
        let client = Client {
            id: &oauth2.client_id,
            secret: secret.map(|secret| (secret, oauth2.client_auth)),
        };
        let form = TokenRequest {
            client,
            grant: Grant::Refresh(refresh),
            scopes: &[],
            resource: oauth2.resource.as_deref(),
        }
        .form();
        let reach = self.hub.reach(&self.query.place.source);
        let answer = reach.post_form(&self.hub.network, &oauth2.token_url, &form).await;
        let granted = TokenAnswer::read(&answer.map_err(TokenError::Unreachable)?)?;
        Ok((granted.bearer()?.clone(), granted))
    }

    /// Whether only a new consent helps: the refresh token is not valid, or the server no longer
    /// knows a client that it had registered itself.
    fn is_final(&self, error: &TokenError) -> bool {
        match error.code() {
            Some("invalid_grant") => true,
            Some("invalid_client" | "unauthorized_client") => self.query.account.client.is_none(),
            _ => false,
        }
    }

    /// Stores the values that the refresh token `sent` gave, and then offers their token.
    async fn keep(
        &self,
        grant: AccountGrant,
        secrets: GrantSecrets,
        sent: &Secret,
        was_rejected: bool,
    ) -> Result<Option<Ready>, Refusal> {
        let stored = self.write(&grant, &secrets, sent).await;
        let mut state = self.slot.state.lock();
        let grant = match stored {
            Ok(Some(grant)) => grant,
            Ok(None) => {
                state.unstored = None;
                return Ok(None);
            }
            Err(error) => {
                state.unstored = Some((grant, secrets));
                let lost =
                    "renewed tokens could not be stored; they are lost when this process exits";
                tracing::error!(grant = %self.id, %error, "{lost}");
                return Err(Refusal::from(error));
            }
        };
        let Some(value) = secrets.access_token.clone() else { return Ok(None) };
        let token = Arc::new(AccessToken::new(value));
        let replaced_at = was_rejected.then(Instant::now).or(state.replaced_at);
        let kept = Some(Arc::clone(&token));
        *state = State {
            revision: grant.revision,
            token: kept,
            replaced_at,
            failed: None,
            unstored: None,
        };
        tracing::debug!(grant = %self.id, "the account's token was renewed");
        Ok(Some(Ready { grant: Arc::new((grant, secrets)), token }))
    }

    /// Stores renewed values, and keeps what calls have noted in the grant meanwhile. `None` if the
    /// grant has other tokens by now or is gone. The tokens of one that is gone are revoked.
    async fn write(
        &self,
        renewed: &AccountGrant,
        secrets: &GrantSecrets,
        sent: &Secret,
    ) -> Result<Option<AccountGrant>, CredentialStoreError> {
        let mut grant = renewed.clone();
        for _ in 0..ATTEMPTS {
            if self.store.change(grant.clone(), secrets.clone()).await? {
                return Ok(Some(AccountGrant { revision: grant.revision + 1, ..grant }));
            }
            let found = self.store.get(&self.query.place, self.hub.clock.now()).await?;
            let (current, values) = match found {
                Some((current, values)) if current.id == self.id => (current, values),
                other => {
                    let later = other.map(|(later, _)| later.terms);
                    if later.is_none_or(|later| grant.terms.is_apart_from(&later)) {
                        tracing::info!(grant = %self.id, "its account was removed in a renewal");
                        revoke(&self.hub, &grant, secrets).await;
                    }
                    return Ok(None);
                }
            };
            if values.refresh_token.as_ref().map(Secret::expose) != Some(sent.expose()) {
                break;
            }
            grant.terms.missing_scopes = current.terms.missing_scopes;
            grant.terms.withheld_scopes = current.terms.withheld_scopes;
            grant.revision = current.revision;
        }
        tracing::warn!(grant = %self.id, "the grant was changed during its renewal");
        Ok(None)
    }

    /// Records that the person has to consent again, unless the grant was changed meanwhile.
    async fn end(
        &self,
        mut grant: AccountGrant,
        secrets: GrantSecrets,
    ) -> Result<Option<Ready>, Refusal> {
        grant.terms.state = GrantState::NeedsConsent;
        match self.store.change(grant, secrets).await? {
            true => Err(refused(CredentialProblem::NeedsConsent, &self.id)),
            false => Ok(None),
        }
    }
}
