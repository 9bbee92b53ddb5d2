//! Credentials on their way out: which one a request needs, and how it goes along.
//!
//! A source that names a credential calls [`SourceCredential::authorize`] with each request that it
//! is about to send for a call, and cleans what comes back with the [`Echoes`] that it is given.
//! Credentials are found and access tokens are had here; `egress` asks the [`Held`] credential at
//! each destination, the redirected ones too, whether it may go there.
//!
//! Invariant (I-36): a credential goes to the hosts of its audiences alone, over TLS or within this
//! machine, never on to another host, and a call that needs one is not sent without it.
//! Invariant: the values of a credential are in no error, log, event or answer; what an upstream
//! echoes is replaced.

mod held;
mod oauth;

use std::{collections::VecDeque, sync::Arc};

use parking_lot::Mutex;
use toolcrib_core::{
    authorize::Permit,
    call::{UpstreamError, UpstreamErrorKind},
    clock::Clock,
    credential::{
        CredentialProblem, CredentialRef, CredentialScope, CredentialStore, Opened, Owner,
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

/// Credentials that a source presented lately and whose values an upstream may still echo.
const RECENT: usize = 4;

/// Finds credentials, and gets access tokens where that is what they are for.
pub(crate) struct Credentials {
    store: Option<Arc<dyn CredentialStore>>,
    clock: Arc<dyn Clock>,
    tokens: Tokens,
}

/// The credential that a source names.
pub(crate) struct SourceCredential {
    credentials: Arc<Credentials>,
    reference: CredentialRef,
    /// For token endpoints.
    network: Arc<Network>,
    recent: Mutex<VecDeque<Arc<Held>>>,
}

/// Who asks for a request's credential.
#[derive(Clone, Copy)]
pub(crate) enum Asks<'a> {
    /// The caller whose call the request is sent for.
    Caller(&'a Permit),
    /// The source itself, whose callers share a connection.
    Connection,
}

/// Why there is no credential to send.
#[derive(Debug, Clone)]
pub(crate) struct Refusal {
    pub(crate) cause: Cause,
    /// Which one it would have been.
    pub(crate) id: Option<CredentialId>,
}

#[derive(Debug, Clone)]
pub(crate) enum Cause {
    /// It may not be sent, or there is none.
    Credential(CredentialProblem),
    /// It may be there later: the store or the token endpoint does not answer.
    Unavailable(String),
}

// === impl Credentials ===

impl Credentials {
    pub(crate) fn new(store: Option<Arc<dyn CredentialStore>>, clock: Arc<dyn Clock>) -> Self {
        let tokens = Tokens::new(Arc::clone(&clock));
        Self { store, clock, tokens }
    }

    /// What `reference` means for the first of `owners` that has it, ready to be sent to `url`.
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
        let Opened { credential, material } = found.ok_or(missing)?;
        let id = credential.id.clone();
        // Before a token is had for nothing.
        if !held::may_go(&credential, url) {
            return Err(Refusal::of(CredentialProblem::OutOfAudience, Some(id)));
        }
        if credential.has_expired(self.clock.now()) {
            return Err(Refusal::of(CredentialProblem::Expired, Some(id)));
        }
        let token = match credential.kind.oauth2() {
            None => None,
            Some(_) => {
                let opened = Opened { credential: credential.clone(), material: material.clone() };
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

    /// Has `request` carry the credential; what is returned takes its values out of what the upstream
    /// sends back. A refusal is noted in `trail`, and the request must not be sent then.
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

    /// Whether there is a credential for a call of `permit` that leads to `url`, for sources whose
    /// requests are not made one for each call.
    pub(crate) async fn check(
        &self,
        permit: &Permit,
        url: &Url,
        trail: &EgressTrail,
    ) -> Result<Echoes, UpstreamError> {
        Ok(self.held(Asks::Caller(permit), url, trail).await?.echoes())
    }

    /// Waits until no token request is on its way. A source does so when it is closed: what a token
    /// endpoint gives in place of a refresh token is lost with the process otherwise.
    pub(crate) async fn settled(&self) {
        self.credentials.tokens.settled().await;
    }

    /// Replaces the values of what was presented lately.
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
            // A caller's own never belongs to a connection.
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

/// The decision not to send anything to `destination`, for want of a credential.
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
