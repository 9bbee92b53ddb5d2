//! Credentials: the secrets that a source presents upstream on behalf of a caller.
//!
//! A [`Credential`] holds everything about a credential except its values. Those are a [`Material`]
//! of [`Secret`]s, which have no `Display`, no `Serialize`, and a `Debug` without content. A source
//! names its credential by a [`CredentialRef`]. The gate resolves it for each call, before an
//! approval is requested, to a [`ResolvedCredential`].
//!
//! Invariant: a credential is sent only to the hosts and origins of its audiences.

mod account;
mod audience;
mod call;
mod grant;
mod kind;
mod store;

use std::fmt;

use secrecy::{ExposeSecret, SecretString};
use serde::{Deserialize, Serialize};

pub use self::{
    account::{
        AccountOf, AccountSpec, PresetClient, PresetEndpoints, ResourceParameter, TokenExchange,
    },
    audience::{Audience, Destination, InvalidAudience},
    call::{
        AccessToken, CredentialCaller, CredentialNeed, CredentialRefusal, CredentialResolver,
        FoundCredential, NoCredentials, RefusalCause, ResolvedCredential, denied,
    },
    grant::{
        AccountGrant, ConnectLink, GrantPlace, GrantSecrets, GrantState, GrantStore, GrantTerms,
        MAX_LINKS, MAX_PENDING_AUTHORIZATIONS, PendingAuthorization, PendingTerms,
        RegisteredClient,
    },
    kind::{ClientAuth, CredentialKind, InvalidKind, OAuth2},
    store::{CredentialStore, CredentialStoreError, UnsealedCredential},
};
use crate::{
    clock::Timestamp,
    id::{CredentialId, CredentialName, PrincipalId, TenantId},
};

/// A value that must never reach a log, an event, an error, a descriptor or a result.
#[derive(Clone)]
pub struct Secret(SecretString);

/// A configured value to treat as a secret. Compared by its plain text, for reloads.
#[derive(Debug, Clone)]
pub struct SecretValue(pub Secret);

impl PartialEq for SecretValue {
    fn eq(&self, other: &Self) -> bool {
        self.0.expose() == other.0.expose()
    }
}
impl Eq for SecretValue {}

/// Everything about a stored credential except its values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Credential {
    /// Its identity in events and in place of its value; reveals nothing about the value.
    pub id: CredentialId,
    /// The name by which sources refer to it; unique for its owner.
    pub name: CredentialName,
    /// Its owner.
    pub owner: Owner,
    /// How it is presented.
    pub kind: CredentialKind,
    /// The hosts and origins it may be sent to; never empty.
    pub audiences: Vec<Audience>,
    /// When it was first stored.
    pub created_at: Timestamp,
    /// When its values were last changed.
    pub rotated_at: Timestamp,
    /// When it expires; afterwards it is not sent.
    pub expires_at: Option<Timestamp>,
    /// Increases by one with every change of its values.
    pub revision: u64,
}

/// The values of a credential.
#[derive(Debug, Clone)]
pub struct Material {
    /// The value of the header or parameter, the password, the client secret or the refresh token,
    /// depending on the kind.
    pub value: Secret,
    /// The client secret that accompanies a refresh token, if the client has one.
    pub client_secret: Option<Secret>,
}

/// The owner of a credential: one principal, or a whole tenant.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Owner {
    /// The tenant.
    pub tenant: TenantId,
    /// The principal of that tenant; `None` if every principal of the tenant may use the
    /// credential.
    pub principal: Option<PrincipalId>,
}

/// A source's reference to the credential that its requests need.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CredentialRef {
    /// Its name.
    pub name: CredentialName,
    /// Whose credential is used.
    pub scope: CredentialScope,
}

/// Whose credential is used for a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CredentialScope {
    /// The caller's own credential, or else that of the caller's tenant.
    Caller,
    /// The credential of this tenant, for every caller: for sources whose callers share a
    /// connection.
    Tenant(TenantId),
}

/// Why a credential, and therefore the call, was not sent. `Display` is safe for callers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CredentialProblem {
    /// No credential with that name is stored for the caller or its tenant.
    #[error("the tool needs a credential that is not stored for this caller; contact the operator")]
    NotFound,
    /// The target host is not in its audiences, or is not reached over TLS.
    #[error("the credential's audience does not include the target host; the call was not sent")]
    OutOfAudience,
    /// It has expired, so it is not sent.
    #[error("the tool's credential has expired; contact the operator")]
    Expired,
    /// It cannot be decrypted, or its audience cannot be determined.
    #[error("the tool's credential cannot be used here; contact the operator")]
    Unreadable,
    /// It was sealed with another key than those of the configuration. It is kept.
    #[error(
        "the tool's credential was sealed with another key than this server has; it is kept, and \
         works again when the operator names that key as `[store] old_seal_key`"
    )]
    OtherKey,
    /// The configuration has no seal key.
    #[error(
        "this server has no key to open the tool's credential; the operator has to set `[store] \
         seal_key`"
    )]
    NoKey,
    /// The authorization server refuses to issue tokens for it.
    #[error("the tool's authorization has expired and must be renewed; contact the operator")]
    AuthExpired,
    /// The owner has connected no account to the source.
    #[error("no account is connected to this tool's source")]
    NotConnected,
    /// The authorization server refuses the account's tokens. The owner has to consent again.
    #[error("the account that is connected to this tool's source must be connected again")]
    NeedsConsent,
    /// The account's tokens lack a scope that this call needs. They work for other calls, and the
    /// owner can consent to this scope.
    #[error("the account that is connected to this tool's source lacks a scope for this tool")]
    NeedsScopes,
    /// The account's tokens lack a scope that this call needs, and a consent did not give it.
    #[error("the account that is connected to this tool's source was not granted what it needs")]
    NotGranted,
    /// An account was connected anew while the call waited to be sent.
    #[error("the account was replaced while the call waited; call the tool again")]
    Replaced,
    /// Other principals created the key of the call than the key with which the account was
    /// connected.
    #[error(
        "the account of this principal was connected with another key, which other principals \
         created, so calls with this key do not use it; connect it with this key, or use the other"
    )]
    OtherMakers,
    /// The authorization server does not exchange the caller's token, or the service rejects the
    /// results.
    #[error("the caller's token is not accepted for this tool's service; contact the operator")]
    NotExchanged,
}

// === impl Secret ===

impl Secret {
    /// Wraps `value`; the memory is wiped when the last clone is dropped.
    pub fn new(value: String) -> Self {
        Self(value.into())
    }

    /// The plain value, for the code that sends it upstream or compares it.
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
    /// Whether it has expired at `now`.
    pub fn has_expired(&self, now: Timestamp) -> bool {
        self.expires_at.is_some_and(|end| end <= now)
    }
}

// === impl Owner ===

impl Owner {
    /// The whole of `tenant` as owner.
    pub fn tenant(tenant: TenantId) -> Self {
        Self { tenant, principal: None }
    }

    /// One principal of `tenant` as owner.
    pub fn principal(tenant: TenantId, principal: PrincipalId) -> Self {
        Self { tenant, principal: Some(principal) }
    }
}

// === impl CredentialRef ===

impl CredentialRef {
    /// Creates a reference to the caller's credential with that name, or else that of its tenant.
    pub fn of_caller(name: CredentialName) -> Self {
        Self { name, scope: CredentialScope::Caller }
    }

    /// Creates a reference to the credential with that name of `tenant`.
    pub fn of_tenant(name: CredentialName, tenant: TenantId) -> Self {
        Self { name, scope: CredentialScope::Tenant(tenant) }
    }

    /// The owners to try, in order, for a call by `principal` of `tenant`.
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
    /// The stable code for events and error bodies.
    pub fn code(self) -> &'static str {
        match self {
            Self::NotFound => "credential_not_found",
            Self::OutOfAudience
            | Self::Expired
            | Self::Unreadable
            | Self::OtherKey
            | Self::NoKey
            | Self::Replaced
            | Self::OtherMakers
            | Self::NotExchanged
            | Self::NotGranted => "credential_forbidden",
            Self::AuthExpired => "connector_auth_expired",
            Self::NotConnected | Self::NeedsConsent | Self::NeedsScopes => "connection_required",
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
    fn the_callers_own_credential_comes_first_and_a_fixed_tenant_ignores_the_caller() {
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
