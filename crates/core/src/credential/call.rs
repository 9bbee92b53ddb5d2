//! The credential of one call: what its source needs, and what the gate has resolved.
//!
//! Invariant (I-29): a resolved credential goes with its call to the source, and is never printed.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use async_trait::async_trait;

use super::{
    AccountOf, AccountSpec, Credential, CredentialProblem, CredentialRef, Material, Owner, Secret,
};
use crate::{
    egress::{EgressDecided, EgressReason},
    id::{CredentialId, PrincipalId, SourceId, TenantId},
};

/// The credential that a call to a source would use.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum CredentialNeed {
    /// The call is sent without a credential.
    #[default]
    None,
    /// A credential that the operator stored.
    Stored {
        /// Its name and possible owners.
        reference: CredentialRef,
        /// The URL that the call goes to, as far as it is known before the call: at least its host.
        destination: String,
    },
    /// The account of its owner at the upstream.
    Account {
        /// The source.
        source: SourceId,
        /// Whose account it is.
        account: Arc<AccountSpec>,
        /// The URL that the call goes to, at least its host.
        destination: String,
    },
}

/// A credential that can be sent with one call.
#[derive(Clone)]
pub struct ResolvedCredential {
    /// Everything except its values.
    pub credential: Credential,
    /// Its values.
    pub material: Material,
    /// The access token of an OAuth credential.
    pub token: Option<Arc<AccessToken>>,
}

/// An access token, shared by all calls that use it.
pub struct AccessToken {
    value: Secret,
    is_rejected: AtomicBool,
}

/// Why a call has no credential.
#[derive(Debug, Clone)]
pub struct CredentialRefusal {
    /// The cause.
    pub cause: RefusalCause,
    /// The credential concerned, if it is known.
    pub id: Option<CredentialId>,
    /// The host that the call would go to.
    pub destination: String,
}

/// The cause of a [`CredentialRefusal`].
#[derive(Debug, Clone)]
pub enum RefusalCause {
    /// The credential is missing or must not be sent.
    Credential(CredentialProblem),
    /// Temporary: the store or the token endpoint does not respond. The text is for the operator.
    Unavailable(String),
}

/// The caller that a credential is for.
#[derive(Debug, Clone, Copy)]
pub struct CredentialCaller<'c> {
    /// Its tenant.
    pub tenant: &'c TenantId,
    /// Its principal.
    pub principal: &'c PrincipalId,
    /// The token that it came with, for an exchange.
    pub presented: Option<&'c Secret>,
    /// The creators of its key; `None` for a request that no call causes.
    pub makers: Option<&'c [PrincipalId]>,
}

/// A stored credential that a call would use. It has no values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundCredential {
    /// Its identity in events.
    pub id: CredentialId,
    /// Its owner.
    pub owner: Owner,
}

/// Finds the credentials of calls. It belongs to the [factory](crate::source::SourceFactory) of the
/// sources that name them.
#[async_trait]
pub trait CredentialResolver: Send + Sync + 'static {
    /// Finds the credential for a call of `caller`, and gets its access token. If the need says so,
    /// the caller's own token is exchanged; it goes to the token endpoint alone. An account that was
    /// connected with a key of other makers is refused.
    ///
    /// # Errors
    /// [`CredentialRefusal`]: the call must not be sent.
    async fn resolve(
        &self,
        need: &CredentialNeed,
        caller: CredentialCaller<'_>,
    ) -> Result<Option<Arc<ResolvedCredential>>, CredentialRefusal>;

    /// Checks which credential [`resolve`](Self::resolve) would find, without a request for a
    /// token.
    ///
    /// # Errors
    /// The same as [`resolve`](Self::resolve).
    async fn find(
        &self,
        need: &CredentialNeed,
        caller: CredentialCaller<'_>,
    ) -> Result<Option<FoundCredential>, CredentialRefusal>;
}

/// A resolver without credentials.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoCredentials;

// === impl CredentialCaller ===

impl<'c> CredentialCaller<'c> {
    /// `principal` of `tenant`, for a request of the gateway that no call causes.
    pub fn without_call(tenant: &'c TenantId, principal: &'c PrincipalId) -> Self {
        Self { tenant, principal, presented: None, makers: None }
    }
}

// === impl CredentialNeed ===

impl CredentialNeed {
    /// Whether each principal uses an account of its own that it has connected.
    pub fn is_own_account(&self) -> bool {
        match self {
            Self::Account { account, .. } => {
                account.of == AccountOf::Principal && account.exchange.is_none()
            }
            Self::None | Self::Stored { .. } => false,
        }
    }
}

// === impl ResolvedCredential ===

impl fmt::Debug for ResolvedCredential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ResolvedCredential({})", self.credential.id)
    }
}

// === impl AccessToken ===

impl AccessToken {
    /// Creates a token that its upstream has not rejected.
    pub fn new(value: Secret) -> Self {
        Self { value, is_rejected: AtomicBool::new(false) }
    }

    /// The value to send.
    pub fn value(&self) -> &Secret {
        &self.value
    }

    /// Notes that an upstream rejects the token. The next call requests another one.
    pub fn reject(&self) {
        self.is_rejected.store(true, Ordering::Relaxed);
    }

    /// Whether an upstream has rejected it.
    pub fn is_rejected(&self) -> bool {
        self.is_rejected.load(Ordering::Relaxed)
    }
}

// === impl CredentialRefusal ===

impl CredentialRefusal {
    /// The decision to record; `None` if the cause is temporary.
    pub fn decided(&self) -> Option<EgressDecided> {
        match &self.cause {
            RefusalCause::Credential(problem) => {
                Some(denied(self.destination.clone(), *problem, self.id.as_ref()))
            }
            RefusalCause::Unavailable(_) => None,
        }
    }
}

/// Denies `destination` because of a credential `problem`.
pub fn denied(
    destination: String,
    problem: CredentialProblem,
    id: Option<&CredentialId>,
) -> EgressDecided {
    let reason = match problem {
        CredentialProblem::OutOfAudience => EgressReason::OutOfAudience,
        CredentialProblem::Expired
        | CredentialProblem::AuthExpired
        | CredentialProblem::NeedsConsent => EgressReason::Expired,
        CredentialProblem::NotFound
        | CredentialProblem::NotConnected
        | CredentialProblem::NotExchanged
        | CredentialProblem::NeedsScopes
        | CredentialProblem::NotGranted
        | CredentialProblem::OtherKey
        | CredentialProblem::NoKey
        | CredentialProblem::Replaced
        | CredentialProblem::OtherMakers
        | CredentialProblem::Unreadable => EgressReason::ProvenanceUnevaluable,
    };
    EgressDecided {
        credential_id: id.map(ToString::to_string),
        ..EgressDecided::denied(destination, reason)
    }
}

// === impl NoCredentials ===

#[async_trait]
impl CredentialResolver for NoCredentials {
    async fn resolve(
        &self,
        need: &CredentialNeed,
        caller: CredentialCaller<'_>,
    ) -> Result<Option<Arc<ResolvedCredential>>, CredentialRefusal> {
        self.find(need, caller).await.map(|_| None)
    }

    async fn find(
        &self,
        need: &CredentialNeed,
        _caller: CredentialCaller<'_>,
    ) -> Result<Option<FoundCredential>, CredentialRefusal> {
        let problem = match need {
            CredentialNeed::None => return Ok(None),
            CredentialNeed::Stored { .. } => CredentialProblem::NotFound,
            CredentialNeed::Account { .. } => CredentialProblem::NotConnected,
        };
        Err(CredentialRefusal {
            cause: RefusalCause::Credential(problem),
            id: None,
            destination: "unknown".to_owned(),
        })
    }
}
