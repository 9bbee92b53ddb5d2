//! Credentials for outgoing requests: finds them, and attaches them to requests.
//!
//! [`Credentials`] is the resolver of the gate: it finds the credential of a call and obtains its
//! access token, before the call reaches its source. A credential is either one that the operator
//! stored, the account that its owner has connected (`grant`), or what the token of the caller is
//! exchanged for (`exchange`). The source attaches it by
//! [`SourceCredential::attach`], and applies the returned [`Echoes`] to the response. A connection
//! that callers share finds its own credential by [`SourceCredential::connect`]. `egress` checks at
//! each destination, redirects included, whether the [`SendableCredential`] may be sent there.
//!
//! Invariant (I-36): a credential is sent only to the hosts in its audiences, over TLS or within
//! this machine, and never forwarded to another host. A call that requires a credential is not sent
//! without it.
//!
//! Invariant: the values of a credential appear in no error, log, event or response; values that an
//! upstream echoes are replaced.

mod denial;
mod exchange;
mod grant;
mod oauth;
mod refusal;
mod sendable;
mod token;

use std::{collections::VecDeque, sync::Arc};

use async_trait::async_trait;
use parking_lot::Mutex;
use tokio::sync::broadcast;
use toolcrib_core::{
    call::{Invocation, Outcome, UpstreamError, UpstreamErrorKind},
    credential::{
        AccountSpec, Credential, CredentialCaller, CredentialKind, CredentialNeed,
        CredentialProblem, CredentialRef, CredentialRefusal, CredentialResolver, CredentialScope,
        CredentialStore, FoundCredential, GrantPlace, Owner, RefusalCause, ResolvedCredential,
        UnsealedCredential,
    },
    egress::EgressTrail,
    id::{CredentialId, PrincipalId, SourceId},
    redact::Echoes,
};
use url::Url;

#[cfg(test)]
pub(crate) use self::sendable::tests::sendable;
pub(crate) use self::{denial::TokenDenial, sendable::SendableCredential};
use self::{
    exchange::{Exchange, Exchanges},
    grant::{AccountQuery, Grants, Lacking},
    oauth::Tokens,
    refusal::Refusal,
};
use crate::{
    account::Hub,
    egress::{Answer, Egress, OutgoingRequest},
    text::tidy,
};

/// Number of recently sent credentials whose values are still removed from upstream output.
const RECENT: usize = 16;
/// The most scopes that an error names, and the most bytes of each.
const MAX_NAMED: usize = 3;
const MAX_SCOPE: usize = 100;

/// Finds credentials, and obtains access tokens for those of an OAuth kind.
pub(crate) struct Credentials {
    store: Option<Arc<dyn CredentialStore>>,
    hub: Arc<Hub>,
    tokens: Tokens,
    grants: Grants,
    exchanges: Exchanges,
}

/// The credential that a source names.
pub(crate) struct SourceCredential {
    credentials: Arc<Credentials>,
    named: Named,
    recent: Mutex<RecentCredentials>,
}

/// What a source sends.
enum Named {
    /// A credential that the operator stored.
    Stored(CredentialRef),
    /// The accounts of the callers of this source.
    Account(SourceId, Arc<AccountSpec>),
}

/// The credentials that a source has sent recently, the last one first.
#[derive(Default)]
struct RecentCredentials {
    sent: VecDeque<Arc<SendableCredential>>,
    echoes: Echoes,
}

/// The possible owners of the credential of a call, and the address that the call goes to.
struct CredentialQuery<'a> {
    reference: &'a CredentialRef,
    owners: Vec<Owner>,
    url: Url,
}

// === impl Credentials ===

impl Credentials {
    pub(crate) fn new(store: Option<Arc<dyn CredentialStore>>, hub: Arc<Hub>) -> Self {
        let tokens = Tokens::new(Arc::clone(&hub.clock), Arc::clone(&hub.network));
        let grants = Grants::new(Arc::clone(&hub));
        let exchanges = Exchanges::new(Arc::clone(&hub));
        Self { store, tokens, grants, exchanges, hub }
    }

    /// The store of stored credentials.
    pub(crate) fn store(&self) -> Option<Arc<dyn CredentialStore>> {
        self.store.clone()
    }

    /// Finds credential `reference` at the first of `owners` that has it. It may be sent to `url`.
    async fn load(
        &self,
        reference: &CredentialRef,
        owners: &[Owner],
        url: &Url,
    ) -> Result<UnsealedCredential, Refusal> {
        let missing = || Refusal::of(CredentialProblem::NotFound, None);
        let store = self.store.as_ref().ok_or_else(missing)?;
        let mut found = None;
        for owner in owners {
            found = store.get(owner, &reference.name).await.map_err(Refusal::from)?;
            if found.is_some() {
                break;
            }
        }
        let found = found.ok_or_else(missing)?;
        let credential = &found.credential;
        let refused = |problem| Err(Refusal::of(problem, Some(credential.id.clone())));
        if !sendable::may_go(credential, url) {
            return refused(CredentialProblem::OutOfAudience);
        }
        if credential.has_expired(self.hub.clock.now()) {
            return refused(CredentialProblem::Expired);
        }
        Ok(found)
    }

    /// As [`load`](Self::load), with an access token for an OAuth credential. The token is
    /// requested only for a credential that may be sent.
    async fn prepare(
        &self,
        reference: &CredentialRef,
        owners: &[Owner],
        url: &Url,
    ) -> Result<ResolvedCredential, Refusal> {
        let mut found = self.load(reference, owners, url).await?;
        let token = match (&found.credential.kind.oauth2(), &self.store) {
            (Some(_), Some(store)) => Some(match self.tokens.known(&found.credential) {
                Some(known) => known?,
                None => {
                    let id = found.credential.id.clone();
                    let token = self.tokens.request(found, store).await?;
                    // The credential may have been removed meanwhile, or have expired.
                    found = self.load(reference, owners, url).await?;
                    if found.credential.id != id {
                        return Err(Refusal::of(CredentialProblem::NotFound, Some(id)));
                    }
                    token
                }
            }),
            _ => None,
        };
        let UnsealedCredential { credential, material } = found;
        Ok(ResolvedCredential { credential, material, token })
    }
}

#[async_trait]
impl CredentialResolver for Credentials {
    async fn resolve(
        &self,
        need: &CredentialNeed,
        caller: CredentialCaller<'_>,
    ) -> Result<Option<Arc<ResolvedCredential>>, CredentialRefusal> {
        if let Some(query) = AccountQuery::new(need, caller)? {
            let ready = match Exchange::of(&query, caller.presented) {
                Some(exchange) => self.exchanges.prepare(&exchange).await,
                None => self.grants.prepare(&query).await,
            };
            let ready = ready.map_err(|refusal| refusal.at(Some(&query.url)))?;
            return Ok(Some(Arc::new(ready)));
        }
        let Some(query) = CredentialQuery::new(need, caller)? else { return Ok(None) };
        let CredentialQuery { reference, owners, url } = query;
        let ready = self.prepare(reference, &owners, &url).await;
        ready.map(|credential| Some(Arc::new(credential))).map_err(|refusal| refusal.at(Some(&url)))
    }

    async fn find(
        &self,
        need: &CredentialNeed,
        caller: CredentialCaller<'_>,
    ) -> Result<Option<FoundCredential>, CredentialRefusal> {
        if let Some(query) = AccountQuery::new(need, caller)? {
            let found = match Exchange::of(&query, caller.presented) {
                Some(exchange) => self.exchanges.find(&exchange),
                None => self.grants.find(&query).await,
            };
            let id = found.map_err(|refusal| refusal.at(Some(&query.url)))?;
            return Ok(Some(FoundCredential { id, owner: query.place.owner }));
        }
        let Some(query) = CredentialQuery::new(need, caller)? else { return Ok(None) };
        let CredentialQuery { reference, owners, url } = query;
        let stored = self.load(reference, &owners, &url).await;
        let stored = stored.map_err(|refusal| refusal.at(Some(&url)))?;
        let UnsealedCredential { credential, .. } = stored;
        if let Some(Err(refusal)) = self.tokens.known(&credential) {
            return Err(refusal.at(Some(&url)));
        }
        Ok(Some(FoundCredential { id: credential.id, owner: credential.owner }))
    }
}

// === impl CredentialQuery ===

impl<'a> CredentialQuery<'a> {
    fn new(
        need: &'a CredentialNeed,
        caller: CredentialCaller<'_>,
    ) -> Result<Option<Self>, CredentialRefusal> {
        let CredentialNeed::Stored { reference, destination } = need else { return Ok(None) };
        let url = address(destination)?;
        let owners = reference.owners(caller.tenant, caller.principal);
        Ok(Some(Self { reference, owners, url }))
    }
}

// === impl AccountQuery ===

impl AccountQuery {
    fn new(
        need: &CredentialNeed,
        caller: CredentialCaller<'_>,
    ) -> Result<Option<Self>, CredentialRefusal> {
        let CredentialCaller { tenant, principal, makers, .. } = caller;
        let CredentialNeed::Account { source, account, destination } = need else {
            return Ok(None);
        };
        let url = address(destination)?;
        let owner = account.owner(tenant, principal);
        // The accounts of a source are those of one tenant, and of persons.
        let has_none = owner.principal.is_some() && !AccountSpec::may_have_own(principal);
        if account.tenant != *tenant || has_none {
            return Err(Refusal::of(CredentialProblem::NotConnected, None).at(Some(&url)));
        }
        let place = GrantPlace { owner, source: source.clone() };
        let makers = makers.map(<[PrincipalId]>::to_vec);
        Ok(Some(Self { place, account: Arc::clone(account), url, makers }))
    }

    /// For the requests of a source itself.
    fn of_tenant(source: &SourceId, account: &Arc<AccountSpec>, url: &Url) -> Self {
        let place = GrantPlace { owner: account.tenant_owner(), source: source.clone() };
        Self { place, account: Arc::clone(account), url: url.clone(), makers: None }
    }
}

fn address(destination: &str) -> Result<Url, CredentialRefusal> {
    let url = Url::parse(destination);
    url.map_err(|_| Refusal::of(CredentialProblem::OutOfAudience, None).at(None))
}

// === impl SourceCredential ===

impl SourceCredential {
    pub(crate) fn stored(credentials: Arc<Credentials>, reference: CredentialRef) -> Self {
        Self { credentials, named: Named::Stored(reference), recent: Mutex::default() }
    }

    pub(crate) fn of_accounts(
        credentials: Arc<Credentials>,
        source: SourceId,
        account: Arc<AccountSpec>,
    ) -> Self {
        Self { credentials, named: Named::Account(source, account), recent: Mutex::default() }
    }

    /// The need of a call to `destination`.
    pub(crate) fn need(&self, destination: &Url) -> CredentialNeed {
        let destination = destination.as_str().to_owned();
        match &self.named {
            Named::Stored(reference) => {
                CredentialNeed::Stored { reference: reference.clone(), destination }
            }
            Named::Account(source, account) => CredentialNeed::Account {
                source: source.clone(),
                account: Arc::clone(account),
                destination,
            },
        }
    }

    /// Whether calls are sent with accounts.
    pub(crate) fn is_account(&self) -> bool {
        matches!(self.named, Named::Account(..))
    }

    /// The grants that are removed from now on.
    pub(crate) fn removals(&self) -> broadcast::Receiver<CredentialId> {
        self.credentials.hub.removals()
    }

    /// Sends the request of `call` with its credential, if the source names one, and returns the
    /// filter for the response. A request whose account's token was rejected is sent once more with
    /// a new token, because the service has not run it.
    pub(crate) async fn send(
        credential: Option<&Arc<Self>>,
        egress: &Egress,
        mut request: OutgoingRequest,
        call: &Invocation,
    ) -> Result<(Echoes, Result<Answer, UpstreamError>), UpstreamError> {
        let echoes = Self::attach(credential, &mut request, call).await?;
        let Some(credential) = credential.filter(|credential| credential.is_account()) else {
            let answer = egress.send(request, &call.egress).await;
            return Ok((echoes, answer.map_err(UpstreamError::from)));
        };
        let mut resolved = call.credential.clone();
        let mut again = true;
        loop {
            let answer = egress.send(request.clone(), &call.egress).await;
            let answer = answer.map_err(UpstreamError::from);
            let denial = answer.as_ref().ok().filter(|answer| !answer.is_redirected());
            let denial =
                denial.and_then(|answer| TokenDenial::read(answer.status(), answer.headers()));
            if let (Some(denial), Some(sent)) = (denial, &resolved)
                && let Some(renewed) = credential.after(&denial, sent, &request.url).await?
                && std::mem::take(&mut again)
            {
                // The service may have taken its time to refuse, and so may the renewal.
                call.check_again().await?;
                request.credential = Some(credential.present_now(Some(&renewed)).await?);
                resolved = Some(renewed);
                continue;
            }
            return Ok((credential.echoes(), answer));
        }
    }

    /// Notes that the account of the tenant lacks scopes for a request of the source itself: then
    /// the next consent of an administrator requests them. `None` if the answer is final.
    pub(crate) async fn tenant_lacks(&self, asked: &[String], url: &Url) -> Option<UpstreamError> {
        let Named::Account(source, account) = &self.named else { return None };
        let query = AccountQuery::of_tenant(source, account, url);
        let (grants, asked) = (&self.credentials.grants, self.without_echoes(asked));
        // Otherwise the next attempt to connect says what is wrong with the account.
        let (grant, _) = grants.load(&query).await.ok()?;
        let lacking = grants.needs_scopes(&query, &grant.id, &asked).await.ok()?;
        let mut error = self.lacking(&lacking, &grant.id, url)?;
        let name = &account.tenant;
        error.detail = match lacking {
            Lacking::Withheld(_) => format!("the account of the tenant `{name}`: {}", error.detail),
            Lacking::Consent | Lacking::Nothing => format!(
                "the account of the tenant `{name}` lacks a scope to list the tools; an \
                 administrator connects it again: toolcrib connections connect {source} --tenant",
            ),
        };
        Some(error)
    }

    /// The error of a request whose account lacks scopes; `None` if the answer is final.
    fn lacking(&self, lacking: &Lacking, id: &CredentialId, url: &Url) -> Option<UpstreamError> {
        match lacking {
            Lacking::Nothing => None,
            Lacking::Consent => {
                let refusal = Refusal::of(CredentialProblem::NeedsScopes, Some(id.clone()));
                Some(self.unusable(&refusal.at(Some(url))))
            }
            Lacking::Withheld(scopes) => Some(not_granted(scopes)),
        }
    }

    /// The scopes without those that have a value of a credential: an upstream can repeat it, and
    /// scopes are shown.
    fn without_echoes(&self, scopes: &[String]) -> Vec<String> {
        let echoes = self.echoes();
        scopes.iter().filter(|scope| echoes.text(scope) == ***scope).cloned().collect()
    }

    /// What follows when the service at `url` has not run a call because of its account's token:
    /// the credential for a second request, or `None` if the answer is final.
    ///
    /// # Errors
    /// The person has to consent again, or the token cannot be renewed now.
    pub(crate) async fn after(
        &self,
        denial: &TokenDenial,
        sent: &ResolvedCredential,
        url: &Url,
    ) -> Result<Option<Arc<ResolvedCredential>>, UpstreamError> {
        let Named::Account(source, account) = &self.named else { return Ok(None) };
        let place = GrantPlace { owner: sent.credential.owner.clone(), source: source.clone() };
        let query = AccountQuery {
            place,
            account: Arc::clone(account),
            url: url.clone(),
            // This was decided before the call was sent.
            makers: None,
        };
        let (grants, id) = (&self.credentials.grants, &sent.credential.id);
        let failed = |refusal: Refusal| self.unusable(&refusal.at(Some(url)));
        if !matches!(sent.credential.kind, CredentialKind::RefreshToken(_)) {
            // An exchanged token, with the token of the caller.
            let exchange = Exchange::of(&query, Some(&sent.material.value));
            let exchange = exchange.filter(|_| *denial == TokenDenial::Rejected);
            let Some(exchange) = exchange else { return Ok(None) };
            let renewed = self.credentials.exchanges.prepare(&exchange).await.map_err(failed)?;
            return Ok(Some(Arc::new(renewed)).filter(|renewed| renewed.credential.id == *id));
        }
        match denial {
            TokenDenial::Rejected => {
                let renewed = grants.prepare(&query).await.map_err(failed)?;
                // An account that was connected meanwhile is for later calls.
                Ok(Some(Arc::new(renewed)).filter(|renewed| renewed.credential.id == *id))
            }
            TokenDenial::MissingScopes(asked) => {
                let asked = self.without_echoes(asked);
                let lacking = grants.needs_scopes(&query, id, &asked).await.map_err(failed)?;
                self.lacking(&lacking, id, url).map_or(Ok(None), Err)
            }
        }
    }

    /// The error of a call whose credential has this problem by now.
    fn without(&self, problem: CredentialProblem) -> UpstreamError {
        let cause = RefusalCause::Credential(problem);
        self.unusable(&CredentialRefusal { cause, id: None, destination: String::new() })
    }

    /// The error of a request without its credential.
    fn unusable(&self, refusal: &CredentialRefusal) -> UpstreamError {
        match &self.named {
            Named::Stored(reference) => {
                let what = format_args!("credential `{}`", reference.name);
                UpstreamError::without_credential(what, refusal)
            }
            Named::Account(source, _) => {
                UpstreamError::without_credential(format_args!("account at `{source}`"), refusal)
            }
        }
    }

    /// Attaches the credential of `call` to its request, if the source names one, and returns the
    /// filter for the response.
    async fn attach(
        credential: Option<&Arc<Self>>,
        request: &mut OutgoingRequest,
        call: &Invocation,
    ) -> Result<Echoes, UpstreamError> {
        let Some(credential) = credential else { return Ok(Echoes::default()) };
        let resolved = call.credential.as_deref();
        request.credential = Some(credential.present_now(resolved).await?);
        Ok(credential.echoes())
    }

    /// As [`present`](Self::present), right before a request is sent. The call may have waited since
    /// the gate resolved its credential; an account that was removed or replaced meanwhile is not
    /// sent.
    pub(crate) async fn present_now(
        &self,
        resolved: Option<&ResolvedCredential>,
    ) -> Result<Arc<SendableCredential>, UpstreamError> {
        let sendable = self.present(resolved)?;
        if let (Named::Account(source, _), Some(resolved)) = (&self.named, resolved)
            // An exchanged token belongs to no grant.
            && matches!(resolved.credential.kind, CredentialKind::RefreshToken(_))
        {
            let Credential { id, owner, .. } = &resolved.credential;
            let place = GrantPlace { owner: owner.clone(), source: source.clone() };
            let checked = self.credentials.grants.check(&place, id).await;
            checked.map_err(|problem| self.without(problem))?;
        }
        Ok(sendable)
    }

    /// Returns the credential that the gate has resolved for a call in the form to send.
    pub(crate) fn present(
        &self,
        resolved: Option<&ResolvedCredential>,
    ) -> Result<Arc<SendableCredential>, UpstreamError> {
        let refused = |problem| self.without(problem);
        let missing = match &self.named {
            Named::Stored(_) => CredentialProblem::NotFound,
            Named::Account(..) => CredentialProblem::NotConnected,
        };
        let resolved = resolved.ok_or_else(|| refused(missing))?;
        // The call may have waited for its turn at the source.
        if resolved.credential.has_expired(self.credentials.hub.clock.now()) {
            return Err(refused(CredentialProblem::Expired));
        }
        self.recent.lock().sendable(resolved).map_err(refused)
    }

    /// Attaches the credential to a request of a connection that callers share. Records a refusal
    /// in `trail`; the request must not be sent then.
    pub(crate) async fn connect(
        &self,
        request: &mut OutgoingRequest,
        trail: &EgressTrail,
    ) -> Result<(), UpstreamError> {
        let url = &request.url;
        let resolved = match &self.named {
            Named::Stored(reference) => {
                let owners: Vec<_> = match &reference.scope {
                    CredentialScope::Tenant(tenant) => vec![Owner::tenant(tenant.clone())],
                    // The credential of a single caller is never used for a shared connection.
                    CredentialScope::Caller => Vec::new(),
                };
                self.credentials.prepare(reference, &owners, url).await
            }
            // Nor is the account of a single caller.
            Named::Account(source, account) => {
                let query = AccountQuery::of_tenant(source, account, url);
                self.credentials.grants.prepare(&query).await
            }
        };
        let resolved = resolved.map_err(|refusal| {
            let refusal = refusal.at(Some(url));
            refusal.decided().into_iter().for_each(|denied| trail.note(denied));
            self.not_connected(&refusal)
        })?;
        request.credential = Some(self.present(Some(&resolved))?);
        Ok(())
    }

    /// The error of a shared connection without its credential.
    fn not_connected(&self, refusal: &CredentialRefusal) -> UpstreamError {
        let mut error = self.unusable(refusal);
        if let Named::Account(source, account) = &self.named
            && let RefusalCause::Credential(
                CredentialProblem::NotConnected | CredentialProblem::NeedsConsent,
            ) = refusal.cause
        {
            error.detail = format!(
                "the tenant `{}` has no working account there, with which the tools are listed; an \
                 administrator connects it: toolcrib connections connect {source} --tenant",
                account.tenant,
            );
        }
        error
    }

    /// Waits until no token request is in flight. A source calls this when it closes; otherwise a
    /// new refresh token could be lost when the process exits.
    pub(crate) async fn wait_for_requests(&self) {
        self.credentials.tokens.wait_for_requests().await;
        self.credentials.grants.wait_for_renewals().await;
    }

    /// Returns the echo filter for the credentials sent recently, for any caller: an upstream can
    /// repeat what other callers sent, and earlier tokens.
    pub(crate) fn echoes(&self) -> Echoes {
        self.recent.lock().echoes.clone()
    }
}

// === impl RecentCredentials ===

impl RecentCredentials {
    /// The form to send, which is made once for each value.
    fn sendable(
        &mut self,
        resolved: &ResolvedCredential,
    ) -> Result<Arc<SendableCredential>, CredentialProblem> {
        let known = self.sent.iter().position(|known| known.is_of(resolved));
        if let Some(known) = known.and_then(|at| self.sent.remove(at)) {
            self.sent.push_front(Arc::clone(&known));
            return Ok(known);
        }
        let sendable = Arc::new(SendableCredential::new(resolved)?);
        self.sent.push_front(Arc::clone(&sendable));
        self.sent.truncate(RECENT);
        self.echoes = Echoes::new(self.sent.iter().flat_map(|sent| sent.values()));
        Ok(sendable)
    }
}

/// The error of a call that needs `scopes`, which a consent did not give. It is for the caller.
fn not_granted(scopes: &[String]) -> UpstreamError {
    let named = scopes.iter().take(MAX_NAMED).map(|scope| format!("`{}`", tidy(scope, MAX_SCOPE)));
    let named = named.collect::<Vec<_>>().join(", ");
    let was = if scopes.len() == 1 { "was" } else { "were" };
    let detail = format!(
        "{named} {was} not granted to the account, and this tool needs it: contact the \
         administrator of the account at the service, then connect it again"
    );
    UpstreamError::new(UpstreamErrorKind::Credential(CredentialProblem::NotGranted), detail)
}

/// Removes the values that `echoes` filters from the result of a call.
pub(crate) fn clean(
    echoes: &Echoes,
    result: Result<Outcome, UpstreamError>,
) -> Result<Outcome, UpstreamError> {
    match result {
        Ok(outcome) => Ok(echoes.outcome(outcome)),
        Err(error) => Err(echoes.error(error)),
    }
}
