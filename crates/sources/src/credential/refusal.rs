//! Why a credential is not sent.

use toolcrib_core::{
    credential::{CredentialProblem, CredentialStoreError},
    egress::{EgressDecided, EgressReason},
    id::CredentialId,
};

/// Why no credential can be sent.
#[derive(Debug, Clone)]
pub(super) struct Refusal {
    pub(super) cause: Cause,
    /// The credential concerned, when it is known.
    pub(super) id: Option<CredentialId>,
}

#[derive(Debug, Clone)]
pub(super) enum Cause {
    /// The credential is missing or must not be sent.
    Credential(CredentialProblem),
    /// Temporary: the store or the token endpoint does not respond.
    Unavailable(String),
}

/// Denies `destination` because of a credential `problem`.
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
    pub(super) fn of(problem: CredentialProblem, id: Option<CredentialId>) -> Self {
        Self { cause: Cause::Credential(problem), id }
    }
}

impl From<CredentialStoreError> for Refusal {
    fn from(error: CredentialStoreError) -> Self {
        use CredentialStoreError::{NoKey, NotGenuine, OtherKey, Store};
        tracing::error!(%error, "a credential could not be read");
        match error {
            Store(error) => Self { cause: Cause::Unavailable(error.to_string()), id: None },
            NoKey => Self::of(CredentialProblem::Unreadable, None),
            OtherKey(id) | NotGenuine(id) => Self::of(CredentialProblem::Unreadable, Some(id)),
        }
    }
}
