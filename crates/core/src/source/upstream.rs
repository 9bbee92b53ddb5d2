//! The kinds of upstream, and everything that follows from a kind alone.

use super::{
    command::{CommandsSpec, Confinement},
    connector::ConnectorSpec,
    mcp::StdioSpec,
    pack::{PackOffer, PackSpec},
    workflow::WorkflowSpec,
};
use crate::{
    canonical::Digest,
    descriptor::{Approval, Egress, SafetyTier, SourceKind},
    event::Transport,
    http_spec::HttpSpec,
};

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

/// The classification of tools without a rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Usual {
    /// The safety tier.
    pub tier: SafetyTier,
    /// The network access.
    pub egress: Egress,
    /// Whether a call needs approval.
    pub approval: Approval,
}

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
                Some(commands.commands.iter().find(|it| it.name == name)?.digest())
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

    /// The classification of its tools without a rule. RFC 0078 requires `write` for unclassified
    /// tools of MCP servers.
    pub fn usual(&self) -> Usual {
        match self {
            // Programs require approval, and their network access is not mediated.
            Self::Commands(_) => Usual {
                tier: SafetyTier::Exec,
                egress: Egress::HostOwned,
                approval: Approval::Always,
            },
            // Requests are ours, and guarded.
            Self::Connector(_) => Usual {
                tier: SafetyTier::Write,
                egress: Egress::SafeFetch,
                approval: Approval::Never,
            },
            Self::McpStdio(_)
            | Self::McpHttp(_)
            | Self::Workflow(_)
            | Self::Pack(_)
            | Self::Native => Usual {
                tier: SafetyTier::Write,
                egress: Egress::HostMediated,
                approval: Approval::Never,
            },
            Self::Unusable(unusable) => unusable.upstream.usual(),
        }
    }

    /// How its tools are reached.
    pub fn transport(&self) -> Transport {
        match self {
            Self::McpStdio(_) | Self::McpHttp(_) => Transport::Mcp,
            Self::Connector(_) => Transport::Http,
            Self::Commands(_) | Self::Workflow(_) | Self::Native => Transport::Native,
            Self::Pack(pack) => match pack.offers {
                PackOffer::Nodes => Transport::Native,
                PackOffer::Actions => Transport::Http,
            },
            Self::Unusable(unusable) => unusable.upstream.transport(),
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
