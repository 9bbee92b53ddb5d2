//! Credentials for outgoing requests: finds them, and attaches them to requests.
//!
//! [`Credentials`] is the resolver of the gate: it finds the credential of a call and obtains its
//! access token, before the call reaches its source. The source attaches it by
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

mod oauth;
mod refusal;
mod sendable;
mod token;

use std::{collections::VecDeque, sync::Arc};

use async_trait::async_trait;
use parking_lot::Mutex;
use toolcrib_core::{
    call::{Invocation, Outcome, UpstreamError, UpstreamErrorKind},
    clock::Clock,
    credential::{
        CredentialNeed, CredentialProblem, CredentialRef, CredentialRefusal, CredentialResolver,
        CredentialScope, CredentialStore, FoundCredential, Owner, ResolvedCredential,
        UnsealedCredential,
    },
    egress::EgressTrail,
    id::{PrincipalId, TenantId},
    redact::Echoes,
};
use url::Url;

pub(crate) use self::sendable::SendableCredential;
#[cfg(test)]
pub(crate) use self::sendable::tests::sendable;
use self::{oauth::Tokens, refusal::Refusal};
use crate::egress::{Network, OutgoingRequest};

/// Number of recently sent credentials whose values are still removed from upstream output.
const RECENT: usize = 16;

/// Finds credentials, and obtains access tokens for those of an OAuth kind.
pub(crate) struct Credentials {
    store: Option<Arc<dyn CredentialStore>>,
    clock: Arc<dyn Clock>,
    tokens: Tokens,
}

/// The credential that a source names.
pub(crate) struct SourceCredential {
    credentials: Arc<Credentials>,
    reference: CredentialRef,
    recent: Mutex<RecentCredentials>,
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
    pub(crate) fn new(
        store: Option<Arc<dyn CredentialStore>>,
        clock: Arc<dyn Clock>,
        network: Arc<Network>,
    ) -> Self {
        let tokens = Tokens::new(Arc::clone(&clock), network);
        Self { store, clock, tokens }
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
        if credential.has_expired(self.clock.now()) {
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
        tenant: &TenantId,
        principal: &PrincipalId,
    ) -> Result<Option<Arc<ResolvedCredential>>, CredentialRefusal> {
        let Some(query) = CredentialQuery::new(need, tenant, principal)? else { return Ok(None) };
        let CredentialQuery { reference, owners, url } = query;
        let ready = self.prepare(reference, &owners, &url).await;
        ready.map(|credential| Some(Arc::new(credential))).map_err(|refusal| refusal.at(Some(&url)))
    }

    async fn find(
        &self,
        need: &CredentialNeed,
        tenant: &TenantId,
        principal: &PrincipalId,
    ) -> Result<Option<FoundCredential>, CredentialRefusal> {
        let Some(query) = CredentialQuery::new(need, tenant, principal)? else { return Ok(None) };
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
        tenant: &TenantId,
        principal: &PrincipalId,
    ) -> Result<Option<Self>, CredentialRefusal> {
        let CredentialNeed::Stored { reference, destination } = need else { return Ok(None) };
        let url = Url::parse(destination);
        let url = url.map_err(|_| Refusal::of(CredentialProblem::OutOfAudience, None).at(None))?;
        Ok(Some(Self { reference, owners: reference.owners(tenant, principal), url }))
    }
}

// === impl SourceCredential ===

impl SourceCredential {
    pub(crate) fn new(credentials: Arc<Credentials>, reference: CredentialRef) -> Self {
        Self { credentials, reference, recent: Mutex::default() }
    }

    /// The need of a call to `destination`.
    pub(crate) fn need(&self, destination: &Url) -> CredentialNeed {
        let destination = destination.as_str().to_owned();
        CredentialNeed::Stored { reference: self.reference.clone(), destination }
    }

    /// Attaches the credential of `call` to its request, if the source names one, and returns the
    /// filter for the response.
    pub(crate) fn attach(
        credential: Option<&Arc<Self>>,
        request: &mut OutgoingRequest,
        call: &Invocation,
    ) -> Result<Echoes, UpstreamError> {
        let Some(credential) = credential else { return Ok(Echoes::default()) };
        request.credential = Some(credential.present(call.credential.as_deref())?);
        Ok(credential.echoes())
    }

    /// Returns the credential that the gate has resolved for a call in the form to send.
    pub(crate) fn present(
        &self,
        resolved: Option<&ResolvedCredential>,
    ) -> Result<Arc<SendableCredential>, UpstreamError> {
        let refused = |problem| {
            let detail = format!("credential `{}`: {problem}", self.reference.name);
            UpstreamError::new(UpstreamErrorKind::Credential(problem), detail)
        };
        let resolved = resolved.ok_or_else(|| refused(CredentialProblem::NotFound))?;
        // The call may have waited for its turn at the source.
        if resolved.credential.has_expired(self.credentials.clock.now()) {
            return Err(refused(CredentialProblem::Expired));
        }
        let sendable = Arc::new(SendableCredential::new(resolved).map_err(refused)?);
        self.remember(&sendable);
        Ok(sendable)
    }

    /// Attaches the credential to a request of a connection that callers share. Records a refusal
    /// in `trail`; the request must not be sent then.
    pub(crate) async fn connect(
        &self,
        request: &mut OutgoingRequest,
        trail: &EgressTrail,
    ) -> Result<(), UpstreamError> {
        let owners: Vec<_> = match &self.reference.scope {
            CredentialScope::Tenant(tenant) => vec![Owner::tenant(tenant.clone())],
            // The credential of a single caller is never used for a shared connection.
            CredentialScope::Caller => Vec::new(),
        };
        let url = &request.url;
        let resolved = self.credentials.prepare(&self.reference, &owners, url).await;
        let resolved = resolved.map_err(|refusal| {
            let refusal = refusal.at(Some(url));
            refusal.decided().into_iter().for_each(|denied| trail.note(denied));
            UpstreamError::without_credential(&self.reference.name, &refusal)
        })?;
        request.credential = Some(self.present(Some(&resolved))?);
        Ok(())
    }

    /// Waits until no token request is in flight. A source calls this when it closes; otherwise a
    /// new refresh token could be lost when the process exits.
    pub(crate) async fn wait_for_requests(&self) {
        self.credentials.tokens.wait_for_requests().await;
    }

    /// Returns the echo filter for the credentials sent recently, for any caller: an upstream can
    /// repeat what other callers sent, and earlier tokens.
    pub(crate) fn echoes(&self) -> Echoes {
        self.recent.lock().echoes.clone()
    }

    fn remember(&self, sent: &Arc<SendableCredential>) {
        let mut recent = self.recent.lock();
        let known = recent.sent.iter().position(|known| known.is_same(sent));
        let known = known.and_then(|at| recent.sent.remove(at));
        let is_new = known.is_none();
        recent.sent.push_front(known.unwrap_or_else(|| Arc::clone(sent)));
        if is_new {
            recent.sent.truncate(RECENT);
            recent.echoes = Echoes::new(recent.sent.iter().flat_map(|sent| sent.values()));
        }
    }
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
