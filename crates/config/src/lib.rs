#![doc = include_str!("../README.md")]
//!
//! ## Modules
//!
//! Each noun of the file has a module, with its form in the file, its validated form ([`Config`]), and
//! the function that resolves one into the other. [`edit`] changes the file and keeps its layout.
//! [`policy_set`] has the policies that the file names, and [`scopes`] the rights on the server that
//! its roles can have.
//!
//! Outside the text, parsing reads only the secrets that it refers to (`{ env = … }` and
//! `{ file = … }`), through [`SecretReader`], and the files that it includes, such as policies.
#![warn(missing_docs)]

mod approvals;
mod auth;
mod bridge;
mod document;
pub mod edit;
mod error;
pub mod files;
mod gate;
mod limits;
mod log;
mod mcp;
mod metrics;
mod ordered;
mod outputs;
mod people;
mod places;
mod policy;
pub mod policy_set;
mod protected;
mod protection;
mod record;
mod resolver;
mod restart;
mod schema;
pub mod scopes;
mod secret;
mod server;
mod slips;
mod source;
mod store;
mod strict;
mod syntax;
mod telemetry;
#[cfg(test)]
mod tests;
mod tokens;
mod toolset;
mod units;

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
    sync::Arc,
};

use schemars::JsonSchema;
use serde::Deserialize;
use toml::{Spanned, de::DeTable};
use toolcrib_core::{
    credential::Secret,
    id::SourceId,
    people::People,
    scope::{Grant, Scope},
    source::command::RootPolicy,
};

use self::{
    approvals::Approvals, auth::Authentication, document::Document, gate::Role, limits::Limits,
    metrics::Metrics, ordered::OrderedTable, places::Places, policy::Policy, policy_set::PolicySet,
    record::Record, resolver::Resolver, scopes::RouteScope, secret::Value, source::Source,
    store::Store, telemetry::Telemetry, tokens::Otc, toolset::Toolset,
};

pub use approvals::{ApprovalsConfig, WebhookConfig};
pub use bridge::{BridgeClientConfig, BridgeConfig, REGISTERED_CLIENT};
pub use error::{ConfigError, LinePosition, Problem};
pub use gate::{AnonymousConfig, DeniedCalls, GateConfig};
pub use limits::{LimitPlace, OnOutage, SharedLimits};
pub use log::{LogConfig, LogFormat};
pub use mcp::{McpConfig, ResourceConfig};
pub use metrics::{LabelValues, MetricsConfig};
pub use protected::Protection;
pub use record::{Durability, ForwardConfig, RecordConfig};
pub use resolver::{MissingSecret, SecretReader};
pub use schema::schema;
pub use secret::KeyPlace;
pub use server::{
    ExplorerConfig, ExplorerPolicy, ListBody, MountAuth, MountConfig, OpenWopConfig, OpenWopV2,
    OxpConfig, ServerConfig, TlsConfig,
};
pub use source::{
    BreakerConfig, Classification, PinFirst, PinMode, PinPolicy, SourceConfig, ToolRule,
    pack_location, public_key,
};
pub use store::{Engine, StoreConfig, has_password};
pub use telemetry::{Sampling, TelemetryConfig, TelemetryProtocol};
pub use tokens::{ClaimPath, ClaimsConfig, JwtAlgorithm, JwtConfig, SharedJwtConfig, SignInConfig};
pub use toolcrib_core::source::pack::PackLocation;
pub use toolset::{ToolPattern, ToolsetConfig, is_toolset_name};
pub use units::parse_duration;

/// The types of the configuration file for its reference, as a JSON Schema. The keys of a kind of
/// source are those of its `form`. `x-default` is a default in words. For files, use [`schema()`].
#[must_use]
pub fn types() -> serde_json::Value {
    schemars::schema_for!(File).to_value()
}

/// The configuration file.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
struct File {
    server: ServerConfig,
    store: Store,
    record: Record,
    gate: GateConfig,
    approvals: Approvals,
    policy: Policy,
    limits: Limits,
    metrics: Metrics,
    telemetry: Telemetry,
    log: LogConfig,
    sources: Sources,
    #[schemars(with = "Vec<Source>")]
    source: Vec<Spanned<Source>>,
    #[schemars(with = "Vec<Role>")]
    role: Vec<Spanned<Role>>,
    anonymous: Option<AnonymousConfig>,
    openwop: OpenWopConfig,
    otc: Otc,
    oxp: OxpConfig,
    explorer: ExplorerConfig,
    mcp: McpConfig,
    auth: Authentication,
    #[schemars(with = "BTreeMap<String, Toolset>")]
    toolset: OrderedTable<Toolset>,
}

/// Settings of all sources.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, expecting = "a table; a source is `[[source]]`")]
struct Sources {
    /// Variables of every child process and command, such as a private certificate authority or a
    /// proxy. A source's own `env` has priority.
    env: BTreeMap<String, Value>,
    /// Starts programs in a [sandbox](../explanation/sandbox.md) also when the server runs as root.
    sandbox_as_root: bool,
}

impl Sources {
    fn root_policy(&self) -> RootPolicy {
        match self.sandbox_as_root {
            true => RootPolicy::Allowed,
            false => RootPolicy::Refused,
        }
    }
}

/// The validated settings of the operator.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Config {
    /// The listener.
    pub server: ServerConfig,
    /// The place of all state.
    pub store: StoreConfig,
    /// Durability, signatures and retention of the record.
    pub record: RecordConfig,
    /// Defaults of the gate.
    pub gate: GateConfig,
    /// Rates that several servers share.
    pub limits: Option<SharedLimits>,
    /// The labels of metrics.
    pub metrics: MetricsConfig,
    /// The receiver of spans, if any.
    pub telemetry: Option<TelemetryConfig>,
    /// The form of log lines, and the access log.
    pub log: LogConfig,
    /// Approval of calls.
    pub approvals: ApprovalsConfig,
    /// Policies that restrict calls further; `None` for no further restrictions.
    pub policies: Option<Arc<PolicySet>>,
    /// The sources, in the order of the file.
    pub sources: Vec<SourceConfig>,
    /// Roles: names and their grants.
    pub roles: BTreeMap<String, Vec<Grant>>,
    /// The principal of callers without credentials, on mounts that admit them.
    pub anonymous: Option<AnonymousConfig>,
    /// OpenWOP.
    pub openwop: OpenWopConfig,
    /// Open Tool Calling.
    pub otc: MountConfig,
    /// Tokens with a shared secret, only for the mounts of Open Tool Calling.
    pub otc_jwt: Option<SharedJwtConfig>,
    /// Issuers whose signed tokens are credentials.
    pub issuers: Vec<JwtConfig>,
    /// The authorization server for MCP clients, if there is one.
    pub bridge: Option<BridgeConfig>,
    /// The principals that are one person.
    pub people: People,
    /// Open eXecution Protocol.
    pub oxp: OxpConfig,
    /// Explorer.
    pub explorer: ExplorerConfig,
    /// MCP.
    pub mcp: McpConfig,
    /// Metadata for OAuth clients (RFC 9728), if configured.
    pub resource: Option<ResourceConfig>,
    /// Named parts of the catalog, in the order of the file.
    pub toolsets: Vec<ToolsetConfig>,
    /// Paths that confined programs must not reach; enforced by [`Config::protect`].
    pub protection: Protection,
    /// Whether the test routes under `/v1/host/sample` are served. The file cannot set this; only
    /// the command that starts the server can.
    pub test_routes: bool,
}

/// A parsed configuration. Use [`complete`](Self::complete), or
/// [`without_missing`](Self::without_missing) for a command that needs only some of its secrets.
#[derive(Debug)]
pub struct Reading {
    file: String,
    config: Config,
    problems: Vec<Problem>,
    missing: Vec<MissingSecret>,
    is_toml: bool,
}

impl Reading {
    /// Returns the configuration with all its secrets.
    ///
    /// # Errors
    /// Fails with all problems, missing secrets included.
    pub fn complete(self) -> Result<Config, ConfigError> {
        let problems = self.problems();
        self.or(problems).map(|(config, _)| config)
    }

    /// Returns the configuration without its missing secrets, and the list of them. A source that
    /// needs one of them is unusable, and settings for servers may be incomplete.
    ///
    /// # Errors
    /// Fails with all problems other than missing secrets.
    pub fn without_missing(mut self) -> Result<(Config, Vec<MissingSecret>), ConfigError> {
        let problems = std::mem::take(&mut self.problems);
        self.or(problems)
    }

    /// Returns the secrets that this process cannot read.
    pub fn missing(&self) -> &[MissingSecret] {
        &self.missing
    }

    /// Returns all problems other than missing secrets.
    pub fn other_problems(&self) -> &[Problem] {
        &self.problems
    }

    /// All problems, missing secrets included.
    pub fn problems(&self) -> Vec<Problem> {
        let missing = self.missing.iter().map(|missing| missing.problem.clone());
        self.problems.iter().cloned().chain(missing).collect()
    }

    /// The readable parts, for further checks; `None` if the file is not TOML. Invalid values are
    /// left out or have their defaults.
    pub fn partial(&self) -> Option<&Config> {
        self.is_toml.then_some(&self.config)
    }

    fn or(self, problems: Vec<Problem>) -> Result<(Config, Vec<MissingSecret>), ConfigError> {
        match problems.is_empty() {
            true => Ok((self.config, self.missing)),
            false => Err(ConfigError::new(self.file, problems)),
        }
    }
}

/// Parses the text of the configuration file `name`, with all its secrets. Relative paths are
/// resolved against `base`.
///
/// # Errors
/// Fails with all problems, each with file, line, key and the expected value.
pub fn parse(
    name: &str,
    text: &str,
    base: &Path,
    secrets: &dyn SecretReader,
) -> Result<Config, ConfigError> {
    read(name, text, base, secrets).complete()
}

/// Reads the text of the configuration file `name`, as far as it is valid.
pub fn read(name: &str, text: &str, base: &Path, secrets: &dyn SecretReader) -> Reading {
    let Document { typed, problems, broken, places, is_toml } =
        document::read::<File>(text, source::split, source::explain);
    let mut resolver = Resolver {
        base,
        secrets,
        places,
        broken,
        problems,
        missing: Vec::new(),
        protection: Protection::default(),
        shared_env: BTreeMap::new(),
        root: RootPolicy::Refused,
        roles: BTreeSet::new(),
    };
    let mut config = match is_toml {
        true => resolver.config(typed),
        false => Config::empty(base),
    };
    let Resolver { problems, missing, protection, .. } = resolver;
    config.protection = protection;
    Reading { file: name.to_owned(), config, problems, missing, is_toml }
}

/// The line of `key` in the text of a configuration file, or of the nearest table around it. `key`
/// has the form of [`Problem::key`].
pub fn line_of_key(text: &str, key: &str) -> Option<usize> {
    let (tree, _) = DeTable::parse_recoverable(text);
    Places::read(text, tree.get_ref()).line_of_shown(key)
}

impl Resolver<'_> {
    fn config(&mut self, typed: File) -> Config {
        let has_anonymous = typed.anonymous.is_some();
        self.mount("otc.auth", typed.otc.auth, has_anonymous);
        self.mount("oxp.auth", typed.oxp.auth, has_anonymous);
        self.mount("mcp.auth", typed.mcp.auth, has_anonymous);
        self.explorer(&typed.explorer, has_anonymous);
        self.shared_env = self.shared_env(&typed.sources.env);
        self.root = typed.sources.root_policy();
        let mut gate = self.gate(typed.gate);
        let roles = self.roles(typed.role, &mut gate.role_quotas);
        self.roles = roles.keys().cloned().collect();
        let otc_jwt = typed.otc.jwt.and_then(|jwt| self.shared_jwt(jwt));
        let (toolsets, inline_refs) = (typed.toolset.0.into_iter(), typed.mcp.inline_refs);
        let store = self.store(typed.store);
        let server = self.server(typed.server);
        let issuers = self.issuers(typed.auth.jwt, otc_jwt.is_some());
        let public_url = server.public_url.as_deref();
        let bridge = typed.auth.bridge.and_then(|it| self.bridge(it, public_url, &issuers));
        let people = self.people(typed.auth.same_person, &issuers, otc_jwt.as_ref());
        let own_issuer = bridge.as_ref().map(|bridge| bridge.own_issuer.as_str());
        let resource = self.resource(typed.auth.resource, own_issuer, server.tls.is_some());
        Config {
            server,
            record: self.record(typed.record, store.is_shared()),
            limits: self.limits(typed.limits, &store),
            metrics: self.metrics(typed.metrics),
            telemetry: self.telemetry(typed.telemetry),
            log: typed.log,
            store,
            gate,
            approvals: self.approvals(typed.approvals),
            policies: self.policy(&typed.policy),
            sources: self.sources(typed.source),
            roles,
            anonymous: typed.anonymous,
            openwop: typed.openwop,
            otc: MountConfig { auth: typed.otc.auth },
            issuers,
            bridge,
            people,
            otc_jwt,
            oxp: typed.oxp,
            explorer: typed.explorer,
            mcp: typed.mcp,
            resource,
            toolsets: toolsets
                .filter_map(|(name, set)| self.toolset(name, set, inline_refs))
                .collect(),
            protection: Protection::default(),
            test_routes: false,
        }
    }

    fn sources(&mut self, typed: Vec<Spanned<Source>>) -> Vec<SourceConfig> {
        let mut sources = Vec::new();
        let mut seen = BTreeSet::new();
        for typed in typed {
            let key = self.element("source", &typed.span());
            let Some(source) = self.source(&key, typed.into_inner()) else { continue };
            // Source ids that differ only in `-` and `_` would share an OTC toolkit.
            if !seen.insert(source.spec.id.as_str().replace('-', "_")) {
                let message = "another source has this id (`-` and `_` count as equal)";
                self.complain(&format!("{key}.id"), message);
            }
            sources.push(source);
        }
        sources
    }
}

/// Reads no secrets: all of them are missing.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoSecrets;

impl SecretReader for NoSecrets {
    fn env(&self, _: &str) -> Option<Secret> {
        None
    }

    fn file(&self, _: &Path) -> Result<Secret, String> {
        Err("secrets are not read".to_owned())
    }
}

impl Config {
    /// Creates the configuration of an empty file, without sources. Relative paths are resolved
    /// against the directory `base`.
    pub fn empty(base: &Path) -> Self {
        read("", "", base, &NoSecrets).config
    }

    /// All scopes that this configuration and the server require by name.
    pub fn known_scopes(&self) -> Vec<Scope> {
        let rules = self.sources.iter().flat_map(|source| {
            let usual = source.default_scope().ok();
            let rules = source.rules.iter().flat_map(|rule| {
                let consent = rule.set.approval_scope.clone();
                rule.set.scopes.iter().flatten().cloned().chain(consent).collect::<Vec<_>>()
            });
            usual.into_iter().chain(rules).collect::<Vec<_>>()
        });
        let routes = RouteScope::ALL.iter().filter_map(|scope| Scope::parse(scope.as_str()).ok());
        rules.chain([self.approvals.respond_scope.clone()]).chain(routes).collect()
    }

    /// Returns the source with `id`.
    pub fn source(&self, id: &SourceId) -> Option<&SourceConfig> {
        self.sources.iter().find(|source| source.spec.id == *id)
    }
}
