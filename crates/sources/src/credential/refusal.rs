//! Why a credential is not sent.

use toolcrib_core::{
    credential::{CredentialProblem, CredentialRefusal, CredentialStoreError, RefusalCause},
    id::CredentialId,
};
use url::Url;

use crate::egress::host;

/// Why no credential can be sent: the cause, and the credential if it is known.
pub(super) struct Refusal(pub(super) RefusalCause, pub(super) Option<CredentialId>);

// === impl Refusal ===

impl Refusal {
    pub(super) fn of(problem: CredentialProblem, id: Option<CredentialId>) -> Self {
        Self(RefusalCause::Credential(problem), id)
    }

    /// The refusal of a request to `url`.
    pub(super) fn at(self, url: Option<&Url>) -> CredentialRefusal {
        let Self(cause, id) = self;
        CredentialRefusal { cause, id, destination: host(url) }
    }
}

impl From<CredentialStoreError> for Refusal {
    fn from(error: CredentialStoreError) -> Self {
        use CredentialStoreError::{NoKey, NotGenuine, OtherKey, Store};
        tracing::error!(%error, "a credential could not be read");
        match error {
            Store(error) => Self(RefusalCause::Unavailable(error.to_string()), None),
            NoKey => Self::of(CredentialProblem::NoKey, None),
            OtherKey(id) => Self::of(CredentialProblem::OtherKey, Some(id)),
            NotGenuine(id) => Self::of(CredentialProblem::Unreadable, Some(id)),
        }
    }
}
