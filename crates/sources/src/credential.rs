//! Credentials for outgoing requests: finds the credential of a source and attaches it to a
//! request.
//!
//! A source that names a credential calls [`SourceCredential::authorize`] with each request it is
//! about to send. It applies the returned [`Echoes`] to the response. This module looks up
//! credentials and obtains access tokens; `egress` checks at each destination, redirects included,
//! whether the [`SendableCredential`] may be sent there.
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

use parking_lot::Mutex;
use toolcrib_core::{
    call::{Invocation, Outcome, UpstreamError, UpstreamErrorKind},
    catalog::Permit,
    clock::Clock,
    credential::{
        CredentialProblem, CredentialRef, CredentialScope, CredentialStore, Owner,
        UnsealedCredential,
    },
    egress::EgressTrail,
    redact::Echoes,
};
use url::Url;

#[cfg(test)]
pub(crate) use self::sendable::tests::sendable;
use self::{
    oauth::Tokens,
    refusal::{Cause, Refusal},
};
pub(crate) use self::{refusal::denied, sendable::SendableCredential};
use crate::{
    egress::{Network, Outgoing, host},
    error::unavailable,
};

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
    /// For requests to token endpoints.
    network: Arc<Network>,
    recent: Mutex<Recent>,
}

/// The credentials that a source has sent recently, the last one first.
#[derive(Default)]
struct Recent {
    sent: VecDeque<Arc<SendableCredential>>,
    echoes: Echoes,
}

/// The purpose of a request with a credential.
#[derive(Clone, Copy)]
pub(crate) enum RequestOrigin<'a> {
    /// The caller whose call the request is sent for.
    Caller(&'a Permit),
    /// The source itself, whose callers share a connection.
    Connection,
}

// === impl Credentials ===

impl Credentials {
    pub(crate) fn new(store: Option<Arc<dyn CredentialStore>>, clock: Arc<dyn Clock>) -> Self {
        let tokens = Tokens::new(Arc::clone(&clock));
        Self { store, clock, tokens }
    }

    /// Finds credential `reference` at the first of `owners` that has it, ready to be sent to
    /// `url`.
    async fn resolve(
        &self,
        reference: &CredentialRef,
        owners: &[Owner],
        url: &Url,
        network: &Arc<Network>,
    ) -> Result<SendableCredential, Refusal> {
        let missing = Refusal::of(CredentialProblem::NotFound, None);
        let store = self.store.as_ref().ok_or_else(|| missing.clone())?;
        let mut found = None;
        for owner in owners {
            found = store.get(owner, &reference.name).await.map_err(Refusal::from)?;
            if found.is_some() {
                break;
            }
        }
        let UnsealedCredential { credential, material } = found.ok_or(missing)?;
        let id = credential.id.clone();
        // Checked first, so that no token is requested needlessly.
        if !sendable::may_go(&credential, url) {
            return Err(Refusal::of(CredentialProblem::OutOfAudience, Some(id)));
        }
        if credential.has_expired(self.clock.now()) {
            return Err(Refusal::of(CredentialProblem::Expired, Some(id)));
        }
        let mut token = None;
        if credential.kind.oauth2().is_some() {
            let opened =
                UnsealedCredential { credential: credential.clone(), material: material.clone() };
            token = Some(self.tokens.token(opened, store, network).await?);
        }
        SendableCredential::new(credential, &material, token)
            .map_err(|problem| Refusal::of(problem, Some(id)))
    }
}

// === impl SourceCredential ===

impl SourceCredential {
    pub(crate) fn new(
        credentials: Arc<Credentials>,
        reference: CredentialRef,
        network: Arc<Network>,
    ) -> Self {
        Self { credentials, reference, network, recent: Mutex::default() }
    }

    /// Attaches the credential to `request`. The returned [`Echoes`] removes its values from the
    /// upstream's response. Records a refusal in `trail`; the request must not be sent then.
    pub(crate) async fn authorize(
        &self,
        origin: RequestOrigin<'_>,
        request: &mut Outgoing,
        trail: &EgressTrail,
    ) -> Result<Echoes, UpstreamError> {
        request.credential = Some(self.find(origin, &request.url, trail).await?);
        Ok(self.echoes())
    }

    /// Attaches `credential`, if any, to the request of a call, and returns the filter for the
    /// response.
    pub(crate) async fn attach(
        credential: Option<&Arc<Self>>,
        permit: &Permit,
        request: &mut Outgoing,
        call: &Invocation,
    ) -> Result<Echoes, UpstreamError> {
        let Some(credential) = credential else { return Ok(Echoes::default()) };
        credential.authorize(RequestOrigin::Caller(permit), request, &call.egress).await
    }

    /// Checks that a credential exists for a call of `permit` to `url`. For sources that do not
    /// make one request per call.
    pub(crate) async fn check(
        &self,
        permit: &Permit,
        url: &Url,
        trail: &EgressTrail,
    ) -> Result<Echoes, UpstreamError> {
        self.find(RequestOrigin::Caller(permit), url, trail).await?;
        Ok(self.echoes())
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

    async fn find(
        &self,
        origin: RequestOrigin<'_>,
        url: &Url,
        trail: &EgressTrail,
    ) -> Result<Arc<SendableCredential>, UpstreamError> {
        let owners = match (origin, &self.reference.scope) {
            (RequestOrigin::Caller(permit), _) => {
                let caller = permit.principal();
                self.reference.owners(&caller.tenant, &caller.id)
            }
            (RequestOrigin::Connection, CredentialScope::Tenant(tenant)) => {
                vec![Owner::tenant(tenant.clone())]
            }
            // A credential of a single caller is never used for a shared connection.
            (RequestOrigin::Connection, CredentialScope::Caller) => Vec::new(),
        };
        let found = self.credentials.resolve(&self.reference, &owners, url, &self.network).await;
        let found = Arc::new(found.map_err(|refusal| self.refused(refusal, url, trail))?);
        self.remember(&found);
        Ok(found)
    }

    fn refused(&self, refusal: Refusal, url: &Url, trail: &EgressTrail) -> UpstreamError {
        let name = &self.reference.name;
        match refusal.cause {
            Cause::Credential(problem) => {
                trail.note(denied(host(Some(url)), problem, refusal.id.as_ref()));
                let detail = format!("credential `{name}`: {problem}");
                UpstreamError::new(UpstreamErrorKind::Credential(problem), detail)
            }
            Cause::Unavailable(why) => unavailable(format!("credential `{name}`: {why}")),
        }
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
