//! Builds the parts of a gateway in the order of their dependencies.

use std::{
    path::Path,
    sync::{Arc, OnceLock, atomic::AtomicBool},
    time::Duration,
};

use arc_swap::ArcSwap;
use tokio::sync::mpsc::UnboundedReceiver;
use toolcrib_config::{Config, edit::ConfigFile};
use toolcrib_core::{
    authorize::{Authorizer, ScopeAuthorizer},
    clock::Clock,
    id::SourceId,
    key_set::KeySetSource,
    limit::RateLimiter,
    source::{InvalidSource, Source, SourceFactory, SourceListener, SourceSpec},
    store::Storage,
    trace::SpanSink,
};
use toolcrib_tasks::Tasks;

use crate::{
    approvals::Approvals,
    arguments_hash::ArgumentsHash,
    audit::Audit,
    authn::Authenticator,
    background::{BackgroundTasks, Services},
    bridge::Bridge,
    client_sessions::ClientSessions,
    clock::SystemClock,
    connections::Connections,
    gateway::{Gateway, Inner},
    limits::{
        quota::Quotas,
        rate_limit::{MemoryLimiter, RateLimits},
        shared::SharedLimiter,
    },
    live_runs::LiveRuns,
    metrics::Metrics,
    own_lists::OwnLists,
    pipeline::{Pipeline, idempotency::Idempotency, session::Interactions},
    policy::Decider,
    provider::native::{NativeSourceFactory, NativeTools},
    snapshot::{Snapshot, Snapshots},
    supply::{Supply, SupplyParts},
    trace::Tracer,
    workflow::Workflows,
};

/// How long sources may take to list their tools before workflows resume without them.
const SETTLE_LIMIT: Duration = Duration::from_secs(60);

/// How often expired grants, authorizations and links are removed.
const GRANTS_SWEEP: Duration = Duration::from_secs(10 * 60);

/// Builds a [`Gateway`].
pub struct GatewayBuilder {
    config: Config,
    storage: Arc<dyn Storage>,
    approvals: bool,
    factory: Arc<dyn SourceFactory>,
    clock: Arc<dyn Clock>,
    authorizer: Arc<dyn Authorizer>,
    limiter: Option<Arc<dyn RateLimiter>>,
    shared_limiter: Option<Arc<dyn RateLimiter>>,
    key_sets: Option<Arc<dyn KeySetSource>>,
    natives: Vec<NativeTools>,
    spans: Option<Arc<dyn SpanSink>>,
    config_file: Option<ConfigFile>,
    arguments_hash: ArgumentsHash,
    tasks: Tasks,
}

/// The factory of a program without sources in its configuration.
struct NoFactory;

// === impl NoFactory ===

impl SourceFactory for NoFactory {
    fn build(
        &self,
        spec: &SourceSpec,
        _listener: Arc<dyn SourceListener>,
    ) -> Result<Arc<dyn Source>, InvalidSource> {
        Err(no_factory(spec))
    }

    fn check(&self, spec: &SourceSpec) -> Result<(), InvalidSource> {
        Err(no_factory(spec))
    }
}

fn no_factory(spec: &SourceSpec) -> InvalidSource {
    let problem = "this program has no factory of sources; give the builder one";
    InvalidSource { source_id: spec.id.clone(), problem: problem.to_owned() }
}

// === impl Gateway ===

impl Gateway {
    /// Builds a gateway for a program with native tools: the configuration of an empty file, over
    /// `storage`.
    pub fn builder(storage: Arc<dyn Storage>) -> GatewayBuilder {
        GatewayBuilder::new(Config::empty(Path::new("")), storage, Arc::new(NoFactory))
    }
}

// === impl GatewayBuilder ===

impl GatewayBuilder {
    /// Creates a builder of a gateway of `config` over `storage`; `factory` builds its sources.
    pub fn new(config: Config, storage: Arc<dyn Storage>, factory: Arc<dyn SourceFactory>) -> Self {
        Self {
            config,
            storage,
            approvals: true,
            factory,
            clock: Arc::new(SystemClock::default()),
            authorizer: Arc::new(ScopeAuthorizer),
            limiter: None,
            shared_limiter: None,
            key_sets: None,
            natives: Vec::new(),
            spans: None,
            config_file: None,
            arguments_hash: ArgumentsHash::default(),
            tasks: Tasks::new(),
        }
    }

    /// Replaces the configuration of [`new`](Self::new), or the empty one of
    /// [`Gateway::builder`].
    #[must_use]
    pub fn config(mut self, config: Config) -> Self {
        self.config = config;
        self
    }

    /// Sets the factory that builds the sources of the configuration.
    #[must_use]
    pub fn sources(mut self, factory: Arc<dyn SourceFactory>) -> Self {
        self.factory = factory;
        self
    }

    /// Adds tools of this program. They are also part of every later configuration.
    #[must_use]
    pub fn tools(mut self, tools: NativeTools) -> Self {
        self.natives.push(tools);
        self
    }

    /// Disables approvals because their key cannot be read: a call that requires one does not run.
    #[must_use]
    pub fn without_approvals(mut self) -> Self {
        self.approvals = false;
        self
    }

    /// Sets the clock, by default that of the system.
    #[must_use]
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = clock;
        self
    }

    /// Sets the decision that policies narrow; by default, scopes decide.
    #[must_use]
    pub fn authorizer(mut self, authorizer: Arc<dyn Authorizer>) -> Self {
        self.authorizer = authorizer;
        self
    }

    /// Sets the client that fetches the keys of token issuers (`[auth.jwt]`). Without one, tokens
    /// are rejected.
    #[must_use]
    pub fn key_sets(mut self, source: Arc<dyn KeySetSource>) -> Self {
        self.key_sets = Some(source);
        self
    }

    /// Sets the board of background tasks. Give the factory of sources the same one, so that probes
    /// and metrics also show the tasks of sources.
    #[must_use]
    pub fn tasks(mut self, tasks: Tasks) -> Self {
        self.tasks = tasks;
        self
    }

    /// Sets the limiter that several servers share. While it is unavailable, `[limits] on_outage`
    /// of the configuration applies.
    #[must_use]
    pub fn shared_limiter(mut self, limiter: Arc<dyn RateLimiter>) -> Self {
        self.shared_limiter = Some(limiter);
        self
    }

    /// Sets the rate limiter, by default the shared one, or else one in the memory of this process.
    #[must_use]
    pub fn limiter(mut self, limiter: Arc<dyn RateLimiter>) -> Self {
        self.limiter = Some(limiter);
        self
    }

    /// Sets the source file of the configuration, so that callers with the scope `config:write` can
    /// change it. The program applies the changed file itself.
    #[must_use]
    pub fn config_file(mut self, file: ConfigFile) -> Self {
        self.config_file = Some(file);
        self
    }

    /// Sets how the record hashes arguments: by default according to RFC 0064.
    #[must_use]
    pub fn arguments_hash(mut self, form: ArgumentsHash) -> Self {
        self.arguments_hash = form;
        self
    }

    /// Sets the receiver of spans. `[telemetry]` of the configuration selects the traces.
    #[must_use]
    pub fn spans(mut self, sink: Arc<dyn SpanSink>) -> Self {
        self.spans = Some(sink);
        self
    }

    /// Starts the gateway: last good catalogs are loaded, sources connect in the background, and
    /// the tools of this program are available immediately.
    ///
    /// # Errors
    /// [`InvalidSource`] if a description can never work, or two sources have one id.
    pub async fn start(self) -> Result<Gateway, InvalidSource> {
        let Self { config, storage, factory, clock, authorizer, limiter, natives, tasks, .. } =
            self;
        let sampling =
            config.telemetry.as_ref().map(|telemetry| telemetry.sampling).unwrap_or_default();
        let (spans, config_file) = (self.spans, self.config_file);
        let services = Services {
            storage,
            clock: Arc::clone(&clock),
            metrics: Arc::new(Metrics::new(tasks.clone(), clock.now(), spans.clone())),
            tracer: spans.map_or_else(Tracer::default, |sink| Tracer::new(sink, sampling)),
            background: BackgroundTasks::new(tasks),
            config: Arc::new(ArcSwap::from_pointee(config.clone())),
            arguments_hash: self.arguments_hash,
        };
        services.storage.observe_commits(services.metrics.commit_observer());
        let decider = Decider { base: Arc::clone(&authorizer), policies: config.policies.clone() };
        let first = Snapshot::empty(config.gate.clone(), decider);
        let snapshots = Arc::new(Snapshots::new(first, Arc::clone(&clock)));
        let audit = Arc::new(Audit::new(&services));
        let authenticator = Authenticator::start(&services, &config, self.key_sets.clone()).await;
        let bridge =
            Bridge::new(services.clone(), Arc::clone(&audit), authenticator.clone(), self.key_sets);
        let shared = self.shared_limiter.map(|shared| -> Arc<dyn RateLimiter> {
            let on_outage =
                config.limits.as_ref().map(|limits| limits.on_outage).unwrap_or_default();
            Arc::new(SharedLimiter::new(shared, on_outage, Arc::clone(&clock)))
        });
        let limiter =
            limiter.or(shared).unwrap_or_else(|| Arc::new(MemoryLimiter::new(Arc::clone(&clock))));
        let limits = Arc::new(RateLimits::new(limiter, services.clone()));
        let approvals = Arc::new(Approvals::new(
            self.approvals.then(|| services.storage.approvals()),
            services.clone(),
            Arc::clone(&audit),
            Arc::clone(&snapshots),
            authenticator.clone(),
            Arc::clone(&limits),
        ));
        let credentials = factory.credentials();
        let (own_lists, looks) =
            OwnLists::new(services.clone(), Arc::clone(&credentials), snapshots.announcer());
        let pipeline = Arc::new(Pipeline {
            services: services.clone(),
            audit: Arc::clone(&audit),
            approvals: Arc::clone(&approvals),
            limits,
            quotas: Quotas::new(services.clone()),
            credentials,
            connections: Connections::new(
                services.clone(),
                Arc::clone(&audit),
                Arc::clone(&snapshots),
                factory.accounts(),
            ),
            interactions: Interactions::new(services.clone(), Arc::clone(&audit)),
            idempotency: Idempotency::new(services.clone()),
            runs: Arc::new(LiveRuns::default()),
        });
        let workflows = Arc::new(Workflows {
            services: services.clone(),
            audit: Arc::clone(&audit),
            snapshots: Arc::clone(&snapshots),
            authenticator: authenticator.clone(),
            approvals: Arc::clone(&approvals),
            interactions: Arc::clone(&pipeline.interactions),
            caller: Arc::clone(&pipeline) as _,
            live: Arc::clone(&pipeline.runs),
            store: services.storage.runs(),
        });
        let own: Vec<_> = natives.iter().map(|tools| tools.config().clone()).collect();
        let factory = NativeSourceFactory {
            tools: natives,
            others: factory,
            clock,
            workflows: Arc::clone(&workflows),
        };
        let (supply, requests) = Supply::new(SupplyParts {
            services: services.clone(),
            audit: Arc::clone(&audit),
            snapshots: Arc::clone(&snapshots),
            authorizer,
            own_lists: Arc::clone(&own_lists),
            factory: Arc::new(factory),
            natives: own.clone(),
            gate: config.gate.clone(),
        });
        let client_sessions = Arc::new(ClientSessions::new(services.clone()));
        let inner = Inner {
            services,
            snapshots,
            audit,
            authenticator,
            bridge,
            approvals,
            pipeline,
            workflows,
            client_sessions,
            supply,
            config_file,
            editing: tokio::sync::Mutex::new(()),
            making_credentials: tokio::sync::Mutex::new(()),
            started: config.clone(),
            audit_tasks: OnceLock::new(),
            draining: AtomicBool::new(false),
        };
        let gateway = Gateway { inner: Arc::new(inner) };
        gateway.put_in_force(config).await?;
        for native in &own {
            gateway.supply().discover(&native.spec.id).await;
        }
        own_lists.start(looks);
        gateway.inner.start(requests);
        Ok(gateway)
    }
}

impl Inner {
    /// Starts the background tasks.
    fn start(&self, requests: UnboundedReceiver<SourceId>) {
        self.supply.start(requests);
        self.approvals.start();
        self.pipeline.idempotency.start();
        self.client_sessions.start();
        self.pipeline.quotas.start();
        let (storage, clock) =
            (Arc::clone(&self.services.storage), Arc::clone(&self.services.clock));
        self.services.background.every("grants/sweep", GRANTS_SWEEP, move || {
            let (grants, bridge, now) = (storage.grants(), storage.bridge(), clock.now());
            async move {
                if let Err(error) = grants.sweep(now).await {
                    tracing::warn!(%error, "expired grants could not be removed");
                }
                if let Err(error) = bridge.sweep(now).await {
                    tracing::warn!(%error, "expired grants of clients could not be removed");
                }
            }
        });
        let supply = Arc::clone(&self.supply);
        self.workflows.start(async move { supply.settle(SETTLE_LIMIT).await });
    }
}
