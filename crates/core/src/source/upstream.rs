//! The kinds of source and of upstream, and everything that follows from a kind alone.

use std::path::{Path, PathBuf};

use super::{
    command::{CommandsSpec, Confinement},
    connector::{ConnectorSpec, OpenApiLocation},
    mcp::StdioSpec,
    pack::{PackLocation, PackOffer, PackSpec},
    workflow::WorkflowSpec,
};
use crate::{
    canonical::Digest,
    descriptor::{Approval, Egress, SafetyTier, SourceKind},
    event::Transport,
    http_spec::HttpSpec,
    id::SourceId,
};

/// What the kind of a source decides about its tools.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct KindTraits {
    /// Makes the id of a tool from its source and its name there.
    pub tool_id: fn(&SourceId, &str) -> String,
    /// How its tools are reached.
    pub transport: Transport,
    /// The start of the name of a call's span at the source.
    pub span: &'static str,
    /// Whether ids of its tools have the prefix of the protocol (RFC 0069).
    pub has_protocol_ids: bool,
    /// Whether a tool's id repeats the name of its pack, the source.
    pub repeats_pack: bool,
    /// Whether its tools may be commands of this host, of tier `exec`.
    pub runs_commands: bool,
    /// Whether the gateway runs its tools itself, as calls of other tools.
    pub is_in_gateway: bool,
    /// Whether arguments with a default may be missing, although many upstreams list them as
    /// required.
    pub defaults_are_optional: bool,
    /// Whether results fit the output schema of their tool.
    pub fits_output_schema: bool,
    /// Whether rules are proposed from what its tools say about themselves.
    pub has_proposals: bool,
}

/// The kinds of upstream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UpstreamSpec {
    /// An MCP server run as a child over stdio.
    McpStdio(StdioSpec),
    /// An MCP server over streamable HTTP.
    McpHttp(HttpSpec),
    /// A service that an OpenAPI document describes.
    Connector(ConnectorSpec),
    /// Commands of this machine.
    Commands(CommandsSpec),
    /// Workflows; the gateway runs them itself.
    Workflow(WorkflowSpec),
    /// A node pack.
    Pack(PackSpec),
    /// Tools of the program that embeds the gateway; there is no connection.
    Native,
    /// An upstream that must not be contacted, because one of its secrets could not be read.
    Unusable(UnusableUpstream),
}

/// An upstream with unreadable secrets. Command-line commands that do not need it continue without
/// it; a server does not start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnusableUpstream {
    /// The configured upstream, without the missing secrets.
    pub upstream: Box<UpstreamSpec>,
    /// The missing secret, for the operator.
    pub reason: String,
}

/// The files that the tools of an upstream are read from.
#[derive(Debug, Clone, Copy, Default)]
pub struct SourceFiles<'a> {
    /// Files, or patterns of files in one directory.
    pub patterns: &'a [PathBuf],
    /// One file.
    pub file: Option<&'a Path>,
}

/// The classification of tools without a rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DefaultClassification {
    /// The safety tier.
    pub tier: SafetyTier,
    /// The network access.
    pub egress: Egress,
    /// Whether a call needs approval.
    pub approval: Approval,
}

// === impl KindTraits ===

/// Tools of another program, over a connection.
const REMOTE: KindTraits = KindTraits {
    tool_id: |source, name| format!("connector:{source}.{name}"),
    transport: Transport::Http,
    span: "toolcrib.upstream",
    has_protocol_ids: false,
    repeats_pack: false,
    runs_commands: false,
    is_in_gateway: false,
    defaults_are_optional: true,
    fits_output_schema: true,
    has_proposals: true,
};
const MCP: KindTraits = KindTraits {
    tool_id: |source, name| format!("mcp:{source}.{name}"),
    transport: Transport::Mcp,
    span: "tools/call",
    ..REMOTE
};
const CONNECTOR: KindTraits = KindTraits {
    // The responses of services can differ from their documents.
    fits_output_schema: false,
    ..REMOTE
};
/// Tools that this process runs.
const NATIVE: KindTraits =
    KindTraits { transport: Transport::Native, defaults_are_optional: false, ..REMOTE };
const NODE_PACK: KindTraits = KindTraits {
    // The type id alone identifies the node; two sources of one pack share it, and then neither
    // offers it.
    tool_id: |_, name| format!("openwop:{name}"),
    has_protocol_ids: true,
    repeats_pack: true,
    ..NATIVE
};
const WORKFLOW: KindTraits = KindTraits {
    tool_id: |_, name| format!("openwop:workflow.{name}"),
    span: "toolcrib.workflow",
    has_protocol_ids: true,
    is_in_gateway: true,
    // The tier of a workflow follows from its steps.
    has_proposals: false,
    ..NATIVE
};
const HOST_EXTENSION: KindTraits = KindTraits {
    tool_id: |source, name| format!("x-host-{source}-{name}"),
    runs_commands: true,
    // Commands require approval anyway.
    has_proposals: false,
    ..NATIVE
};

impl SourceKind {
    /// What this kind decides.
    pub const fn traits(self) -> &'static KindTraits {
        match self {
            Self::NodePack => &NODE_PACK,
            Self::Workflow => &WORKFLOW,
            Self::Mcp => &MCP,
            Self::Connector => &CONNECTOR,
            Self::HostExtension => &HOST_EXTENSION,
        }
    }
}

// === impl UpstreamSpec ===

impl UpstreamSpec {
    /// Identifies the upstream, ignoring secrets and limits. Data learned from one upstream must
    /// not be shown as another's.
    pub fn identity(&self) -> String {
        match self {
            Self::McpStdio(stdio) => {
                let variables: Vec<_> = stdio.env.keys().collect();
                format!("stdio {:?} in {:?} with {variables:?}", stdio.command, stdio.cwd)
            }
            Self::McpHttp(http) => format!("http {:?}", http.url),
            Self::Connector(connector) => {
                let ConnectorSpec { document, base_url, variables, .. } = connector;
                format!("openapi {document:?} at {base_url:?} with {variables:?}")
            }
            Self::Commands(_) => "commands".to_owned(),
            Self::Workflow(workflow) => format!("workflows {:?}", workflow.files),
            Self::Pack(pack) => match pack.offers {
                PackOffer::Nodes => pack.location.identity(),
                PackOffer::Actions => format!("actions of {}", pack.location.identity()),
            },
            Self::Native => "native".to_owned(),
            Self::Unusable(unusable) => unusable.upstream.identity(),
        }
    }

    /// The digest of the program behind tool `name`, as far as the configuration decides it: the
    /// upstream, and the program and arguments of a command. A grant for one program does not count
    /// for another.
    pub fn program(&self, name: &str) -> Option<Digest> {
        match self.configured() {
            Self::Commands(commands) => {
                Some(commands.commands.iter().find(|command| command.name == name)?.digest())
            }
            // The digest of a workflow covers its definition, and native tools have no program.
            Self::Workflow(_) | Self::Native => None,
            other => Some(Digest::of(other.identity().as_bytes())),
        }
    }

    /// Whether both are the same upstream, regardless of secrets and limits.
    pub fn is_same(&self, other: &Self) -> bool {
        self.identity() == other.identity()
    }

    /// The kind of source.
    pub fn kind(&self) -> SourceKind {
        match self {
            Self::McpStdio(_) | Self::McpHttp(_) => SourceKind::Mcp,
            Self::Connector(_) => SourceKind::Connector,
            Self::Commands(_) | Self::Native => SourceKind::HostExtension,
            Self::Workflow(_) => SourceKind::Workflow,
            Self::Pack(pack) => match pack.offers {
                PackOffer::Nodes => SourceKind::NodePack,
                PackOffer::Actions => SourceKind::Connector,
            },
            Self::Unusable(unusable) => unusable.upstream.kind(),
        }
    }

    /// The configured upstream, whether or not it can be used.
    pub fn configured(&self) -> &Self {
        match self {
            Self::Unusable(unusable) => unusable.upstream.configured(),
            usable => usable,
        }
    }

    /// The address of its service, if the configuration has one.
    pub fn service_url(&self) -> Option<&str> {
        match self {
            Self::McpHttp(http) => Some(&http.url),
            Self::Connector(connector) => {
                connector.base_url.as_deref().or(match &connector.document {
                    OpenApiLocation::Url(url) => Some(url),
                    OpenApiLocation::Path(_) => None,
                })
            }
            Self::McpStdio(_)
            | Self::Commands(_)
            | Self::Workflow(_)
            | Self::Pack(_)
            | Self::Native
            | Self::Unusable(_) => None,
        }
    }

    /// The classification of its tools without a rule. RFC 0078 requires `write` for unclassified
    /// tools of MCP servers.
    pub fn usual(&self) -> DefaultClassification {
        match self {
            // Programs require approval, and their network access is not mediated.
            Self::Commands(_) => DefaultClassification {
                tier: SafetyTier::Exec,
                egress: Egress::HostOwned,
                approval: Approval::Always,
            },
            // Requests are ours, and guarded.
            Self::Connector(_) => DefaultClassification {
                tier: SafetyTier::Write,
                egress: Egress::SafeFetch,
                approval: Approval::Never,
            },
            Self::McpStdio(_)
            | Self::McpHttp(_)
            | Self::Workflow(_)
            | Self::Pack(_)
            | Self::Native => DefaultClassification {
                tier: SafetyTier::Write,
                egress: Egress::HostMediated,
                approval: Approval::Never,
            },
            Self::Unusable(unusable) => unusable.upstream.usual(),
        }
    }

    /// How its tools are reached.
    pub fn transport(&self) -> Transport {
        self.kind().traits().transport
    }

    /// Whether all servers of one store reach the same upstream, so that one of them can discover
    /// its tools for all.
    pub fn is_common(&self) -> bool {
        match self {
            Self::McpStdio(_) | Self::McpHttp(_) | Self::Connector(_) => true,
            Self::Commands(_)
            | Self::Workflow(_)
            | Self::Pack(_)
            | Self::Native
            | Self::Unusable(_) => false,
        }
    }

    /// Whether it gets values that may be secrets, besides the credential of the source.
    pub fn has_secrets(&self) -> bool {
        match self {
            Self::McpStdio(stdio) => !stdio.env.is_empty(),
            Self::McpHttp(http) => !http.headers.is_empty(),
            Self::Connector(connector) => !connector.headers.is_empty(),
            Self::Commands(_) | Self::Workflow(_) | Self::Pack(_) | Self::Native => false,
            Self::Unusable(_) => true,
        }
    }

    /// The files that its tools are read from.
    pub fn files(&self) -> SourceFiles<'_> {
        match self {
            Self::Workflow(workflow) => SourceFiles { patterns: &workflow.files, file: None },
            Self::Connector(ConnectorSpec { document: OpenApiLocation::Path(path), .. })
            | Self::Pack(PackSpec { location: PackLocation::Path(path), .. }) => {
                SourceFiles { patterns: &[], file: Some(path) }
            }
            Self::Connector(_)
            | Self::Pack(_)
            | Self::McpStdio(_)
            | Self::McpHttp(_)
            | Self::Commands(_)
            | Self::Native
            | Self::Unusable(_) => SourceFiles::default(),
        }
    }

    /// The confinements of its programs.
    pub fn confinements(&self) -> Vec<&Confinement> {
        match self {
            Self::Commands(commands) => {
                commands.commands.iter().map(|command| &command.confinement).collect()
            }
            Self::McpStdio(stdio) => stdio.sandbox.iter().collect(),
            Self::McpHttp(_)
            | Self::Connector(_)
            | Self::Workflow(_)
            | Self::Pack(_)
            | Self::Native => Vec::new(),
            Self::Unusable(unusable) => unusable.upstream.confinements(),
        }
    }

    /// The confinements of its programs. Their protected paths are set after the whole
    /// configuration is known.
    pub fn confinements_mut(&mut self) -> Vec<&mut Confinement> {
        match self {
            Self::Commands(commands) => {
                commands.commands.iter_mut().map(|command| &mut command.confinement).collect()
            }
            Self::McpStdio(stdio) => stdio.sandbox.iter_mut().collect(),
            Self::McpHttp(_)
            | Self::Connector(_)
            | Self::Workflow(_)
            | Self::Pack(_)
            | Self::Native => Vec::new(),
            Self::Unusable(unusable) => unusable.upstream.confinements_mut(),
        }
    }
}
