//! Finds the authorization server of a service.
//!
//! The operator's endpoints and issuer come first. Else the service says it: by its challenge to a
//! request without a token, then at the well-known addresses (RFC 9728), and at last as its own
//! authorization server, which services did before RFC 9728.

use std::time::Duration;

use http::{HeaderValue, Method, StatusCode, header};
use serde_json::json;
use toolcrib_core::{
    credential::{AccountSpec, PresetEndpoints},
    egress::EgressTrail,
    source::{AccountError, SourceSpec, UpstreamSpec},
};
use toolcrib_mcp::{
    header as mcp_header, message, meta, method,
    revision::{LATEST_LEGACY, MODERN},
};
use toolcrib_oauth::{
    challenge::{self, BearerChallenge},
    metadata::{Metadata, authorization_server_locations, is_private_enough},
    resource::{self, ResourceMetadata},
};
use url::Url;

use super::reach::Reach;
use crate::egress::{Network, OutgoingRequest};

/// Time limit of a whole discovery.
const PATIENCE: Duration = Duration::from_secs(25);
/// Time limit of the request for a challenge.
const CHALLENGE_PATIENCE: Duration = Duration::from_secs(10);

/// Names no address: the person in the browser gets it.
const NOT_FOR_BROWSERS: &str = "the authorization server leads browsers to an address that is not \
                                public, or not https; if this is intended, the operator lists its \
                                host or network in the source's `allow`, or sets \
                                `authorization_url` and `token_url`";

/// An authorization server, and what the service says about its tokens.
pub(super) struct Server {
    pub(super) issuer: String,
    pub(super) authorization: Url,
    pub(super) token: String,
    pub(super) revocation: Option<String>,
    /// Whether its responses name the issuer (RFC 9207).
    pub(super) names_issuer: bool,
    /// The resource that the service says it is.
    pub(super) resource: Option<String>,
    /// The scopes that the service requires.
    pub(super) scopes: Vec<String>,
    /// `None` for configured endpoints.
    pub(super) metadata: Option<Metadata>,
}

/// The issuers to try, and what the service says.
struct Lead {
    issuers: Vec<String>,
    resource: Option<String>,
    scopes: Vec<String>,
}

/// Finds the authorization server for the accounts of a source.
pub(super) struct Discovery<'a> {
    pub(super) network: &'a Network,
    pub(super) spec: &'a SourceSpec,
    pub(super) account: &'a AccountSpec,
    pub(super) reach: &'a Reach,
    /// The authorization server where the accounts of the source are connected. It comes first if the
    /// service names several.
    pub(super) known: Option<&'a str>,
}

pub(super) fn unsupported(problem: &str) -> AccountError {
    AccountError::Unsupported(problem.to_owned())
}

pub(super) fn unavailable(problem: &str) -> AccountError {
    AccountError::Unavailable(problem.to_owned())
}

fn configured(endpoints: &PresetEndpoints) -> Result<Server, AccountError> {
    let authorization = Url::parse(&endpoints.authorization);
    let authorization =
        authorization.map_err(|_| unsupported("the authorization endpoint is not an address"))?;
    Ok(Server {
        // A provider without metadata has no issuer of its own.
        issuer: authorization.origin().ascii_serialization(),
        authorization,
        token: endpoints.token.clone(),
        revocation: endpoints.revocation.clone(),
        names_issuer: false,
        resource: None,
        scopes: Vec::new(),
        metadata: None,
    })
}

// === impl Discovery ===

impl Discovery<'_> {
    pub(super) async fn run(&self) -> Result<Server, AccountError> {
        if let Some(endpoints) = &self.account.endpoints {
            return configured(endpoints);
        }
        let late = |_| Err(unavailable("the service or its authorization server does not answer"));
        tokio::time::timeout(PATIENCE, self.server()).await.unwrap_or_else(late)
    }

    async fn server(&self) -> Result<Server, AccountError> {
        let mut lead = match &self.account.issuer {
            Some(issuer) => {
                let issuers = vec![issuer.clone()];
                Lead { issuers, resource: None, scopes: Vec::new() }
            }
            None => self.lead().await?,
        };
        lead.issuers.sort_by_key(|issuer| self.known != Some(issuer.as_str()));
        let mut trouble = None;
        for issuer in &lead.issuers {
            match self.metadata(issuer).await {
                Ok(metadata) => {
                    let server = self.usable(issuer, metadata, lead.resource, lead.scopes)?;
                    self.check_for_browsers(&server.authorization).await?;
                    return Ok(server);
                }
                Err(error) => trouble = trouble.or(Some(error)),
            }
        }
        Err(trouble.unwrap_or_else(|| unsupported("the service names no authorization server")))
    }

    /// Finds the authorization servers of the service.
    async fn lead(&self) -> Result<Lead, AccountError> {
        let Some(service) = &self.reach.service else {
            let problem = "the address of the service is not known before a call; ask the operator \
                           to set `issuer`, or `base_url`";
            return Err(unsupported(problem));
        };
        let challenge = match &self.spec.upstream {
            UpstreamSpec::McpHttp(_) => self.challenge(service).await,
            _ => None,
        };
        let challenge = challenge.unwrap_or_default();
        let mut locations = resource::locations(service);
        if let Some(named) = challenge.resource_metadata {
            locations.retain(|location| *location != named);
            locations.insert(0, named);
        }
        for location in locations {
            let Some(document) = self.document(&location).await else { continue };
            match ResourceMetadata::read(&document, service, &self.reach.allow) {
                Ok(found) => {
                    let scopes = match challenge.scopes.is_empty() {
                        true => found.scopes,
                        false => challenge.scopes,
                    };
                    let issuers = found.authorization_servers;
                    return Ok(Lead { issuers, resource: Some(found.resource), scopes });
                }
                Err(problem) => self.note(&problem.to_string()),
            }
        }
        let origin = service.origin().ascii_serialization();
        let issuers = vec![origin.clone(), format!("{origin}/")];
        Ok(Lead { issuers, resource: None, scopes: challenge.scopes })
    }

    /// Sends requests without credentials, to get the challenge of the service: a handshake, and the
    /// request for a list, because a service can permit the former.
    async fn challenge(&self, service: &Url) -> Option<BearerChallenge> {
        let client = json!({ "name": "toolcrib", "version": env!("CARGO_PKG_VERSION") });
        let params = json!({
            "protocolVersion": LATEST_LEGACY, "capabilities": {}, "clientInfo": &client,
        });
        let mut handshake = OutgoingRequest::new(Method::POST, service.clone());
        handshake.body = Some(message::request(1, method::INITIALIZE, &params).into());
        let about = json!({
            (meta::PROTOCOL_VERSION): MODERN,
            (meta::CLIENT_CAPABILITIES): {},
            (meta::CLIENT_INFO): client,
        });
        let params = json!({ (meta::META): about });
        let mut list = OutgoingRequest::new(Method::POST, service.clone());
        let (version, name) = (mcp_header::PROTOCOL_VERSION, mcp_header::METHOD);
        list.headers.insert(version, HeaderValue::from_static(MODERN));
        list.headers.insert(name, HeaderValue::from_static(method::LIST_TOOLS));
        list.body = Some(message::request(2, method::LIST_TOOLS, &params).into());
        match self.challenge_of(handshake).await {
            None => self.challenge_of(list).await,
            found => found,
        }
    }

    async fn challenge_of(&self, mut request: OutgoingRequest) -> Option<BearerChallenge> {
        let egress = self.network.egress(self.reach.guard()).ok()?;
        let json = HeaderValue::from_static("application/json");
        request.headers.insert(header::CONTENT_TYPE, json);
        request.headers.insert(header::ACCEPT, mcp_header::ACCEPT_BOTH);
        let trail = EgressTrail::default();
        let sent = tokio::time::timeout(CHALLENGE_PATIENCE, egress.send(request, &trail)).await;
        let answer = sent.ok()?.inspect_err(|error| self.note(&error.to_string())).ok()?;
        if answer.status() != StatusCode::UNAUTHORIZED {
            return None;
        }
        let headers = answer.headers().get_all(header::WWW_AUTHENTICATE);
        challenge::read(headers.iter().map(HeaderValue::as_bytes))
    }

    async fn metadata(&self, issuer: &str) -> Result<Metadata, AccountError> {
        let mut trouble = None;
        for location in authorization_server_locations(issuer) {
            let Some(document) = self.document(&location).await else { continue };
            match Metadata::read(&document, issuer) {
                Ok(metadata) => return Ok(metadata),
                Err(problem) => trouble = Some(unsupported(&problem.to_string())),
            }
        }
        let silent = || unavailable("the authorization server of the service was not found");
        Err(trouble.unwrap_or_else(silent))
    }

    fn usable(
        &self,
        issuer: &str,
        metadata: Metadata,
        resource: Option<String>,
        scopes: Vec<String>,
    ) -> Result<Server, AccountError> {
        let endpoint = |name| metadata.endpoint(name, &self.reach.allow);
        let authorization = endpoint("authorization_endpoint");
        if authorization.is_none() && metadata.names("authorization_endpoint") {
            return Err(unsupported(NOT_FOR_BROWSERS));
        }
        let (Some(authorization), Some(token)) = (authorization, endpoint("token_endpoint")) else {
            return Err(unsupported("the authorization server has no usable endpoints"));
        };
        if !metadata.lists("response_types_supported", "code") {
            return Err(unsupported("the authorization server issues no codes"));
        }
        if !metadata.announces_s256() && !self.account.trusts_unannounced_pkce {
            let problem = "the authorization server does not announce PKCE with S256; if it has it \
                           nevertheless, the operator can set `pkce = \"unannounced\"`";
            return Err(unsupported(problem));
        }
        Ok(Server {
            issuer: issuer.to_owned(),
            authorization,
            token: token.into(),
            revocation: endpoint("revocation_endpoint").map(String::from),
            names_issuer: metadata.names_issuer(),
            resource,
            scopes,
            metadata: Some(metadata),
        })
    }

    /// Checks the address to which a browser is sent by the rules for the requests of this server.
    /// Browsers reach what is private to their user, and a service must not choose that.
    async fn check_for_browsers(&self, address: &Url) -> Result<(), AccountError> {
        let egress = self.network.egress(self.reach.guard());
        let egress = egress.map_err(|problem| {
            self.note(&problem);
            unavailable("this server cannot check the address of the authorization server")
        })?;
        match egress.refuses(address).await {
            true => Err(unsupported(NOT_FOR_BROWSERS)),
            false => Ok(()),
        }
    }

    /// The document at an address that a server named; `None` for every other status than 200.
    async fn document(&self, location: &str) -> Option<Vec<u8>> {
        let is_private =
            Url::parse(location).is_ok_and(|url| is_private_enough(&url, &self.reach.allow));
        if !is_private {
            self.note("an address is not an https address");
            return None;
        }
        let fetched = self.reach.fetch(self.network, location).await;
        let answer = fetched.inspect_err(|problem| self.note(problem)).ok()?;
        (answer.status == StatusCode::OK.as_u16()).then_some(answer.body)
    }

    /// For the operator; the person in the browser sees no address.
    fn note(&self, problem: &str) {
        tracing::warn!(source = %self.spec.id, problem, "looking for an authorization server");
    }
}
