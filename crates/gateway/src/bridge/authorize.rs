//! The first part of a sign-in: the client is recognized, the person consents, and the browser goes
//! to the provider.
//!
//! Consent is needed each time and never remembered: before the provider has answered, no one knows
//! whose consent would be remembered.

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use serde::{Deserialize, Serialize};
use toolcrib_config::{BridgeConfig, Config};
use toolcrib_core::{
    bridge::BridgeKind, canonical::Digest, credential::Secret, egress::is_loopback,
    id::CredentialId,
};
use toolcrib_oauth::server::{
    authorize::{CodeRequest, Redirect, UncheckedRequest},
    error::{ErrorCode, Refused},
};
use url::Url;

use super::{
    Bridge, MAX_SIGN_INS, NewItem, Resource, SIGN_IN,
    client::{ClientOrigin, KnownClient},
    secret, settings,
};
use crate::authn::sign_in::SignInError;

/// The route of the form in the record.
const CONSENT: &str = "/oauth/consent";

/// A refusal that the person sees: nothing may be sent to the client's address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(transparent)]
pub struct Unredirected(#[from] pub Refused);

/// The next step of an authorization request.
pub enum StartedAuthorization {
    /// The person decides.
    Ask(ConsentPreview),
    /// The browser goes to this address: back to the client, or to the provider.
    Go(String),
}

/// The question to a person.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConsentPreview {
    /// The name of the client, which anybody can choose.
    pub name: Option<String>,
    /// The id of the client.
    pub client_id: String,
    /// The host that vouches for the client; `None` if the operator or no one does.
    pub host: Option<String>,
    /// Whether the operator registered the client.
    pub is_registered: bool,
    /// Where the browser goes afterwards.
    pub redirect_uri: String,
    /// The host of the provider.
    pub provider: String,
}

/// The answer of a person, with everything that binds it to the browser and to what they saw.
pub struct Consent<'a> {
    /// The query of the authorization request.
    pub query: &'a str,
    /// The values of the cookies of this browser. Other ports of the host can add some.
    pub cookies: &'a [Secret],
    /// The text of the form, see [`Bridge::consent_proof`].
    pub proof: &'a str,
    /// Whether the person consents.
    pub agrees: bool,
}

/// A person who is away at the provider.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct PendingSignIn {
    pub(super) client: String,
    pub(super) request: CodeRequest,
    /// The path that the token is for.
    pub(super) path: String,
    pub(super) nonce: String,
    pub(super) verifier: String,
    /// The hash of the cookie of the browser.
    pub(super) browser: Digest,
}

/// A request that can be answered at the client's address.
struct CheckedRequest {
    client: KnownClient,
    redirect: Redirect,
    /// The rest of the request, or its fault.
    rest: Result<(CodeRequest, Resource), Refused>,
}

// === impl Consent ===

impl<'a> Consent<'a> {
    /// The cookie that the form was made for.
    pub fn browser(&self) -> Option<&'a Secret> {
        let proof = Digest::of(self.proof.as_bytes());
        self.cookies.iter().find(|cookie| {
            let expected = Bridge::consent_proof(cookie, self.query);
            Digest::of(expected.as_bytes()) == proof
        })
    }
}

// === impl Bridge ===

impl Bridge {
    /// Begins with the query of an authorization request.
    ///
    /// # Errors
    /// [`Unredirected`].
    pub async fn authorize(&self, query: &str) -> Result<StartedAuthorization, Unredirected> {
        let config = self.services.config();
        let bridge = settings(&config)?;
        let CheckedRequest { client, redirect, rest } = self.check(&config, query).await?;
        Ok(match rest {
            Err(refused) if !is_trusted(&client, &redirect) => return Err(refused.into()),
            Err(refused) => {
                StartedAuthorization::Go(redirect.with_refusal(refused, &bridge.own_issuer))
            }
            Ok(_) => StartedAuthorization::Ask(preview(bridge, client, redirect)),
        })
    }

    /// A new value for the cookie of a request.
    ///
    /// # Errors
    /// [`Refused`] if the system has no randomness.
    pub fn new_cookie() -> Result<Secret, Refused> {
        secret()
    }

    /// The text in the form for `query` in the browser with `cookie`. No other site knows it, and it
    /// fits no other request.
    pub fn consent_proof(cookie: &Secret, query: &str) -> String {
        let cookie = cookie.expose();
        let text = format!("toolcrib consent\n{}\n{cookie}\n{query}", cookie.len());
        URL_SAFE_NO_PAD.encode(Digest::of(text.as_bytes()).0)
    }

    /// Continues after the person has answered.
    ///
    /// # Errors
    /// [`Unredirected`].
    pub async fn consent(&self, answer: Consent<'_>) -> Result<String, Unredirected> {
        let cookie = answer.browser().ok_or_else(|| {
            self.audit.denials().stranger(CONSENT, "other_browser");
            Refused::invalid("this form belongs to another browser, or is too old")
        })?;
        let config = self.services.config();
        let bridge = settings(&config)?;
        // Everything is checked again: the form could be older than the settings.
        let CheckedRequest { client, redirect, rest } = self.check(&config, answer.query).await?;
        let sent = match rest {
            Err(refused) => Err(refused),
            Ok(_) if !answer.agrees => {
                self.audit.denials().stranger(CONSENT, "declined");
                let description = "the person did not consent";
                Err(Refused { code: ErrorCode::AccessDenied, description })
            }
            Ok((request, resource)) => {
                self.send_away(bridge, client, request, resource, cookie).await
            }
        };
        Ok(sent.unwrap_or_else(|refused| redirect.with_refusal(refused, &bridge.own_issuer)))
    }

    async fn check(&self, config: &Config, query: &str) -> Result<CheckedRequest, Unredirected> {
        let request = UncheckedRequest::read(query)?;
        let client = self.client(settings(config)?, request.client_id()?).await?;
        let redirect = request.redirect(&client.description.redirect_uris)?;
        let rest = request.code_request(redirect.clone()).and_then(|request| {
            let resource = Resource::read(config, request.resource.as_deref())?;
            Ok((request, resource))
        });
        Ok(CheckedRequest { client, redirect, rest })
    }

    /// The address at the provider.
    async fn send_away(
        &self,
        bridge: &BridgeConfig,
        client: KnownClient,
        request: CodeRequest,
        resource: Resource,
        cookie: &Secret,
    ) -> Result<String, Refused> {
        let (state, nonce, verifier) = (secret()?, secret()?, secret()?);
        let address = self
            .authenticator
            .provider_address(bridge, &state, nonce.expose(), &verifier)
            .await
            .map_err(|error| no_provider(&error))?;
        let pending = PendingSignIn {
            client: client.id,
            request,
            path: resource.path,
            nonce: nonce.expose().to_owned(),
            verifier: verifier.expose().to_owned(),
            browser: Digest::of(cookie.expose().as_bytes()),
        };
        let new = NewItem {
            kind: BridgeKind::SignIn,
            id: sign_in_id(&state)?,
            owner: None,
            lifetime: SIGN_IN,
            most: MAX_SIGN_INS,
        };
        match self.add(new, &pending).await? {
            true => Ok(address),
            false => Err(no_provider(&SignInError::Busy { retry_after: SIGN_IN })),
        }
    }
}

/// The id of the sign-in with `state`.
pub(super) fn sign_in_id(state: &Secret) -> Result<CredentialId, Refused> {
    let hash = Digest::of(format!("toolcrib sign-in\n{}", state.expose()).as_bytes());
    CredentialId::parse(hash.to_string()).map_err(|_| Refused::invalid("no state"))
}

/// The refusal because the provider cannot be used now.
pub(super) fn no_provider(error: &SignInError) -> Refused {
    tracing::warn!(code = error.code(), "the identity provider cannot be used for a client");
    let (code, description) = match error {
        SignInError::Busy { .. } => (
            ErrorCode::TemporarilyUnavailable,
            "too many people are signing in at this moment; try again soon",
        ),
        SignInError::Unreachable => {
            (ErrorCode::TemporarilyUnavailable, "the identity provider cannot be reached now")
        }
        SignInError::Unproven | SignInError::CodeExpired | SignInError::Rejected => {
            (ErrorCode::AccessDenied, "the identity provider did not sign the person in")
        }
        _ => (ErrorCode::ServerError, "the identity provider cannot be used for sign-in"),
    };
    Refused { code, description }
}

/// Whether a browser may be sent to the client before the person has seen a page. Otherwise links to
/// this server could lead to any site (RFC 9700, section 4.11.2).
fn is_trusted(client: &KnownClient, redirect: &Redirect) -> bool {
    client.origin == ClientOrigin::Operator
        || Url::parse(&redirect.uri).is_ok_and(|uri| is_loopback(&uri))
}

fn preview(bridge: &BridgeConfig, client: KnownClient, redirect: Redirect) -> ConsentPreview {
    let host = |url: &str| Url::parse(url).ok()?.host_str().map(str::to_owned);
    ConsentPreview {
        name: client.description.name,
        host: host(&client.id).filter(|_| client.origin == ClientOrigin::Host),
        is_registered: client.origin == ClientOrigin::Operator,
        client_id: client.id,
        redirect_uri: redirect.uri,
        provider: host(&bridge.provider).unwrap_or_else(|| bridge.provider.clone()),
    }
}
