//! Numbers for operators. Labels are closed sets or the operator's own words (source ids); nothing
//! that a caller or an upstream can choose becomes a label.

use std::{collections::BTreeMap, fmt, time::Duration};

use chrono::{DateTime, Utc};
use prometheus_client::{
    encoding::{EncodeLabelSet, EncodeLabelValue, LabelValueEncoder, text},
    metrics::{
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

/// The surface that a request came in by. Its names are constants of the program, so the number of
/// labels is bounded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Surface {
    name: &'static str,
    label: &'static str,
}

impl Surface {
    /// The command line.
    pub const CLI: Self = Self::new("cli", "Cli");
    /// The steps of workflows.
    pub const WORKFLOW: Self = Self::new("workflow", "Workflow");

    /// Creates a surface with its name in policies and its label in metrics.
    pub const fn new(name: &'static str, label: &'static str) -> Self {
        Self { name, label }
    }

    /// Returns the name in policies.
    pub fn as_str(self) -> &'static str {
        self.name
    }
}

impl EncodeLabelValue for Surface {
    fn encode(&self, encoder: &mut LabelValueEncoder<'_>) -> Result<(), fmt::Error> {
        self.label.encode(encoder)
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

/// Name without `toolcrib_`, type, labels and meaning of every metric. The exposition omits metrics
/// without a value; the documentation lists all of them.
pub const METRICS: [(&str, &str, &str, &str); 31] = [
    ("calls", "counter", "surface, result", "Calls by surface and result"),
    ("call_seconds", "histogram", "", "Run time of tools"),
    ("http_requests", "counter", "surface, status", "HTTP requests by surface and status"),
    ("source_tools", "gauge", "source", "Tools that a source offers"),
    ("source_tools_quarantined", "gauge", "source", "Tools of a source in quarantine"),
    ("source_tool_drifts", "counter", "source", "Discovered forms of tools without an approval"),
    ("source_calls_running", "gauge", "source", "Running and queued calls of a source"),
    (
        "source_calls_refused",
        "counter",
        "source, limit",
        "Calls of a source refused by a rate limit, a quota or its circuit breaker",
    ),
    (
        "source_breaker_state",
        "gauge",
        "source",
        "Circuit breaker of a source: 0 closed, 1 half-open, 2 open",
    ),
    ("source_breaker_opened", "counter", "source", "Openings of the circuit breaker of a source"),
    ("source_discoveries", "counter", "source", "Successful discoveries of a source"),
    ("source_discovery_failures", "counter", "source", "Failed discoveries of a source"),
    (
        "events_unrecorded",
        "counter",
        "",
        "Closing and denial events that were not stored, or omitted to save disk space",
    ),
    ("store_free_bytes", "gauge", "", "Free disk space at the store"),
    (
        "store_low_on_space",
        "gauge",
        "",
        "1 while less than keep_free is free and refused calls are not recorded, else 0",
    ),
    ("refusals_counted", "counter", "", "Refusals that events count instead of recording each"),
    ("request_bytes", "gauge", "", "Bytes of requests and responses in server.max_body_total"),
    (
        "request_bodies_refused",
        "counter",
        "",
        "Requests refused with 503 because of server.max_body_total",
    ),
    ("tls_handshakes_failed", "counter", "reason", "TLS handshakes that failed"),
    (
        "tls_certificate_expires_seconds",
        "gauge",
        "",
        "End of the validity of the server's certificate, in seconds since 1970",
    ),
    ("catalog_generation", "gauge", "", "Number of the current catalog"),
    ("task_failures", "counter", "task", "Background tasks that panicked or ended early"),
    ("tasks_down", "gauge", "task", "Failed background tasks that are not running"),
    ("panics", "counter", "", "Panics in this process"),
    ("record_checkpoints", "counter", "", "Signed checkpoints"),
    (
        "record_checkpoints_refused",
        "counter",
        "",
        "Checkpoints not signed because the record does not continue the last one",
    ),
    ("record_anchor_failures", "counter", "", "Failed attempts to send checkpoints to an anchor"),
    ("record_pruned", "counter", "", "Events removed at the end of their retention"),
    ("record_forwarded", "counter", "forwarder", "Events that a forwarder delivered"),
    ("record_forward_failures", "counter", "forwarder", "Failed attempts of a forwarder"),
    ("record_forward_lag", "gauge", "forwarder", "Events that a forwarder has not delivered yet"),
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
    handshakes_failed: Family<HandshakeLabels, Counter>,
    /// Without TLS it has no value, so that no alert takes 1970 for the end of a certificate.
    certificate_expires: Family<NoLabels, Gauge>,
    generation: Gauge,
    checkpoints: Counter,
    refused_checkpoints: Counter,
    anchor_failures: Counter,
    pruned: Counter,
    forwarded: Family<ForwardLabels, Counter>,
    forward_failures: Family<ForwardLabels, Counter>,
    forward_lag: Family<ForwardLabels, Gauge>,
}

/// The labels of a metric that may have no value.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct NoLabels {}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct HandshakeLabels {
    reason: &'static str,
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
    /// Creates the metrics of a gateway whose background tasks are on the board `tasks`.
    pub(crate) fn new(tasks: Tasks) -> Self {
        let mut all = Registry::with_prefix("toolcrib");
        // 0.5 ms to about 16 min: from a local echo to the longest sensible tool.
        let call_seconds = Histogram::new(exponential_buckets(0.0005, 2.0, 21));
        Self {
            calls: add(&mut all, "calls", Family::default()),
            call_seconds: add(&mut all, "call_seconds", call_seconds),
            requests: add(&mut all, "http_requests", Family::default()),
            source_tools: add(&mut all, "source_tools", Family::default()),
            source_quarantined: add(&mut all, "source_tools_quarantined", Family::default()),
            source_drifts: add(&mut all, "source_tool_drifts", Family::default()),
            source_calls_running: add(&mut all, "source_calls_running", Family::default()),
            source_calls_refused: add(&mut all, "source_calls_refused", Family::default()),
            source_breaker_state: add(&mut all, "source_breaker_state", Family::default()),
            source_breaker_opened: add(&mut all, "source_breaker_opened", Family::default()),
            source_discoveries: add(&mut all, "source_discoveries", Family::default()),
            source_discovery_failures: add(
                &mut all,
                "source_discovery_failures",
                Family::default(),
            ),
            unrecorded: add(&mut all, "events_unrecorded", Counter::default()),
            store_free: add(&mut all, "store_free_bytes", Gauge::default()),
            store_low: add(&mut all, "store_low_on_space", Gauge::default()),
            refusals_counted: add(&mut all, "refusals_counted", Counter::default()),
            request_bytes: add(&mut all, "request_bytes", Gauge::default()),
            bodies_refused: add(&mut all, "request_bodies_refused", Counter::default()),
            handshakes_failed: add(&mut all, "tls_handshakes_failed", Family::default()),
            certificate_expires: add(
                &mut all,
                "tls_certificate_expires_seconds",
                Family::default(),
            ),
            generation: add(&mut all, "catalog_generation", Gauge::default()),
            task_failures: add(&mut all, "task_failures", Family::default()),
            tasks_down: add(&mut all, "tasks_down", Family::default()),
            panics: add(&mut all, "panics", Counter::default()),
            checkpoints: add(&mut all, "record_checkpoints", Counter::default()),
            refused_checkpoints: add(&mut all, "record_checkpoints_refused", Counter::default()),
            anchor_failures: add(&mut all, "record_anchor_failures", Counter::default()),
            pruned: add(&mut all, "record_pruned", Counter::default()),
            forwarded: add(&mut all, "record_forwarded", Family::default()),
            forward_failures: add(&mut all, "record_forward_failures", Family::default()),
            forward_lag: add(&mut all, "record_forward_lag", Family::default()),
            tasks,
            registry: all,
        }
    }
}

/// Registers `metric` under its name in [`METRICS`], with the meaning from there.
fn add<M: Metric + Clone>(registry: &mut Registry, name: &str, metric: M) -> M {
    let meaning = METRICS.iter().find(|it| it.0 == name).map(|it| it.3).unwrap_or_default();
    registry.register(name, meaning, metric.clone());
    metric
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

    /// Counts a TLS handshake that failed for `reason`, one of few constants.
    pub fn handshake_failed(&self, reason: &'static str) {
        self.handshakes_failed.get_or_create(&HandshakeLabels { reason }).inc();
    }

    /// Notes the end of the validity of the certificate of the listener.
    pub fn certificate_expires(&self, at: DateTime<Utc>) {
        self.certificate_expires.get_or_create(&NoLabels {}).set(at.timestamp());
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
