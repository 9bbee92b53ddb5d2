//! The trait for everything that provides tools.

pub mod command;
pub mod connector;
pub mod pack;
pub mod workflow;

use std::{collections::BTreeMap, path::PathBuf, sync::Arc, time::Duration};

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    call::{Invocation, Outcome, UpstreamError},
    catalog::Permit,
    clock::Timestamp,
    credential::CredentialRef,
    descriptor::SourceKind,
    egress::AllowList,
    id::SourceId,
    limit::Rate,
};

pub use self::{command::StderrMode, workflow::WorkflowSpec};
pub use crate::credential::SecretValue;

/// A running source of tools: an MCP server, an OpenAPI service, a pack, a workflow, a command.
#[async_trait]
pub trait Source: Send + Sync + 'static {
    /// Returns the configured id.
    fn id(&self) -> &SourceId;

    /// Returns the kind of source.
    fn kind(&self) -> SourceKind;

    /// Lists the upstream's tools. The source's own limits bound pages, tools, bytes and time. A
    /// malformed tool becomes a [`Discovered::problems`] entry, not an error.
    async fn discover(&self) -> Result<Discovered, UpstreamError>;

    /// Runs one call. Dropping the future cancels the call, upstream too. The permit proves that
    /// the caller may use the tool; [`Permit::entry`] is the tool.
    async fn invoke(&self, permit: &Permit, call: Invocation) -> Result<Outcome, UpstreamError>;

    /// Returns the source's status.
    fn status(&self) -> SourceStatus;

    /// Returns the last lines that its children wrote to stderr, oldest first. They may contain
    /// call arguments: they are for the operator, and are neither stored nor sent anywhere.
    fn stderr(&self) -> Vec<StderrLine> {
        Vec::new()
    }

    /// Ends children and connections in order. Idempotent; every later call is `Unavailable`.
    async fn close(&self);
}

/// A line that a child wrote to stderr, truncated, without configured secrets.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StderrLine {
    /// When it was read.
    pub at: Timestamp,
    /// The text.
    pub line: String,
}

/// Creates running sources from specifications. The gateway reloads through this trait.
pub trait SourceFactory: Send + Sync + 'static {
    /// Creates a source that connects in the background and notifies `listener` of changes. Returns
    /// at once; fails only for a specification that can never work.
    fn build(
        &self,
        spec: &SourceSpec,
        listener: Arc<dyn SourceListener>,
    ) -> Result<Arc<dyn Source>, InvalidSource>;

    /// Checks whether [`build`](Self::build) would accept `spec`, without starting anything. A
    /// configuration is applied only when all its sources pass, so that a refused one has started
    /// no program.
    fn check(&self, spec: &SourceSpec) -> Result<(), InvalidSource>;
}

/// Receives the notifications of a source. Must not block.
pub trait SourceListener: Send + Sync + 'static {
    /// The list of tools may have changed, or the source has just become ready: discover again.
    fn changed(&self, source: &SourceId);
}

/// Why a specification can never become a source.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("source `{source_id}`: {problem}")]
pub struct InvalidSource {
    /// The source.
    pub source_id: SourceId,
    /// The problem and how to fix it.
    pub problem: String,
}

impl UpstreamSpec {
    /// Identifies the upstream, ignoring secrets and limits. Data learned from one upstream must
    /// not be shown as another's.
    pub fn identity(&self) -> String {
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

    /// Returns the kind of source.
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

    /// Returns the configured upstream, whether or not it can be used.
    pub fn configured(&self) -> &UpstreamSpec {
        match self {
            UpstreamSpec::Unusable(unusable) => unusable.upstream.configured(),
            usable => usable,
        }
    }
}

/// The checked configuration of a source. The running form is a [`Source`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceSpec {
    /// The configured id.
    pub id: SourceId,
    /// The upstream.
    pub upstream: UpstreamSpec,
    /// Limits on the upstream.
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
    /// Tools of the program that embeds the gateway; there is no connection.
    Native,
    /// An upstream that must not be contacted, because one of its secrets could not be read.
    Unusable(Unusable),
}

/// An upstream with unreadable secrets. Command-line commands that do not need it continue without
/// it; a server does not start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unusable {
    /// The configured upstream, without the missing secrets.
    pub upstream: Box<UpstreamSpec>,
    /// The missing secret, for the operator.
    pub reason: String,
}

/// A child process. Its environment contains only `PATH`, `HOME`, `LANG`, `TMPDIR`, `USER` (where
/// set) and `env`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StdioSpec {
    /// Program and arguments; never empty.
    pub command: Vec<String>,
    /// Extra environment; values may be secrets.
    pub env: BTreeMap<String, SecretValue>,
    /// Working directory. By default a confined program gets a new empty directory, and any other
    /// the server's.
    pub cwd: Option<PathBuf>,
    /// The confinement; without it, the program has all access of the server.
    pub sandbox: Option<command::Confinement>,
    /// The destination of its stderr.
    pub stderr: StderrMode,
}

/// An HTTP endpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HttpSpec {
    /// `http` or `https`, no user information.
    pub url: String,
    /// Extra request headers; values may be secrets.
    pub headers: BTreeMap<String, SecretValue>,
    /// The additions to the public addresses and the host of `url` that may be contacted.
    pub allow: AllowList,
}

/// Limits on an upstream's use of this host's resources.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceLimits {
    /// Timeout for connecting and for one whole discovery.
    pub connect_timeout: Duration,
    /// Pages of a tool list.
    pub max_pages: usize,
    /// Tools in a list.
    pub max_tools: usize,
    /// Bytes of a whole tool list.
    pub max_list_bytes: usize,
    /// Bytes of one message.
    pub max_message_bytes: usize,
    /// The most calls in flight; further ones wait within their own deadline.
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

/// The result of a discovery.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Discovered {
    /// The version that the upstream reports, unchecked.
    pub version: Option<String>,
    /// Its tools, in its order.
    pub tools: Vec<DiscoveredTool>,
    /// The problems: omitted tools and the reasons.
    #[serde(default)]
    pub problems: Vec<String>,
    /// Rate limits that tools declare, by name. The operator's rule takes precedence.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub rates: BTreeMap<String, Rate>,
}

/// One tool as its upstream describes it. All of it is untrusted text.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DiscoveredTool {
    /// The upstream's name for the tool.
    pub name: String,
    /// Title.
    pub title: Option<String>,
    /// Description.
    pub description: Option<String>,
    /// Input schema, if it is an object.
    pub input_schema: Option<Value>,
    /// Output schema.
    pub output_schema: Option<Value>,
    /// The four MCP hints (and `title`), as declared; shown, never acted upon.
    pub annotations: Option<Value>,
    /// The tool as the upstream sent it, for hashing.
    pub raw: Value,
}

/// The status of a source.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SourceStatus {
    /// Its state.
    pub state: SourceState,
    /// The reason, in a line for the operator (no secrets, no upstream payloads).
    pub detail: Option<String>,
    /// When it entered this state.
    pub since: Timestamp,
    /// The number of restarts.
    pub restarts: u64,
}

impl SourceState {
    /// Returns whether it can be discovered and called now.
    pub fn is_ready(self) -> bool {
        self == Self::Ready
    }
}

/// The states of a source.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SourceState {
    /// Not connected yet.
    Starting,
    /// Connected.
    Ready,
    /// Disconnected; will be retried.
    Degraded,
    /// Closed.
    Stopped,
}
