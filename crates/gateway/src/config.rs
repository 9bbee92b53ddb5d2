//! Configuration: one TOML file. `file` has the types of the file, [`Config`] the validated
//! settings.
//!
//! Parsing reads nothing outside the text, except for the secrets that it refers to (`{ env = … }`,
//! `{ file = … }`), through [`SecretReader`], and the files that it includes, such as policies.

mod approvals;
mod document;
mod error;
mod file;
mod kinds;
mod protected;
mod protection;
mod resolve;
mod tokens;
mod toolset;
mod units;

use std::{
    collections::BTreeMap,
    ffi::OsString,
    net::SocketAddr,
    num::{NonZeroU32, NonZeroUsize},
    path::PathBuf,
    sync::Arc,
    time::Duration,
};

use globset::{Glob, GlobMatcher};
use toolcrib_core::{
    approval::Consent,
    catalog::Tenants,
    credential::Secret,
    descriptor::{Approval, Egress, Hint, ReplayPolicy, SafetyTier, SourceKind},
    id::{SourceId, TenantId},
    idempotency::KEPT_FOR,
    limit::Rate,
    names::NameStyle,
    quota::Quota,
    record::Destination,
    scope::{Grant, Scope, ScopeSet},
    source::SourceSpec,
};

use crate::{audit::export::Format, policy::PolicySet, scopes::RouteScope};

pub use approvals::{ApprovalsConfig, WebhookConfig};
pub use error::{ConfigError, Problem};
pub use protected::Protection;
pub(crate) use resolve::is_private_enough;
pub use resolve::{Reading, pack_location, parse, public_key, read};
pub use tokens::{ClaimPath, ClaimsConfig, JwtAlgorithm, JwtConfig, SharedJwtConfig};
pub use toolcrib_core::source::pack::PackLocation;
pub use toolset::{ToolPattern, ToolsetConfig};
pub use units::parse_duration;

/// Returns the JSON Schema of the configuration file. `x-default` is a default in words; `x-choice`
/// lists the possible values of a key.
#[must_use]
pub fn schema() -> serde_json::Value {
    schemars::schema_for!(file::File).to_value()
}

/// The validated settings of the operator.
#[derive(Debug, Clone)]
pub struct Config {
    /// The listener.
    pub server: ServerConfig,
    /// The place of all state.
    pub store: StoreConfig,
    /// Durability, signatures and retention of the record.
    pub record: RecordConfig,
    /// Defaults of the gate.
    pub gate: GateConfig,
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
    pub test_seams: bool,
}

/// The listener.
#[derive(Debug, Clone)]
pub struct ServerConfig {
    /// Address to bind.
    pub listen: SocketAddr,
    /// Whether a proxy in front of the server terminates TLS; required for addresses other than
    /// loopback.
    pub behind_proxy: bool,
    /// `Host` values accepted in addition to loopback names.
    pub allowed_hosts: Vec<String>,
    /// `Origin` values accepted in addition to loopback ones.
    pub allowed_origins: Vec<String>,
    /// Largest request body, in bytes.
    pub max_body_bytes: usize,
    /// Maximum bytes of the bodies of all requests in flight, at least one largest body.
    pub max_body_total_bytes: usize,
    /// Whether `/metrics` needs no key.
    pub public_metrics: bool,
}

/// The place of all state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoreConfig {
    /// The SQLite file.
    pub path: PathBuf,
    /// The key that seals stored credentials. Without it, none can be stored.
    pub seal_key: Option<KeyPlace>,
    /// The previous seal key, until everything is resealed.
    pub old_seal_key: Option<KeyPlace>,
    /// Free bytes of the file system below which only calls that run are recorded.
    pub keep_free: u64,
}

impl StoreConfig {
    /// Returns the URL of the store.
    pub fn url(&self) -> OsString {
        let mut url = OsString::from("sqlite:");
        url.push(&self.path);
        url
    }
}

/// The place of a key. The key is read only when it is needed, so that other commands work without
/// access to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeyPlace {
    /// The content of a file.
    File(PathBuf),
    /// An environment variable.
    Env(String),
    /// The output of a program: its path or name, and its arguments.
    Command(Vec<String>),
}

/// Durability, signatures and retention of the record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordConfig {
    /// The point at which an event counts as written.
    pub durability: Durability,
    /// Number of a tenant's events after which a checkpoint is signed.
    pub checkpoint_every: u64,
    /// Time after which a checkpoint is signed, for a tenant with new events.
    pub checkpoint_interval: Duration,
    /// The key that signs checkpoints; without one, a key is created next to the store.
    pub signing_key: Option<KeyPlace>,
    /// Retention of events; `None` for unlimited.
    pub keep: Option<Duration>,
    /// Age at which a tool session is closed, even if it is in use. See
    /// [`session_age`](Self::session_age).
    pub max_session_age: Duration,
    /// The destinations of checkpoints.
    pub anchors: Vec<Destination>,
    /// The destinations of events.
    pub forwards: Vec<ForwardConfig>,
}

impl RecordConfig {
    /// Returns the age at which tool sessions are closed: [`max_session_age`](Self::max_session_age),
    /// or [`keep`](Self::keep) when it is shorter, because retention keeps what open sessions need.
    pub fn session_age(&self) -> Duration {
        self.keep.map_or(self.max_session_age, |keep| keep.min(self.max_session_age))
    }
}

/// A destination of events.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ForwardConfig {
    /// The name, under which the progress is stored.
    pub name: String,
    /// The format of the events.
    pub format: Format,
    /// The destination.
    pub destination: Destination,
}

/// The point at which an event counts as written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Durability {
    /// On disk: survives power loss.
    Strict,
    /// Passed to the operating system: survives a crash of the process, not of the machine.
    Relaxed,
}

/// Defaults of the gate; a tool's own rule overrides them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GateConfig {
    /// Rate limit per principal and tool; `None` for unlimited.
    pub rate: Option<Rate>,
    /// Daily quota of a principal whose roles set none; `None` for unlimited.
    pub quota: Option<Quota>,
    /// Daily quotas by role.
    pub role_quotas: BTreeMap<String, Option<Quota>>,
    /// How long the response to an idempotent call can be replayed.
    pub idempotency_ttl: Duration,
    /// How long a call may take.
    pub timeout: Duration,
    /// Largest result, in bytes of JSON.
    pub max_result_bytes: usize,
    /// The response to a call of a tool that the caller may not use.
    pub denied_calls: DeniedCalls,
}

/// The response to a call of a tool that the caller may not use. A foreign tenant's tool is always
/// "not found".
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeniedCalls {
    /// 403 with the tool's name and scopes (RFC 0064 §C).
    Forbidden,
    /// The same response as for an unknown tool.
    NotFound,
}

/// The principal of callers without credentials.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AnonymousConfig {
    /// Its tenant.
    pub tenant: TenantId,
    /// Its scopes.
    pub scopes: ScopeSet,
}

/// A source and the settings of its tools.
#[derive(Debug, Clone)]
pub struct SourceConfig {
    /// The upstream.
    pub spec: SourceSpec,
    /// The kind of source.
    pub kind: SourceKind,
    /// The tenants that it exists for.
    pub tenants: Tenants,
    /// The style of its tools' wire names.
    pub names: NameStyle,
    /// Interval of discovery when the source announces no change.
    pub refresh: Duration,
    /// The treatment of tools that differ from their approved form.
    pub pins: PinPolicy,
    /// The circuit breaker; `None` for none.
    pub breaker: Option<BreakerConfig>,
    /// `[source.tools."glob"]`, in the order of the file: later rules override earlier ones, member
    /// by member.
    pub rules: Vec<ToolRule>,
}

/// The settings of a circuit breaker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BreakerConfig {
    /// Consecutive failures that open the breaker; at least 2.
    pub failures: usize,
    /// Longest time from the first to the last of them.
    pub window: Duration,
    /// How long the breaker stays open.
    pub open: Duration,
}

impl SourceConfig {
    /// Returns the scope that a tool requires unless a rule sets its scopes: `tools:<source>`.
    pub(crate) fn default_scope(&self) -> Result<Scope, String> {
        Scope::parse(&format!("tools:{}", self.spec.id)).map_err(|error| error.to_string())
    }
}

impl Default for BreakerConfig {
    fn default() -> Self {
        Self { failures: 5, window: Duration::from_secs(30), open: Duration::from_secs(15) }
    }
}

/// The treatment of changed and new tools.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PinPolicy {
    /// The treatment of changed tools.
    pub mode: PinMode,
    /// The treatment of new tools.
    pub first: PinFirst,
}

/// The treatment of a tool that differs from its approved form.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PinMode {
    /// It is left out until its current form is approved, or until it has its approved form again.
    Enforce,
    /// It is offered, reported and recorded.
    Warn,
    /// Pins are not checked.
    Off,
}

/// The treatment of a tool that is discovered for the first time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PinFirst {
    /// It is approved automatically.
    Trust,
    /// It requires explicit approval.
    Approve,
}

impl PinPolicy {
    /// For sources that the operator writes.
    pub const OFF: Self = Self { mode: PinMode::Off, first: PinFirst::Trust };
}

/// One `[source.tools."glob"]`.
#[derive(Debug, Clone)]
pub struct ToolRule {
    /// The glob as typed.
    pub pattern: String,
    /// Matches the tool's own name at its source.
    pub glob: GlobMatcher,
    /// The settings for matching tools.
    pub set: Classification,
}

/// The settings that a rule can make for a tool. Absent members are inherited.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Classification {
    /// A subset of the source's tenants.
    pub tenants: Option<Tenants>,
    /// Required scopes; an empty list requires none.
    pub scopes: Option<Vec<Scope>>,
    /// Data effect.
    pub safety_tier: Option<SafetyTier>,
    /// Network posture.
    pub egress: Option<Egress>,
    /// Replay posture.
    pub replay_policy: Option<ReplayPolicy>,
    /// Whether approval is required.
    pub approval: Option<Approval>,
    /// The conditions of the approval, and its approvers.
    pub consent: Consent,
    /// Limit; `Some(None)` means `"off"`.
    pub rate: Option<Option<Rate>>,
    /// Largest burst of calls; `None` for the number in the rate.
    pub burst: Option<NonZeroU32>,
    /// Daily quota per principal and tool; `Some(None)` means `"off"`.
    pub quota: Option<Option<Quota>>,
    /// Deadline.
    pub timeout: Option<Duration>,
    /// Advisory cost.
    pub cost_hint: Option<Hint>,
    /// Advisory latency.
    pub latency_hint: Option<Hint>,
    /// Leaves the tool out of the catalog.
    pub hide: Option<bool>,
}

/// Who may use a mount.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MountAuth {
    /// Only callers with credentials.
    Required,
    /// Callers without credentials get the scopes of `[anonymous]`.
    Optional,
}

/// A mount with no other settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MountConfig {
    /// Who may use it.
    pub auth: MountAuth,
}

/// MCP settings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct McpConfig {
    /// Who may use it.
    pub auth: MountAuth,
    /// Maximum number of tools on one page of a list.
    pub page_size: NonZeroUsize,
    /// Whether a handshake over HTTP opens a session.
    pub sessions: bool,
    /// How long an unused session is kept.
    pub session_idle: Duration,
    /// Maximum number of sessions; an idle one is closed for a new one.
    pub max_sessions: usize,
    /// Maximum number of sessions of one principal; an idle one of its own is closed for a new one.
    pub max_sessions_per_principal: usize,
    /// Maximum number of open subscriptions (`subscriptions/listen`) of one principal.
    pub max_listeners_per_principal: usize,
}

/// This server as an OAuth 2.0 protected resource (RFC 9728).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResourceConfig {
    /// Its identifier: the URL by which clients reach it.
    pub resource: String,
    /// Issuers whose tokens it accepts.
    pub authorization_servers: Vec<String>,
    /// Scopes that clients should request; the scopes of tools are never published.
    pub scopes: Vec<String>,
}

/// Open eXecution Protocol settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OxpConfig {
    /// Whether `/oxp` is served at all.
    pub enabled: bool,
    /// Who may use it.
    pub auth: MountAuth,
}

/// OpenWOP settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OpenWopConfig {
    /// Shape of `GET /v1/tools` for a client that requests none.
    pub list_body: ListBody,
}

/// The two list shapes of RFC 0078: its text has the envelope, its executable parts the array.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ListBody {
    /// `[…]`
    Array,
    /// `{"tools":[…]}`
    Envelope,
}

/// The endpoints of the explorer that require credentials. On public endpoints, callers without
/// credentials see what `[anonymous]` may see; callers with valid credentials see their own view.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExplorerPolicy {
    /// All endpoints with data. Credentials are checked first.
    All,
    /// Calls, where credentials are checked first. Lists, details and validation are public;
    /// invalid credentials are refused everywhere.
    CallOnly,
    /// Calls, in the specified order of checks: execution enabled, tool exists, credentials.
    /// Everything else is public; invalid credentials count as none.
    SpecPublic,
    /// None: callers without credentials may do what `[anonymous]` may, calls included.
    Nothing,
}

/// Explorer settings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExplorerConfig {
    /// The endpoints that require credentials. The page itself holds no data and is always served.
    pub policy: ExplorerPolicy,
    /// The mount path; starts with `/`, no trailing `/`.
    pub prefix: String,
    /// Whether tools may be run from it.
    pub allow_execute: bool,
    /// Heading.
    pub title: String,
    /// Footer link text.
    pub project_name: Option<String>,
    /// Footer link target.
    pub project_url: Option<String>,
}

impl ToolRule {
    /// Creates a rule that applies `set` to tools whose name matches the glob `pattern`.
    ///
    /// # Errors
    /// Fails when `pattern` is not a valid glob.
    pub fn new(pattern: &str, set: Classification) -> Result<Self, globset::Error> {
        let glob = Glob::new(pattern)?.compile_matcher();
        Ok(Self { pattern: pattern.to_owned(), glob, set })
    }
}

/// Reads the secrets of `{ env = … }` and `{ file = … }`. The command line implements it.
pub trait SecretReader {
    /// Returns the value of an environment variable.
    fn env(&self, name: &str) -> Option<Secret>;

    /// Returns the file's text without trailing line breaks; the error is the reason why it is
    /// unreadable.
    fn file(&self, path: &std::path::Path) -> Result<Secret, String>;
}

/// A secret of the configuration that is unreadable here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MissingSecret {
    /// The source that needs it; `None` when only a server does.
    pub source: Option<SourceId>,
    /// The place of the reference, and the reason.
    pub problem: Problem,
}

/// Returns the line of `key` in the text of a configuration file, or the line of the nearest table
/// around it. `key` has the form of [`Problem::key`].
pub fn line_of_key(text: &str, key: &str) -> Option<usize> {
    document::line_of_key(text, key)
}

impl Config {
    /// Creates the configuration of an empty file, without sources. Relative paths are resolved
    /// against the directory `base`.
    pub fn empty(base: &std::path::Path) -> Self {
        Self {
            server: ServerConfig {
                listen: SocketAddr::from(([127, 0, 0, 1], 8808)),
                behind_proxy: false,
                allowed_hosts: Vec::new(),
                allowed_origins: Vec::new(),
                max_body_bytes: 1 << 20,
                max_body_total_bytes: 256 << 20,
                public_metrics: false,
            },
            store: StoreConfig {
                path: base.join(".toolcrib/toolcrib.db"),
                seal_key: None,
                old_seal_key: None,
                keep_free: 256 << 20,
            },
            record: RecordConfig {
                durability: Durability::Strict,
                checkpoint_every: 1_000,
                checkpoint_interval: Duration::from_secs(60),
                signing_key: None,
                keep: None,
                max_session_age: Duration::from_secs(24 * 3_600),
                anchors: Vec::new(),
                forwards: Vec::new(),
            },
            gate: GateConfig {
                rate: Rate::parse("600/m").ok(),
                quota: None,
                role_quotas: BTreeMap::new(),
                idempotency_ttl: KEPT_FOR,
                timeout: Duration::from_secs(300),
                max_result_bytes: 4 << 20,
                denied_calls: DeniedCalls::Forbidden,
            },
            approvals: ApprovalsConfig::default(),
            policies: None,
            sources: Vec::new(),
            protection: Protection::default(),
            roles: BTreeMap::new(),
            anonymous: None,
            openwop: OpenWopConfig { list_body: ListBody::Array },
            otc: MountConfig { auth: MountAuth::Required },
            otc_jwt: None,
            issuers: Vec::new(),
            oxp: OxpConfig { enabled: true, auth: MountAuth::Required },
            explorer: ExplorerConfig {
                policy: ExplorerPolicy::All,
                prefix: "/explorer".to_owned(),
                allow_execute: true,
                title: "toolcrib".to_owned(),
                project_name: None,
                project_url: None,
            },
            mcp: McpConfig {
                auth: MountAuth::Required,
                page_size: NonZeroUsize::MIN.saturating_add(999),
                sessions: true,
                session_idle: Duration::from_secs(30 * 60),
                max_sessions: 10_000,
                max_sessions_per_principal: 256,
                max_listeners_per_principal: 64,
            },
            resource: None,
            toolsets: Vec::new(),
            test_seams: false,
        }
    }

    /// Returns the scopes that this configuration and the server require by name.
    pub fn known_scopes(&self) -> Vec<Scope> {
        let rules = self.sources.iter().flat_map(|source| {
            let usual = source.default_scope().ok();
            let rules = source.rules.iter().flat_map(|rule| {
                let consent = rule.set.consent.scope.clone();
                rule.set.scopes.iter().flatten().cloned().chain(consent).collect::<Vec<_>>()
            });
            usual.into_iter().chain(rules).collect::<Vec<_>>()
        });
        let routes = RouteScope::ALL.iter().filter_map(|it| Scope::parse(it.as_str()).ok());
        rules.chain([self.approvals.respond_scope.clone()]).chain(routes).collect()
    }

    /// Returns the source with `id`.
    pub fn source(&self, id: &SourceId) -> Option<&SourceConfig> {
        self.sources.iter().find(|source| source.spec.id == *id)
    }
}
