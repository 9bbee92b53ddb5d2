//! The seam to everything that can be called.

pub mod command;
pub mod connector;
pub mod pack;
pub mod workflow;

use std::{collections::BTreeMap, path::PathBuf, sync::Arc, time::Duration};

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    authorize::Permit,
    call::{Invocation, Outcome, UpstreamError},
    clock::Timestamp,
    credential::{CredentialRef, Secret},
    descriptor::SourceKind,
    egress::AllowList,
    id::SourceId,
    limit::Rate,
};

pub use self::workflow::WorkflowSpec;

/// A running source of tools: an MCP server, an OpenAPI service, a pack, a workflow, a command.
#[async_trait]
pub trait Source: Send + Sync + 'static {
    /// The configured id.
    fn id(&self) -> &SourceId;

    /// Which surface it is.
    fn kind(&self) -> SourceKind;

    /// Asks the upstream for its tools. Bounded in pages, tools, bytes and time by the source's own
    /// limits; one malformed tool is a [`Discovered::problems`] entry, not an error.
    async fn discover(&self) -> Result<Discovered, UpstreamError>;

    /// Runs one call. Dropping the future cancels the call, upstream too. The permit proves that
    /// the caller may use the tool; [`Permit::entry`] says which one.
    async fn invoke(&self, permit: &Permit, call: Invocation) -> Result<Outcome, UpstreamError>;

    /// How it is doing.
    fn status(&self) -> SourceStatus;

    /// The last lines that its children wrote to stderr, the oldest first. They may hold arguments of
    /// calls: they are for the operator, and are neither stored nor sent anywhere.
    fn stderr(&self) -> Vec<StderrLine> {
        Vec::new()
    }

    /// Ends children and connections in order. Idempotent; after it every call is `Unavailable`.
    async fn close(&self);
}

/// Where the lines go that children write to stderr.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum StderrMode {
    /// The last ones are kept in memory.
    #[default]
    Keep,
    /// They are also logged.
    Log,
}

/// A line that a child wrote to stderr, cut, without configured secrets.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct StderrLine {
    /// When it was read.
    pub at: Timestamp,
    /// What it says.
    pub line: String,
}

/// Builds running sources from descriptions. The gateway reloads through this.
pub trait SourceFactory: Send + Sync + 'static {
    /// A source that connects in the background and tells `listener` about changes. Returns at
    /// once; only a description that can never work is an error.
    fn build(
        &self,
        spec: &SourceSpec,
        listener: Arc<dyn SourceListener>,
    ) -> Result<Arc<dyn Source>, InvalidSource>;

    /// Whether [`build`](Self::build) would accept `spec`; starts nothing. A configuration is taken
    /// over only when all its sources pass, so that a refused one has started no program.
    fn check(&self, spec: &SourceSpec) -> Result<(), InvalidSource>;
}

/// Hears what happens at a source. Must not block.
pub trait SourceListener: Send + Sync + 'static {
    /// The list of tools may have changed, or the source has just become ready: discover again.
    fn changed(&self, source: &SourceId);
}

/// Why a description can never become a source.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("source `{source_id}`: {problem}")]
pub struct InvalidSource {
    /// Which one.
    pub source_id: SourceId,
    /// What is wrong and what to do.
    pub problem: String,
}

impl SourceSpec {
    /// Names what the source is a connection to, whatever its secrets and limits: what was learned
    /// from one upstream must not be shown as another's.
    pub fn upstream_identity(&self) -> String {
        self.upstream.identity()
    }
}

impl UpstreamSpec {
    fn identity(&self) -> String {
        match self {
            UpstreamSpec::McpStdio(stdio) => {
                let variables: Vec<_> = stdio.env.keys().collect();
                format!("stdio {:?} in {:?} with {variables:?}", stdio.command, stdio.cwd)
            }
            UpstreamSpec::McpHttp(http) => format!("http {:?}", http.url),
            UpstreamSpec::Connector(connector) => {
                format!("openapi {:?} at {:?}", connector.document, connector.base_url)
            }
            UpstreamSpec::Commands(_) => "commands".to_owned(),
            UpstreamSpec::Workflow(workflow) => format!("workflows {:?}", workflow.files),
            UpstreamSpec::Pack(pack) => match pack.offers {
                pack::PackOffer::Nodes => pack.location.identity(),
                pack::PackOffer::Actions => format!("actions of {}", pack.location.identity()),
            },
            UpstreamSpec::Native => "native".to_owned(),
            UpstreamSpec::Unusable(unusable) => unusable.upstream.identity(),
        }
    }

    /// Which surface it is.
    pub fn kind(&self) -> SourceKind {
        match self {
            UpstreamSpec::McpStdio(_) | UpstreamSpec::McpHttp(_) => SourceKind::Mcp,
            UpstreamSpec::Connector(_) => SourceKind::Connector,
            UpstreamSpec::Commands(_) | UpstreamSpec::Native => SourceKind::HostExtension,
            UpstreamSpec::Workflow(_) => SourceKind::Workflow,
            UpstreamSpec::Pack(pack) => match pack.offers {
                pack::PackOffer::Nodes => SourceKind::NodePack,
                pack::PackOffer::Actions => SourceKind::Connector,
            },
            UpstreamSpec::Unusable(unusable) => unusable.upstream.kind(),
        }
    }

    /// The upstream that was configured, whether or not it can be used.
    pub fn configured(&self) -> &UpstreamSpec {
        match self {
            UpstreamSpec::Unusable(unusable) => unusable.upstream.configured(),
            usable => usable,
        }
    }
}

/// A source as the operator described it, checked. What runs is a [`Source`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceSpec {
    /// The configured id.
    pub id: SourceId,
    /// What it is.
    pub upstream: UpstreamSpec,
    /// Bounds on what the upstream may do.
    pub limits: SourceLimits,
    /// The stored credential that its requests need.
    pub credential: Option<CredentialRef>,
}

/// The kinds of upstream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UpstreamSpec {
    /// An MCP server run as a child over stdio.
    McpStdio(StdioSpec),
    /// An MCP server over streamable HTTP.
    McpHttp(HttpSpec),
    /// A service that an OpenAPI document describes.
    Connector(connector::ConnectorSpec),
    /// Commands of this machine.
    Commands(command::CommandsSpec),
    /// Workflows; the gateway runs them itself.
    Workflow(WorkflowSpec),
    /// A node pack.
    Pack(pack::PackSpec),
    /// Tools of the program that embeds the gateway; there is nothing to connect to.
    Native,
    /// An upstream that must not be contacted, because a secret of it could not be read.
    Unusable(Unusable),
}

/// An upstream whose secrets could not all be read. Commands that do not need it go on without it;
/// a server does not start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unusable {
    /// What was configured, without the missing secrets.
    pub upstream: Box<UpstreamSpec>,
    /// Which secret is missing, for the operator.
    pub reason: String,
}

/// A child process. Its environment is cleared but for `PATH`, `HOME`, `LANG`, `TMPDIR`, `USER`
/// (where set) and `env`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StdioSpec {
    /// Program and arguments; never empty.
    pub command: Vec<String>,
    /// Extra environment; values may be secrets.
    pub env: BTreeMap<String, SecretValue>,
    /// Working directory. Without one a confined program gets an empty directory of its own, any
    /// other the server's.
    pub cwd: Option<PathBuf>,
    /// What it may reach; without it, whatever the server may.
    pub sandbox: Option<command::Confinement>,
    /// Where its stderr goes.
    pub stderr: StderrMode,
}

/// An HTTP endpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HttpSpec {
    /// `http` or `https`, no user information.
    pub url: String,
    /// Extra request headers; values may be secrets.
    pub headers: BTreeMap<String, SecretValue>,
    /// What may be reached besides public addresses and the host of `url`.
    pub allow: AllowList,
}

/// A configured value that is treated as a secret; compared (for reload) by its plain text.
#[derive(Debug, Clone)]
pub struct SecretValue(pub Secret);

impl PartialEq for SecretValue {
    fn eq(&self, other: &Self) -> bool {
        self.0.expose() == other.0.expose()
    }
}
impl Eq for SecretValue {}

/// Bounds on what an upstream may do to us.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceLimits {
    /// Time for connecting and for one whole discovery.
    pub connect_timeout: Duration,
    /// Pages of a tool list.
    pub max_pages: usize,
    /// Tools in a list.
    pub max_tools: usize,
    /// Bytes of a whole tool list.
    pub max_list_bytes: usize,
    /// Bytes of one message.
    pub max_message_bytes: usize,
    /// Calls in flight at once; further ones wait inside their own deadline.
    pub max_concurrency: usize,
}

impl Default for SourceLimits {
    fn default() -> Self {
        Self {
            connect_timeout: Duration::from_secs(30),
            max_pages: 100,
            max_tools: 5_000,
            max_list_bytes: 16 << 20,
            max_message_bytes: 16 << 20,
            max_concurrency: 64,
        }
    }
}

/// What a discovery found.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Discovered {
    /// Version the upstream reports of itself, unchecked.
    pub version: Option<String>,
    /// Its tools, in its order.
    pub tools: Vec<DiscoveredTool>,
    /// What was left out and why.
    #[serde(default)]
    pub problems: Vec<String>,
    /// How often tools want to be called at most, by their names. The operator's rule comes first.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub rates: BTreeMap<String, Rate>,
}

/// One tool as its upstream describes it. Everything in it is untrusted text.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DiscoveredTool {
    /// The name to call it by, upstream.
    pub name: String,
    /// Title.
    pub title: Option<String>,
    /// Description.
    pub description: Option<String>,
    /// Input schema, if it is an object.
    pub input_schema: Option<Value>,
    /// Output schema.
    pub output_schema: Option<Value>,
    /// The four MCP hints (and `title`), as claimed; shown, never acted upon.
    pub annotations: Option<Value>,
    /// The tool as the upstream sent it, for hashing.
    pub raw: Value,
}

/// How a source is doing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SourceStatus {
    /// Its state.
    pub state: SourceState,
    /// Why, in a line for the operator (no secrets, no upstream payloads).
    pub detail: Option<String>,
    /// Since when.
    pub since: Timestamp,
    /// How often it was started again.
    pub restarts: u64,
}

impl SourceState {
    /// Whether it can be asked and called now.
    pub fn is_ready(self) -> bool {
        self == Self::Ready
    }
}

/// The states of a source.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum SourceState {
    /// Not connected yet.
    Starting,
    /// Connected.
    Ready,
    /// Was connected, is not now, and will be tried again.
    Degraded,
    /// Closed.
    Stopped,
}
