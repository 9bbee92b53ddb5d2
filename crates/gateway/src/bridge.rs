//! The authorization server of MCP clients (`[auth.bridge]`), over an identity provider that
//! registers no clients.
//!
//! The order of a sign-in: the client and its address are known, the person consents in this
//! browser, the provider identifies the person, the client gets a code, and exchanges it.
//!
//! Invariant: before the client and its address are known, nothing is sent to that address.
//! Invariant (I-117): a client gets a code only in the browser in which the person consented, at the
//! address that they saw.
//! Invariant: codes and tokens are stored as hashes only, and are in no event and no log.

mod assertion;
mod authorize;
mod client;
mod document;
mod exchange;
mod grant;
mod manage;
mod sign_in;

use std::{sync::Arc, time::Duration};

use quick_cache::sync::Cache;
use serde::{Serialize, de::DeserializeOwned};
use toolcrib_config::{BridgeConfig, Config, is_toolset_name};
use toolcrib_core::{
    bridge::{BridgeItem, BridgeKind, BridgeStore},
    credential::{CredentialStoreError, Secret},
    id::CredentialId,
    key_set::KeySetSource,
    principal::PrincipalKey,
};
pub use toolcrib_oauth::server::error::{ErrorCode, Refused};
use toolcrib_oauth::server::metadata::ServerOffer;

use self::document::KnownDocument;
pub use self::{
    authorize::{Consent, ConsentPreview, StartedAuthorization, Unredirected},
    client::ClientOrigin,
    manage::{ClientGrant, EndError, MANAGE},
    sign_in::{BroughtBack, SentBack},
};
use crate::{
    audit::Audit,
    authn::{Authenticator, SignInLimits},
    background::Services,
    clock::after,
    ids,
};

/// The path of the endpoint with all tools.
const MCP: &str = "/mcp";
/// How long a person may be away at the provider.
const SIGN_IN: Duration = Duration::from_secs(10 * 60);
/// How long a code is valid.
const CODE: Duration = Duration::from_secs(60);
/// The most people that are away at once, and the most grants.
const MAX_SIGN_INS: u64 = 10_000;
const MAX_GRANTS: u64 = 100_000;
/// The most documents of clients in memory.
const MAX_DOCUMENTS: usize = 256;

/// The authorization server. Every request reads the current configuration.
#[derive(Clone)]
pub struct Bridge {
    services: Services,
    audit: Arc<Audit>,
    authenticator: Authenticator,
    store: Arc<dyn BridgeStore>,
    source: Option<Arc<dyn KeySetSource>>,
    documents: Arc<Cache<String, Arc<KnownDocument>>>,
    /// For everything that strangers can cause.
    strangers: Arc<SignInLimits>,
}

/// The purpose of a token.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Resource {
    /// The path at and below which the token is valid.
    path: String,
}

/// The lifetime and the owner of a new item.
struct NewItem {
    kind: BridgeKind,
    id: CredentialId,
    owner: Option<PrincipalKey>,
    lifetime: Duration,
    most: u64,
}

// === impl Bridge ===

impl Bridge {
    pub(crate) fn new(
        services: Services,
        audit: Arc<Audit>,
        authenticator: Authenticator,
        source: Option<Arc<dyn KeySetSource>>,
    ) -> Self {
        Self {
            store: services.storage.bridge(),
            services,
            audit,
            authenticator,
            source,
            documents: Arc::new(Cache::new(MAX_DOCUMENTS)),
            strangers: Arc::new(SignInLimits::new()),
        }
    }

    /// The description of the authorization server; `None` if it is off.
    pub fn metadata(&self) -> Option<serde_json::Value> {
        let config = self.services.config();
        let bridge = config.bridge.as_ref()?;
        let offer = ServerOffer {
            issuer: &bridge.own_issuer,
            registers: bridge.registration,
            documents: !bridge.client_documents.is_empty(),
            secrets: bridge.clients.iter().any(|client| client.secret.is_some()),
            assertions: !bridge.assertion_issuers.is_empty(),
        };
        Some(offer.document())
    }

    /// Limits what strangers can cause.
    fn admit(&self) -> Result<tokio::sync::SemaphorePermit<'_>, Refused> {
        let busy = Refused {
            code: ErrorCode::TemporarilyUnavailable,
            description: "too many requests at this moment; try again soon",
        };
        self.strangers.admit(&*self.services.clock).map_err(|_| busy)
    }

    /// Stores a new item; `false` if there are too many of its kind.
    async fn add(&self, new: NewItem, value: &impl Serialize) -> Result<bool, Refused> {
        let now = self.services.now();
        let NewItem { kind, id, owner, lifetime, most } = new;
        let expires_at = after(now, lifetime);
        let item = BridgeItem { kind, id, owner, created_at: now, expires_at, revision: 1 };
        let added = self.store.add(item, encoded(value)?, most).await;
        added.map_err(|error| unavailable(&error))
    }
}

/// The current settings, with those of the server.
fn settings(config: &Config) -> Result<&BridgeConfig, Refused> {
    let description = "this server has no authorization server";
    config.bridge.as_ref().ok_or(Refused { code: ErrorCode::InvalidRequest, description })
}

// === impl Resource ===

impl Resource {
    /// The resource that a client names (RFC 8707): a toolset, or all tools. Other parts of this server
    /// are not for clients, although the metadata can have the address of the whole server.
    fn read(config: &Config, named: Option<&str>) -> Result<Self, Refused> {
        let unknown = Refused {
            code: ErrorCode::InvalidTarget,
            description: "`resource` is not an endpoint of this server",
        };
        let protected = config.resource.as_ref().ok_or(unknown)?;
        let own = settings(config)?.own_issuer.as_str();
        let whole = protected.resource.trim_end_matches('/');
        let path = named.map_or(Some(MCP), |named| named.trim_end_matches('/').strip_prefix(own));
        match path.ok_or(unknown)? {
            "" if whole == own => Ok(Self { path: MCP.to_owned() }),
            MCP => Ok(Self { path: MCP.to_owned() }),
            path if path.strip_prefix("/mcp/").is_some_and(is_toolset_name) => {
                Ok(Self { path: path.to_owned() })
            }
            _ => Err(unknown),
        }
    }
}

fn encoded(value: &impl Serialize) -> Result<Secret, Refused> {
    serde_json::to_string(value).map(Secret::new).map_err(|_| broken("a value has no JSON form"))
}

/// Reads a stored value. One of another version counts as absent.
fn decoded<T: DeserializeOwned>(value: &Secret) -> Option<T> {
    serde_json::from_str(value.expose()).ok()
}

/// A new secret of 43 characters.
fn secret() -> Result<Secret, Refused> {
    ids::secret().map(Secret::new).map_err(|_| broken("the system has no randomness"))
}

/// The refusal for an outage of the store. The log has the cause. What another key sealed is kept.
fn unavailable(error: &CredentialStoreError) -> Refused {
    let description = match error {
        CredentialStoreError::NoKey => "this server has no seal key; its operator has to set one",
        CredentialStoreError::OtherKey(_) => {
            "this server has another seal key than before; its operator has to restore the old one"
        }
        _ => return broken(&error.to_string()),
    };
    tracing::error!(%error, "the authorization server cannot answer a request");
    Refused { code: ErrorCode::ServerError, description }
}

/// The refusal for a fault of this server.
fn broken(problem: &str) -> Refused {
    tracing::error!(problem, "the authorization server cannot answer a request");
    Refused { code: ErrorCode::ServerError, description: "the server cannot answer at this moment" }
}
