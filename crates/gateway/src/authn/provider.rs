//! The identity provider of the authorization server for MCP clients (`[auth.bridge]`): this server
//! is its client, with its own state, nonce and verifier.
//!
//! Invariant: nothing that a client chose is sent to the provider. A person leaves this module only
//! after an ID token for this server's client was verified, or an assertion for this server.

use std::sync::Arc;

use serde_json::Value;
use toolcrib_config::BridgeConfig;
use toolcrib_core::{
    canonical::Digest,
    clock::Timestamp,
    credential::Secret,
    principal::{PrincipalKey, Token},
    source::AuthorizationResponse,
};
use toolcrib_oauth::{
    authorization::{AuthorizationRequest, read_response},
    pkce,
    token::{Client, Grant, TokenAnswer, TokenError, TokenRequest},
};

use super::{
    Authenticator, claims,
    endpoints::{Endpoints, SignInError},
    issuer::Issuer,
    jws::NoToken,
    proof::{self, Proven},
    tokens::mapped,
};

/// The longest refresh token of a provider.
const MAX_REFRESH: usize = 8 << 10;

/// A person, as the provider describes them.
pub(crate) struct ProvenPerson {
    pub(crate) person: PrincipalKey,
    /// What the claims are worth. The expiry is that of the proof.
    pub(crate) token: Token,
}

/// The answer of the provider to a code.
pub(crate) struct ProviderSignIn {
    pub(crate) person: ProvenPerson,
    /// For later requests to the provider.
    pub(crate) refresh_token: Option<Secret>,
}

/// The answer of the provider to a later request.
pub(crate) struct ProviderRenewal {
    /// The person as they are now; `None` if the provider only says that they may continue.
    pub(crate) person: Option<ProvenPerson>,
    /// The next refresh token; `None` if the last one stays valid.
    pub(crate) refresh_token: Option<Secret>,
}

/// Why the provider does not vouch for a person any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RenewalError {
    /// It refuses, or describes another person.
    Refused,
    /// It does not answer now, or does not know this server.
    Unavailable,
}

/// A verified assertion (draft-ietf-oauth-identity-assertion-authz-grant).
pub(crate) struct ProvenAssertion {
    pub(crate) person: ProvenPerson,
    /// The client that may exchange it.
    pub(crate) client: String,
    /// The resource that it is for, if it names one.
    pub(crate) resource: Option<String>,
    /// The hash of issuer and `jti`.
    pub(crate) id: Digest,
    pub(crate) expires_at: Timestamp,
}

impl Authenticator {
    /// The address at the provider, with the `nonce` of the ID token and the challenge of `verifier`.
    pub(crate) async fn provider_address(
        &self,
        bridge: &BridgeConfig,
        state: &Secret,
        nonce: &str,
        verifier: &Secret,
    ) -> Result<String, SignInError> {
        let issuer = self.provider(&bridge.provider)?;
        let _permit = self.inner.sign_ins.admit(&*self.inner.clock)?;
        let Endpoints { authorization, .. } = issuer.endpoints().await?;
        let asked = bridge.scopes.iter().map(String::as_str).filter(|scope| *scope != "openid");
        let scope = std::iter::once("openid").chain(asked).collect::<Vec<_>>().join(" ");
        let request = AuthorizationRequest {
            client_id: &bridge.client_id,
            redirect_uri: &callback(bridge),
            scope: &scope,
            state: state.expose(),
            nonce: Some(nonce),
            challenge: &pkce::challenge(verifier),
            resource: None,
        };
        let address = request.address_with(authorization, &bridge.parameters);
        let reserved = SignInError::Unsuitable("its endpoint has a parameter of the protocol");
        address.map(Into::into).map_err(|_| reserved)
    }

    /// Exchanges the code in the provider's `response`.
    pub(crate) async fn provider_sign_in(
        &self,
        bridge: &BridgeConfig,
        response: &AuthorizationResponse,
        nonce: &str,
        verifier: &Secret,
    ) -> Result<ProviderSignIn, SignInError> {
        let issuer = self.provider(&bridge.provider)?;
        let _permit = self.inner.sign_ins.admit(&*self.inner.clock)?;
        let endpoints = issuer.endpoints().await?;
        let code = read_response(response, &issuer.config.issuer, endpoints.names_issuer);
        let code = code.map_err(|_| SignInError::Unproven)?;
        let grant = Grant::Code {
            code: code.expose(),
            verifier: verifier.expose(),
            redirect_uri: &callback(bridge),
        };
        let answer = request(&issuer, bridge, &endpoints, grant).await?;
        let answer = answer.map_err(super::sign_in::failure)?;
        let id_token = answer.id_token.as_ref().ok_or(SignInError::Unproven)?;
        let person = self.person(&issuer, bridge, id_token, Some(nonce)).await;
        let person = person.map_err(|NoToken| SignInError::Rejected)?;
        Ok(ProviderSignIn { person, refresh_token: bounded(answer.refresh_token) })
    }

    /// Requests from the provider whether `expected` may still sign in.
    pub(crate) async fn provider_renewal(
        &self,
        bridge: &BridgeConfig,
        expected: &PrincipalKey,
        refresh_token: &Secret,
    ) -> Result<ProviderRenewal, RenewalError> {
        let unavailable = |_| RenewalError::Unavailable;
        let issuer = self.provider(&bridge.provider).map_err(unavailable)?;
        let endpoints = issuer.endpoints().await.map_err(unavailable)?;
        let grant = Grant::Refresh(refresh_token);
        let answer = request(&issuer, bridge, &endpoints, grant).await.map_err(unavailable)?;
        let renewed = answer.and_then(|answer| {
            answer.bearer()?;
            Ok(answer)
        });
        let answer = match renewed {
            Ok(answer) => answer,
            Err(TokenError::Refused(refusal))
                if refusal.error.as_deref() == Some("invalid_grant") =>
            {
                return Err(RenewalError::Refused);
            }
            Err(error) => {
                tracing::warn!(issuer = %bridge.provider, %error, "the provider renewed nothing");
                return Err(RenewalError::Unavailable);
            }
        };
        let person = match &answer.id_token {
            None => None,
            Some(text) => {
                let person = self.person(&issuer, bridge, text, None).await;
                let person = person.map_err(|NoToken| RenewalError::Refused)?;
                if person.person != *expected {
                    return Err(RenewalError::Refused);
                }
                Some(person)
            }
        };
        Ok(ProviderRenewal { person, refresh_token: bounded(answer.refresh_token) })
    }

    /// Verifies an assertion of one of the permitted issuers.
    pub(crate) async fn assertion(
        &self,
        bridge: &BridgeConfig,
        text: &Secret,
    ) -> Option<ProvenAssertion> {
        // Its signature is checked below, with the keys of the issuer that it names.
        let named = super::jws::Jws::read_assertion(text.expose()).ok()?;
        let named = named.claims.get("iss").and_then(Value::as_str)?.to_owned();
        if !bridge.assertion_issuers.contains(&named) {
            return None;
        }
        let issuer = self.provider(&named).ok()?;
        let now = self.inner.clock.now();
        let proven =
            proof::assertion(&issuer, &bridge.own_issuer, text.expose(), now).await.ok()?;
        if !has_required(bridge, &proven) {
            return None;
        }
        let said = |name: &str| proven.claims.get(name).and_then(Value::as_str);
        let (client, jti) =
            (said("client_id")?.to_owned(), said("jti").filter(|it| !it.is_empty())?);
        let id = Digest::of(format!("assertion\n{named}\n{jti}").as_bytes());
        let resource = match proven.claims.get("resource") {
            None => None,
            Some(Value::String(resource)) => Some(resource.clone()),
            Some(_) => return None,
        };
        let expires_at = proven.expires_at;
        let person = mapped_person(&issuer, &proven).ok()?;
        Some(ProvenAssertion { person, client, resource, id, expires_at })
    }

    /// The person of an ID token that has the required claims.
    async fn person(
        &self,
        issuer: &Arc<Issuer>,
        bridge: &BridgeConfig,
        text: &Secret,
        nonce: Option<&str>,
    ) -> Result<ProvenPerson, NoToken> {
        let now = self.inner.clock.now();
        let proven = proof::id_token(issuer, &bridge.client_id, text.expose(), nonce, now).await?;
        match has_required(bridge, &proven) {
            true => mapped_person(issuer, &proven),
            false => Err(NoToken),
        }
    }

    fn provider(&self, name: &str) -> Result<Arc<Issuer>, SignInError> {
        let policy = self.inner.policy.load();
        let mut issuers = policy.tokens.issuers().iter();
        issuers.find(|issuer| issuer.config.issuer == name).cloned().ok_or(SignInError::NoIssuer)
    }
}

/// Whether the claims that the operator requires are there.
fn has_required(bridge: &BridgeConfig, proven: &Proven) -> bool {
    bridge.require.iter().all(|(path, value)| {
        claims::at(&proven.claims, path).and_then(Value::as_str) == Some(value)
    })
}

/// The address to which the provider sends the browser back.
fn callback(bridge: &BridgeConfig) -> String {
    format!("{}/oauth/callback", bridge.own_issuer)
}

async fn request(
    issuer: &Issuer,
    bridge: &BridgeConfig,
    endpoints: &Endpoints,
    grant: Grant<'_>,
) -> Result<Result<TokenAnswer, TokenError>, SignInError> {
    let secret = bridge.client_secret.as_ref().map(|secret| (&secret.0, endpoints.secret_auth));
    let client = Client { id: &bridge.client_id, secret };
    let request = TokenRequest { client, grant, scopes: &[], resource: None };
    let answer = issuer.request_token(&endpoints.token, &request).await?;
    Ok(TokenAnswer::read(&answer))
}

fn mapped_person(issuer: &Issuer, proven: &Proven) -> Result<ProvenPerson, NoToken> {
    let Proven { claims, expires_at, thumbprint } = proven;
    let (principal, tenant, token) = mapped(issuer, claims, *expires_at, thumbprint)?;
    Ok(ProvenPerson { person: PrincipalKey { tenant, principal }, token })
}

fn bounded(token: Option<Secret>) -> Option<Secret> {
    token.filter(|token| token.expose().len() <= MAX_REFRESH)
}
