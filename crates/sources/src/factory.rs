//! Builds running sources from checked descriptions.

use std::sync::Arc;

use parking_lot::Mutex;
use toolcrib_core::{
    clock::Clock,
    credential::CredentialStore,
    source::{InvalidSource, Source, SourceFactory, SourceListener, SourceSpec, UpstreamSpec},
};

use crate::{
    egress::{Endpoint, Guard, Network, Resolver, SystemResolver},
    mcp::{McpSource, Target},
};

/// Builds MCP sources over stdio and streamable HTTP.
///
/// [`SourceFactory::build`] must be called inside a tokio runtime: a source connects in a task of
/// its own.
pub struct Factory {
    clock: Arc<dyn Clock>,
    /// Where the credentials are that sources name; without it a source that names one fails.
    credentials: Option<Arc<dyn CredentialStore>>,
    resolver: Arc<dyn Resolver>,
    /// Made for the first HTTP source, since reading the machine's certificates takes time that a
    /// start without HTTP sources need not spend.
    network: Mutex<Option<Arc<Network>>>,
}

// === impl Factory ===

impl Factory {
    /// A factory whose sources read the time from `clock`.
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        let resolver: Arc<dyn Resolver> = Arc::new(SystemResolver);
        Self { clock, resolver, credentials: None, network: Mutex::new(None) }
    }

    /// Sources find the credentials that they name in `store`.
    #[must_use]
    pub fn with_credentials(mut self, store: Arc<dyn CredentialStore>) -> Self {
        self.credentials = Some(store);
        self
    }

    /// Somebody else than the system is asked for the addresses of names.
    #[must_use]
    pub fn with_resolver(mut self, resolver: Arc<dyn Resolver>) -> Self {
        self.resolver = resolver;
        self
    }

    fn network(&self) -> Result<Arc<Network>, String> {
        let mut network = self.network.lock();
        match &*network {
            Some(made) => Ok(Arc::clone(made)),
            None => {
                let made = Arc::new(Network::new(Arc::clone(&self.resolver))?);
                Ok(Arc::clone(network.insert(made)))
            }
        }
    }

    fn target(&self, upstream: &UpstreamSpec) -> Result<Target, String> {
        match upstream {
            UpstreamSpec::McpStdio(stdio) => match stdio.command.first() {
                Some(program) if !program.is_empty() => Ok(Target::Stdio(stdio.clone())),
                _ => Err("the command is empty; give a program and its arguments".to_owned()),
            },
            UpstreamSpec::McpHttp(http) => {
                let endpoint = Endpoint::new(http)?;
                let guard = Guard::new(http.allow.clone(), Some(endpoint.url()));
                Ok(Target::Http { egress: self.network()?.egress(guard)?, endpoint })
            }
            UpstreamSpec::Native => {
                Err("its tools are those of a program that embeds the gateway".to_owned())
            }
        }
    }
}

impl SourceFactory for Factory {
    fn check(&self, spec: &SourceSpec) -> Result<(), InvalidSource> {
        let invalid = |problem| InvalidSource { source_id: spec.id.clone(), problem };
        self.target(&spec.upstream).map(drop).map_err(invalid)
    }

    fn build(
        &self,
        spec: &SourceSpec,
        listener: Arc<dyn SourceListener>,
    ) -> Result<Arc<dyn Source>, InvalidSource> {
        let invalid = |problem| InvalidSource { source_id: spec.id.clone(), problem };
        let runtime = tokio::runtime::Handle::try_current()
            .map_err(|_| invalid("a source can only be built inside a tokio runtime".to_owned()))?;
        let target = self.target(&spec.upstream).map_err(invalid)?;
        let source = McpSource::start(
            spec.id.clone(),
            target,
            spec.limits.clone(),
            listener,
            Arc::clone(&self.clock),
            &runtime,
        );
        Ok(Arc::new(source))
    }
}
