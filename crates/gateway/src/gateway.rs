//! The gateway: one snapshot of what is offered, and everything that the pipeline leans on.

use std::{
    collections::HashMap,
    sync::{Arc, OnceLock, Weak},
    time::Duration,
};

use arc_swap::ArcSwap;
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use toolcrib_core::{
    approval::ApprovalStore,
    authorize::{Authorizer, ScopeAuthorizer},
    canonical::Digest,
    catalog::{Catalog, Entry, Generation},
    clock::Clock,
    descriptor::SourceKind,
    event::{EventLog, EventQuery, LoggedEvent},
    id::{AgentId, RunId, SourceId, TenantId},
    idempotency::IdempotencyStore,
    key_set::KeySetSource,
    limit::RateLimiter,
    lint::Finding,
    pin::PinStore,
    principal::Principal,
    quota::QuotaStore,
    record::RecordStore,
    scope::{Grant, Scope},
    source::{
        InvalidSource, Source, SourceFactory, SourceListener, SourceSpec, StderrLine, UpstreamSpec,
    },
    store::{CatalogStore, KeyStore, RunQuery, RunRecord, RunStore, StoreError},
};
use toolcrib_tasks::Tasks;

use crate::{
    approvals::{self, Approvals},
    authn::Authenticator,
    breaker::Breaker,
    clock::SystemClock,
    config::{Config, GateConfig, SourceConfig},
    idempotency::{self, Idempotency},
    limits::MemoryLimiter,
    metrics::Metrics,
    pins::{ApprovedPin, PinError, PinReport},
    policy::Decider,
    provider::{NativeTools, Natives},
    quota::{self, Quotas},
    readiness::Readiness,
    record::Record,
    refresh::{Refresher, Slots},
    report::{SourceReport, StderrRefusal},
    scopes::RouteScope,
    session::Interactions,
    workflow::{self, Home, LiveRuns, SnapshotWorkflows},
};

/// Lists and calls tools. Cheap to clone; all clones are the same gateway.
#[derive(Clone)]
pub struct Gateway {
    inner: Arc<Inner>,
}

/// A gateway that does not stay because of this.
#[derive(Clone)]
pub(crate) struct WeakGateway(Weak<Inner>);

impl WeakGateway {
    pub(crate) fn upgrade(&self) -> Option<Gateway> {
        self.0.upgrade().map(|inner| Gateway { inner })
    }
}

struct Inner {
    snapshot: ArcSwap<Snapshot>,
    authorizer: Arc<dyn Authorizer>,
    limiter: Arc<dyn RateLimiter>,
    log: Arc<dyn EventLog>,
    clock: Arc<dyn Clock>,
    metrics: Arc<Metrics>,
    readiness: Arc<Readiness>,
    record: Record,
    idempotency: Idempotency,
    authenticator: Authenticator,
    refresher: Refresher,
    /// The configuration in force.
    config: ArcSwap<Config>,
    /// Sources of the embedding program: part of every configuration.
    natives: Vec<SourceConfig>,
    running: TaskTracker,
    interactions: Interactions,
    runs: Arc<LiveRuns>,
    run_store: Option<Arc<dyn RunStore>>,
    approvals: Approvals,
    once: Option<Arc<dyn IdempotencyStore>>,
    quotas: Arc<Quotas>,
    ended: CancellationToken,
    tasks: Tasks,
    /// Where the record is kept, once somebody keeps it.
    record_store: OnceLock<Arc<dyn RecordStore>>,
}

/// Everything a request may depend on, taken once per request (I-23).
pub struct Snapshot {
    /// The tools.
    pub catalog: Catalog,
    /// What runs them.
    pub sources: HashMap<SourceId, Arc<dyn Source>>,
    /// Defaults of the gate.
    pub gate: GateConfig,
    /// What is left out because nobody has approved it as it is; nothing of it is listed or called.
    pub quarantined: Catalog,
    pub(crate) decider: Decider,
    pub(crate) workflows: SnapshotWorkflows,
    /// What keeps calls from sources that fail.
    pub(crate) breakers: HashMap<SourceId, Arc<Breaker>>,
}

/// What must survive a restart.
#[derive(Clone)]
pub struct Stores {
    /// Events.
    pub log: Arc<dyn EventLog>,
    /// API keys.
    pub keys: Arc<dyn KeyStore>,
    /// Last good catalogs.
    pub catalogs: Arc<dyn CatalogStore>,
    /// Runs of workflows; without it nothing is known of them once they are over.
    pub runs: Option<Arc<dyn RunStore>>,
    /// Pins of tools; without it no tool is offered of a source whose tools are to be pinned.
    pub pins: Option<Arc<dyn PinStore>>,
    /// Requests for consent; without it what needs consent does not run.
    pub approvals: Option<Arc<dyn ApprovalStore>>,
    /// Answers of calls that name themselves; without it they last as long as the process.
    pub once: Option<Arc<dyn IdempotencyStore>>,
    /// Counts of quotas; without it they last as long as the process.
    pub quotas: Option<Arc<dyn QuotaStore>>,
}

/// Puts a [`Gateway`] together.
pub struct GatewayBuilder {
    config: Config,
    stores: Stores,
    factory: Arc<dyn SourceFactory>,
    clock: Arc<dyn Clock>,
    authorizer: Arc<dyn Authorizer>,
    limiter: Option<Arc<dyn RateLimiter>>,
    key_sets: Option<Arc<dyn KeySetSource>>,
    natives: Vec<NativeTools>,
    tasks: Tasks,
}

/// For a program that has no sources but its own tools.
struct NoFactory;

/// How long calls in flight have to be recorded once their sources are closed: the store answers in
/// milliseconds, and a store that does not is not waited for.
pub(crate) const CLOSING_TIME: Duration = Duration::from_secs(5);

impl Drop for Inner {
    /// Also a gateway that nobody closed takes its tasks along.
    fn drop(&mut self) {
        self.ended.cancel();
    }
}

// === impl Stores ===

impl Stores {
    /// One store for everything.
    pub fn of<S: EventLog + KeyStore + CatalogStore + PinStore>(store: S) -> Self {
        let store = Arc::new(store);
        let (log, keys) = (Arc::<S>::clone(&store), Arc::<S>::clone(&store));
        let pins = Some(Arc::<S>::clone(&store) as _);
        Self { pins, ..Self::with(log, keys, store) }
    }

    /// A store for each.
    pub fn new(log: impl EventLog, keys: impl KeyStore, catalogs: impl CatalogStore) -> Self {
        Self::with(Arc::new(log), Arc::new(keys), Arc::new(catalogs))
    }

    fn with(
        log: Arc<dyn EventLog>,
        keys: Arc<dyn KeyStore>,
        catalogs: Arc<dyn CatalogStore>,
    ) -> Self {
        let (runs, pins, approvals, once, quotas) = (None, None, None, None, None);
        Self { log, keys, catalogs, runs, pins, approvals, once, quotas }
    }

    /// The same, with a store for pins of tools.
    #[must_use]
    pub fn with_pins(mut self, pins: impl PinStore) -> Self {
        self.pins = Some(Arc::new(pins));
        self
    }

    /// The same, with a store for runs of workflows.
    #[must_use]
    pub fn with_runs(mut self, runs: impl RunStore) -> Self {
        self.runs = Some(Arc::new(runs));
        self
    }

    /// The same, with a store for answers of calls that name themselves.
    #[must_use]
    pub fn with_once(mut self, once: impl IdempotencyStore) -> Self {
        self.once = Some(Arc::new(once));
        self
    }

    /// The same, with a store for counts of quotas.
    #[must_use]
    pub fn with_quotas(mut self, quotas: impl QuotaStore) -> Self {
        self.quotas = Some(Arc::new(quotas));
        self
    }

    /// The same, with a store for approvals, whose events have to go to the same log.
    #[must_use]
    pub fn with_approvals(mut self, approvals: impl ApprovalStore) -> Self {
        self.approvals = Some(Arc::new(approvals));
        self
    }
}

// === impl NoFactory ===

impl SourceFactory for NoFactory {
    fn build(
        &self,
        spec: &SourceSpec,
        _listener: Arc<dyn SourceListener>,
    ) -> Result<Arc<dyn Source>, InvalidSource> {
        Err(nothing_to_build(spec))
    }

    fn check(&self, spec: &SourceSpec) -> Result<(), InvalidSource> {
        Err(nothing_to_build(spec))
    }
}

fn nothing_to_build(spec: &SourceSpec) -> InvalidSource {
    let problem = "this program connects to nothing; give the builder a factory of sources";
    InvalidSource { source_id: spec.id.clone(), problem: problem.to_owned() }
}

// === impl GatewayBuilder ===

impl GatewayBuilder {
    /// A gateway of `config` over `stores`, whose sources `factory` builds.
    pub fn new(config: Config, stores: Stores, factory: Arc<dyn SourceFactory>) -> Self {
        Self {
            config,
            stores,
            factory,
            clock: Arc::new(SystemClock::default()),
            authorizer: Arc::new(ScopeAuthorizer),
            limiter: None,
            key_sets: None,
            natives: Vec::new(),
            tasks: Tasks::new(),
        }
    }

    /// Another configuration.
    #[must_use]
    pub fn config(mut self, config: Config) -> Self {
        self.config = config;
        self
    }

    /// What builds the sources of the configuration.
    #[must_use]
    pub fn sources(mut self, factory: Arc<dyn SourceFactory>) -> Self {
        self.factory = factory;
        self
    }

    /// Adds tools of this program. They are part of every configuration that is applied later, too.
    #[must_use]
    pub fn tools(mut self, tools: NativeTools) -> Self {
        self.natives.push(tools);
        self
    }

    /// Another clock.
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = clock;
        self
    }

    /// Another decision.
    pub fn authorizer(mut self, authorizer: Arc<dyn Authorizer>) -> Self {
        self.authorizer = authorizer;
        self
    }

    /// Who fetches the keys of token issuers (`[auth.jwt]`). Without one no token is accepted.
    #[must_use]
    pub fn key_sets(mut self, source: Arc<dyn KeySetSource>) -> Self {
        self.key_sets = Some(source);
        self
    }

    /// The board on which the gateway has its background tasks. Give the factory of sources the same
    /// one, so that probes and metrics show the tasks of sources, too.
    #[must_use]
    pub fn tasks(mut self, tasks: Tasks) -> Self {
        self.tasks = tasks;
        self
    }

    /// Another limiter.
    pub fn limiter(mut self, limiter: Arc<dyn RateLimiter>) -> Self {
        self.limiter = Some(limiter);
        self
    }

    /// Starts the gateway: last good catalogs are loaded, sources connect in the background, and
    /// the tools of this program are there at once.
    ///
    /// # Errors
    /// A source whose description can never work, or two of one id.
    pub async fn start(self) -> Result<Gateway, InvalidSource> {
        let (tasks, ended) = (self.tasks, CancellationToken::new());
        let metrics = Arc::new(Metrics::new(tasks.clone()));
        let readiness = Arc::new(Readiness::default());
        let record = Record::new(
            Arc::clone(&self.stores.log),
            Arc::clone(&self.clock),
            Arc::clone(&metrics),
            (&tasks, &ended),
            Arc::clone(&readiness),
        );
        let authenticator = Authenticator::start(
            Arc::clone(&self.stores.keys),
            Arc::clone(&self.clock),
            &self.config,
            self.key_sets,
            (&tasks, &ended),
        )
        .await;
        let limiter =
            self.limiter.unwrap_or_else(|| Arc::new(MemoryLimiter::new(Arc::clone(&self.clock))));
        let quotas = Quotas::new(self.stores.quotas, Arc::clone(&self.clock));
        let natives = self.natives.iter().map(|tools| tools.config().clone()).collect();
        let home = Home::default();
        let (refresher, requests) = Refresher::new(
            Arc::new(Natives {
                tools: self.natives,
                others: self.factory,
                clock: Arc::clone(&self.clock),
                home: home.clone(),
            }),
            Arc::clone(&self.stores.catalogs),
            self.stores.pins.clone(),
            Arc::clone(&self.clock),
            Arc::clone(&metrics),
        );
        let gateway = Gateway {
            inner: Arc::new(Inner {
                snapshot: ArcSwap::from_pointee(Snapshot {
                    catalog: Catalog::empty(),
                    sources: HashMap::new(),
                    gate: self.config.gate.clone(),
                    quarantined: Catalog::empty(),
                    decider: Decider {
                        base: Arc::clone(&self.authorizer),
                        policies: self.config.policies.clone(),
                    },
                    workflows: SnapshotWorkflows::default(),
                    breakers: HashMap::new(),
                }),
                authorizer: self.authorizer,
                limiter,
                log: self.stores.log,
                clock: self.clock,
                metrics,
                readiness,
                record,
                idempotency: Idempotency::default(),
                authenticator,
                refresher,
                config: ArcSwap::from_pointee(self.config.clone()),
                natives,
                running: TaskTracker::new(),
                interactions: Interactions::default(),
                runs: Arc::default(),
                run_store: self.stores.runs,
                approvals: Approvals::new(self.stores.approvals),
                once: self.stores.once,
                quotas,
                ended,
                tasks,
                record_store: OnceLock::new(),
            }),
        };
        home.settle(&gateway);
        gateway.apply(self.config).await?;
        for native in &gateway.inner.natives {
            gateway.inner.refresher.discover(&gateway, &native.spec.id).await;
        }
        Refresher::run(&gateway, requests);
        workflow::follow(&gateway);
        approvals::follow(&gateway);
        idempotency::follow(&gateway);
        quota::follow(&gateway);
        Ok(gateway)
    }
}

// === impl Gateway ===

impl Gateway {
    /// A gateway for a program that has tools of its own: the configuration of an empty file, over
    /// `stores`.
    pub fn builder(stores: Stores) -> GatewayBuilder {
        let config = Config::empty(std::path::Path::new(""));
        GatewayBuilder::new(config, stores, Arc::new(NoFactory))
    }

    /// Replaces the configuration: sources whose description did not change go on running, new ones
    /// are started, removed ones are closed once their calls have ended. On an error nothing changes
    /// and nothing was started.
    ///
    /// # Errors
    /// A source whose description can never work.
    pub async fn apply(&self, mut config: Config) -> Result<(), InvalidSource> {
        // Those of a configuration that was taken from here are the same ones.
        config.sources.retain(|source| source.spec.upstream != UpstreamSpec::Native);
        for native in &self.inner.natives {
            let toolkit = |id: &SourceId| id.as_str().replace('-', "_");
            let id = &native.spec.id;
            if config.sources.iter().any(|other| toolkit(&other.spec.id) == toolkit(id)) {
                let problem = "another source has this id (`-` and `_` count as equal)".to_owned();
                return Err(InvalidSource { source_id: id.clone(), problem });
            }
            config.sources.push(native.clone());
        }
        let closing = self.inner.refresher.apply(self, &config).await?;
        self.inner.authenticator.configure(&config).await;
        self.inner.config.store(Arc::new(config));
        self.publish();
        for source in closing {
            let ended = self.inner.ended.clone();
            self.inner.running.spawn(async move {
                tokio::select! {
                    () = Refresher::retire(&source) => {}
                    () = ended.cancelled() => source.close().await,
                }
            });
        }
        Ok(())
    }

    /// The configuration in force, native sources included.
    pub fn config(&self) -> Arc<Config> {
        self.inner.config.load_full()
    }

    /// Asks `source` for its tools soon; what it says is published when it differs.
    pub fn refresh(&self, source: &SourceId) {
        self.inner.refresher.request(source);
    }

    /// The current snapshot. Take it once per request.
    pub fn snapshot(&self) -> Arc<Snapshot> {
        self.inner.snapshot.load_full()
    }

    /// Who is calling.
    pub fn authenticator(&self) -> &Authenticator {
        &self.inner.authenticator
    }

    /// Reads the event log. Denials are written in the background; this waits for those that came
    /// before it.
    ///
    /// # Errors
    /// [`StoreError`].
    pub async fn read_events(&self, query: EventQuery) -> Result<Vec<LoggedEvent>, StoreError> {
        self.inner.record.settle().await;
        self.inner.log.read(query).await
    }

    /// Numbers for operators.
    pub fn metrics(&self) -> &Metrics {
        &self.inner.metrics
    }

    /// The clock.
    pub fn clock(&self) -> &dyn Clock {
        &*self.inner.clock
    }

    /// Where the record is kept with its checkpoints, if a [`Keeper`](crate::keeper::Keeper) does.
    pub fn record_store(&self) -> Option<&Arc<dyn RecordStore>> {
        self.inner.record_store.get()
    }

    pub(crate) fn set_record_store(&self, store: Arc<dyn RecordStore>) {
        // The first keeper is the one that counts; there is one per gateway.
        self.inner.record_store.get_or_init(|| store);
    }

    /// Why callers cannot be served as they should be.
    pub fn readiness(&self) -> &Readiness {
        &self.inner.readiness
    }

    pub(crate) fn readiness_handle(&self) -> Arc<Readiness> {
        Arc::clone(&self.inner.readiness)
    }

    pub(crate) fn clock_handle(&self) -> Arc<dyn Clock> {
        Arc::clone(&self.inner.clock)
    }

    pub(crate) fn metrics_handle(&self) -> Arc<Metrics> {
        Arc::clone(&self.inner.metrics)
    }

    /// Every source and how it is doing, in the order of the configuration.
    pub fn sources(&self) -> Vec<SourceReport> {
        self.inner.refresher.reports(None)
    }

    /// The sources that `tenant` has. Of one whose rules keep tools from it, it is told neither how
    /// many they are nor what is wrong.
    pub fn sources_of(&self, tenant: &TenantId) -> Vec<SourceReport> {
        self.inner.refresher.reports(Some(tenant))
    }

    /// The last lines that children of the source `id` wrote to stderr. They may hold arguments of
    /// calls, so they are for the operator (no `tenant`), or for a tenant that has the source for
    /// itself.
    ///
    /// # Errors
    /// [`StderrRefusal`].
    pub fn source_stderr(
        &self,
        tenant: Option<&TenantId>,
        id: &str,
    ) -> Result<Vec<StderrLine>, StderrRefusal> {
        self.inner.refresher.stderr(tenant, id)
    }

    /// Grants of roles that reach no tool and no route, as `role "NAME": GRANT`. Only telling once
    /// every source has told its tools ([`Gateway::settle`]).
    pub fn unmatched_grants(&self) -> Vec<String> {
        let snapshot = self.snapshot();
        let required = |entry: &Arc<Entry>| entry.tool.auth.clone()?.scopes;
        let mut scopes: Vec<Scope> =
            snapshot.catalog.entries().iter().filter_map(required).flatten().collect();
        // Consent is asked of whoever holds the scope of a tool's rule, or of the configuration.
        scopes.extend(
            snapshot.catalog.entries().iter().filter_map(|entry| entry.consent.scope.clone()),
        );
        scopes.push(self.config().approvals.respond_scope.clone());
        let routes = RouteScope::ALL.iter().map(|scope| Scope::parse(scope.as_str()));
        scopes.extend(routes.filter_map(Result::ok));
        let reaches = |grant: &Grant| scopes.iter().any(|scope| grant.covers(scope));
        let of_role = |(name, grants): (String, Vec<Grant>)| {
            let idle = grants.into_iter().filter(|grant| !reaches(grant));
            idle.map(|grant| format!("role \"{name}\": {grant}")).collect::<Vec<_>>()
        };
        self.inner.authenticator.roles().into_iter().flat_map(of_role).collect()
    }

    /// Waits until every source has told its tools or has shown that it will not soon, or until
    /// `patience` ends. For commands that end; a server never waits.
    pub async fn settle(&self, patience: Duration) {
        self.inner.refresher.settle(patience).await;
    }

    /// Counts published snapshots; changes are the moment to tell listeners that lists may differ.
    pub fn changes(&self) -> watch::Receiver<Generation> {
        self.inner.refresher.changes()
    }

    /// Ready once [`close`](Self::close) has begun: for what would otherwise go on for ever.
    pub async fn until_closed(&self) {
        self.inner.ended.cancelled().await;
    }

    /// Records that somebody without valid credentials was turned away from `route` (a template).
    pub fn record_unauthenticated(&self, route: &str) {
        self.inner.record.unauthenticated(route);
    }

    /// Records that `principal` was refused `action` (a scope) on `resource` (a route template).
    pub fn record_denied(&self, principal: &Principal, action: &str, resource: &str) {
        self.inner.record.denied(principal, action, resource, "scope");
    }

    /// Records that `references`, entries of an allow-list of `tenant`, resolve to no tool that
    /// `agent` may use: one `agent.toolReturned` of status `forbidden` each, without a call, in one
    /// run. A reference is the operator's own text; it stands in the record as it is.
    ///
    /// # Errors
    /// [`StoreError`]: none of them was stored.
    pub async fn record_forbidden_at_load<'a>(
        &self,
        tenant: &TenantId,
        agent: &AgentId,
        references: impl IntoIterator<Item = &'a str>,
    ) -> Result<RunId, StoreError> {
        self.inner.record.forbidden_at_load(tenant, agent, references.into_iter().collect()).await
    }

    /// What is to be said about the tools of upstreams as those describe them, quarantined ones
    /// included, of one kind of source or of all.
    pub fn upstream_findings(&self, kind: Option<SourceKind>) -> Vec<Finding> {
        self.inner.refresher.findings(kind)
    }

    /// The pins of the tools that `tenant` may know of; `None` when this gateway keeps none.
    ///
    /// # Errors
    /// [`StoreError`].
    pub async fn pins(&self, tenant: &TenantId) -> Result<Option<Vec<PinReport>>, StoreError> {
        let config = self.config();
        let desk = self.refresher().desk(&config, tenant);
        match desk {
            Some(desk) => desk.list().await.map(Some),
            None => Ok(None),
        }
    }

    /// The pin of one tool that `tenant` may know of, by id or wire name, with its documents.
    ///
    /// # Errors
    /// [`StoreError`].
    pub async fn pin(
        &self,
        tenant: &TenantId,
        tool: &str,
    ) -> Result<Option<PinReport>, StoreError> {
        let config = self.config();
        match self.refresher().desk(&config, tenant) {
            Some(desk) => desk.show(tool).await,
            None => Ok(None),
        }
    }

    /// Approves the forms of tools with these digests for `principal`, all or none; they are offered
    /// when this returns.
    ///
    /// # Errors
    /// [`PinError`]: nothing was approved.
    pub async fn approve_pins(
        &self,
        principal: &Principal,
        wanted: &[(String, Digest)],
    ) -> Result<Vec<ApprovedPin>, PinError> {
        let config = self.config();
        let desk = self.refresher().desk(&config, &principal.tenant);
        let Some(desk) = desk else { return Err(PinError::Unknown(0)) };
        let now = self.inner.clock.now();
        let (approved, events) = desk.approve(wanted, Some(&principal.id), now).await?;
        self.inner.record.append_with_retry(events).await;
        self.refresher().repin(self).await;
        Ok(approved)
    }

    /// Fills every rate-limit bucket of `tenant`, and those of its refusals. For tests of a running
    /// server.
    ///
    /// # Errors
    /// [`StoreError`]: the limiter is not available.
    pub async fn reset_limits(&self, tenant: &TenantId) -> Result<(), StoreError> {
        self.inner.record.reset_refusals(tenant);
        self.inner.limiter.reset(tenant).await
    }

    /// Ends every source in order. Calls in flight fail, and what is to be recorded of them is
    /// recorded before this returns, the end of every tool session included; new calls are refused.
    pub async fn close(&self) {
        self.inner.ended.cancel();
        self.inner.authenticator.stop().await;
        let closing = self.inner.refresher.sources();
        futures_util::future::join_all(closing.iter().map(|source| source.close())).await;
        self.inner.interactions.close_all().await;
        self.inner.running.close();
        if tokio::time::timeout(CLOSING_TIME, self.inner.running.wait()).await.is_err() {
            tracing::warn!("some calls did not end; the next start closes them in the record");
        }
        if let Err(error) = self.inner.quotas.settle().await {
            tracing::warn!(%error, "the last counts of quotas could not be stored");
        }
        self.inner.record.flush().await;
    }

    /// What is known of runs of workflows, the newest first.
    ///
    /// # Errors
    /// [`StoreError`].
    pub async fn workflow_runs(&self, query: RunQuery) -> Result<Vec<RunRecord>, StoreError> {
        match &self.inner.run_store {
            Some(store) => store.list(query).await,
            None => Ok(Vec::new()),
        }
    }

    /// Asks for the end of the workflows that run in `run` of `tenant`, in whichever process; how many
    /// there are.
    ///
    /// # Errors
    /// [`StoreError`].
    pub async fn cancel_run(&self, tenant: &TenantId, run: &RunId) -> Result<usize, StoreError> {
        let here = self.inner.runs.cancel(tenant, run);
        match &self.inner.run_store {
            Some(store) => Ok(store.request_cancellation(tenant, run).await?.max(here)),
            None => Ok(here),
        }
    }

    pub(crate) fn runs(&self) -> &Arc<LiveRuns> {
        &self.inner.runs
    }

    pub(crate) fn run_store(&self) -> Option<&Arc<dyn RunStore>> {
        self.inner.run_store.as_ref()
    }

    /// This gateway, for those that it holds itself.
    pub(crate) fn downgrade(&self) -> WeakGateway {
        WeakGateway(Arc::downgrade(&self.inner))
    }

    pub(crate) fn idempotency_store(&self) -> Option<&dyn IdempotencyStore> {
        self.inner.once.as_deref()
    }

    pub(crate) fn quotas(&self) -> &Arc<Quotas> {
        &self.inner.quotas
    }

    pub(crate) fn approval_gate(&self) -> &Approvals {
        &self.inner.approvals
    }

    pub(crate) fn running(&self) -> &TaskTracker {
        &self.inner.running
    }

    pub(crate) fn interactions(&self) -> &Interactions {
        &self.inner.interactions
    }

    /// Cancelled when the gateway closes.
    pub(crate) fn ended(&self) -> &CancellationToken {
        &self.inner.ended
    }

    /// The background tasks of this gateway and of what it was built with.
    pub fn tasks(&self) -> &Tasks {
        &self.inner.tasks
    }

    pub(crate) fn limiter(&self) -> &dyn RateLimiter {
        &*self.inner.limiter
    }

    pub(crate) fn record(&self) -> &Record {
        &self.inner.record
    }

    pub(crate) fn idempotency(&self) -> &Idempotency {
        &self.inner.idempotency
    }

    pub(crate) fn refresher(&self) -> &Refresher {
        &self.inner.refresher
    }

    /// Builds a snapshot of what the sources offer now and makes it the current one.
    pub(crate) fn publish(&self) {
        // Held while building so that two publications cannot end in the wrong order.
        let slots: &Mutex<Slots> = self.inner.refresher.slots();
        let mut slots = slots.lock();
        let snapshot = slots.build(&self.inner.authorizer);
        let generation = snapshot.catalog.generation();
        self.inner.metrics.generation(generation.0);
        self.inner.metrics.quarantined(slots.quarantined());
        self.inner.snapshot.store(Arc::new(snapshot));
        self.inner.refresher.announce(generation);
    }
}
