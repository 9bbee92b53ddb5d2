//! The metrics of calls, by tool, source, tenant, surface and result.
//!
//! Invariant: labels are closed sets, ids of configured sources and of tools that they offer, and
//! tenants of keys or of the configuration. Text of a caller or an upstream in a call never becomes
//! a label.
//!
//! Invariant: the number of series is bounded. At most [`MAX_SERIES`] have the label of a tool or a
//! tenant; the others are one for each source, surface and result.

use std::{
    collections::HashSet,
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use arc_swap::ArcSwap;
use parking_lot::Mutex;
use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, exemplar::HistogramWithExemplars, family::Family, gauge::Gauge},
    registry::Registry,
};
use toolcrib_config::{Config, LabelValues, MetricsConfig};
use toolcrib_core::{
    call::CallError,
    catalog::Entry,
    id::{RunId, SourceId, TenantId, ToolId},
    principal::{AuthMethod, Principal},
};

use super::{
    handles::Handles,
    labels::{SourceLabels, Surface},
    table::add,
    times::{Summary, Times},
};

/// The most series of `calls` with the label of a tool or a tenant. Further combinations of the two are
/// counted as `other` of their source.
pub const MAX_SERIES: usize = 10_000;

/// The common label of the tools without a separate label.
const OTHER: &str = "other";
/// The common label of the tenants without a separate label. Tenant names have no spaces.
const OTHER_TENANTS: &str = "other tenants";
/// The label of the tool and the source of a call without a tool that its caller may use.
const NONE: &str = "none";

/// The bounds of the run time in seconds: from a local echo to the longest reasonable tool.
const BOUNDS: [f64; 18] = [
    0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0,
    60.0, 300.0, 900.0,
];
/// How often a source gets an exemplar, in nanoseconds. Each costs two allocations.
const EXEMPLAR_PAUSE: u64 = 1_000_000_000;
/// A run time from which every call gets an exemplar.
const SLOW: Duration = Duration::from_millis(250);

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct CallLabels {
    surface: Surface,
    source: String,
    tool: String,
    tenant: String,
    result: &'static str,
}

/// The labels of an exemplar: the id of the call.
type ExemplarLabels = [(&'static str, String); 1];

/// One completed call.
pub(crate) struct FinishedCall<'a> {
    pub(crate) surface: Surface,
    pub(crate) principal: &'a Principal,
    /// The tool, if its caller may know of it.
    pub(crate) entry: Option<&'a Entry>,
    /// Whether the result is an error of the tool.
    pub(crate) result: Result<bool, &'a CallError>,
    /// How long the tool ran.
    pub(crate) ran: Option<Duration>,
    pub(crate) run: &'a RunId,
    /// The monotonic time of its end.
    pub(crate) now: u64,
}

pub(super) struct CallMetrics {
    calls: Family<CallLabels, Counter>,
    seconds: Family<SourceLabels, HistogramWithExemplars<ExemplarLabels>>,
    running: Family<SourceLabels, Gauge>,
    rules: ArcSwap<LabelRules>,
    /// The tools with a separate label.
    tools: Handles<ToolId, Arc<ToolSeries>>,
    /// The tenants with a separate label.
    tenants: Handles<TenantId, ()>,
    sources: Handles<SourceId, Arc<SourceSeries>>,
    /// Calls without a tool.
    none: ToolSeries,
    /// The series with the label of a tool or a tenant.
    labelled: AtomicUsize,
    /// Held while a labelled series, tool or tenant is added, to respect the bounds.
    adding: Mutex<()>,
}

struct LabelRules {
    config: MetricsConfig,
    /// The tenants in the configuration. Among tenants of tokens, only these can become a label,
    /// because an issuer may name any tenant.
    tenants: HashSet<TenantId>,
}

pub(super) struct SourceSeries {
    pub(super) running: Gauge,
    seconds: HistogramWithExemplars<ExemplarLabels>,
    /// The same values, because those of the library cannot be read.
    times: Times,
    last_exemplar: AtomicU64,
    /// The tools without a separate label.
    other: ToolSeries,
}

/// The series of one tool, or of several.
struct ToolSeries {
    source: String,
    tool: String,
    counters: Handles<SeriesKey, Counter>,
}

/// Tenant (`None` for those without a label), surface and result.
type SeriesKey = (Option<TenantId>, Surface, &'static str);

// === impl CallMetrics ===

impl CallMetrics {
    pub(super) fn new(all: &mut Registry) -> Self {
        let seconds = Family::new_with_constructor(run_times as fn() -> _);
        Self {
            calls: add(all, "calls", Family::default()),
            seconds: add(all, "call_seconds", seconds),
            running: add(all, "source_calls_running", Family::default()),
            rules: ArcSwap::from_pointee(LabelRules {
                config: MetricsConfig {
                    tools: LabelValues::First(0),
                    tenants: LabelValues::First(0),
                },
                tenants: HashSet::new(),
            }),
            tools: Handles::default(),
            tenants: Handles::default(),
            sources: Handles::default(),
            none: ToolSeries::new(NONE, NONE),
            labelled: AtomicUsize::new(0),
            adding: Mutex::default(),
        }
    }

    /// Applies the labels of `config`. Changed rules reset all series.
    pub(super) fn configure(&self, config: &Config) {
        let rules = LabelRules { config: config.metrics.clone(), tenants: named_tenants(config) };
        let _adding = self.adding.lock();
        let before = self.rules.swap(Arc::new(rules));
        if before.config != config.metrics {
            self.tools.retain(|_, _| false);
            self.tenants.retain(|_, _| false);
            self.sources.retain(|_, _| false);
            self.none.counters.retain(|_, _| false);
            self.labelled.store(0, Ordering::Relaxed);
            self.calls.clear();
        }
    }

    /// Frees the places of tools that do not exist, if the table is full.
    pub(super) fn retain_tools(&self, exists: impl Fn(&ToolId) -> bool) {
        let LabelValues::First(most) = self.rules.load().config.tools else { return };
        if most == 0 || self.tools.len() < most {
            return;
        }
        let _adding = self.adding.lock();
        for (_, series) in self.tools.retain(|id, _| exists(id)) {
            self.remove(&series);
        }
    }

    /// Removes the series of `source`, after it left the configuration.
    pub(super) fn remove_source(&self, source: &SourceId) {
        let _adding = self.adding.lock();
        for (_, series) in self.tools.retain(|_, tool| tool.source != source.as_str()) {
            self.remove(&series);
        }
        for (_, series) in self.sources.retain(|id, _| id != source) {
            self.remove(&series.other);
        }
        let labels = SourceLabels::of(source);
        self.seconds.remove(&labels);
        self.running.remove(&labels);
    }

    /// Adds the series of `tenant` to `all`.
    pub(super) fn encode_tenant(&self, tenant: &TenantId, all: &mut Registry) {
        let own: Family<CallLabels, Counter> = add(all, "calls", Family::default());
        let add = |series: &ToolSeries| {
            for ((of, surface, result), counter) in series.counters.entries() {
                if of.as_ref() == Some(tenant) {
                    let labels = series.labels(of.as_ref(), surface, result);
                    own.get_or_create(&labels).inc_by(counter.get());
                }
            }
        };
        self.tools.entries().iter().for_each(|(_, series)| add(series));
        self.sources.entries().iter().for_each(|(_, series)| add(&series.other));
        add(&self.none);
    }

    fn remove(&self, series: &ToolSeries) {
        for ((tenant, surface, result), _) in series.counters.entries() {
            self.calls.remove(&series.labels(tenant.as_ref(), surface, result));
            let is_labelled = tenant.is_some() || series.tool != OTHER;
            self.labelled.fetch_sub(usize::from(is_labelled), Ordering::Relaxed);
        }
    }

    pub(super) fn source(&self, source: &SourceId) -> Arc<SourceSeries> {
        self.sources.get_or_insert(source, || {
            let labels = SourceLabels::of(source);
            Arc::new(SourceSeries {
                running: self.running.get_or_create_owned(&labels),
                seconds: self.seconds.get_or_create_owned(&labels),
                times: Times::default(),
                last_exemplar: AtomicU64::new(0),
                other: ToolSeries::new(source.as_str(), OTHER),
            })
        })
    }

    pub(super) fn finished(&self, call: &FinishedCall<'_>) {
        let result = match call.result {
            Ok(false) => "ok",
            Ok(true) => "tool_error",
            Err(error) => error.code(),
        };
        let tenant = self.tenant(call.principal);
        let Some(entry) = call.entry else {
            return self.count(&self.none, &self.none, tenant, call.surface, result);
        };
        let source = self.source(&entry.source);
        match self.tool(entry) {
            Some(tool) => self.count(&tool, &source.other, tenant, call.surface, result),
            None => self.count(&source.other, &source.other, tenant, call.surface, result),
        }
        if let Some(ran) = call.ran {
            source.observe(ran, call.run, call.now);
        }
    }

    /// Counts a call in `series`; if the table is full, in `other`.
    fn count(
        &self,
        series: &ToolSeries,
        other: &ToolSeries,
        tenant: Option<TenantId>,
        surface: Surface,
        result: &'static str,
    ) {
        let is_labelled = tenant.is_some() || !std::ptr::eq(series, other);
        let key = (tenant, surface, result);
        if let Some(counter) = series.counters.get(&key) {
            counter.inc();
            return;
        }
        if is_labelled && self.labelled.load(Ordering::Relaxed) >= MAX_SERIES {
            return self.count(other, other, None, surface, result);
        }
        let _adding = self.adding.lock();
        let counter = series.counters.get_or_insert(&key, || {
            self.labelled.fetch_add(usize::from(is_labelled), Ordering::Relaxed);
            let labels = series.labels(key.0.as_ref(), surface, result);
            self.calls.get_or_create_owned(&labels)
        });
        counter.inc();
    }

    /// The series of a tool with a separate label.
    fn tool(&self, entry: &Entry) -> Option<Arc<ToolSeries>> {
        if let Some(tool) = self.tools.get(&entry.id) {
            return Some(tool);
        }
        let admitted = match &self.rules.load().config.tools {
            LabelValues::First(most) => self.tools.len() < *most,
            LabelValues::Only(ids) => ids.contains(&entry.id),
        };
        if !admitted {
            return None;
        }
        let _adding = self.adding.lock();
        if self.tools.len() >= self.rules.load().config.tools.limit() {
            return self.tools.get(&entry.id);
        }
        let series = ToolSeries::new(entry.source.as_str(), entry.id.as_str());
        Some(self.tools.insert(entry.id.clone(), Arc::new(series)))
    }

    /// The tenant of `principal`, if it has a separate label.
    fn tenant(&self, principal: &Principal) -> Option<TenantId> {
        let tenant = &principal.tenant;
        if self.tenants.get(tenant).is_some() {
            return Some(tenant.clone());
        }
        let rules = self.rules.load();
        let admitted = match &rules.config.tenants {
            LabelValues::First(most) => {
                let by_token = matches!(principal.auth, AuthMethod::Jwt(_));
                self.tenants.len() < *most && (!by_token || rules.tenants.contains(tenant))
            }
            LabelValues::Only(names) => names.contains(tenant),
        };
        if !admitted {
            return None;
        }
        let _adding = self.adding.lock();
        if self.tenants.len() < rules.config.tenants.limit() {
            self.tenants.insert(tenant.clone(), ());
        }
        self.tenants.get(tenant).is_some().then(|| tenant.clone())
    }
}

fn run_times() -> HistogramWithExemplars<ExemplarLabels> {
    HistogramWithExemplars::new(BOUNDS.into_iter())
}

fn named_tenants(config: &Config) -> HashSet<TenantId> {
    let of_sources = config.sources.iter().flat_map(|source| source.tenants.named());
    let fixed = config.issuers.iter().filter_map(|issuer| issuer.tenant.as_ref());
    let shared = config.otc_jwt.iter().map(|jwt| &jwt.tenant);
    let anonymous = config.anonymous.iter().map(|anonymous| &anonymous.tenant);
    of_sources.chain(fixed).chain(shared).chain(anonymous).cloned().collect()
}

// === impl SourceSeries ===

impl SourceSeries {
    /// Summarizes the calls that ran and their run times.
    pub(super) fn latency(&self) -> Option<Summary> {
        self.times.summary()
    }

    fn observe(&self, ran: Duration, run: &RunId, now: u64) {
        let last = self.last_exemplar.load(Ordering::Relaxed);
        let is_due = ran >= SLOW || last == 0 || now.saturating_sub(last) >= EXEMPLAR_PAUSE;
        let exemplar = is_due.then(|| {
            self.last_exemplar.store(now.max(1), Ordering::Relaxed);
            [("run_id", run.to_string())]
        });
        self.times.observe(ran);
        self.seconds.observe(ran.as_secs_f64(), exemplar, None);
    }
}

// === impl ToolSeries ===

impl ToolSeries {
    fn new(source: &str, tool: &str) -> Self {
        Self { source: source.to_owned(), tool: tool.to_owned(), counters: Handles::default() }
    }

    fn labels(
        &self,
        tenant: Option<&TenantId>,
        surface: Surface,
        result: &'static str,
    ) -> CallLabels {
        CallLabels {
            surface,
            source: self.source.clone(),
            tool: self.tool.clone(),
            tenant: tenant.map_or(OTHER_TENANTS, TenantId::as_str).to_owned(),
            result,
        }
    }
}
