//! The state of every source, and the snapshots built from it.

use std::{collections::BTreeSet, fmt, sync::Arc, time::Duration};

use tokio::runtime::{Handle, RuntimeFlavor};
use toolcrib_config::{GateConfig, SourceConfig, ToolsetConfig, policy_set::PolicySet};
use toolcrib_core::{
    arguments::Validators,
    authorize::Authorizer,
    catalog::{Catalog, Collision, Entry, Generation},
    clock::Timestamp,
    id::{SourceId, TenantId, ToolId},
    names,
    source::{Source, SourceState, SourceStatus, StderrLine},
};

use toolcrib_tasks::Backoff;

use crate::{
    assembly::{
        assemble::{Assembler, Assembly, EntryCache},
        classify::classify,
        listed::OfferList,
        pinned::SourcePins,
    },
    breaker::Breaker,
    metrics::{Limit, Metrics},
    own_lists::CallerLists,
    policy::Decider,
    snapshot::{OtherOffers, Snapshot},
    source_report::{
        CallCounts, RefreshRefusal, SourceError, SourceLoad, SourceReport, StderrRefusal,
    },
    workflow_definition::offer::{Flow, Flows, SnapshotWorkflows, flows, offer},
};

/// The pause after a failed discovery.
const RETRY: Backoff = Backoff::new(Duration::from_secs(2), Duration::from_secs(300));
/// Different limits of one source's tools in a report.
const MAX_RATES: usize = 16;

/// Every source, in the order of the configuration.
pub(crate) struct Slots {
    pub(super) gate: GateConfig,
    pub(super) toolsets: Vec<ToolsetConfig>,
    pub(super) policies: Option<Arc<PolicySet>>,
    pub(super) slots: Vec<Slot>,
    generation: Generation,
    collisions: Vec<Collision>,
    /// The last request for a snapshot that the last snapshot covers.
    pub(super) served: u64,
    /// The compiled schemas of all tools.
    pub(super) validators: Arc<Validators>,
}

/// One source.
pub(super) struct Slot {
    pub(super) config: Arc<SourceConfig>,
    pub(super) source: Arc<dyn Source>,
    breaker: Arc<Breaker>,
    pub(super) listed: Option<Arc<OfferList>>,
    pub(super) discovered_at: Option<Timestamp>,
    /// Whether this server discovers the source; if not, it loads stored catalogs.
    pub(super) leads: bool,
    /// Whether the last catalog still has to be stored.
    pub(super) is_unstored: bool,
    /// Whether a discovery is in progress.
    pub(super) is_discovering: bool,
    /// Whether a discovery was requested since the start of the last one.
    pub(super) is_requested: bool,
    failure: Option<Failure>,
    /// The last failed discovery; a later success keeps it.
    last_error: Option<SourceError>,
    /// When a caller last requested a discovery.
    refreshed_at: Option<Timestamp>,
    entries: Vec<Arc<Entry>>,
    problems: Vec<String>,
    /// The pins of its tools; `None` until they were read.
    pub(super) pins: Option<Arc<SourcePins>>,
    /// Whether its pins must be read or written again.
    pub(super) pins_unfinished: bool,
    quarantined: Vec<Arc<Entry>>,
    pub(super) made: Arc<EntryCache>,
    /// For a source of workflows: the valid ones.
    flows: Vec<Arc<Flow>>,
    /// The number of workflows in the last snapshot, and the problems of the others.
    offered: Vec<Arc<Entry>>,
    left_out: Vec<String>,
}

/// A tool that no snapshot offers.
#[derive(Debug, Default)]
pub(crate) struct ToolLocation {
    /// The tool, if a source has it.
    pub(crate) tool: Option<ToolId>,
    /// That source.
    pub(crate) source: Option<SourceId>,
    /// Whether a rule hides the tool.
    pub(crate) hidden: bool,
    /// The problems that mention the tool.
    pub(crate) problems: Vec<String>,
    /// Sources that have not listed their tools, and so may have the tool.
    pub(crate) silent: Vec<SourceId>,
}

/// The entries of a source under the rules of its configuration.
pub(super) struct SourceOffers {
    pub(super) assembled: Assembly,
    pub(super) flows: Vec<Arc<Flow>>,
}

/// Discoveries that failed since the last good one.
struct Failure {
    times: u32,
    /// When the first and the last of them failed.
    since: Timestamp,
    at: Timestamp,
    why: String,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { times, why, .. } = self;
        write!(f, "its tools could not be listed, {times} times in a row: {why}")
    }
}

// === impl Slots ===

impl Slots {
    pub(super) fn new(gate: GateConfig) -> Self {
        Self {
            gate,
            toolsets: Vec::new(),
            policies: None,
            slots: Vec::new(),
            generation: Generation(0),
            collisions: Vec::new(),
            served: 0,
            validators: Arc::default(),
        }
    }

    /// Builds a snapshot of the current state, in a new generation, without lists of accounts.
    pub(crate) fn build(&mut self, base: &Arc<dyn Authorizer>) -> Snapshot {
        self.generation = Generation(self.generation.0 + 1);
        let (mut entries, others): (Vec<_>, Vec<_>) = self
            .slots
            .iter()
            .flat_map(|slot| slot.entries.iter().map(Arc::clone))
            .partition(|entry: &Arc<Entry>| entry.offer.is_tool());
        let mut workflows = SnapshotWorkflows::default();
        if self.slots.iter().any(|slot| !slot.flows.is_empty()) {
            // Workflows are offered only if the tools of their steps are.
            let (catalog, _) = Catalog::build(self.generation, entries.clone());
            let (more, runnable) = self.offer(&catalog);
            entries.extend(more);
            workflows = runnable;
        }
        let (catalog, mut collisions) = Catalog::build(self.generation, entries);
        let (others, more) = OtherOffers::build(self.generation, others);
        collisions.extend(more);
        for collision in &collisions {
            tracing::error!(%collision, "offers are left out");
        }
        self.collisions = collisions;
        let entries = || catalog.entries().iter().map(|entry| &**entry);
        let toolsets: Vec<_> =
            self.toolsets.iter().map(|toolset| toolset.resolve(entries())).collect();
        let catalog = catalog.with_toolsets(toolsets).with_runner(off_the_thread);
        let sources = self
            .slots
            .iter()
            .map(|slot| (slot.config.spec.id.clone(), Arc::clone(&slot.source)))
            .collect();
        let breaker = |slot: &Slot| (slot.config.spec.id.clone(), Arc::clone(&slot.breaker));
        let breakers = self.slots.iter().map(breaker).collect();
        let quarantined = self.slots.iter().flat_map(|slot| slot.quarantined.iter().cloned());
        let quarantined = quarantined.filter(|entry| entry.offer.is_tool());
        let (quarantined, _) = Catalog::build(self.generation, quarantined.collect());
        let decider = Decider { base: Arc::clone(base), policies: self.policies.clone() };
        Snapshot {
            catalog,
            others,
            sources,
            gate: self.gate.clone(),
            quarantined,
            decider,
            own: CallerLists::default(),
            workflows,
            breakers,
        }
    }

    fn offer(&mut self, catalog: &Catalog) -> (Vec<Arc<Entry>>, SnapshotWorkflows) {
        let flows = self.slots.iter().filter(|slot| !slot.flows.is_empty());
        let flows: Vec<_> =
            flows.map(|slot| Flows { config: &slot.config, flows: &slot.flows }).collect();
        let mut offered = offer(&flows, &self.gate, &self.validators, catalog);
        // While sources start, missing tools may appear at any moment.
        let settled = self.are_settled();
        for slot in &mut self.slots {
            let id = &slot.config.spec.id;
            let problems = offered.problems.remove(id).unwrap_or_default();
            for problem in
                problems.iter().filter(|problem| settled && !slot.left_out.contains(problem))
            {
                tracing::warn!(source = %id, problem, "a source has a problem");
            }
            slot.left_out = problems;
            let own = offered.entries.iter().filter(|entry| entry.source == *id);
            slot.offered = own.cloned().collect();
        }
        (offered.entries, SnapshotWorkflows(offered.runnable))
    }

    pub(super) fn find(&mut self, id: &SourceId) -> Option<&mut Slot> {
        self.slots.iter_mut().find(|slot| slot.config.spec.id == *id)
    }

    /// Whether `source` already runs with exactly this description.
    pub(super) fn runs(&self, source: &SourceConfig) -> bool {
        self.slots.iter().any(|slot| slot.config.spec == source.spec)
    }

    /// Rebuilds the entries of some sources.
    pub(super) fn reassemble(&mut self, ids: &[SourceId]) {
        let Self { gate, validators, slots, .. } = self;
        let some = slots.iter_mut().filter(|slot| ids.contains(&slot.config.spec.id));
        some.for_each(|slot| slot.reassemble(gate, validators));
    }

    pub(super) fn reassemble_all(&mut self) {
        let Self { gate, validators, slots, .. } = self;
        slots.iter_mut().for_each(|slot| slot.reassemble(gate, validators));
    }

    /// Sources whose discovery is due.
    pub(super) fn due(&self, now: Timestamp) -> Vec<SourceId> {
        let due = self.slots.iter().filter(|slot| slot.is_due(now));
        due.map(|slot| slot.config.spec.id.clone()).collect()
    }

    /// Whether every source has listed its tools or has failed to.
    pub(super) fn are_settled(&self) -> bool {
        self.slots.iter().all(|slot| match slot.source.status() {
            status if status.state == SourceState::Ready => {
                slot.discovered_at.is_some() || slot.failure.is_some()
            }
            status if status.state == SourceState::Starting => status.detail.is_some(),
            _degraded_or_stopped => true,
        })
    }

    /// Whether the parts that are not offered are counted for every connected upstream.
    pub(super) fn are_counted(&self) -> bool {
        let mut ready = self.slots.iter().filter(|slot| slot.source.status().state.is_ready());
        ready.all(|slot| slot.source.not_offered().is_some())
    }

    /// Finds a tool that no snapshot offers. Reads every tool of every source.
    pub(super) fn locate(&self, name: &str) -> ToolLocation {
        for slot in &self.slots {
            let config = &slot.config;
            let source = &config.spec.id;
            for tool in slot.listed.iter().flat_map(|listed| &listed.offers) {
                let id = names::offer_id(tool.kind, config.kind, source, &tool.name);
                let Ok(id) = id else { continue };
                let wire = names::names(source, &tool.name, None).styled(config.names, &tool.name);
                if id.as_str() != name && wire.wire != name && wire.otc != name {
                    continue;
                }
                let hidden = classify(config, &tool.name).hide == Some(true);
                let about = |problem: &&String| {
                    problem.contains(id.as_str()) || problem.contains(&format!("{:?}", tool.name))
                };
                let collisions: Vec<_> = self.collisions.iter().map(ToString::to_string).collect();
                let problems = slot.problems.iter().chain(&slot.left_out).chain(&collisions);
                return ToolLocation {
                    source: Some(source.clone()),
                    hidden,
                    problems: problems.filter(about).cloned().collect(),
                    tool: Some(id),
                    silent: Vec::new(),
                };
            }
        }
        let silent = self.slots.iter().filter(|slot| slot.discovered_at.is_none());
        ToolLocation {
            silent: silent.map(|slot| slot.config.spec.id.clone()).collect(),
            ..ToolLocation::default()
        }
    }

    /// Notes that a caller of `tenant` requests a discovery of the source `id`.
    pub(super) fn request_refresh(
        &mut self,
        tenant: &TenantId,
        id: &str,
        now: Timestamp,
        pause: Duration,
    ) -> Result<SourceId, RefreshRefusal> {
        let known = |slot: &&mut Slot| {
            slot.config.spec.id.as_str() == id && slot.config.tenants.admits(tenant)
        };
        let slot = self.slots.iter_mut().find(known).ok_or(RefreshRefusal::Unknown)?;
        // A clock set back must not cause an endless pause.
        let since = slot.refreshed_at.and_then(|at| (now - at).to_std().ok());
        if let Some(left) = since.and_then(|since| pause.checked_sub(since))
            && !left.is_zero()
        {
            return Err(RefreshRefusal::TooSoon(left));
        }
        slot.refreshed_at = Some(now);
        Ok(slot.config.spec.id.clone())
    }

    /// How many tools of each source are quarantined.
    pub(crate) fn quarantined(&self) -> impl Iterator<Item = (&SourceId, usize)> {
        self.slots.iter().map(|slot| (&slot.config.spec.id, slot.quarantined.len()))
    }

    /// The stderr lines of children of the source `id`, for the operator or for `tenant`.
    pub(super) fn stderr(
        &self,
        tenant: Option<&TenantId>,
        id: &str,
    ) -> Result<Vec<StderrLine>, StderrRefusal> {
        let known = |slot: &&Slot| {
            slot.config.spec.id.as_str() == id
                && tenant.is_none_or(|tenant| slot.config.tenants.admits(tenant))
        };
        let slot = self.slots.iter().find(known).ok_or(StderrRefusal::Unknown)?;
        // Lines first: the caller behind a line is then already counted.
        let lines = slot.source.stderr();
        match tenant {
            Some(tenant) if !slot.is_open_to(tenant) => Err(StderrRefusal::Unknown),
            // Lines may contain the arguments of any call.
            Some(tenant) if slot.breaker.serves_others(tenant) => Err(StderrRefusal::Shared),
            Some(_) | None => Ok(lines),
        }
    }

    /// The state of all sources, or of a tenant's sources as far as the tenant may know.
    pub(super) fn reports(
        &self,
        tenant: Option<&TenantId>,
        metrics: &Metrics,
    ) -> Vec<SourceReport> {
        let known = |slot: &&Slot| tenant.is_none_or(|tenant| slot.config.tenants.admits(tenant));
        let slots = self.slots.iter().filter(known);
        let is_open = |slot: &Slot| {
            tenant
                .is_none_or(|tenant| slot.config.tenants.admits(tenant) && slot.is_open_to(tenant))
        };
        let all_open = self.slots.iter().all(is_open);
        slots.map(|slot| slot.report(tenant, all_open, &self.collisions, metrics)).collect()
    }
}

/// Runs `work`; first moves other tasks of a worker thread to another thread.
fn off_the_thread(work: &mut dyn FnMut()) {
    let is_worker = Handle::try_current()
        .is_ok_and(|runtime| runtime.runtime_flavor() == RuntimeFlavor::MultiThread);
    match is_worker {
        true => tokio::task::block_in_place(work),
        // The only thread of its runtime.
        false => work(),
    }
}

// === impl SourceOffers ===

impl SourceOffers {
    pub(super) fn new(
        assembler: &Assembler<'_>,
        listed: &OfferList,
        pins: Option<&SourcePins>,
        before: &EntryCache,
    ) -> Self {
        let source = assembler.source;
        if !source.kind.traits().is_in_gateway {
            let assembled = assembler.assemble(listed, pins, before);
            return Self { assembled, flows: Vec::new() };
        }
        let (flows, problems) = flows(source, listed);
        Self { assembled: Assembly { problems, ..Assembly::default() }, flows }
    }
}

// === impl Slot ===

impl Slot {
    pub(super) fn new(
        config: Arc<SourceConfig>,
        source: Arc<dyn Source>,
        breaker: Arc<Breaker>,
        known: Option<Arc<OfferList>>,
    ) -> Self {
        Self {
            config,
            source,
            breaker,
            listed: known,
            discovered_at: None,
            leads: false,
            is_unstored: false,
            is_discovering: false,
            is_requested: false,
            failure: None,
            last_error: None,
            refreshed_at: None,
            entries: Vec::new(),
            problems: Vec::new(),
            pins: None,
            pins_unfinished: false,
            quarantined: Vec::new(),
            made: Arc::default(),
            flows: Vec::new(),
            offered: Vec::new(),
            left_out: Vec::new(),
        }
    }

    /// Sets another description of the same source.
    pub(super) fn configure(&mut self, config: Arc<SourceConfig>) {
        self.breaker.configure(config.breaker);
        self.config = config;
    }

    pub(super) fn reassemble(&mut self, gate: &GateConfig, validators: &Arc<Validators>) {
        if let Some(listed) = &self.listed {
            let assembler = Assembler::new(&self.config, gate, validators);
            let offered = SourceOffers::new(&assembler, listed, self.pins.as_deref(), &self.made);
            self.put(offered);
        }
    }

    /// Sets pins, unless the current ones are newer. Returns whether they differ.
    pub(super) fn pin(&mut self, pins: Option<Arc<SourcePins>>, unfinished: bool) -> bool {
        self.pins_unfinished = unfinished;
        // A failed read keeps the earlier pins. Calls wait for a confirmation (I-110).
        let Some(pins) = pins else { return false };
        match &self.pins {
            Some(held) if held.book.epoch >= pins.book.epoch => false,
            held => {
                let news = held.as_ref().is_none_or(|held| held.book.tools != pins.book.tools);
                self.pins = Some(pins);
                news
            }
        }
    }

    pub(super) fn put(&mut self, SourceOffers { assembled, flows }: SourceOffers) {
        let Assembly { entries, problems, quarantined, made } = assembled;
        for problem in &problems {
            tracing::warn!(source = %self.config.spec.id, problem, "a source has a problem");
        }
        self.entries = entries;
        self.problems = problems;
        self.quarantined = quarantined;
        self.made = Arc::new(made);
        self.flows = flows;
    }

    pub(super) fn succeeded(&mut self, at: Timestamp) {
        self.discovered_at = Some(at);
        self.failure = None;
    }

    pub(super) fn failed(&mut self, at: Timestamp, why: String) {
        let (times, since) = match &self.failure {
            Some(failure) => (failure.times.saturating_add(1), failure.since),
            None => (1, at),
        };
        self.last_error = Some(SourceError { at, message: why.clone() });
        self.failure = Some(Failure { times, since, at, why });
    }

    fn is_due(&self, now: Timestamp) -> bool {
        let past = |since: Timestamp, pause: Duration| {
            (now - since).to_std().is_ok_and(|elapsed| elapsed >= pause)
        };
        match (&self.failure, self.discovered_at) {
            // A disconnected source announces when it is connected again.
            (Some(failure), _) => {
                self.source.status().state == SourceState::Ready
                    && past(failure.at, RETRY.after(failure.times.into()))
            }
            (None, Some(at)) => past(at, self.config.refresh),
            (None, None) => false,
        }
    }

    /// Whether `tenant` may see everything of the source.
    fn is_open_to(&self, tenant: &TenantId) -> bool {
        let mut rules = self.config.rules.iter().filter_map(|rule| rule.set.tenants.as_ref());
        rules.all(|tenants| tenants.admits(tenant))
    }

    /// Whether the source is connected and its tools could be listed.
    pub(super) fn connection(&self) -> (SourceId, bool) {
        let is_up = self.source.status().state.is_ready() && self.failure.is_none();
        (self.config.spec.id.clone(), is_up)
    }

    /// The state of the source. It is not ready while its tools cannot be listed.
    fn status(&self) -> SourceStatus {
        let status = self.source.status();
        match &self.failure {
            Some(failure) if status.state.is_ready() => SourceStatus {
                state: SourceState::Degraded,
                detail: Some(failure.to_string()),
                since: failure.since,
                ..status
            },
            Some(_) | None => status,
        }
    }

    fn report(
        &self,
        tenant: Option<&TenantId>,
        all_open: bool,
        collisions: &[Collision],
        metrics: &Metrics,
    ) -> SourceReport {
        let known = |entry: &&Arc<Entry>| tenant.is_none_or(|tenant| entry.tenants.admits(tenant));
        // Problems name tools; those of a workflow name the tools of its steps, from any source.
        let all_open = all_open || !self.config.kind.traits().is_in_gateway;
        let open = tenant.is_none_or(|tenant| all_open && self.is_open_to(tenant));
        let rate = |entry: &Arc<Entry>| match entry.rate {
            Some(rate) => rate.to_string(),
            None => "off".to_owned(),
        };
        let rates: BTreeSet<_> = self.entries.iter().filter(known).map(rate).collect();
        let failure = self.failure.iter().map(Failure::to_string);
        // A tenant only sees collisions among its own tools.
        let concerns = |collision: &&Collision| {
            tenant.is_none_or(|tenant| collision.tenants.admits(tenant))
                && self.entries.iter().any(|entry| collision.tools.contains(&entry.id))
        };
        let collisions = collisions.iter().filter(concerns).map(|collision| match tenant {
            None => collision.to_string(),
            Some(_) => collision.message(),
        });
        let id = &self.config.spec.id;
        // The numbers include the calls of others.
        let counted = tenant.is_none_or(|tenant| !self.breaker.serves_others(tenant));
        let breaker = self.breaker.report();
        let calls = counted.then(|| CallCounts {
            running: metrics.running(id),
            refused_by_rate: metrics.refusals(id, Limit::Rate),
            refused_by_quota: metrics.refusals(id, Limit::Quota),
            refused_by_breaker: metrics.refusals(id, Limit::Breaker),
        });
        let named = self.problems.iter().chain(&self.left_out).cloned().chain(collisions);
        let problems: Vec<String> = failure.chain(named.filter(|_| open)).collect();
        let (status, task_failures) = (self.status(), metrics.task_failures(id));
        let quarantined = self.quarantined.iter().filter(known).count();
        let is_down = matches!(status.state, SourceState::Degraded | SourceState::Stopped);
        SourceReport {
            needs_attention: is_down
                || !problems.is_empty()
                || quarantined > 0
                || task_failures > 0,
            id: id.clone(),
            kind: self.config.kind,
            tenants: self.config.tenants.clone(),
            status,
            tools: self.entries.iter().chain(&self.offered).filter(known).count(),
            quarantined,
            load: SourceLoad {
                calls,
                max_concurrency: self.config.spec.limits.max_concurrency,
                rates: rates.into_iter().take(MAX_RATES).collect(),
            },
            task_failures,
            breaker: if counted { breaker } else { breaker.without_callers() },
            discovered_at: self.discovered_at,
            last_error: self.last_error.clone(),
            latency: counted.then(|| metrics.latency(id)).flatten(),
            problems,
            notes: self
                .listed
                .iter()
                .filter(|_| open)
                .flat_map(|listed| listed.notes.clone())
                .collect(),
            not_offered: self.source.not_offered().filter(|omitted| open && !omitted.is_empty()),
        }
    }
}
