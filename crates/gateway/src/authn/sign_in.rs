//! Sign-in of a person with an issuer: the authorization code flow with PKCE, as a public client.
//!
//! The browser keeps the state of a sign-in (state, nonce, verifier); the server stores no part of
//! it. This module builds the address for the start of a sign-in, and exchanges its code.
//!
//! Invariant: a token leaves this module only after it was verified like the token of any request.
//! The ID token only proves that the response belongs to the browser's request (its nonce).

use std::{sync::Arc, time::Duration};

use serde_json::{Map, Value};
use toolcrib_config::{JwtAlgorithm, JwtConfig, SignInConfig, is_private_enough};
use toolcrib_core::{
    clock::Timestamp,
    json,
    key_set::{DocumentRequest, FormAnswer},
    text,
};
use url::{Url, form_urlencoded};

pub use super::endpoints::SignInError;
use super::{
    AcceptedCredentials, AuthError, Authenticator, claims,
    endpoints::{Endpoints, Fetched},
    issuer::Issuer,
    jwk::Found,
    jws::Jws,
};

/// How long the description of an issuer is cached; also for a failed fetch.
const FRESH: Duration = Duration::from_secs(10 * 60);
const FAILED: Duration = Duration::from_secs(3);
/// Longest shown text of an issuer.
const MAX_TEXT: usize = 300;
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
    /// The address.
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
pub struct SignedIn {
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
    ) -> Result<SignedIn, SignInError> {
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
    ) -> Result<SignedIn, SignInError> {
        let config = issuer.config.sign_in.as_ref().ok_or(SignInError::NoIssuer)?;
        let endpoints = issuer.endpoints().await?;
        let answer = issuer.send_form(&endpoints.token, form(config, exchange)).await;
        let answer = read(&answer.map_err(|_| SignInError::Unreachable)?)?;
        let text = |name: &str| answer.get(name).and_then(Value::as_str);
        let is_bearer = text("token_type").is_some_and(|kind| kind.eq_ignore_ascii_case("bearer"));
        let proof = text("id_token").ok_or(SignInError::Unproven)?;
        if !self.proves(issuer, &config.client_id, proof, exchange.nonce).await {
            return Err(SignInError::Unproven);
        }
        let token = text("access_token").filter(|token| {
            is_bearer && token.len() <= MAX_TOKEN && token.bytes().all(|it| it.is_ascii_graphic())
        });
        let token = token.ok_or(SignInError::OpaqueToken)?;
        match self.identify(token, AcceptedCredentials::Usual).await {
            Ok(principal) => {
                Ok(SignedIn { token: token.to_owned(), expires_at: self.expiry(&principal) })
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
        let found = issuers.find(|it| it.config.issuer == name && it.config.sign_in.is_some());
        found.cloned().ok_or(SignInError::NoIssuer)
    }

    /// Whether `text` is an ID token of `issuer` for the request with `nonce`.
    async fn proves(&self, issuer: &Arc<Issuer>, client: &str, text: &str, nonce: &str) -> bool {
        let now = self.inner.clock.now();
        match is_proof(issuer, client, text, nonce, now) {
            Some(proven) => proven,
            None => {
                issuer.settle().await;
                is_proof(issuer, client, text, nonce, now).unwrap_or(false)
            }
        }
    }
}

/// Whether `text` is an ID token for the request with `nonce`; `None` if the key is unknown.
fn is_proof(
    issuer: &Issuer,
    client: &str,
    text: &str,
    nonce: &str,
    now: Timestamp,
) -> Option<bool> {
    let config = &issuer.config;
    let Ok(token) = Jws::read(text) else { return Some(false) };
    let algorithm = JwtAlgorithm::parse(&token.algorithm);
    let Some(algorithm) = algorithm.filter(|it| config.algorithms.contains(it)) else {
        return Some(false);
    };
    let said = |name: &str| token.claims.get(name).and_then(Value::as_str);
    let is_ours = said("iss") == Some(&config.issuer)
        && said("nonce") == Some(nonce)
        // OpenID Connect Core, section 3.1.3.7: a token for several clients names one of them.
        && said("azp").map_or(!claims::is_for_several(&token.claims), |party| party == client)
        && claims::is_for(&token.claims, [client])
        && claims::end_of(&token.claims, now, config.clock_skew).is_ok();
    if !is_ours {
        return Some(false);
    }
    match issuer.keys()?.keys.find(&token, algorithm) {
        Found::Signed(_) => Some(true),
        Found::Forged => Some(false),
        Found::Unknown => None,
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

fn address(mut url: Url, config: &SignInConfig, request: &SignInRequest<'_>) -> Url {
    let mut query = url.query_pairs_mut();
    query
        .append_pair("response_type", "code")
        .append_pair("client_id", &config.client_id)
        .append_pair("redirect_uri", request.redirect_uri)
        .append_pair("scope", &config.scope())
        .append_pair("state", request.state)
        .append_pair("nonce", request.nonce)
        .append_pair("code_challenge", request.challenge)
        .append_pair("code_challenge_method", "S256");
    if let Some(resource) = &config.resource {
        query.append_pair("resource", resource);
    }
    query.extend_pairs(&config.parameters);
    drop(query);
    url
}

fn form(config: &SignInConfig, exchange: &CodeExchange<'_>) -> String {
    let mut form = form_urlencoded::Serializer::new(String::new());
    form.append_pair("grant_type", "authorization_code")
        .append_pair("client_id", &config.client_id)
        .append_pair("code", exchange.code)
        .append_pair("code_verifier", exchange.verifier)
        .append_pair("redirect_uri", exchange.redirect_uri);
    if let Some(resource) = &config.resource {
        form.append_pair("resource", resource);
    }
    form.finish()
}

/// Reads the response of a token endpoint (RFC 6749, section 5).
fn read(answer: &FormAnswer) -> Result<Map<String, Value>, SignInError> {
    let body = json::parse_strict(&answer.body).ok();
    let Some(Value::Object(body)) = body else { return Err(SignInError::Unreachable) };
    if answer.status == 200 {
        return Ok(body);
    }
    let said = |name: &str| body.get(name).and_then(Value::as_str).map(shown);
    match said("error").as_deref() {
        Some("invalid_grant") => Err(SignInError::CodeExpired),
        Some(error) => Err(SignInError::Refused {
            error: error.to_owned(),
            description: said("error_description"),
        }),
        None => Err(SignInError::Unreachable),
    }
}

/// Bounds a text of an issuer, and removes invisible characters.
fn shown(said: &str) -> String {
    let end = said.floor_char_boundary(MAX_TEXT);
    text::seen(said.get(..end).unwrap_or_default()).replace(['\n', '\r', '\t'], " ")
}

fn host(config: &JwtConfig) -> String {
    let url = Url::parse(&config.issuer).ok();
    url.as_ref().and_then(Url::host_str).unwrap_or(&config.issuer).to_owned()
}

// === impl Issuer ===

impl Issuer {
    /// The addresses of a sign-in.
    async fn endpoints(&self) -> Result<Endpoints, SignInError> {
        let mut cached = self.description.0.lock().await;
        let now = self.clock.monotonic_nanos();
        if let Some(fetched) = cached.as_ref().filter(|fetched| now < fetched.until) {
            return fetched.endpoints.clone();
        }
        let endpoints = self.describe().await;
        let keep = if endpoints.is_ok() { FRESH } else { FAILED };
        let keep = u64::try_from(keep.as_nanos()).unwrap_or(u64::MAX);
        *cached = Some(Fetched { endpoints: endpoints.clone(), until: now.saturating_add(keep) });
        endpoints
    }

    async fn describe(&self) -> Result<Endpoints, SignInError> {
        let source = self.source.as_ref().ok_or(SignInError::Unreachable)?;
        let document = self.document(&**source).await.map_err(|problem| {
            tracing::warn!(issuer = %self.config.issuer, %problem, "no description of the issuer");
            SignInError::Unreachable
        })?;
        let place = |name: &str| {
            let url = document.get(name).and_then(Value::as_str);
            let url = url.and_then(|url| Url::parse(url).ok());
            url.filter(|url| url.fragment().is_none() && is_private_enough(url, &self.config.allow))
        };
        let listed = |name: &str, wanted: &str| match document.get(name) {
            Some(Value::Array(values)) => values.iter().any(|value| value == wanted),
            // An absent list leaves it open.
            _ => true,
        };
        if !listed("code_challenge_methods_supported", "S256") {
            return Err(SignInError::Unsuitable("it does not support PKCE with S256"));
        }
        if !listed("response_types_supported", "code") {
            return Err(SignInError::Unsuitable("it does not support authorization codes"));
        }
        let authorization = place("authorization_endpoint");
        let token = place("token_endpoint");
        let (Some(authorization), Some(token)) = (authorization, token) else {
            let problem = "its description names no authorization and token endpoints over https";
            return Err(SignInError::Unsuitable(problem));
        };
        let names = document.get("authorization_response_iss_parameter_supported");
        let names_issuer = names == Some(&Value::Bool(true));
        Ok(Endpoints { authorization, token: token.into(), names_issuer })
    }

    async fn send_form(&self, to: &str, form: String) -> Result<FormAnswer, SignInError> {
        let source = self.source.as_ref().ok_or(SignInError::Unreachable)?;
        let config = &self.config;
        let to = DocumentRequest { url: to, named: &config.issuer, allow: &config.allow };
        source.send_form(to, form).await.map_err(|problem| {
            tracing::warn!(issuer = %config.issuer, %problem, "no answer of the token endpoint");
            SignInError::Unreachable
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_of_the_issuer_is_read_and_bounded() {
        let answer = |status: u16, body: &str| FormAnswer { status, body: body.into() };
        let refused = |body: &str| read(&answer(400, body)).unwrap_err();
        assert_eq!(refused(r#"{"error":"invalid_grant"}"#), SignInError::CodeExpired);
        let long = "x".repeat(1000);
        let body = format!(r#"{{"error":"invalid_client","error_description":"a\nb{long}"}}"#);
        let SignInError::Refused { error, description } = refused(&body) else { panic!() };
        assert_eq!(error, "invalid_client");
        let description = description.unwrap();
        assert!(description.len() <= MAX_TEXT && !description.contains('\n'), "{description}");
        for body in ["", "<html>", "[]", "{}", r#"{"error":1}"#] {
            assert_eq!(refused(body), SignInError::Unreachable, "{body}");
        }
        assert!(read(&answer(200, "{}")).is_ok());
        assert_eq!(read(&answer(200, "no")).unwrap_err(), SignInError::Unreachable);
    }
}
