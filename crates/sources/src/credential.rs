//! Credentials for outgoing requests: finds the credential of a source and attaches it to a
//! request.
//!
//! A source that names a credential calls [`SourceCredential::authorize`] with each request it is
//! about to send. It applies the returned [`Echoes`] to the response. This module looks up
//! credentials and obtains access tokens; `egress` checks at each destination, redirects included,
//! whether the [`Held`] credential may be sent there.
//!
//! Invariant (I-36): a credential is sent only to the hosts in its audiences, over TLS or within
//! this machine, and never forwarded to another host. A call that requires a credential is not sent
//! without it.
//!
//! Invariant: the values of a credential appear in no error, log, event or response; values that an
//! upstream echoes are replaced.

mod held;
mod oauth;

use std::{collections::VecDeque, sync::Arc};

use parking_lot::Mutex;
use toolcrib_core::{
    call::{UpstreamError, UpstreamErrorKind},
    catalog::Permit,
    clock::Clock,
    credential::{
        CredentialProblem, CredentialRef, CredentialScope, CredentialStore, Owner,
        UnsealedCredential,
    },
    egress::{EgressDecided, EgressReason, EgressTrail},
    id::CredentialId,
    redact::Echoes,
};
use url::Url;

pub(crate) use self::held::Held;
#[cfg(test)]
pub(crate) use self::held::tests::held;
use self::oauth::Tokens;
use crate::egress::{self, Network, Outgoing};

/// Number of recently sent credentials whose values are still removed from upstream output.
const RECENT: usize = 4;

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
    recent: Mutex<VecDeque<Arc<Held>>>,
}

/// The party that a credential is resolved for.
#[derive(Clone, Copy)]
pub(crate) enum Asks<'a> {
    /// The caller whose call the request is sent for.
    Caller(&'a Permit),
    /// The source itself, whose callers share a connection.
    Connection,
}

/// Why no credential can be sent.
#[derive(Debug, Clone)]
pub(crate) struct Refusal {
    pub(crate) cause: Cause,
    /// The credential concerned, when it is known.
    pub(crate) id: Option<CredentialId>,
}

#[derive(Debug, Clone)]
pub(crate) enum Cause {
    /// The credential is missing or must not be sent.
    Credential(CredentialProblem),
    /// Temporary: the store or the token endpoint does not respond.
    Unavailable(String),
}

// === impl Credentials ===

impl Credentials {
    pub(crate) fn new(store: Option<Arc<dyn CredentialStore>>, clock: Arc<dyn Clock>) -> Self {
        let tokens = Tokens::new(Arc::clone(&clock));
        Self { store, clock, tokens }
    }

    /// Returns the credential `reference` of the first of `owners` that has it, ready to be sent to
    /// `url`.
    async fn resolve(
        &self,
        reference: &CredentialRef,
        owners: &[Owner],
        url: &Url,
        network: &Arc<Network>,
    ) -> Result<Held, Refusal> {
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
        if !held::may_go(&credential, url) {
            return Err(Refusal::of(CredentialProblem::OutOfAudience, Some(id)));
        }
        if credential.has_expired(self.clock.now()) {
            return Err(Refusal::of(CredentialProblem::Expired, Some(id)));
        }
        let token = match credential.kind.oauth2() {
            None => None,
            Some(_) => {
                let opened = UnsealedCredential {
                    credential: credential.clone(),
                    material: material.clone(),
                };
                Some(self.tokens.token(opened, store, network).await?)
            }
        };
        Held::new(credential, &material, token).map_err(|problem| Refusal::of(problem, Some(id)))
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
        asks: Asks<'_>,
        request: &mut Outgoing,
        trail: &EgressTrail,
    ) -> Result<Echoes, UpstreamError> {
        let held = self.held(asks, &request.url, trail).await?;
        let echoes = held.echoes();
        request.credential = Some(held);
        Ok(echoes)
    }

    /// Checks that a credential exists for a call of `permit` to `url`. For sources that do not
    /// make one request per call.
    pub(crate) async fn check(
        &self,
        permit: &Permit,
        url: &Url,
        trail: &EgressTrail,
    ) -> Result<Echoes, UpstreamError> {
        Ok(self.held(Asks::Caller(permit), url, trail).await?.echoes())
    }

    /// Waits until no token request is in flight. A source calls this when it closes; otherwise a
    /// new refresh token could be lost when the process ends.
    pub(crate) async fn settled(&self) {
        self.credentials.tokens.settled().await;
    }

    /// Returns the echo filter for the credentials sent recently.
    pub(crate) fn echoes(&self) -> Echoes {
        let recent = self.recent.lock();
        Echoes::new(recent.iter().flat_map(|held| held.values()))
    }

    async fn held(
        &self,
        asks: Asks<'_>,
        url: &Url,
        trail: &EgressTrail,
    ) -> Result<Arc<Held>, UpstreamError> {
        let owners = match (asks, &self.reference.scope) {
            (Asks::Caller(permit), _) => {
                let caller = permit.principal();
                self.reference.owners(&caller.tenant, &caller.id)
            }
            (Asks::Connection, CredentialScope::Tenant(tenant)) => {
                vec![Owner::tenant(tenant.clone())]
            }
            // A credential of a single caller is never used for a shared connection.
            (Asks::Connection, CredentialScope::Caller) => Vec::new(),
        };
        let found = self.credentials.resolve(&self.reference, &owners, url, &self.network).await;
        let refusal = match found {
            Ok(held) => {
                let held = Arc::new(held);
                self.remember(&held);
                return Ok(held);
            }
            Err(refusal) => refusal,
        };
        let name = &self.reference.name;
        Err(match refusal.cause {
            Cause::Credential(problem) => {
                trail.note(denied(egress::host(Some(url)), problem, refusal.id.as_ref()));
                let detail = format!("credential `{name}`: {problem}");
                UpstreamError::new(UpstreamErrorKind::Credential(problem), detail)
            }
            Cause::Unavailable(why) => {
                let detail = format!("credential `{name}`: {why}");
                UpstreamError::new(UpstreamErrorKind::Unavailable, detail)
            }
        })
    }

    fn remember(&self, held: &Arc<Held>) {
        let mut recent = self.recent.lock();
        recent.retain(|known| !known.is_same(held));
        recent.push_front(Arc::clone(held));
        recent.truncate(RECENT);
    }
}

/// Returns the egress decision that denies `destination` because of a credential `problem`.
pub(crate) fn denied(
    destination: String,
    problem: CredentialProblem,
    id: Option<&CredentialId>,
) -> EgressDecided {
    let reason = match problem {
        CredentialProblem::OutOfAudience => EgressReason::OutOfAudience,
        CredentialProblem::Expired | CredentialProblem::AuthExpired => EgressReason::Expired,
        CredentialProblem::NotFound | CredentialProblem::Unreadable => {
            EgressReason::ProvenanceUnevaluable
        }
    };
    EgressDecided {
        credential_id: id.map(ToString::to_string),
        ..EgressDecided::denied(destination, reason)
    }
}

// === impl Refusal ===

impl Refusal {
    fn of(problem: CredentialProblem, id: Option<CredentialId>) -> Self {
        Self { cause: Cause::Credential(problem), id }
    }
}

impl From<toolcrib_core::credential::CredentialStoreError> for Refusal {
    fn from(error: toolcrib_core::credential::CredentialStoreError) -> Self {
        use toolcrib_core::credential::CredentialStoreError::{NoKey, NotGenuine, OtherKey, Store};
        tracing::error!(%error, "a credential could not be read");
        match error {
            Store(error) => Self { cause: Cause::Unavailable(error.to_string()), id: None },
            NoKey => Self::of(CredentialProblem::Unreadable, None),
            OtherKey(id) | NotGenuine(id) => Self::of(CredentialProblem::Unreadable, Some(id)),
        }
    }
}
