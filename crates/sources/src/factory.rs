//! Builds running sources from checked descriptions.

use std::{path::PathBuf, sync::Arc};

use toolcrib_core::{
    clock::Clock,
    credential::{CredentialResolver, CredentialStore, GrantStore},
    source::{
        AccountConnector, InvalidSource, Source, SourceFactory, SourceListener, SourceSpec,
        StdioSpec, UpstreamSpec, pack::PackGrant,
    },
};
use toolcrib_tasks::Tasks;

use crate::{
    account::{Connector, Hub},
    context::SourceContext,
    credential::{Credentials, SourceCredential},
    egress::{Endpoint, Guard, Network, SystemResolver},
    exec::{CommandSource, anchor_confinement},
    key_set::KeySets,
    mcp::{HttpTarget, Listing, McpSource, Target},
    openapi::{self, ConnectorSource},
    pack::{self, Library, PackContext, PackSource},
    process::launch::Launcher,
    unusable::UnusableSource,
};

/// Builds MCP sources over stdio and streamable HTTP, connectors, node packs, and sources of
/// commands.
///
/// [`SourceFactory::build`] must be called inside a tokio runtime, because each source spawns
/// tasks.
pub struct Factory {
    clock: Arc<dyn Clock>,
    /// Resolves the credentials that sources name. Tokens are shared by all sources and outlive
    /// them.
    credentials: Arc<Credentials>,
    /// The store of connected accounts, and what the sources share about them.
    hub: Arc<Hub>,
    network: Arc<Network>,
    launcher: Option<Launcher>,
    /// The installed packs.
    packs: Option<Library>,
    tasks: Tasks,
}

/// Starts a source whose description is valid.
type Start = Box<dyn FnOnce(SourceContext) -> Arc<dyn Source>>;

// === impl Factory ===

impl Factory {
    /// Creates a factory whose sources read the time from `clock`.
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        let network = Network::new(Arc::new(SystemResolver));
        let hub = Hub::new(Arc::clone(&network), Arc::clone(&clock), None);
        let credentials = Arc::new(Credentials::new(None, Arc::clone(&hub)));
        Self { clock, credentials, hub, network, launcher: None, packs: None, tasks: Tasks::new() }
    }

    /// Sets the store in which sources find their credentials. Without a store, a source that names
    /// a credential cannot send requests.
    #[must_use]
    pub fn with_credentials(self, store: Arc<dyn CredentialStore>) -> Self {
        let credentials = Credentials::new(Some(store), Arc::clone(&self.hub));
        Self { credentials: Arc::new(credentials), ..self }
    }

    /// Sets the store of connected accounts. Without a store, a source with accounts cannot send
    /// requests.
    #[must_use]
    pub fn with_grants(self, store: Arc<dyn GrantStore>) -> Self {
        let hub = Hub::new(Arc::clone(&self.network), Arc::clone(&self.clock), Some(store));
        let credentials = Credentials::new(self.credentials.store(), Arc::clone(&hub));
        Self { credentials: Arc::new(credentials), hub, ..self }
    }

    /// Returns the fetcher for the key sets of token issuers, over the same network.
    pub fn key_sets(&self) -> KeySets {
        KeySets(Arc::clone(&self.network))
    }

    /// Sets the launcher that starts programs. Without a launcher, commands and sandboxes are not
    /// available, and a descendant of a stdio server that leaves its process group outlives it.
    #[must_use]
    pub fn with_launcher(self, launcher: Launcher) -> Self {
        Self { launcher: Some(launcher), ..self }
    }

    /// Sets the library of installed packs.
    #[must_use]
    pub fn with_packs(self, library: Library) -> Self {
        Self { packs: Some(library), ..self }
    }

    /// Sets the task board on which sources register their tasks.
    #[must_use]
    pub fn with_tasks(self, tasks: Tasks) -> Self {
        Self { tasks, ..self }
    }

    fn credential(&self, spec: &SourceSpec) -> Option<Arc<SourceCredential>> {
        let credentials = Arc::clone(&self.credentials);
        let credential = match (&spec.account, &spec.credential) {
            (Some(account), _) => {
                SourceCredential::of_accounts(credentials, spec.id.clone(), Arc::clone(account))
            }
            (None, Some(reference)) => SourceCredential::stored(credentials, reference.clone()),
            (None, None) => return None,
        };
        Some(Arc::new(credential))
    }

    /// Checks `spec`, and prepares the start of its source.
    fn plan(&self, spec: &SourceSpec) -> Result<Start, String> {
        match &spec.upstream {
            UpstreamSpec::McpStdio(stdio) => {
                if stdio.command.first().is_none_or(String::is_empty) {
                    return Err("the command is empty; give a program and its arguments".to_owned());
                }
                if stdio.sandbox.is_some() && self.launcher.is_none() {
                    return Err(
                        "a sandbox requires a launcher, and this program does not provide one"
                            .to_owned(),
                    );
                }
                let target = Target::Stdio(anchored(stdio.clone()), self.launcher.clone());
                Ok(Box::new(|context| {
                    Arc::new(McpSource::start(context, target, Listing::Upstream))
                }))
            }
            UpstreamSpec::McpHttp(http) => {
                let endpoint = Endpoint::new(http)?;
                let guard = Guard::new(http.allow.clone(), Some(endpoint.url()));
                let egress = self.network.egress(guard)?;
                let credential = self.credential(spec);
                let target = Target::Http(HttpTarget { endpoint, egress, credential });
                Ok(Box::new(|context| {
                    Arc::new(McpSource::start(context, target, Listing::Upstream))
                }))
            }
            UpstreamSpec::Connector(connector) => {
                let plan = openapi::Plan::new(connector, &self.network, self.credential(spec))?;
                Ok(Box::new(|context| Arc::new(ConnectorSource::start(context, plan))))
            }
            UpstreamSpec::Commands(commands) => {
                let (commands, launcher) = (commands.clone(), self.launcher.clone());
                let launcher = launcher
                    .ok_or("commands require a launcher, and this program does not provide one")?;
                Ok(Box::new(|context| Arc::new(CommandSource::start(&context, commands, launcher))))
            }
            UpstreamSpec::Workflow(_) => Err("workflows are run by the gateway itself".to_owned()),
            UpstreamSpec::Pack(pack) => {
                pack::check(pack, self.packs.as_ref())?;
                let guard = Guard::new(pack.allow.clone(), None);
                let http = pack.grants.contains(&PackGrant::Http);
                let egress = http.then(|| self.network.egress(guard)).transpose()?;
                let (spec, credential) = (pack.clone(), self.credential(spec));
                let library = self.packs.clone();
                Ok(Box::new(|source| {
                    let context = PackContext { source, spec, egress, credential };
                    Arc::new(PackSource::start(context, library))
                }))
            }
            UpstreamSpec::Unusable(unusable) => {
                let (kind, reason) = (unusable.upstream.kind(), unusable.reason.clone());
                let since = self.clock.now();
                Ok(Box::new(move |context| {
                    Arc::new(UnusableSource { id: context.id, kind, reason, since })
                }))
            }
            UpstreamSpec::Native => {
                Err("its tools are those of a program that embeds the gateway".to_owned())
            }
        }
    }
}

/// Makes the sandbox paths of `stdio` absolute, independent of the working directory.
fn anchored(mut stdio: StdioSpec) -> StdioSpec {
    if let Some(sandbox) = &mut stdio.sandbox {
        // A sandboxed program may read its working directory and itself.
        let program = stdio.command.first().filter(|program| program.contains('/'));
        sandbox.read.extend(program.map(PathBuf::from));
        sandbox.read.extend(stdio.cwd.clone());
        anchor_confinement(sandbox);
    }
    stdio
}

impl SourceFactory for Factory {
    fn check(&self, spec: &SourceSpec) -> Result<(), InvalidSource> {
        let invalid = |problem| InvalidSource { source_id: spec.id.clone(), problem };
        self.plan(spec).map(drop).map_err(invalid)
    }

    fn credentials(&self) -> Arc<dyn CredentialResolver> {
        Arc::clone(&self.credentials) as _
    }

    fn accounts(&self) -> Arc<dyn AccountConnector> {
        Arc::new(Connector::new(Arc::clone(&self.hub)))
    }

    fn build(
        &self,
        spec: &SourceSpec,
        listener: Arc<dyn SourceListener>,
    ) -> Result<Arc<dyn Source>, InvalidSource> {
        let invalid = |problem| InvalidSource { source_id: spec.id.clone(), problem };
        let runtime = tokio::runtime::Handle::try_current()
            .map_err(|_| invalid("a source can only be built inside a tokio runtime".to_owned()))?;
        let context = SourceContext {
            id: spec.id.clone(),
            limits: spec.limits.clone(),
            clock: Arc::clone(&self.clock),
            listener,
            runtime,
            tasks: self.tasks.clone(),
        };
        let start = self.plan(spec).map_err(invalid)?;
        self.hub.serve(spec);
        Ok(start(context))
    }
}
