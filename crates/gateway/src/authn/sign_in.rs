//! Sign-in of a person with an issuer: the authorization code flow with PKCE, as a public client.
//!
//! The browser keeps the state of a sign-in (state, nonce, verifier); the server stores no part of
//! it. This module builds the address for the start of a sign-in, and exchanges its code.
//!
//! Invariant: a token leaves this module only after it was verified like the token of any request.
//! The ID token only proves that the response belongs to the browser's request (its nonce).

use std::{sync::Arc, time::Duration};

use toolcrib_config::{JwtConfig, SignInConfig};
use toolcrib_core::{
    clock::Timestamp,
    credential::Secret,
    key_set::{DocumentRequest, FetchError, FormAnswer},
};
use toolcrib_oauth::{
    authorization::AuthorizationRequest,
    pkce,
    token::{Client, Grant, TokenAnswer, TokenError, TokenRequest},
};
use url::Url;

pub use super::endpoints::SignInError;
use super::{
    AcceptedCredentials, AuthError, Authenticator, claims,
    endpoints::{Endpoints, FetchedEndpoints},
    issuer::Issuer,
    jws::{Jws, NoToken},
    proof,
};

/// How long the description of an issuer is cached; also for a failed fetch.
const FRESH: Duration = Duration::from_secs(10 * 60);
const FAILED: Duration = Duration::from_secs(3);
/// Longest access token, as for requests.
const MAX_TOKEN: usize = 16 << 10;

/// An issuer with which people can sign in to the console.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SignInIssuer {
    /// The issuer, as in `iss`.
    pub issuer: String,
    /// Its name for people.
    pub name: String,
}

/// The parts of a request for sign-in that the browser chooses.
#[derive(Debug, Clone)]
pub struct SignInRequest<'a> {
    /// The issuer, as in `iss`.
    pub issuer: &'a str,
    /// The issuer repeats it, so that the browser recognizes the response to its request.
    pub state: &'a str,
    /// The ID token repeats it.
    pub nonce: &'a str,
    /// The SHA-256 of the verifier.
    pub challenge: &'a str,
    /// The address to which the issuer sends the browser back.
    pub redirect_uri: &'a str,
}

/// The address for the start of a sign-in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SignInAddress {
    /// The address to open in the browser.
    pub url: String,
    /// Whether the issuer's response names the issuer (RFC 9207).
    pub names_issuer: bool,
}

/// The parts of an exchange that the browser sends.
#[derive(Clone)]
pub struct CodeExchange<'a> {
    /// The issuer, as in `iss`.
    pub issuer: &'a str,
    /// The code of the issuer.
    pub code: &'a str,
    /// The secret behind the challenge of the request.
    pub verifier: &'a str,
    /// The nonce of the request.
    pub nonce: &'a str,
    /// The address of the request.
    pub redirect_uri: &'a str,
}

/// The verified result of a sign-in. It has no `Debug`, because it contains a token.
pub struct SignInResult {
    /// The token, which authenticates requests.
    pub token: String,
    /// When it expires.
    pub expires_at: Option<Timestamp>,
}

// === impl Authenticator ===

impl Authenticator {
    /// Returns the issuers with which people can sign in.
    pub fn sign_in_issuers(&self) -> Vec<SignInIssuer> {
        let policy = self.inner.policy.load();
        let issuers = policy.tokens.issuers().iter();
        issuers
            .filter_map(|issuer| {
                let config = &issuer.config;
                let name = config.sign_in.as_ref()?.name.clone().unwrap_or_else(|| host(config));
                Some(SignInIssuer { issuer: config.issuer.clone(), name })
            })
            .collect()
    }

    /// Returns the address for the start of a sign-in.
    pub async fn begin_sign_in(
        &self,
        request: SignInRequest<'_>,
    ) -> Result<SignInAddress, SignInError> {
        let issuer = self.sign_in_issuer(request.issuer)?;
        let config = issuer.config.sign_in.as_ref().ok_or(SignInError::NoIssuer)?;
        let _permit = self.inner.sign_ins.admit(&*self.inner.clock)?;
        let endpoints = issuer.endpoints().await?;
        let names_issuer = endpoints.names_issuer;
        let url = address(endpoints.authorization, config, &request).into();
        Ok(SignInAddress { url, names_issuer })
    }

    /// Exchanges the code of a sign-in for a token, and verifies the token.
    pub async fn finish_sign_in(
        &self,
        exchange: CodeExchange<'_>,
    ) -> Result<SignInResult, SignInError> {
        let issuer = self.sign_in_issuer(exchange.issuer)?;
        let _permit = self.inner.sign_ins.admit(&*self.inner.clock)?;
        let finished = self.exchange(&issuer, &exchange).await;
        if let Err(problem) = &finished {
            // Problems contain neither the code nor a token.
            tracing::warn!(issuer = exchange.issuer, code = problem.code(), %problem, "sign-in failed");
        }
        finished
    }

    async fn exchange(
        &self,
        issuer: &Arc<Issuer>,
        exchange: &CodeExchange<'_>,
    ) -> Result<SignInResult, SignInError> {
        let config = issuer.config.sign_in.as_ref().ok_or(SignInError::NoIssuer)?;
        let endpoints = issuer.endpoints().await?;
        let answer = issuer.request_token(&endpoints.token, &request(config, exchange)).await;
        let answer = TokenAnswer::read(&answer?).map_err(failure)?;
        let id_token = answer.id_token.as_ref().map(Secret::expose).ok_or(SignInError::Unproven)?;
        let now = self.inner.clock.now();
        let proven =
            proof::id_token(issuer, &config.client_id, id_token, Some(exchange.nonce), now);
        proven.await.map_err(|NoToken| SignInError::Unproven)?;
        let token =
            answer.bearer().ok().map(Secret::expose).filter(|token| token.len() <= MAX_TOKEN);
        let token = token.ok_or(SignInError::OpaqueToken)?;
        match self.identify(token, AcceptedCredentials::Usual).await {
            Ok(principal) => {
                Ok(SignInResult { token: token.to_owned(), expires_at: self.expiry(&principal) })
            }
            Err(AuthError::Unavailable) => Err(SignInError::Unreachable),
            Err(AuthError::Invalid | AuthError::Missing | AuthError::Ambiguous) => {
                Err(reason(&issuer.config, token))
            }
        }
    }

    fn sign_in_issuer(&self, name: &str) -> Result<Arc<Issuer>, SignInError> {
        let policy = self.inner.policy.load();
        let mut issuers = policy.tokens.issuers().iter();
        let found =
            issuers.find(|issuer| issuer.config.issuer == name && issuer.config.sign_in.is_some());
        found.cloned().ok_or(SignInError::NoIssuer)
    }
}

/// The reason why a valid response of an issuer contains an invalid token.
fn reason(config: &JwtConfig, token: &str) -> SignInError {
    let Ok(read) = Jws::read(token) else { return SignInError::OpaqueToken };
    match claims::is_for(&read.claims, config.audiences.iter().map(String::as_str)) {
        true => SignInError::Rejected,
        false => SignInError::Audience,
    }
}

fn address(url: Url, config: &SignInConfig, request: &SignInRequest<'_>) -> Url {
    let scope = config.scope();
    let sent = AuthorizationRequest {
        client_id: &config.client_id,
        redirect_uri: request.redirect_uri,
        scope: &scope,
        state: request.state,
        nonce: Some(request.nonce),
        challenge: request.challenge,
        resource: config.resource.as_deref(),
    };
    let mut url = sent.address(url);
    url.query_pairs_mut().extend_pairs(&config.parameters);
    url
}

fn request<'a>(config: &'a SignInConfig, exchange: &CodeExchange<'a>) -> TokenRequest<'a> {
    let CodeExchange { code, verifier, redirect_uri, .. } = *exchange;
    TokenRequest {
        client: Client { id: &config.client_id, secret: None },
        grant: Grant::Code { code, verifier, redirect_uri },
        scopes: &[],
        resource: config.resource.as_deref(),
    }
}

/// What the person who signs in learns about a failed request for a token.
pub(super) fn failure(error: TokenError) -> SignInError {
    match error {
        TokenError::Refused(refused) => match refused.error.as_deref() {
            Some("invalid_grant") => SignInError::CodeExpired,
            Some(error) => {
                SignInError::Refused { error: error.to_owned(), description: refused.description }
            }
            None => SignInError::Unreachable,
        },
        TokenError::Unusable(_) | TokenError::Malformed(_) | TokenError::Unreachable(_) => {
            SignInError::Unreachable
        }
    }
}

fn host(config: &JwtConfig) -> String {
    let url = Url::parse(&config.issuer).ok();
    url.as_ref().and_then(Url::host_str).unwrap_or(&config.issuer).to_owned()
}

// === impl Issuer ===

impl Issuer {
    /// The addresses of a sign-in.
    pub(super) async fn endpoints(&self) -> Result<Endpoints, SignInError> {
        let mut cached = self.description.0.lock().await;
        let now = self.clock.monotonic_nanos();
        if let Some(fetched) = cached.as_ref().filter(|fetched| now < fetched.until) {
            return fetched.endpoints.clone();
        }
        let endpoints = self.describe().await;
        let keep = if endpoints.is_ok() { FRESH } else { FAILED };
        let keep = u64::try_from(keep.as_nanos()).unwrap_or(u64::MAX);
        *cached = Some(FetchedEndpoints {
            endpoints: endpoints.clone(),
            until: now.saturating_add(keep),
        });
        endpoints
    }

    async fn describe(&self) -> Result<Endpoints, SignInError> {
        let source = self.source.as_ref().ok_or(SignInError::Unreachable)?;
        let metadata = self.metadata(&**source).await.map_err(|problem| {
            tracing::warn!(issuer = %self.config.issuer, %problem, "no description of the issuer");
            SignInError::Unreachable
        })?;
        if !metadata.lists("code_challenge_methods_supported", pkce::METHOD) {
            return Err(SignInError::Unsuitable("it does not support PKCE with S256"));
        }
        if !metadata.lists("response_types_supported", "code") {
            return Err(SignInError::Unsuitable("it does not support authorization codes"));
        }
        let endpoint = |name: &str| metadata.endpoint(name, &self.config.allow);
        let (Some(authorization), Some(token)) =
            (endpoint("authorization_endpoint"), endpoint("token_endpoint"))
        else {
            let problem = "its description names no authorization and token endpoints over https";
            return Err(SignInError::Unsuitable(problem));
        };
        let names_issuer = metadata.names_issuer();
        let secret_auth = metadata.client_auth(true);
        Ok(Endpoints { authorization, token: token.into(), names_issuer, secret_auth })
    }

    pub(super) async fn request_token(
        &self,
        to: &str,
        request: &TokenRequest<'_>,
    ) -> Result<FormAnswer, SignInError> {
        let source = self.source.as_ref().ok_or(SignInError::Unreachable)?;
        let config = &self.config;
        let to = DocumentRequest { url: to, named: &config.issuer, allow: &config.allow };
        source.send_form(to, &request.form()).await.map_err(|problem: FetchError| {
            tracing::warn!(issuer = %config.issuer, %problem, "no answer of the token endpoint");
            SignInError::Unreachable
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_of_the_issuer_is_shown_to_the_person() {
        let failed = |status: u16, body: &str| {
            let answer = FormAnswer { status, body: body.into() };
            TokenAnswer::read(&answer).map(|_| ()).map_err(failure)
        };
        assert_eq!(failed(400, r#"{"error":"invalid_grant"}"#), Err(SignInError::CodeExpired));
        let body = r#"{"error":"invalid_client","error_description":"no such client"}"#;
        let refused = SignInError::Refused {
            error: "invalid_client".to_owned(),
            description: Some("no such client".to_owned()),
        };
        assert_eq!(failed(400, body), Err(refused));
        for body in ["", "<html>", "[]", "{}", r#"{"error":1}"#] {
            assert_eq!(failed(400, body), Err(SignInError::Unreachable), "{body}");
        }
        assert_eq!(failed(200, "{}"), Ok(()));
        assert_eq!(failed(200, "no"), Err(SignInError::Unreachable));
    }
}
