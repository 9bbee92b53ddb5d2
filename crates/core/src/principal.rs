//! Principals: authenticated callers.

use std::{fmt, sync::Arc};

use serde::{Deserialize, Serialize};

use crate::{
    clock::Timestamp,
    id::{CredentialId, KeyId, PrincipalId, TenantId},
    scope::{Grant, ScopeSet},
};

/// An authenticated (or explicitly anonymous) caller with everything a decision needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Principal {
    /// Stable within the tenant.
    pub id: PrincipalId,
    /// The tenant whose tools, limits and events apply.
    pub tenant: TenantId,
    /// The caller's grants; roles are already resolved into them.
    pub scopes: ScopeSet,
    /// Names of its roles, for decisions that require one by name (approvals). All of them are
    /// configured.
    pub roles: Vec<String>,
    /// The creators of its key, who could also have used it. Empty without a key.
    pub makers: Vec<PrincipalId>,
    /// How the identity was established.
    pub auth: AuthMethod,
    /// The browser session in which it presented that credential. Streams close with the session;
    /// calls and runs belong to the credential alone.
    pub session: Option<KeyId>,
}

impl Principal {
    /// Removes the browser session, for work that continues after a sign-out.
    pub fn without_session(&self) -> Self {
        Self { session: None, ..self.clone() }
    }

    /// Every principal that could be acting: itself, and the creators of its key.
    pub fn hands(&self) -> impl Iterator<Item = &PrincipalId> {
        std::iter::once(&self.id).chain(&self.makers)
    }
}

/// A principal with its tenant: principals of two tenants may have one id.
///
/// Its text is `TENANT/ID`. `%` and `/` of the tenant are written as `%25` and `%2F`, so that
/// different principals have different texts.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PrincipalKey {
    /// Its tenant.
    pub tenant: TenantId,
    /// Its id in that tenant.
    pub principal: PrincipalId,
}

impl PrincipalKey {
    /// Creates the key of `principal`.
    pub fn of(principal: &Principal) -> Self {
        Self { tenant: principal.tenant.clone(), principal: principal.id.clone() }
    }

    /// The principal as the record of `tenant` names it: by its id alone in its own tenant, with
    /// its tenant in the operator's, and not at all in those of other tenants.
    pub fn in_record_of(&self, tenant: &TenantId) -> Option<PrincipalId> {
        match tenant {
            own if *own == self.tenant => Some(self.principal.clone()),
            operator if operator.as_str() == TenantId::OPERATOR => {
                PrincipalId::parse(self.to_string()).ok()
            }
            _other => None,
        }
    }
}

impl fmt::Display for PrincipalKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tenant = self.tenant.as_str();
        match tenant.contains(['%', '/']) {
            true => write!(f, "{}", tenant.replace('%', "%25").replace('/', "%2F"))?,
            false => f.write_str(tenant)?,
        }
        write!(f, "/{}", self.principal)
    }
}

/// How a principal authenticated.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AuthMethod {
    /// A stored API key.
    ApiKey(KeyId),
    /// A signed token of an issuer that the configuration trusts, or an access token that a client got
    /// here after such a token.
    Jwt(Arc<Token>),
    /// No credentials; only the scopes of `[anonymous]` apply.
    Anonymous,
    /// The operator on the machine itself (command line with access to the store).
    Operator,
}

impl AuthMethod {
    /// The key; `None` if the principal used no API key.
    pub fn key(&self) -> Option<&KeyId> {
        match self {
            Self::ApiKey(key) => Some(key),
            Self::Jwt(_) | Self::Anonymous | Self::Operator => None,
        }
    }

    /// The client that acts for the person, if it has an access token of this server.
    pub fn client(&self) -> Option<&ActingClient> {
        match self {
            Self::Jwt(token) => token.client.as_ref(),
            Self::ApiKey(_) | Self::Anonymous | Self::Operator => None,
        }
    }
}

/// The facts of a verified token: enough to check later whether it is still valid, but not to
/// present it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Token {
    /// The configured issuer, which equals the `iss` claim.
    pub issuer: String,
    /// When it expires.
    pub expires_at: Timestamp,
    /// Roles it names; the current configuration decides which of them count.
    pub roles: Vec<String>,
    /// Scopes it names; the current configuration decides which of them count.
    pub scopes: Vec<Grant>,
    /// Hash of the issuer's settings and of the verifying key. The token stays valid while an
    /// issuer with these settings and that key is configured.
    pub proof: [u8; 32],
    /// The client that acts for the person, for a token that this server issued.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client: Option<ActingClient>,
}

/// A client with an access token of this server's own authorization server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ActingClient {
    /// Its id, at most 512 printable ASCII characters.
    pub id: String,
    /// The id of the access token, under which it can be revoked.
    pub key: KeyId,
    /// The grant of the access token.
    pub grant: CredentialId,
    /// The path that the token is for, without a `/` at its end; empty for the whole server.
    pub path: String,
}

impl ActingClient {
    /// Whether the token is for requests to `path`.
    pub fn reaches(&self, path: &str) -> bool {
        let rest = path.strip_prefix(self.path.as_str());
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    }
}
