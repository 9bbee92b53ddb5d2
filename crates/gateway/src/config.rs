//! Configuration: one TOML file. `file` is what was typed, [`Config`] what it means.
//!
//! Parsing never touches the world except for secrets that the file refers to (`{ env = … }`,
//! `{ file = … }`), and those come through [`SecretReader`].

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

/// The JSON Schema of the configuration file. `x-default` has a default in words, `x-choice` the
/// possible texts of a key.
#[must_use]
pub fn schema() -> serde_json::Value {
    schemars::schema_for!(file::File).to_value()
}

/// Everything the operator decided, checked.
#[derive(Debug, Clone)]
pub struct Config {
    /// The listener.
    pub server: ServerConfig,
    /// Where state is kept.
    pub store: StoreConfig,
    /// How the record is kept.
    pub record: RecordConfig,
    /// Defaults of the gate.
    pub gate: GateConfig,
    /// Consent to calls.
    pub approvals: ApprovalsConfig,
    /// Policies that restrict calls further; none means that there are no such.
    pub policies: Option<Arc<PolicySet>>,
    /// The sources, in the order of the file.
    pub sources: Vec<SourceConfig>,
    /// Roles: name to what they grant.
    pub roles: BTreeMap<String, Vec<Grant>>,
    /// What a caller without credentials is, where a mount lets one in.
    pub anonymous: Option<AnonymousConfig>,
    /// OpenWOP.
    pub openwop: OpenWopConfig,
    /// Open Tool Calling.
    pub otc: MountConfig,
    /// Tokens with a shared secret, on the mounts of Open Tool Calling alone.
    pub otc_jwt: Option<SharedJwtConfig>,
    /// Issuers whose signed tokens are credentials.
    pub issuers: Vec<JwtConfig>,
    /// Open eXecution Protocol.
    pub oxp: OxpConfig,
    /// Explorer.
    pub explorer: ExplorerConfig,
    /// MCP.
    pub mcp: McpConfig,
    /// What OAuth clients are told about this server, when they are told something.
    pub resource: Option<ResourceConfig>,
    /// Named parts of the catalog, in the order of the file.
    pub toolsets: Vec<ToolsetConfig>,
    /// What confined programs must not reach; [`Config::protect`] sees to it.
    pub protection: Protection,
    /// Whether the test seams under `/v1/host/sample` are there. No file can say so: whoever starts
    /// the server does, for this once.
    pub test_seams: bool,
}

/// The listener.
#[derive(Debug, Clone)]
pub struct ServerConfig {
    /// Address to bind.
    pub listen: SocketAddr,
    /// Whether a proxy that terminates TLS stands before us; the only way to leave loopback.
    pub behind_proxy: bool,
    /// `Host` values accepted beside loopback names.
    pub allowed_hosts: Vec<String>,
    /// `Origin` values accepted beside loopback ones.
    pub allowed_origins: Vec<String>,
    /// Largest request body, in bytes.
    pub max_body_bytes: usize,
    /// Bytes of the bodies of all requests in flight, at least one largest body.
    pub max_body_total_bytes: usize,
    /// Whether `/metrics` needs no key.
    pub public_metrics: bool,
}

/// Where state is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoreConfig {
    /// The SQLite file.
    pub path: PathBuf,
    /// The key that credentials are sealed with. Without one none can be stored.
    pub seal_key: Option<KeyPlace>,
    /// The key before that one, while not everything is sealed anew.
    pub old_seal_key: Option<KeyPlace>,
    /// Bytes of its file system below which only what runs is recorded.
    pub keep_free: u64,
}

/// Where a key is. It is read when it is needed, so that commands that do not need it need not be
/// able to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeyPlace {
    /// The text of a file.
    File(PathBuf),
    /// An environment variable.
    Env(String),
    /// What a program prints: its path or name, and its arguments.
    Command(Vec<String>),
}

/// How the record is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordConfig {
    /// When an event counts as written.
    pub durability: Durability,
    /// Events of a tenant after which a checkpoint is signed.
    pub checkpoint_every: u64,
    /// Time after which a checkpoint is signed, for a tenant that has news.
    pub checkpoint_interval: Duration,
    /// The key that checkpoints are signed with; without one, one is made beside the store.
    pub signing_key: Option<KeyPlace>,
    /// For how long events are kept; none means for ever.
    pub keep: Option<Duration>,
    /// Age at which a tool session is closed, however busy it is. See
    /// [`session_age`](Self::session_age).
    pub max_session_age: Duration,
    /// Where checkpoints are sent.
    pub anchors: Vec<Destination>,
    /// Where events are sent.
    pub forwards: Vec<ForwardConfig>,
}

impl RecordConfig {
    /// Returns the age at which tool sessions are closed: [`max_session_age`](Self::max_session_age),
    /// or [`keep`](Self::keep) when it is shorter, because retention keeps what open sessions need.
    pub fn session_age(&self) -> Duration {
        self.keep.map_or(self.max_session_age, |keep| keep.min(self.max_session_age))
    }
}

/// Where events are sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ForwardConfig {
    /// Its name, which its progress is kept under.
    pub name: String,
    /// What the events are written as.
    pub format: Format,
    /// Where to.
    pub destination: Destination,
}

/// When an event counts as written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Durability {
    /// After it is on disk: survives power loss.
    Strict,
    /// After it is with the operating system: survives a crash of the process, not of the machine.
    Relaxed,
}

/// Defaults of the gate; a tool's own rule overrides them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GateConfig {
    /// Calls per principal and tool; none means unlimited.
    pub rate: Option<Rate>,
    /// Calls of a principal on a day, where none of its roles says; none means unlimited.
    pub quota: Option<Quota>,
    /// What roles say of that.
    pub role_quotas: BTreeMap<String, Option<Quota>>,
    /// How long the answer to a call that named itself is given again.
    pub idempotency_ttl: Duration,
    /// How long a call may take.
    pub timeout: Duration,
    /// Largest result, in bytes of JSON.
    pub max_result_bytes: usize,
    /// What a call of a tool that the caller may not use is told.
    pub denied_calls: DeniedCalls,
}

/// What a call of a tool that the caller may not use is told. A foreign tenant's tool is always
/// "not found".
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeniedCalls {
    /// 403 with the tool's name and scopes (RFC 0064 §C).
    Forbidden,
    /// The same answer as for a name that does not exist.
    NotFound,
}

/// A caller without credentials.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AnonymousConfig {
    /// The tenant it belongs to.
    pub tenant: TenantId,
    /// What it holds.
    pub scopes: ScopeSet,
}

/// A source and what its tools mean.
#[derive(Debug, Clone)]
pub struct SourceConfig {
    /// What to connect to.
    pub spec: SourceSpec,
    /// Which surface it is.
    pub kind: SourceKind,
    /// For whom it exists.
    pub tenants: Tenants,
    /// How its tools are named on the wire.
    pub names: NameStyle,
    /// How often it is asked for its tools even when it announces no change.
    pub refresh: Duration,
    /// What happens when what it says of a tool is not what was approved.
    pub pins: PinPolicy,
    /// When calls are no longer sent to it for a while; none means never.
    pub breaker: Option<BreakerConfig>,
    /// `[source.tools."glob"]`, in the order of the file: later rules override earlier ones, member
    /// by member.
    pub rules: Vec<ToolRule>,
}

/// When calls are no longer sent to a source for a while.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BreakerConfig {
    /// Failures in a row; at least 2.
    pub failures: usize,
    /// How long ago the first of them is at most.
    pub window: Duration,
    /// How long calls are not sent.
    pub open: Duration,
}

impl SourceConfig {
    /// The scope that a tool without a rule for scopes requires: `tools:<source>`.
    pub(crate) fn default_scope(&self) -> Result<Scope, String> {
        Scope::parse(&format!("tools:{}", self.spec.id)).map_err(|error| error.to_string())
    }
}

impl Default for BreakerConfig {
    fn default() -> Self {
        Self { failures: 5, window: Duration::from_secs(30), open: Duration::from_secs(15) }
    }
}

/// What becomes of tools whose upstream says something new of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PinPolicy {
    /// What happens to them.
    pub mode: PinMode,
    /// What counts as approved.
    pub first: PinFirst,
}

/// What happens to a tool that is not as it was approved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PinMode {
    /// It is left out until somebody approves it, or until it is again as it was.
    Enforce,
    /// It is offered, reported and recorded.
    Warn,
    /// Nothing: nobody looks.
    Off,
}

/// What becomes of a tool that is seen for the first time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PinFirst {
    /// It is approved as it is.
    Trust,
    /// Somebody has to approve it.
    Approve,
}

impl PinPolicy {
    /// For sources that the operator writes himself.
    pub const OFF: Self = Self { mode: PinMode::Off, first: PinFirst::Trust };
}

/// One `[source.tools."glob"]`.
#[derive(Debug, Clone)]
pub struct ToolRule {
    /// The glob as typed.
    pub pattern: String,
    /// Matches the tool's own name at its source.
    pub glob: GlobMatcher,
    /// What it sets.
    pub set: Classification,
}

/// What an operator can say about a tool. Absent members are inherited.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Classification {
    /// For whom it exists, of those for whom its source does.
    pub tenants: Option<Tenants>,
    /// Required scopes; an empty list asks for none.
    pub scopes: Option<Vec<Scope>>,
    /// Data effect.
    pub safety_tier: Option<SafetyTier>,
    /// Network posture.
    pub egress: Option<Egress>,
    /// Replay posture.
    pub replay_policy: Option<ReplayPolicy>,
    /// Whether consent is needed.
    pub approval: Option<Approval>,
    /// Whose, and when.
    pub consent: Consent,
    /// Limit; `Some(None)` means `"off"`.
    pub rate: Option<Option<Rate>>,
    /// How many calls may come at once; none means as many as the rate says.
    pub burst: Option<NonZeroU32>,
    /// Calls of each principal on a day; `Some(None)` means `"off"`.
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

/// A mount without settings of its own.
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
    /// Most tools in one page of a list.
    pub page_size: NonZeroUsize,
    /// Whether a handshake over HTTP opens a session.
    pub sessions: bool,
    /// How long a session lives in which nothing runs and no stream is open.
    pub session_idle: Duration,
    /// Sessions at once; an idle one makes room.
    pub max_sessions: usize,
    /// Sessions at once of one principal; an idle one of its own makes room.
    pub max_sessions_per_principal: usize,
    /// Subscriptions (`subscriptions/listen`) at once of one principal.
    pub max_listeners_per_principal: usize,
}

/// This server as an OAuth 2.0 protected resource (RFC 9728).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResourceConfig {
    /// Its identifier: the URL by which clients reach it.
    pub resource: String,
    /// Issuers whose tokens it takes.
    pub authorization_servers: Vec<String>,
    /// Scopes that clients should ask for; what tools need is never told.
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
    /// Shape of `GET /v1/tools` for a client that does not ask for one.
    pub list_body: ListBody,
}

/// The two list shapes of RFC 0078 (its text, and everything executable around it).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ListBody {
    /// `[…]`
    Array,
    /// `{"tools":[…]}`
    Envelope,
}

/// What of the explorer needs credentials. "Public" is what `[anonymous]` may see and never more;
/// callers who present credentials that hold see what is theirs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExplorerPolicy {
    /// Everything that holds data. Credentials are asked for before anything else is told.
    All,
    /// Calls, before anything else is told. Lists, details and checks of arguments are public;
    /// credentials that do not hold are refused everywhere.
    CallOnly,
    /// Calls, in the order of the specification: whether tools may be run, whether the tool exists,
    /// credentials. Everything else is public; credentials that do not hold count as none.
    SpecPublic,
    /// Nothing: callers without credentials may do what `[anonymous]` may, calls included.
    Nothing,
}

/// Explorer settings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExplorerConfig {
    /// What needs credentials. The page itself holds no data and is always served.
    pub policy: ExplorerPolicy,
    /// Where it is mounted; starts with `/`, no trailing `/`.
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
    /// `set` for the tools whose name matches the glob `pattern`.
    ///
    /// # Errors
    /// `pattern` is not a glob.
    pub fn new(pattern: &str, set: Classification) -> Result<Self, globset::Error> {
        let glob = Glob::new(pattern)?.compile_matcher();
        Ok(Self { pattern: pattern.to_owned(), glob, set })
    }
}

/// Reads what `{ env = … }` and `{ file = … }` refer to. The command line has the real one.
pub trait SecretReader {
    /// The environment variable.
    fn env(&self, name: &str) -> Option<Secret>;

    /// The file's text without trailing line breaks; the error says why it cannot be read.
    fn file(&self, path: &std::path::Path) -> Result<Secret, String>;
}

/// A secret that a configuration refers to and that cannot be read here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MissingSecret {
    /// The source that needs it; none when only a server does.
    pub source: Option<SourceId>,
    /// Where it is named, and why it cannot be read.
    pub problem: Problem,
}

/// The line of `key`, in the form of [`Problem::key`], in the text of a configuration file; or that
/// of the nearest table around it.
pub fn line_of_key(text: &str, key: &str) -> Option<usize> {
    document::line_of_key(text, key)
}

impl Config {
    /// A configuration without sources: what an empty file means. `base` is the directory that
    /// relative paths start from.
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

    /// The scopes that this configuration and the server ask for by name.
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

    /// The source called `id`.
    pub fn source(&self, id: &SourceId) -> Option<&SourceConfig> {
        self.sources.iter().find(|source| source.spec.id == *id)
    }
}
