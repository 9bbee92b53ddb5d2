//! The trait for everything that offers tools, prompts or resources.

mod accounts;
pub mod command;
pub mod connector;
mod formed;
pub mod mcp;
mod not_offered;
pub mod pack;
mod spec;
pub mod upstream;
pub mod workflow;

use std::{
    borrow::Cow,
    collections::{BTreeMap, HashSet},
    sync::Arc,
};

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    call::{Operation, Reply, UpstreamError, UpstreamErrorKind},
    catalog::{Entry, Permit},
    clock::Timestamp,
    credential::{CredentialNeed, CredentialResolver, NoCredentials, ResolvedCredential},
    descriptor::SourceKind,
    id::SourceId,
    limit::Rate,
    offer::Offer,
};

pub use self::{
    accounts::{
        AccountConnector, AccountError, AuthorizationResponse, BegunAuthorization, ConnectRequest,
        NoAccounts, Prospect,
    },
    command::StderrMode,
    formed::FormedOffer,
    mcp::StdioSpec,
    not_offered::{Amount, OmittedOffers},
    spec::{SourceLimits, SourceSpec},
    upstream::{UnusableUpstream, UpstreamSpec},
    workflow::WorkflowSpec,
};
pub use crate::{credential::SecretValue, http_spec::HttpSpec};

/// A running source: an MCP server, an OpenAPI service, a pack, a workflow, a command.
#[async_trait]
pub trait Source: Send + Sync + 'static {
    /// The configured id.
    fn id(&self) -> &SourceId;

    /// The kind of source.
    fn kind(&self) -> SourceKind;

    /// Lists the upstream's offers. The source's own limits bound pages, offers, bytes and time. A
    /// malformed offer becomes a [`Discovered::problems`] entry, not an error.
    async fn discover(&self) -> Result<Discovered, UpstreamError>;

    /// The credential that a call of `entry` would use. Pure and cheap: it names the credential,
    /// which may be missing. The gate resolves it, and passes it with the call.
    fn credential_for(&self, _entry: &Entry) -> CredentialNeed {
        CredentialNeed::None
    }

    /// The credential with which the list of one caller is read; [`CredentialNeed::None`] if all
    /// callers have the list of [`discover`](Self::discover). Pure and cheap.
    fn own_list_need(&self) -> CredentialNeed {
        CredentialNeed::None
    }

    /// The upstream names of the tools that the account of `credential` has. The source's own limits
    /// bound pages, tools, bytes and time; an incomplete list is an error.
    async fn own_list(
        &self,
        _credential: Arc<ResolvedCredential>,
    ) -> Result<HashSet<String>, UpstreamError> {
        Err(UpstreamError::new(UpstreamErrorKind::Refused, "all callers have the same list"))
    }

    /// Fails if an operation cannot reach the upstream now, for example because the connection is
    /// down. Cheap. The gate asks before it requests an approval, and before it uses a grant.
    fn check_reachable(&self) -> Result<(), UpstreamError> {
        Ok(())
    }

    /// Runs one operation. Dropping the future cancels it, upstream too. The permit proves that the
    /// caller may use the offer, which is [`Permit::entry`]. A source that offers only tools rejects
    /// every other operation ([`Operation::into_tool_call`]).
    async fn serve(&self, permit: &Permit, operation: Operation) -> Result<Reply, UpstreamError>;

    /// The source's status.
    fn status(&self) -> SourceStatus;

    /// The parts of the upstream that reach no caller; `None` until they were counted.
    fn not_offered(&self) -> Option<OmittedOffers> {
        Some(OmittedOffers::default())
    }

    /// The last lines that its children wrote to stderr, oldest first. They may contain call
    /// arguments: they are for the operator, and are neither stored nor sent anywhere.
    fn stderr(&self) -> Vec<StderrLine> {
        Vec::new()
    }

    /// Stops children and connections in order. Idempotent; every later call is `Unavailable`.
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
    /// configuration is applied only if all its sources pass, so that a refused one has not started
    /// a program.
    fn check(&self, spec: &SourceSpec) -> Result<(), InvalidSource>;

    /// The resolver of the credentials that its sources name.
    fn credentials(&self) -> Arc<dyn CredentialResolver> {
        Arc::new(NoCredentials)
    }

    /// Connects the accounts that its sources use.
    fn accounts(&self) -> Arc<dyn AccountConnector> {
        Arc::new(NoAccounts)
    }
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

/// The result of a discovery.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Discovered {
    /// The version that the upstream reports, unchecked.
    pub version: Option<String>,
    /// Its offers, in its order.
    pub offers: Vec<FormedOffer>,
    /// The problems: omitted offers and the reasons.
    #[serde(default)]
    pub problems: Vec<String>,
    /// Remarks for the operator that need no action.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// Rate limits that tools declare, by name. The operator's rule takes precedence.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub rates: BTreeMap<String, Rate>,
}

/// One offer as its upstream describes it. All of it is untrusted text.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct DiscoveredOffer {
    /// The kind, with the facts that only this kind has.
    #[serde(default, skip_serializing_if = "Offer::is_tool")]
    pub offer: Offer,
    /// The upstream's name for it; the URI of a resource.
    pub name: String,
    /// The upstream's title, for people.
    pub title: Option<String>,
    /// The upstream's description, for models.
    pub description: Option<String>,
    /// Input schema, if it is an object. The arguments of a prompt are one, too.
    pub input_schema: Option<Value>,
    /// The schema of the structured output.
    pub output_schema: Option<Value>,
    /// The four MCP hints (and `title`), as declared; shown, never acted upon.
    pub annotations: Option<Value>,
    /// The request of a call, as far as the offer's description decides it: for a connector the
    /// method, path, server and parameters. Not shown to callers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operation: Option<Value>,
    /// The offer as the upstream sent it, for hashing.
    pub raw: Value,
}

impl DiscoveredOffer {
    /// Distinguishes it from the other offers of its source.
    pub fn key(&self) -> Cow<'_, str> {
        self.offer.kind().key(&self.name)
    }
}

/// The state of a source since its last change, for the operator.
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
    /// Whether it can be discovered and called now.
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
