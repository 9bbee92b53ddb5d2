//! How an account at an upstream is connected.
//!
//! A person connects an account in a browser. [`AccountConnector::begin`] gives the address at the
//! authorization server, and [`AccountConnector::finish`] exchanges the code that the browser brings
//! back. The result is a [grant](crate::credential::AccountGrant).

use std::fmt;

use async_trait::async_trait;

use super::spec::SourceSpec;
use crate::{
    canonical::Digest,
    clock::Timestamp,
    credential::{
        AccountGrant, GrantPlace, GrantSecrets, GrantTerms, PendingAuthorization, Secret,
    },
    id::{CredentialId, PrincipalId},
};

/// A request to connect an account.
#[derive(Clone)]
pub struct ConnectRequest<'a> {
    /// The source.
    pub spec: &'a SourceSpec,
    /// The grant to make.
    pub place: GrantPlace,
    /// The principal in the browser.
    pub principal: PrincipalId,
    /// The hash of the cookie of the browser.
    pub browser: Digest,
    /// The address to which the browser comes back.
    pub redirect_uri: &'a str,
    /// The address of the description of this gateway as a client
    /// (draft-ietf-oauth-client-id-metadata-document), if authorization servers can fetch it.
    pub client_document: Option<&'a str>,
    /// The earlier grant, whose scopes are kept.
    pub earlier: Option<&'a AccountGrant>,
    /// The id of the new grant.
    pub id: CredentialId,
    /// The state of the request: random.
    pub state: &'a Secret,
    /// 32 random bytes for the PKCE verifier.
    pub random: [u8; 32],
    /// When the response comes too late.
    pub expires_at: Timestamp,
}

/// An authorization that the browser can begin.
pub struct BegunAuthorization {
    /// The address for the browser.
    pub address: String,
    /// What to store until the browser comes back.
    pub pending: PendingAuthorization,
    /// The PKCE verifier.
    pub verifier: Secret,
}

/// The contents of an authorization, before it begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Prospect {
    /// The authorization server.
    pub issuer: String,
    /// The address at which the person agrees. The parameters do not matter.
    pub authorization: String,
    /// The address that issues the tokens.
    pub token: String,
    /// The scopes that are requested.
    pub scopes: Vec<String>,
    /// The authorization server where the accounts of the source are connected, if it is another
    /// one, and the service decides about it. Only a preview has it.
    pub earlier_issuer: Option<String>,
}

/// The parameters that the browser brings back.
#[derive(Clone, Default)]
pub struct AuthorizationResponse {
    /// The code.
    pub code: Option<Secret>,
    /// The issuer (RFC 9207).
    pub issuer: Option<String>,
    /// The code of a refusal.
    pub error: Option<String>,
}

/// Why an account was not connected. `Display` is for the person in the browser, and has no text of
/// a server.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AccountError {
    /// The upstream or its authorization server lacks something. Trying again does not help.
    #[error("{0}")]
    Unsupported(String),
    /// There is no answer, or it is unusable now.
    #[error("{0}")]
    Unavailable(String),
    /// The authorization server refused.
    #[error("the service refused: {0}")]
    Refused(&'static str),
    /// The response is not the one that was asked for. No text of it may be shown.
    #[error("this response does not belong to the request that was sent")]
    NotOurs,
}

/// Connects accounts. It belongs to the [factory](super::SourceFactory) of the sources.
#[async_trait]
pub trait AccountConnector: Send + Sync + 'static {
    /// Discovers the authorization server, and returns what [`begin`](Self::begin) would request at
    /// `place`. Stores nothing and registers no client.
    ///
    /// # Errors
    /// [`AccountError`].
    async fn preview(
        &self,
        spec: &SourceSpec,
        place: &GrantPlace,
        earlier: Option<&AccountGrant>,
    ) -> Result<Prospect, AccountError>;

    /// Discovers the authorization server, finds or registers a client there, and makes the address
    /// for the browser. Stores nothing but a registered client.
    ///
    /// # Errors
    /// [`AccountError`].
    async fn begin(&self, request: ConnectRequest<'_>) -> Result<BegunAuthorization, AccountError>;

    /// Checks the response, and exchanges its code. The values of the result are not stored yet.
    ///
    /// # Errors
    /// [`AccountError`].
    async fn finish(
        &self,
        spec: &SourceSpec,
        pending: &PendingAuthorization,
        verifier: &Secret,
        response: &AuthorizationResponse,
    ) -> Result<(GrantTerms, GrantSecrets), AccountError>;

    /// Revokes the tokens of a removed grant at its server (RFC 7009). Returns whether the server
    /// confirmed it.
    async fn revoke(&self, grant: &AccountGrant, secrets: &GrantSecrets) -> bool;
}

/// A connector for factories without accounts.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoAccounts;

// === impl BegunAuthorization ===

impl BegunAuthorization {
    /// The contents of the authorization.
    pub fn prospect(&self) -> Prospect {
        let terms = &self.pending.terms;
        Prospect {
            issuer: terms.issuer.clone(),
            authorization: self.address.clone(),
            token: terms.oauth2.token_url.clone(),
            scopes: terms.oauth2.scopes.clone(),
            earlier_issuer: None,
        }
    }
}

// === impl AuthorizationResponse ===

impl fmt::Debug for AuthorizationResponse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AuthorizationResponse").finish_non_exhaustive()
    }
}

// === impl NoAccounts ===

#[async_trait]
impl AccountConnector for NoAccounts {
    async fn preview(
        &self,
        _: &SourceSpec,
        _: &GrantPlace,
        _: Option<&AccountGrant>,
    ) -> Result<Prospect, AccountError> {
        Err(AccountError::Unsupported("this program connects no accounts".to_owned()))
    }

    async fn begin(&self, _: ConnectRequest<'_>) -> Result<BegunAuthorization, AccountError> {
        Err(AccountError::Unsupported("this program connects no accounts".to_owned()))
    }

    async fn finish(
        &self,
        _: &SourceSpec,
        _: &PendingAuthorization,
        _: &Secret,
        _: &AuthorizationResponse,
    ) -> Result<(GrantTerms, GrantSecrets), AccountError> {
        Err(AccountError::NotOurs)
    }

    async fn revoke(&self, _: &AccountGrant, _: &GrantSecrets) -> bool {
        false
    }
}
