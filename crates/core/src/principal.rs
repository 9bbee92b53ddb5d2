//! Principals: authenticated callers.

use std::{collections::BTreeSet, fmt, sync::Arc};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    clock::Timestamp,
    credential::{CredentialCaller, Secret},
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
    /// The browser session in which it presented that credential. Streams close with the session,
    /// and no call is sent after its end; runs of workflows belong to the credential alone.
    pub session: Option<KeyId>,
}

impl Principal {
    /// Removes the browser session, for work that continues after a sign-out.
    pub fn without_session(&self) -> Self {
        Self { session: None, ..self.clone() }
    }

    /// The token of a trusted issuer that it came with, for exchanges; `None` in a browser session.
    pub fn presented(&self) -> Option<&Secret> {
        match &self.auth {
            AuthMethod::Jwt(token) if self.session.is_none() => token.presented.0.as_ref(),
            AuthMethod::Jwt(_)
            | AuthMethod::ApiKey(_)
            | AuthMethod::Anonymous
            | AuthMethod::Operator => None,
        }
    }

    /// It, as the caller that a credential is for.
    pub fn credential_caller(&self) -> CredentialCaller<'_> {
        CredentialCaller {
            tenant: &self.tenant,
            principal: &self.id,
            presented: self.presented(),
            makers: Some(&self.makers),
        }
    }

    /// Every principal that could be acting: itself, and the creators of its key.
    pub fn hands(&self) -> impl Iterator<Item = &PrincipalId> {
        hands(&self.id, &self.makers)
    }

    /// The names of [`hands`](Self::hands), each once.
    pub fn hand_names(&self) -> BTreeSet<&str> {
        self.hands().map(PrincipalId::as_str).collect()
    }
}

/// Every principal that could act with a key of `own` that `makers` created.
pub(crate) fn hands<'p>(
    own: &'p PrincipalId,
    makers: &'p [PrincipalId],
) -> impl Iterator<Item = &'p PrincipalId> {
    std::iter::once(own).chain(makers)
}

/// The most actors of a token that are recorded.
pub const MAX_ACTORS: usize = 4;

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

    /// Who acts for the principal, as the issuer of its token says; the present actor first.
    pub fn actors(&self) -> &[PrincipalId] {
        match self {
            Self::Jwt(token) => &token.actors,
            Self::ApiKey(_) | Self::Anonymous | Self::Operator => &[],
        }
    }

    /// How the principal came in, in the words of `GET /v1/whoami`.
    pub fn word(&self) -> &'static str {
        match self {
            Self::ApiKey(_) => "key",
            Self::Jwt(token) if token.client.is_some() => "client",
            Self::Jwt(_) => "token",
            Self::Anonymous => "anonymous",
            Self::Operator => "operator",
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

/// The facts of a verified token: enough to check later whether it is still valid.
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
    /// Who acts for the principal, as the issuer says (RFC 8693, section 4.1): at most
    /// [`MAX_ACTORS`], the present actor first. They give and take no rights.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub actors: Vec<PrincipalId>,
    /// The token itself, if a source exchanges tokens. It stays in memory, with its principal.
    #[serde(skip)]
    pub presented: PresentedToken,
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
    /// How it got the grant.
    pub by: ClientWay,
    /// The path that the token is for, `/mcp` or that of a toolset.
    pub path: String,
}

/// How a client gets a grant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ClientWay {
    /// The person consented, and signed in with the identity provider.
    Consent,
    /// It presented an assertion about the person.
    Assertion,
}

/// The token that a caller came with. It is neither stored nor printed, and two principals that
/// differ in it alone are equal.
#[derive(Clone, Default)]
pub struct PresentedToken(Option<Secret>);

// === impl ClientWay ===

impl ClientWay {
    /// The word in events.
    pub fn word(self) -> &'static str {
        match self {
            Self::Consent => "consent",
            Self::Assertion => "assertion",
        }
    }
}

// === impl ActingClient ===

impl ActingClient {
    /// Whether the token is for requests to `path`. With every token a client can see whose it is,
    /// and what it may use.
    pub fn reaches(&self, path: &str) -> bool {
        if matches!(path, "/v1/whoami" | "/v1/explain") {
            return true;
        }
        let rest = path.strip_prefix(self.path.as_str());
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    }
}

// === impl PresentedToken ===

impl PresentedToken {
    /// Wraps `token`.
    pub fn new(token: Secret) -> Self {
        Self(Some(token))
    }
}

impl PartialEq for PresentedToken {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for PresentedToken {}

impl fmt::Debug for PresentedToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PresentedToken(..)")
    }
}

// === impl Token ===

impl Token {
    /// The same token without itself, for the store.
    #[must_use]
    pub fn without_presented(&self) -> Self {
        Self { presented: PresentedToken::default(), ..self.clone() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // I-29
    #[test]
    fn a_presented_token_is_neither_printed_nor_stored() {
        let stored = Token {
            issuer: "https://id.example".to_owned(),
            expires_at: Timestamp::UNIX_EPOCH,
            roles: Vec::new(),
            scopes: Vec::new(),
            proof: [0; 32],
            client: None,
            actors: vec!["agent".parse().unwrap()],
            presented: PresentedToken::default(),
        };
        let secret = Secret::new("token-canary".to_owned());
        let token = Token { presented: PresentedToken::new(secret), ..stored.clone() };
        let json = serde_json::to_string(&token).unwrap();
        assert!(!json.contains("canary") && !format!("{token:?}").contains("canary"), "{json}");
        let read: Token = serde_json::from_str(&json).unwrap();
        assert!(read == token && read.presented.0.is_none());
        assert!(token.without_presented().presented.0.is_none());
    }
}
