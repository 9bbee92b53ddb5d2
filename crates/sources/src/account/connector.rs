//! Connects accounts: makes authorization requests, exchanges their codes, and revokes tokens.

use std::sync::Arc;

use async_trait::async_trait;
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use chrono::TimeDelta;
use serde_json::Value;
use toolcrib_core::{
    credential::{
        AccountGrant, AccountSpec, ClientAuth, CredentialStoreError, GrantPlace, GrantSecrets,
        GrantState, GrantStore, GrantTerms, OAuth2, PendingAuthorization, PendingTerms,
        RegisteredClient, ResourceParameter, Secret,
    },
    source::{
        AccountConnector, AccountError, AuthorizationResponse, BegunAuthorization, ConnectRequest,
        Prospect, SourceSpec,
    },
};
use toolcrib_oauth::{
    authorization::{AuthorizationRequest, read_response},
    pkce,
    registration::{ClientDescription, Registration, Way, choose},
    scopes,
    token::{Client, Grant, TokenAnswer, TokenError, TokenRequest},
};
use url::Url;

use super::{
    discovery::{Discovery, Server, unavailable, unsupported},
    hub::{Hub, token_end},
    reach::Reach,
    revoke::revoke,
};
use crate::text::tidy;

/// The most bytes of the account's name.
const MAX_ACCOUNT: usize = 200;
/// A registered client whose secret expires within this time is registered anew.
const CLIENT_MARGIN: TimeDelta = TimeDelta::minutes(20);
/// The scope that some servers require for refresh tokens (OpenID Connect Core, section 11).
const OFFLINE: &str = "offline_access";

/// Connects the accounts of the sources of one factory.
pub(crate) struct Connector(Arc<Hub>);

/// A client, as requests name it.
struct ClientId {
    id: String,
    auth: ClientAuth,
}

fn of_store(error: &CredentialStoreError) -> AccountError {
    tracing::error!(%error, "the store of accounts failed");
    match error {
        CredentialStoreError::NoKey => {
            unsupported("this server has no key for accounts; the operator sets `[store] seal_key`")
        }
        _ => unavailable("the store of accounts does not work"),
    }
}

fn account_of(spec: &SourceSpec) -> Result<&Arc<AccountSpec>, AccountError> {
    spec.account.as_ref().ok_or_else(|| unsupported("this source has no accounts"))
}

/// The scopes of a request: the configured ones. Without them, first those that the account has
/// already, then those that calls needed, then those that the service names in its discovery, in
/// the bounds of [`scopes`].
fn wanted(account: &AccountSpec, server: &Server, earlier: Option<&AccountGrant>) -> Vec<String> {
    let mut asked = server.scopes.clone();
    let offers = |metadata: &toolcrib_oauth::metadata::Metadata| {
        metadata.scopes().iter().any(|scope| scope == OFFLINE)
    };
    if !asked.is_empty() && server.metadata.as_ref().is_some_and(offers) {
        asked.push(OFFLINE.to_owned());
    }
    let terms = earlier.map(|grant| &grant.terms);
    let kept = terms
        .map(|terms| scopes::union(&terms.oauth2.scopes, &terms.missing_scopes, &account.scopes));
    let kept = scopes::union(&account.scopes, &kept.unwrap_or_default(), &account.scopes);
    scopes::union(&kept, &asked, &account.scopes)
}

/// The address of a service as resource: without the query, which can hold a key.
fn canonical(service: &Url) -> String {
    let mut service = service.clone();
    service.set_query(None);
    service.set_fragment(None);
    service.into()
}

/// The name of an account in the claims of an ID token. It came from the token endpoint itself, and
/// is only shown, so that its signature is not checked (OpenID Connect Core, section 3.1.3.7).
fn name_in(id_token: &Secret) -> Option<String> {
    let claims = URL_SAFE_NO_PAD.decode(id_token.expose().split('.').nth(1)?).ok()?;
    let claims: Value = serde_json::from_slice(&claims).ok()?;
    let mut names = ["email", "preferred_username", "name"].iter();
    let name = names.find_map(|member| claims.get(member)?.as_str())?;
    Some(tidy(name, MAX_ACCOUNT)).filter(|name| !name.is_empty())
}

fn of_tokens(error: &TokenError) -> AccountError {
    match (error.code(), error) {
        (Some(code), _) => AccountError::Refused(code),
        (None, TokenError::Unusable(problem)) => unsupported(problem),
        (None, error) if error.is_permanent() => AccountError::Refused("for an unknown reason"),
        (None, _) => unavailable("the authorization server issued no token; try again"),
    }
}

// === impl Connector ===

impl Connector {
    pub(crate) fn new(hub: Arc<Hub>) -> Self {
        Self(hub)
    }

    fn store(&self) -> Result<&Arc<dyn GrantStore>, AccountError> {
        self.0.store.as_ref().ok_or_else(|| unsupported("this program connects no accounts"))
    }

    /// The authorization server where the accounts of the source are connected: that of the earliest
    /// grant, unless the configuration decides.
    async fn known(
        &self,
        account: &AccountSpec,
        place: &GrantPlace,
    ) -> Result<Option<String>, AccountError> {
        if account.issuer.is_some() || account.endpoints.is_some() {
            return Ok(None);
        }
        let known = self.store()?.issuer_of(&place.owner.tenant, &place.source).await;
        known.map_err(|error| of_store(&error))
    }

    /// The authorization server, and the earlier one if that is another.
    async fn discovered(
        &self,
        spec: &SourceSpec,
        account: &AccountSpec,
        place: &GrantPlace,
        reach: &Reach,
    ) -> Result<(Server, Option<String>), AccountError> {
        let known = self.known(account, place).await?;
        let network = &self.0.network;
        let discovery = Discovery { network, spec, account, reach, known: known.as_deref() };
        let server = discovery.run().await?;
        let earlier = known.filter(|known| *known != server.issuer);
        Ok((server, earlier))
    }

    /// The client for a request; registers one if needed.
    async fn client(
        &self,
        request: &ConnectRequest<'_>,
        account: &AccountSpec,
        server: &Server,
        reach: &Reach,
    ) -> Result<ClientId, AccountError> {
        let way = match &server.metadata {
            Some(metadata) => {
                let preset = account.client.as_ref();
                choose(preset, metadata, request.client_document, &reach.allow)
                    .map_err(|no_way| unsupported(&no_way.to_string()))?
            }
            None => Way::Preset,
        };
        match (way, &account.client) {
            (Way::Preset, Some(preset)) => {
                Ok(ClientId { id: preset.id.clone(), auth: preset.auth })
            }
            (Way::Preset, None) => Err(unsupported("the source has no `client_id`")),
            (Way::Document, _) => {
                let id = request.client_document.unwrap_or_default().to_owned();
                Ok(ClientId { id, auth: ClientAuth::None })
            }
            (Way::Register(endpoint), _) => {
                self.registered(request, server, reach, &endpoint).await
            }
        }
    }

    async fn registered(
        &self,
        request: &ConnectRequest<'_>,
        server: &Server,
        reach: &Reach,
        endpoint: &Url,
    ) -> Result<ClientId, AccountError> {
        let _one_at_a_time = self.0.registering.lock().await;
        let (store, now) = (self.store()?, self.0.clock.now());
        let known = match store.client(&server.issuer, request.redirect_uri).await {
            // Accounts do not depend on the registration, so it is replaced.
            Err(
                error @ (CredentialStoreError::OtherKey(_) | CredentialStoreError::NotGenuine(_)),
            ) => {
                tracing::warn!(source = %request.spec.id, %error, "registering a client again");
                None
            }
            found => found.map_err(|error| of_store(&error))?,
        };
        let lasts = |client: &RegisteredClient| {
            client.expires_at.is_none_or(|end| end > now + CLIENT_MARGIN)
        };
        if let Some(known) = known.filter(lasts) {
            return Ok(ClientId { id: known.client_id, auth: known.client_auth });
        }
        let redirect_uris = [request.redirect_uri.to_owned()];
        let client =
            ClientDescription { name: "toolcrib", uri: None, redirect_uris: &redirect_uris };
        let auth = server.metadata.as_ref().map_or(ClientAuth::None, |it| it.registration_auth());
        let body = client.registration(auth).to_string().into_bytes();
        let answer = reach.post_json(&self.0.network, endpoint.as_str(), &body).await;
        let answer = answer.map_err(|problem| {
            tracing::warn!(source = %request.spec.id, problem, "registering a client");
            unavailable("the authorization server does not answer")
        })?;
        let registration = Registration::read(&answer, auth);
        let registration = registration.map_err(|refused| unsupported(&refused.to_string()))?;
        let client = RegisteredClient {
            issuer: server.issuer.clone(),
            redirect_uri: request.redirect_uri.to_owned(),
            id: random_id()?,
            client_id: registration.client_id.clone(),
            client_auth: registration.auth,
            secret: registration.secret,
            created_at: now,
            expires_at: registration.expires_at,
        };
        store.put_client(client).await.map_err(|error| of_store(&error))?;
        Ok(ClientId { id: registration.client_id, auth: registration.auth })
    }

    /// The secret of the client of a request, and whether a server has registered this client.
    async fn client_secret(
        &self,
        account: &AccountSpec,
        terms: &PendingTerms,
    ) -> Result<(Option<Secret>, bool), AccountError> {
        let id = &terms.oauth2.client_id;
        if let Some(preset) = account.client.as_ref().filter(|preset| preset.id == *id) {
            return Ok((preset.secret.as_ref().map(|secret| secret.0.clone()), false));
        }
        let known = self.store()?.client(&terms.issuer, &terms.redirect_uri).await;
        let known = known.map_err(|error| of_store(&error))?;
        let known = known.filter(|client| client.client_id == *id);
        Ok(known.map_or((None, false), |client| (client.secret, true)))
    }
}

fn random_id() -> Result<toolcrib_core::id::CredentialId, AccountError> {
    let mut random = [0; 16];
    let filled = getrandom::fill(&mut random).ok();
    let id = filled.and_then(|()| URL_SAFE_NO_PAD.encode(random).parse().ok());
    id.ok_or_else(|| unavailable("no random bytes are available"))
}

#[async_trait]
impl AccountConnector for Connector {
    async fn preview(
        &self,
        spec: &SourceSpec,
        place: &GrantPlace,
        earlier: Option<&AccountGrant>,
    ) -> Result<Prospect, AccountError> {
        let (account, reach) = (account_of(spec)?, Reach::of(spec));
        let (server, earlier_issuer) = self.discovered(spec, account, place, &reach).await?;
        let scopes = wanted(account, &server, earlier);
        let Server { issuer, authorization, token, .. } = server;
        let authorization = authorization.into();
        Ok(Prospect { issuer, authorization, token, scopes, earlier_issuer })
    }

    async fn begin(&self, request: ConnectRequest<'_>) -> Result<BegunAuthorization, AccountError> {
        let account = account_of(request.spec)?;
        self.store()?;
        let reach = Reach::of(request.spec);
        let (server, _) = self.discovered(request.spec, account, &request.place, &reach).await?;
        let client = self.client(&request, account, &server, &reach).await?;
        let scopes = wanted(account, &server, request.earlier);
        let resource = match &account.resource {
            ResourceParameter::OfServer if account.endpoints.is_some() => None,
            ResourceParameter::OfServer => {
                server.resource.or_else(|| reach.service.as_ref().map(canonical))
            }
            ResourceParameter::Given(resource) => Some(resource.clone()),
            ResourceParameter::Omitted => None,
        };
        let verifier = pkce::verifier(&request.random);
        let address = AuthorizationRequest {
            client_id: &client.id,
            redirect_uri: request.redirect_uri,
            scope: &scopes.join(&account.scope_separator),
            state: request.state.expose(),
            nonce: None,
            challenge: &pkce::challenge(&verifier),
            resource: resource.as_deref(),
        };
        let address = address.address_with(server.authorization, &account.parameters);
        let address = address.map_err(|reserved| unsupported(&reserved.to_string()))?;
        let terms = PendingTerms {
            issuer: server.issuer,
            redirect_uri: request.redirect_uri.to_owned(),
            oauth2: OAuth2 {
                token_url: server.token,
                client_id: client.id,
                client_auth: client.auth,
                scopes,
                resource,
            },
            names_issuer: server.names_issuer,
            revocation_url: server.revocation,
            principal: request.principal,
            browser: request.browser,
        };
        let pending = PendingAuthorization {
            state: PendingAuthorization::hash(request.state),
            id: request.id,
            place: request.place,
            terms,
            created_at: self.0.clock.now(),
            expires_at: request.expires_at,
        };
        Ok(BegunAuthorization { address: address.into(), pending, verifier })
    }

    async fn finish(
        &self,
        spec: &SourceSpec,
        pending: &PendingAuthorization,
        verifier: &Secret,
        response: &AuthorizationResponse,
    ) -> Result<(GrantTerms, GrantSecrets), AccountError> {
        let account = account_of(spec)?;
        let terms = &pending.terms;
        let mut response = response.clone();
        if account.endpoints.is_some() {
            // The issuer of configured endpoints is not known, and each source has its own address
            // for responses.
            response.issuer = None;
        }
        let code = read_response(&response, &terms.issuer, terms.names_issuer)?;
        let (secret, is_registered) = self.client_secret(account, terms).await?;
        let oauth2 = &terms.oauth2;
        let client = Client {
            id: &oauth2.client_id,
            secret: secret.as_ref().map(|secret| (secret, oauth2.client_auth)),
        };
        let redirect_uri = &terms.redirect_uri;
        let grant = Grant::Code { code: code.expose(), verifier: verifier.expose(), redirect_uri };
        let request =
            TokenRequest { client, grant, scopes: &[], resource: oauth2.resource.as_deref() };
        let reach = Reach::of(spec);
        let asked_at = self.0.clock.now();
        let sent = reach.post_form(&self.0.network, &oauth2.token_url, &request.form()).await;
        let granted = sent.map_err(TokenError::Unreachable);
        let granted = granted.and_then(|answer| TokenAnswer::read(&answer));
        let granted = match granted.and_then(|granted| Ok((granted.bearer()?.clone(), granted))) {
            Ok(granted) => granted,
            Err(error) => {
                tracing::warn!(source = %spec.id, %error, "no account was connected");
                if is_registered && error.code() == Some("invalid_client") {
                    let removed = self.store()?.remove_client(&terms.issuer, redirect_uri).await;
                    removed.map_err(|error| of_store(&error))?;
                    let problem =
                        "the authorization server no longer knows this gateway; try again";
                    return Err(unavailable(problem));
                }
                return Err(of_tokens(&error));
            }
        };
        let (access_token, granted) = granted;
        let audience = reach.audience().ok_or_else(|| {
            unsupported("the address of the service is not known before a call; set `base_url`")
        })?;
        let granted_scopes = granted.scopes.unwrap_or_else(|| oauth2.scopes.clone());
        let is_withheld = |scope: &&String| *scope != OFFLINE && !granted_scopes.contains(scope);
        let withheld_scopes = oauth2.scopes.iter().filter(is_withheld).cloned().collect();
        let terms = GrantTerms {
            issuer: terms.issuer.clone(),
            oauth2: OAuth2 { scopes: granted_scopes, ..oauth2.clone() },
            audiences: vec![audience],
            account: granted.id_token.as_ref().and_then(name_in),
            state: GrantState::Active,
            token_expires_at: granted.lifetime.and_then(|lifetime| token_end(asked_at, lifetime)),
            missing_scopes: Vec::new(),
            withheld_scopes,
            revocation_url: terms.revocation_url.clone(),
            makers: Vec::new(),
        };
        let secrets = GrantSecrets {
            access_token: Some(access_token),
            refresh_token: granted.refresh_token,
            client_secret: secret,
        };
        Ok((terms, secrets))
    }

    async fn revoke(&self, grant: &AccountGrant, secrets: &GrantSecrets) -> bool {
        self.0.removed(&grant.id);
        revoke(&self.0, grant, secrets).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_an_account_is_read_from_an_id_token_and_tidied() {
        let token =
            |claims: &str| Secret::new(format!("e30.{}.sig", URL_SAFE_NO_PAD.encode(claims)));
        for (claims, name) in [
            (r#"{"name":"Ann","email":"ann@x.example"}"#, Some("ann@x.example")),
            ("{\"name\":\"A\\u202enn\\n\"}", Some("A nn")),
            (r#"{"email":5}"#, None),
            (r#"{"email":""}"#, None),
            ("[]", None),
            ("no JSON", None),
        ] {
            assert_eq!(name_in(&token(claims)).as_deref(), name, "{claims}");
        }
        for text in ["", "a.b", "a.%.c"] {
            assert_eq!(name_in(&Secret::new(text.to_owned())), None);
        }
    }

    #[test]
    fn a_resource_is_named_without_its_query() {
        let service = Url::parse("https://a.example/mcp?key=canary#x").unwrap();
        assert_eq!(canonical(&service), "https://a.example/mcp");
    }
}
