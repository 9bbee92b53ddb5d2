//! The accounts that people connect to sources: links, authorizations in a browser, and removal.
//!
//! Invariant: no link, state, code or token is in an event or a log, and no link or state is stored
//! in plain text.
//! Invariant (I-115): a link and an authorization are used once, and only by the principal that they
//! are for.

mod connect;
mod disconnect;
mod link;
mod list;
mod uses;

use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
    time::Duration,
};

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use tokio::sync::{Semaphore, broadcast};
use toolcrib_config::{Config, scopes::RouteScope};
use toolcrib_core::{
    call::{CallError, ConnectionRequired, Lack},
    catalog::Entry,
    clock::Timestamp,
    credential::{
        AccountOf, AccountSpec, CredentialStoreError, GrantPlace, GrantStore, Owner,
        PendingAuthorization, Secret,
    },
    event::{AccountRefused, EventBody},
    id::{CredentialId, PrincipalId, SourceId},
    principal::{AuthMethod, Principal},
    source::{AccountConnector, AccountError, AuthorizationResponse, Prospect, SourceSpec},
};
use url::Url;

use self::uses::AccountUses;
use crate::{
    audit::{Audit, lone_event},
    background::Services,
    clock::after,
    ids,
    snapshot::Snapshots,
};

/// The scope for the account of the tenant, and for accounts of its other principals.
pub const MANAGE: RouteScope = RouteScope::ConnectionsManage;
/// How long a link can be used, and how long a browser may be away.
pub const LIFETIME: Duration = Duration::from_secs(10 * 60);
/// Concurrent authorizations that wait for a server.
const MAX_WAITING: usize = 32;
/// The characters of the id of a request.
const REQUEST_ID: usize = 16;
/// The last refused grants that are remembered, so that each is recorded once.
const MAX_REFUSED: usize = 1024;
/// The most tools that a list of accounts names for each.
pub const MAX_NAMED: usize = 100;
/// Connected accounts that a slow listener may have missed before the next ones.
const MAX_NEWS: usize = 256;

/// Connects accounts.
pub(crate) struct Connections {
    services: Services,
    audit: Arc<Audit>,
    snapshots: Arc<Snapshots>,
    grants: Arc<dyn GrantStore>,
    connector: Arc<dyn AccountConnector>,
    refused: Mutex<VecDeque<CredentialId>>,
    uses: Arc<AccountUses>,
    waiting: Semaphore,
    news: broadcast::Sender<GrantPlace>,
}

/// Why an account was not connected or disconnected. `Display` is for the caller.
#[derive(Debug, thiserror::Error)]
pub enum ConnectionError {
    /// The source, the link or the account does not exist for the caller; all look the same.
    #[error("not found, or not visible to this caller")]
    NotFound,
    /// The caller needs [`MANAGE`].
    #[error("the account of a tenant needs the scope `{}`", MANAGE.as_str())]
    Forbidden,
    /// The caller has no identity that an account could belong to.
    #[error(
        "an account belongs to a person, and `anonymous` and `operator` are none; use a key or a \
         token of a person"
    )]
    Anonymous,
    /// Calls of the source use the account of the tenant.
    #[error(
        "all callers of this source share the account of the tenant; set `tenant` to connect it"
    )]
    OfTenant,
    /// The address of this server is unknown.
    #[error("accounts cannot be connected before the operator sets `[server] public_url`")]
    NoPublicUrl,
    /// Too many authorizations of the principal, or of all principals, are unfinished.
    #[error("too many accounts are being connected; try again in some minutes")]
    TooMany,
    /// The response belongs to no authorization of this caller and browser.
    #[error("this response belongs to no request of this browser; start again")]
    NotOurs,
    /// The service wants something else than the person has seen.
    #[error("the service wants something else now; look at it again")]
    Changed,
    /// The earlier account is sealed with another key.
    #[error(
        "the account that is connected was sealed with another key than this server has, and is \
         kept; it works again when the operator names that key as `[store] old_seal_key`; if the \
         key is lost, disconnect the account first"
    )]
    OtherKey,
    /// The service failed or refused.
    #[error(transparent)]
    Account(#[from] AccountError),
    /// The event could not be recorded, or the system has no randomness.
    #[error("the account could not be recorded, so it was not connected")]
    Unrecorded,
    /// The store failed.
    #[error(transparent)]
    Store(#[from] CredentialStoreError),
}

/// A source whose account is to be connected, as a caller names it.
pub enum Wanted {
    /// With a link.
    Link(Secret),
    /// By the id of the source.
    Source {
        /// The source.
        source: SourceId,
        /// Whether the account is that of the tenant.
        of_tenant: bool,
    },
}

/// A new link.
#[derive(Debug)]
pub struct NewLink {
    /// Its address.
    pub link: Secret,
    /// Until when it can be used.
    pub expires_at: Timestamp,
}

/// The account of a source, as a caller sees it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Connection {
    /// The source.
    pub source: SourceId,
    /// The host of its service.
    pub host: String,
    /// Whose calls use the account.
    pub of: AccountOf,
    /// Whether the account works.
    pub state: ConnectionState,
    /// The number of tools of the caller whose calls use it.
    pub tools: usize,
    /// The names of the first [`MAX_NAMED`] of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tool_names: Vec<String>,
    /// The id of the grant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<CredentialId>,
    /// The principal whose account it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub principal: Option<PrincipalId>,
    /// The granted scopes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub scopes: Vec<String>,
    /// The scopes that calls needed since, and that the next consent requests.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missing_scopes: Vec<String>,
    /// The account, in words of the service.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub account: Option<String>,
    /// When the person consented.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connected_at: Option<String>,
    /// When its tokens last changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub changed_at: Option<String>,
    /// When a call last used it: up to about a minute late, if at another server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_used_at: Option<String>,
}

/// The states of an account.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ConnectionState {
    /// It works, as far as is known.
    Active,
    /// The service no longer accepts it, or it has expired.
    NeedsConsent,
    /// None is connected.
    Absent,
}

/// The request to a person at a service.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Asked {
    /// The hosts of the authorization server: its own, and those at which the person agrees and the
    /// tokens are issued, if they differ.
    pub servers: Vec<String>,
    /// The scopes of the request.
    pub scopes: Vec<String>,
}

/// The consent that a person is to give.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ConnectionPreview {
    /// The source.
    pub source: SourceId,
    /// The host of its service.
    pub host: String,
    /// Whose calls will use the account.
    pub of: AccountOf,
    /// The wishes of the service.
    #[serde(flatten)]
    pub asked: Asked,
    /// What the operator says of these scopes.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub scope_texts: BTreeMap<String, String>,
    /// Those of the scopes that the account has not yet.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub new_scopes: Vec<String>,
    /// The host of the authorization server where the accounts of the source are connected, if the
    /// service names another one now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub earlier_server: Option<String>,
    /// Whether an earlier account is replaced.
    pub again: bool,
    /// The principal that consents.
    pub principal: PrincipalId,
}

/// The way to the service.
pub struct BegunConnection {
    /// The address for the browser.
    pub address: String,
    /// The id of the request, for the name of the cookie: each tab of a browser has its own.
    pub id: String,
    /// The cookie of the browser.
    pub cookie: Secret,
}

/// What the browser brings back.
pub struct ConnectionResponse {
    /// The source.
    pub source: SourceId,
    /// The state.
    pub state: Secret,
    /// The values of the cookie of this [request](request_id). Other ports of the host can add
    /// some.
    pub cookies: Vec<Secret>,
    /// The rest.
    pub response: AuthorizationResponse,
}

/// A source with accounts, and the place of one of its grants.
struct Found {
    config: Arc<Config>,
    at: usize,
    place: GrantPlace,
}

// === impl Connections ===

impl Connections {
    pub(crate) fn new(
        services: Services,
        audit: Arc<Audit>,
        snapshots: Arc<Snapshots>,
        connector: Arc<dyn AccountConnector>,
    ) -> Self {
        let grants = services.storage.grants();
        Self {
            uses: AccountUses::new(&services, Arc::clone(&grants)),
            grants,
            services,
            audit,
            snapshots,
            connector,
            refused: Mutex::default(),
            waiting: Semaphore::new(MAX_WAITING),
            news: broadcast::Sender::new(MAX_NEWS),
        }
    }

    /// Receives the places of accounts that are connected at this server from now on.
    pub(crate) fn news(&self) -> broadcast::Receiver<GrantPlace> {
        self.news.subscribe()
    }

    /// Notes that a call uses the account `id`.
    pub(crate) fn note_used(&self, id: &CredentialId) {
        self.uses.note(id, self.services.now());
    }

    /// Stores the last uses.
    pub(crate) async fn close(&self) {
        self.uses.write().await;
    }

    /// Records, once per grant, that the account of a call is refused.
    pub(crate) async fn note_refused(
        &self,
        principal: &Principal,
        source: &SourceId,
        account: &AccountSpec,
        id: &CredentialId,
    ) {
        {
            let mut refused = self.refused.lock();
            if refused.contains(id) {
                return;
            }
            if refused.len() >= MAX_REFUSED {
                refused.pop_front();
            }
            refused.push_back(id.clone());
        }
        let body = EventBody::AccountRefused(AccountRefused {
            principal: principal.id.clone(),
            source_id: source.clone(),
            of: account.of,
            credential_id: id.clone(),
        });
        let event = lone_event(principal.tenant.clone(), body, self.services.now());
        self.audit.append_with_retry(vec![event]).await;
    }

    /// Finds the source that `caller` names, and the place of the wanted account.
    fn find(
        &self,
        caller: &Principal,
        source: &SourceId,
        of_tenant: bool,
    ) -> Result<Found, ConnectionError> {
        let (found, account) = self.at(source, |account| match of_tenant {
            true => account.tenant_owner(),
            false => account.owner(&caller.tenant, &caller.id),
        })?;
        if account.tenant != caller.tenant || !self.is_visible(caller, source) {
            return Err(ConnectionError::NotFound);
        }
        match (of_tenant, account.of) {
            (true, _) if !MANAGE.is_held_by(caller) => Err(ConnectionError::Forbidden),
            (false, AccountOf::Tenant) => Err(ConnectionError::OfTenant),
            (false, AccountOf::Principal) if !may_have_own(caller) => {
                Err(ConnectionError::Anonymous)
            }
            _ => Ok(found),
        }
    }

    /// Finds the configured source of an account.
    fn at(
        &self,
        source: &SourceId,
        owner: impl FnOnce(&AccountSpec) -> Owner,
    ) -> Result<(Found, Arc<AccountSpec>), ConnectionError> {
        let config = self.services.config();
        let at = config.sources.iter().position(|known| known.spec.id == *source);
        let at = at.ok_or(ConnectionError::NotFound)?;
        let spec = config.sources.get(at).map(|known| &known.spec);
        let account = spec.and_then(|spec| spec.account.clone());
        let account = account.ok_or(ConnectionError::NotFound)?;
        let place = GrantPlace { owner: owner(&account), source: source.clone() };
        Ok((Found { config, at, place }, account))
    }

    /// Whether `caller` may know of `source`: also if its account there has no tools.
    fn is_visible(&self, caller: &Principal, source: &SourceId) -> bool {
        let shared = || self.snapshots.load().shared_view(caller);
        MANAGE.is_held_by(caller) || shared().entries().iter().any(|it| it.source == *source)
    }

    /// The number of tools of a source that `caller` is offered, and the names of the first ones.
    fn tools_of(&self, caller: &Principal, source: &SourceId) -> (usize, Vec<String>) {
        let snapshot = self.snapshots.load();
        let view = snapshot.view(caller);
        let entries = view.entries().iter().filter(|entry| entry.source == *source);
        let names = entries.clone().take(MAX_NAMED).map(|entry| entry.names.wire.clone());
        (entries.count(), names.collect())
    }

    /// The address of this server for browsers, without a `/` at its end.
    fn public_url(config: &Config) -> Option<&str> {
        config.server.public_url.as_deref()
    }
}

// === impl Asked ===

impl Asked {
    fn of(prospect: Prospect) -> Self {
        let Prospect { issuer, authorization, token, scopes, .. } = prospect;
        let mut servers: Vec<String> = Vec::new();
        for address in [issuer, authorization, token] {
            servers.extend(host_of(&address).filter(|host| !servers.contains(host)));
        }
        Self { servers, scopes }
    }
}

/// The host of `address`, see [`authority`].
fn host_of(address: &str) -> Option<String> {
    authority(&Url::parse(address).ok()?)
}

/// The host of `url`, with a port that is not the default one.
fn authority(url: &Url) -> Option<String> {
    Some(match (url.host_str()?, url.port()) {
        (host, Some(port)) => format!("{host}:{port}"),
        (host, None) => host.to_owned(),
    })
}

// === impl Found ===

impl Found {
    fn spec(&self) -> Result<(&SourceSpec, &Arc<AccountSpec>), ConnectionError> {
        let spec = self.config.sources.get(self.at).map(|source| &source.spec);
        let both = spec.and_then(|spec| Some((spec, spec.account.as_ref()?)));
        both.ok_or(ConnectionError::NotFound)
    }
}

/// The error of a call of `entry` without a usable account, so far without a link.
pub(crate) fn required(
    entry: &Entry,
    account: &AccountSpec,
    lack: Lack,
    now: Timestamp,
) -> CallError {
    CallError::ConnectionRequired(Box::new(ConnectionRequired {
        tool: entry.id.clone(),
        source_id: entry.source.clone(),
        of_tenant: account.of == AccountOf::Tenant,
        lack,
        link: None,
        expires_at: after(now, LIFETIME),
    }))
}

/// The id of the request with `state`: 16 characters that do not disclose the state.
pub fn request_id(state: &Secret) -> String {
    PendingAuthorization::hash(state).to_string().chars().take(REQUEST_ID).collect()
}

/// Whose account a grant at `place` is.
fn of(place: &GrantPlace) -> AccountOf {
    match place.owner.principal {
        Some(_) => AccountOf::Principal,
        None => AccountOf::Tenant,
    }
}

/// Whether `caller` can have an account. Callers without credentials are all one principal.
fn may_have_own(caller: &Principal) -> bool {
    caller.auth != AuthMethod::Anonymous && AccountSpec::may_have_own(&caller.id)
}

/// The host of the service of a source, with a port that is not the default one; or else its id.
fn host(spec: &SourceSpec) -> String {
    let url = spec.upstream.configured().service_url().and_then(|url| Url::parse(url).ok());
    url.as_ref().and_then(authority).unwrap_or_else(|| spec.id.to_string())
}

/// A new secret of 43 characters.
fn secret() -> Result<Secret, ConnectionError> {
    ids::secret().map(Secret::new).map_err(|_| ConnectionError::Unrecorded)
}
