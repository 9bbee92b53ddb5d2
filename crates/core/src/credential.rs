//! Credentials: what a source presents upstream on behalf of a caller.
//!
//! A [`Credential`] says everything about one but its values; those are a [`Material`], made of
//! [`Secret`]s, which have no `Display`, no `Serialize`, and a `Debug` that says nothing. A source
//! names what it needs by a [`CredentialRef`]; the two meet when a call is about to be sent.
//!
//! Invariant: a credential is for the hosts of its audiences and for nobody else.

mod audience;
mod kind;
mod store;

use std::fmt;

use secrecy::{ExposeSecret, SecretString};
use serde::{Deserialize, Serialize};

pub use self::{
    audience::{Audience, InvalidAudience},
    kind::{ClientAuth, CredentialKind, InvalidKind, OAuth2},
    store::{CredentialStore, CredentialStoreError, Opened},
};
use crate::{
    clock::Timestamp,
    id::{CredentialId, CredentialName, PrincipalId, TenantId},
};

/// A value that must never reach a log, an event, an error, a descriptor or a result.
#[derive(Clone)]
pub struct Secret(SecretString);

/// Everything about a stored credential but its values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Credential {
    /// Its identity in events and in place of its value. Says nothing about it.
    pub id: CredentialId,
    /// The name by which sources refer to it; unique for its owner.
    pub name: CredentialName,
    /// Whose it is.
    pub owner: Owner,
    /// How it is presented.
    pub kind: CredentialKind,
    /// Where it may be sent; never empty.
    pub audiences: Vec<Audience>,
    /// When it was stored first.
    pub created_at: Timestamp,
    /// When its values were changed last.
    pub rotated_at: Timestamp,
    /// When it is no longer sent.
    pub expires_at: Option<Timestamp>,
    /// Rises by one whenever its values are changed.
    pub revision: u64,
}

/// The values of a credential.
#[derive(Debug, Clone)]
pub struct Material {
    /// The header's or parameter's value, the password, the client secret or the refresh token, as
    /// the kind says.
    pub value: Secret,
    /// The client secret beside a refresh token, when the client has one.
    pub client_secret: Option<Secret>,
}

/// Whose a credential is: one principal's, or the whole tenant's.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Owner {
    /// The tenant.
    pub tenant: TenantId,
    /// The principal of that tenant; `None` when every principal of it may use the credential.
    pub principal: Option<PrincipalId>,
}

/// What a source says of the credential that its requests need.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CredentialRef {
    /// Its name.
    pub name: CredentialName,
    /// Whose is used.
    pub scope: CredentialScope,
}

/// Whose credential is used for a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CredentialScope {
    /// The caller's own, and otherwise that of the caller's tenant.
    Caller,
    /// This tenant's, whoever calls: for sources whose callers share a connection.
    Tenant(TenantId),
}

/// Why a credential was not sent, and so nothing was. `Display` is fit for callers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CredentialProblem {
    /// None of that name is stored for the caller or its tenant.
    #[error("the tool needs a credential that is not stored for this caller; ask the operator")]
    NotFound,
    /// The destination is none of its audiences, or is not reached over TLS.
    #[error("the tool's credential is not for where the call leads, so the call was not sent")]
    OutOfAudience,
    /// Its time is over.
    #[error("the tool's credential has expired; ask the operator")]
    Expired,
    /// It cannot be read, or what it is for cannot be told.
    #[error("the tool's credential cannot be used here; ask the operator")]
    Unreadable,
    /// The authorization server no longer gives tokens for it.
    #[error("the tool's authorization has ended and has to be given again; ask the operator")]
    AuthExpired,
}

// === impl Secret ===

impl Secret {
    /// Wraps `value`; the memory is wiped when the last clone is dropped.
    pub fn new(value: String) -> Self {
        Self(value.into())
    }

    /// The plain value, for the one place that hands it to an upstream or compares it.
    pub fn expose(&self) -> &str {
        self.0.expose_secret()
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

// === impl Credential ===

impl Credential {
    /// Whether it may be sent to `host`, a host as a parsed URL has it.
    pub fn is_for(&self, host: &str) -> bool {
        self.audiences.iter().any(|audience| audience.admits(host))
    }

    /// Whether its time is over at `now`.
    pub fn has_expired(&self, now: Timestamp) -> bool {
        self.expires_at.is_some_and(|end| end <= now)
    }
}

// === impl Owner ===

impl Owner {
    /// The whole of `tenant`.
    pub fn tenant(tenant: TenantId) -> Self {
        Self { tenant, principal: None }
    }

    /// One principal of `tenant`.
    pub fn principal(tenant: TenantId, principal: PrincipalId) -> Self {
        Self { tenant, principal: Some(principal) }
    }
}

// === impl CredentialRef ===

impl CredentialRef {
    /// The caller's own credential of that name, or that of the caller's tenant.
    pub fn of_caller(name: CredentialName) -> Self {
        Self { name, scope: CredentialScope::Caller }
    }

    /// The credential of that name that belongs to `tenant`.
    pub fn of_tenant(name: CredentialName, tenant: TenantId) -> Self {
        Self { name, scope: CredentialScope::Tenant(tenant) }
    }

    /// The owners whose credential is looked for, in order, when `tenant` and `principal` call.
    pub fn owners(&self, tenant: &TenantId, principal: &PrincipalId) -> Vec<Owner> {
        match &self.scope {
            CredentialScope::Caller => vec![
                Owner::principal(tenant.clone(), principal.clone()),
                Owner::tenant(tenant.clone()),
            ],
            CredentialScope::Tenant(fixed) => vec![Owner::tenant(fixed.clone())],
        }
    }
}

// === impl CredentialProblem ===

impl CredentialProblem {
    /// Stable code for events and error bodies.
    pub fn code(self) -> &'static str {
        match self {
            Self::NotFound => "credential_not_found",
            Self::OutOfAudience | Self::Expired | Self::Unreadable => "credential_forbidden",
            Self::AuthExpired => "connector_auth_expired",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // I-29
    #[test]
    fn a_secret_does_not_show_itself() {
        let secret = Secret::new("canary".to_owned());
        let material = Material { value: secret.clone(), client_secret: Some(secret.clone()) };
        let shown = format!("{secret:?} {:#?} {material:?}", Some(&secret));
        assert_eq!(shown.matches("canary").count(), 0);
        assert_eq!(secret.expose(), "canary");
    }

    #[test]
    fn the_callers_own_credential_comes_first_and_a_fixed_tenant_knows_no_caller() {
        let (acme, ann) = (TenantId::parse("acme").unwrap(), PrincipalId::parse("ann").unwrap());
        let name = CredentialName::parse("github").unwrap();
        let own = Owner::principal(acme.clone(), ann.clone());
        let whole = Owner::tenant(acme.clone());
        assert_eq!(CredentialRef::of_caller(name.clone()).owners(&acme, &ann), [own, whole]);
        let beta = TenantId::parse("beta").unwrap();
        let fixed = CredentialRef::of_tenant(name, beta.clone());
        assert_eq!(fixed.owners(&acme, &ann), [Owner::tenant(beta)]);
    }
}
