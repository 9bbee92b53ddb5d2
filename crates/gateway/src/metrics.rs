//! Numbers for operators. Labels are closed sets or the operator's own words (source ids); nothing
//! that a caller or an upstream can choose becomes a label.

use std::{collections::BTreeMap, fmt, time::Duration};

use prometheus_client::{
    encoding::{EncodeLabelSet, EncodeLabelValue, text},
    metrics::{
        TypedMetric,
        counter::Counter,
        family::Family,
        gauge::Gauge,
        histogram::{Histogram, exponential_buckets},
    },
    registry::{Metric, Registry},
};
use toolcrib_core::{call::CallError, id::SourceId};
use toolcrib_tasks::{TaskState, Tasks, panics};

use crate::pipeline::breaker::BreakerState;

const PREFIX: &str = "toolcrib";

/// The surface a request came in by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, EncodeLabelValue)]
#[expect(missing_docs, reason = "the names say it")]
pub enum Surface {
    OpenWop,
    Otc,
    Oxp,
    Explorer,
    Mcp,
    Cli,
    Ops,
    Workflow,
}

impl Surface {
    /// Its name, for policies.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::OpenWop => "openwop",
            Self::Otc => "otc",
            Self::Oxp => "oxp",
            Self::Explorer => "explorer",
            Self::Mcp => "mcp",
            Self::Cli => "cli",
            Self::Ops => "ops",
            Self::Workflow => "workflow",
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct CallLabels {
    surface: Surface,
    result: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RequestLabels {
    surface: Surface,
    status: u16,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct TaskLabels {
    task: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct SourceLabels {
    source: String,
}

/// What kept a call from its tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Limit {
    Rate,
    Quota,
    Breaker,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct LimitLabels {
    source: String,
    limit: &'static str,
}

/// A call that runs, for as long as this is there.
pub(crate) struct RunningCall(Gauge);

impl Drop for RunningCall {
    fn drop(&mut self) {
        self.0.dec();
    }
}

/// Name, labels and meaning of every metric, in the order of the reference.
const DESCRIPTIONS: [(&str, &str, &str); 29] = [
    ("calls", "surface, result", "Calls by surface and result"),
    ("call_seconds", "", "Time tools ran"),
    ("http_requests", "surface, status", "Requests by surface and status"),
    ("source_tools", "source", "Tools offered by a source"),
    (
        "source_tools_quarantined",
        "source",
        "Tools of a source that are left out because nobody has approved them as they are",
    ),
    ("source_tool_drifts", "source", "Forms of tools that were seen and that nobody had approved"),
    (
        "source_calls_running",
        "source",
        "Calls of a source that run, those that wait for their turn included",
    ),
    (
        "source_calls_refused",
        "source, limit",
        "Calls of a source that a rate, a quota or an open breaker kept from their tool",
    ),
    ("source_breaker_state", "source", "Breaker of a source: 0 closed, 1 half-open, 2 open"),
    ("source_breaker_opened", "source", "How often the breaker of a source opened"),
    ("source_discoveries", "source", "Successful discoveries of a source"),
    ("source_discovery_failures", "source", "Failed discoveries of a source"),
    (
        "events_unrecorded",
        "",
        "Closing or denial events that could not be stored, or were left out to save disk space",
    ),
    ("store_free_bytes", "", "Free disk space where the store is"),
    (
        "store_low_on_space",
        "",
        "1 while less than keep_free is free and what did not run is not recorded, else 0",
    ),
    (
        "refusals_counted",
        "",
        "Refusals beyond those that are recorded one by one; events tell how many there were",
    ),
    (
        "request_bytes",
        "",
        "Bytes of requests in flight and of their answers, as server.max_body_total counts them",
    ),
    (
        "request_bodies_refused",
        "",
        "Requests that were answered 503 because server.max_body_total had no room for their bodies",
    ),
    ("catalog_generation", "", "Number of the current catalog"),
    ("task_failures", "task", "How often a background task panicked or ended early"),
    ("tasks_down", "task", "Background tasks that failed and do not run at the moment"),
    ("panics", "", "Panics in this process"),
    ("record_checkpoints", "", "Checkpoints that were signed"),
    (
        "record_checkpoints_refused",
        "",
        "Checkpoints that were not signed, because the record does not continue what was signed",
    ),
    ("record_anchor_failures", "", "Attempts in vain to send checkpoints to an anchor"),
    ("record_pruned", "", "Events removed because they were older than is kept"),
    ("record_forwarded", "forwarder", "Events a forwarder delivered"),
    ("record_forward_failures", "forwarder", "Attempts in vain of a forwarder"),
    ("record_forward_lag", "forwarder", "Events that a forwarder has not delivered yet"),
];

/// All metrics of a gateway.
pub struct Metrics {
    registry: Registry,
    tasks: Tasks,
    task_failures: Family<TaskLabels, Counter>,
    tasks_down: Family<TaskLabels, Gauge>,
    panics: Counter,
    calls: Family<CallLabels, Counter>,
    call_seconds: Histogram,
    requests: Family<RequestLabels, Counter>,
    source_tools: Family<SourceLabels, Gauge>,
    source_quarantined: Family<SourceLabels, Gauge>,
    source_drifts: Family<SourceLabels, Counter>,
    source_calls_running: Family<SourceLabels, Gauge>,
    source_calls_refused: Family<LimitLabels, Counter>,
    source_breaker_state: Family<SourceLabels, Gauge>,
    source_breaker_opened: Family<SourceLabels, Counter>,
    source_discoveries: Family<SourceLabels, Counter>,
    source_discovery_failures: Family<SourceLabels, Counter>,
    unrecorded: Counter,
    store_free: Gauge,
    store_low: Gauge,
    refusals_counted: Counter,
    request_bytes: Gauge,
    bodies_refused: Counter,
    generation: Gauge,
    checkpoints: Counter,
    refused_checkpoints: Counter,
    anchor_failures: Counter,
    pruned: Counter,
    forwarded: Family<ForwardLabels, Counter>,
    forward_failures: Family<ForwardLabels, Counter>,
    forward_lag: Family<ForwardLabels, Gauge>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ForwardLabels {
    forwarder: String,
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Metrics").finish_non_exhaustive()
    }
}

impl Metrics {
    /// The metrics of a gateway whose background tasks are on the board `tasks`.
    pub(crate) fn new(tasks: Tasks) -> Self {
        Self::listed(tasks).0
    }

    /// Returns the description of every metric, for the reference. The exposition omits families
    /// without a value.
    pub fn descriptions() -> Vec<MetricDescription> {
        Self::listed(Tasks::new()).1
    }

    fn listed(tasks: Tasks) -> (Self, Vec<MetricDescription>) {
        let mut list = List { registry: Registry::with_prefix(PREFIX), described: Vec::new() };
        let metrics = Self {
            tasks,
            calls: list.add_default("calls"),
            // 0.5 ms to about 16 min: from a local echo to the longest sensible tool.
            call_seconds: list
                .add("call_seconds", Histogram::new(exponential_buckets(0.0005, 2.0, 21))),
            requests: list.add_default("http_requests"),
            source_tools: list.add_default("source_tools"),
            source_quarantined: list.add_default("source_tools_quarantined"),
            source_drifts: list.add_default("source_tool_drifts"),
            source_calls_running: list.add_default("source_calls_running"),
            source_calls_refused: list.add_default("source_calls_refused"),
            source_breaker_state: list.add_default("source_breaker_state"),
            source_breaker_opened: list.add_default("source_breaker_opened"),
            source_discoveries: list.add_default("source_discoveries"),
            source_discovery_failures: list.add_default("source_discovery_failures"),
            unrecorded: list.add_default("events_unrecorded"),
            store_free: list.add_default("store_free_bytes"),
            store_low: list.add_default("store_low_on_space"),
            refusals_counted: list.add_default("refusals_counted"),
            request_bytes: list.add_default("request_bytes"),
            bodies_refused: list.add_default("request_bodies_refused"),
            generation: list.add_default("catalog_generation"),
            task_failures: list.add_default("task_failures"),
            tasks_down: list.add_default("tasks_down"),
            panics: list.add_default("panics"),
            checkpoints: list.add_default("record_checkpoints"),
            refused_checkpoints: list.add_default("record_checkpoints_refused"),
            anchor_failures: list.add_default("record_anchor_failures"),
            pruned: list.add_default("record_pruned"),
            forwarded: list.add_default("record_forwarded"),
            forward_failures: list.add_default("record_forward_failures"),
            forward_lag: list.add_default("record_forward_lag"),
            registry: Registry::default(),
        };
        (Self { registry: list.registry, ..metrics }, list.described)
    }
}

/// The description of a metric.
#[derive(Debug, Clone)]
pub struct MetricDescription {
    /// The name in the exposition, without the suffix of its type.
    pub name: String,
    /// `counter`, `gauge` or `histogram`.
    pub kind: String,
    /// The names of its labels.
    pub labels: &'static str,
    /// Its meaning.
    pub meaning: &'static str,
}

/// Metrics with their descriptions, while they are registered.
struct List {
    registry: Registry,
    described: Vec<MetricDescription>,
}

impl List {
    fn add_default<M: Metric + TypedMetric + Clone + Default>(&mut self, name: &str) -> M {
        self.add(name, M::default())
    }

    fn add<M: Metric + TypedMetric + Clone>(&mut self, name: &str, metric: M) -> M {
        let row = DESCRIPTIONS.into_iter().find(|(described, ..)| *described == name);
        let (_, labels, meaning) = row.unwrap_or_default();
        self.registry.register(name, meaning, metric.clone());
        let (name, kind) = (format!("{PREFIX}_{name}"), M::TYPE.as_str().to_owned());
        self.described.push(MetricDescription { name, kind, labels, meaning });
        metric
    }
}

impl Metrics {
    /// All metrics as OpenMetrics text.
    pub fn encode(&self) -> String {
        self.count_tasks();
        let mut out = String::new();
        match text::encode(&mut out, &self.registry) {
            Ok(()) => out,
            Err(fmt::Error) => String::new(),
        }
    }

    /// Copies the counts from the board of tasks.
    fn count_tasks(&self) {
        let mut kinds: BTreeMap<&'static str, (u64, i64)> = BTreeMap::new();
        for report in self.tasks.reports() {
            let (failures, down) = kinds.entry(report.name.kind).or_default();
            *failures += report.failures;
            *down += i64::from(report.state >= TaskState::Restarting);
        }
        for (task, (failures, down)) in kinds {
            let labels = TaskLabels { task };
            let counter = self.task_failures.get_or_create(&labels);
            counter.inc_by(failures.saturating_sub(counter.get()));
            self.tasks_down.get_or_create(&labels).set(down);
        }
        self.panics.inc_by(panics::count().saturating_sub(self.panics.get()));
    }

    /// How often background tasks of `source` failed.
    pub(crate) fn task_failures(&self, source: &SourceId) -> u64 {
        self.tasks.failures_of(source.as_str())
    }

    /// Counts an answered HTTP request.
    pub fn request(&self, surface: Surface, status: u16) {
        self.requests.get_or_create(&RequestLabels { surface, status }).inc();
    }

    pub(crate) fn call(
        &self,
        surface: Surface,
        result: Result<bool, &CallError>,
        ran: Option<Duration>,
    ) {
        let result = match result {
            Ok(false) => "ok",
            Ok(true) => "tool_error",
            Err(error) => error.code(),
        };
        self.calls.get_or_create(&CallLabels { surface, result }).inc();
        if let Some(ran) = ran {
            self.call_seconds.observe(ran.as_secs_f64());
        }
    }

    pub(crate) fn discovered(&self, source: &SourceId, tools: Result<usize, ()>) {
        let labels = SourceLabels { source: source.to_string() };
        match tools {
            Ok(tools) => {
                let tools = i64::try_from(tools).unwrap_or(i64::MAX);
                self.source_tools.get_or_create(&labels).set(tools);
                self.source_discoveries.get_or_create(&labels).inc();
            }
            Err(()) => {
                self.source_discovery_failures.get_or_create(&labels).inc();
            }
        }
    }

    pub(crate) fn quarantined<'a>(&self, sources: impl Iterator<Item = (&'a SourceId, usize)>) {
        for (source, tools) in sources {
            let labels = SourceLabels { source: source.to_string() };
            let tools = i64::try_from(tools).unwrap_or(i64::MAX);
            self.source_quarantined.get_or_create(&labels).set(tools);
            // There from the start, so that the first one can be seen as a rise.
            drop(self.source_drifts.get_or_create(&labels));
        }
    }

    /// A source is there: what counts its refused calls is, too, so that the first can be seen as a
    /// rise.
    pub(crate) fn begin(&self, source: &SourceId) {
        for limit in [Limit::Rate, Limit::Quota, Limit::Breaker] {
            drop(self.source_calls_refused.get_or_create(&LimitLabels::of(source, limit)));
        }
    }

    /// Counts a call of `source` that runs.
    pub(crate) fn runs(&self, source: &SourceId) -> RunningCall {
        let running = self.source_calls_running.get_or_create(&SourceLabels::of(source)).clone();
        running.inc();
        RunningCall(running)
    }

    pub(crate) fn running(&self, source: &SourceId) -> u64 {
        let running = self.source_calls_running.get_or_create(&SourceLabels::of(source)).get();
        u64::try_from(running).unwrap_or(0)
    }

    pub(crate) fn refused(&self, source: &SourceId, limit: Limit) {
        self.source_calls_refused.get_or_create(&LimitLabels::of(source, limit)).inc();
    }

    pub(crate) fn refusals(&self, source: &SourceId, limit: Limit) -> u64 {
        self.source_calls_refused.get_or_create(&LimitLabels::of(source, limit)).get()
    }

    pub(crate) fn breaker(&self, source: &SourceId, state: BreakerState, opened: bool) {
        let labels = SourceLabels::of(source);
        self.source_breaker_state.get_or_create(&labels).set(state.number());
        // There from the start, so that the first one can be seen as a rise.
        self.source_breaker_opened.get_or_create(&labels).inc_by(u64::from(opened));
    }

    pub(crate) fn drifted(&self, source: &SourceId, tools: usize) {
        let labels = SourceLabels { source: source.to_string() };
        let tools = u64::try_from(tools).unwrap_or(u64::MAX);
        self.source_drifts.get_or_create(&labels).inc_by(tools);
    }

    pub(crate) fn space(&self, free: u64, low: bool) {
        self.store_free.set(i64::try_from(free).unwrap_or(i64::MAX));
        self.store_low.set(low.into());
    }

    pub(crate) fn unrecorded(&self) {
        self.unrecorded.inc();
    }

    /// Sets how many bytes requests in flight and their answers take.
    pub fn request_bytes(&self, bytes: usize) {
        self.request_bytes.set(i64::try_from(bytes).unwrap_or(i64::MAX));
    }

    /// Counts a request whose body had no room.
    pub fn body_refused(&self) {
        self.bodies_refused.inc();
    }

    pub(crate) fn refusal_counted(&self) {
        self.refusals_counted.inc();
    }

    pub(crate) fn checkpoint(&self) {
        self.checkpoints.inc();
    }

    pub(crate) fn refused_checkpoint(&self) {
        self.refused_checkpoints.inc();
    }

    pub(crate) fn anchor_failed(&self) {
        self.anchor_failures.inc();
    }

    pub(crate) fn pruned(&self, events: usize) {
        self.pruned.inc_by(events as u64);
    }

    /// A forwarder begins: its numbers are there from then on.
    pub(crate) fn forwards(&self, forwarder: &str) {
        let labels = ForwardLabels::of(forwarder);
        drop(self.forwarded.get_or_create(&labels));
        drop(self.forward_failures.get_or_create(&labels));
        drop(self.forward_lag.get_or_create(&labels));
    }

    pub(crate) fn forwarded(&self, forwarder: &str, events: usize) {
        self.forwarded.get_or_create(&ForwardLabels::of(forwarder)).inc_by(events as u64);
    }

    pub(crate) fn forward_failed(&self, forwarder: &str) {
        self.forward_failures.get_or_create(&ForwardLabels::of(forwarder)).inc();
    }

    pub(crate) fn forward_lag(&self, forwarder: &str, events: u64) {
        let events = i64::try_from(events).unwrap_or(i64::MAX);
        self.forward_lag.get_or_create(&ForwardLabels::of(forwarder)).set(events);
    }

    pub(crate) fn generation(&self, generation: u64) {
        self.generation.set(i64::try_from(generation).unwrap_or(i64::MAX));
    }
}

impl SourceLabels {
    fn of(source: &SourceId) -> Self {
        Self { source: source.to_string() }
    }
}

impl LimitLabels {
    fn of(source: &SourceId, limit: Limit) -> Self {
        let limit = match limit {
            Limit::Rate => "rate",
            Limit::Quota => "quota",
            Limit::Breaker => "breaker",
        };
        Self { source: source.to_string(), limit }
    }
}

impl ForwardLabels {
    fn of(forwarder: &str) -> Self {
        Self { forwarder: forwarder.to_owned() }
    }
}
