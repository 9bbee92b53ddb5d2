//! Numbers for operators. Labels are closed sets or names that the operator chose (source ids).
//! Text of callers and upstreams never becomes a label, except for a few names of clients.

mod calls;
mod handles;
mod labels;
mod table;
mod times;

use std::{
    collections::{BTreeMap, HashSet},
    fmt,
    sync::Arc,
    time::Duration,
};

use chrono::{DateTime, Utc};
use parking_lot::Mutex;
use prometheus_client::{
    encoding::{EncodeLabelSet, text},
    metrics::{counter::Counter, family::Family, gauge::Gauge, info::Info},
    registry::Registry,
};
use toolcrib_config::Config;
use toolcrib_core::{
    clock::Timestamp,
    id::{SourceId, TenantId, ToolId},
    store::{CommitObserver, StoreMeasures},
    trace::SpanSink,
};
use toolcrib_tasks::{TaskState, Tasks, panics};

pub(crate) use self::calls::FinishedCall;
use self::{
    calls::CallMetrics,
    handles::Handles,
    labels::SourceLabels,
    table::{add, meaning},
    times::Times,
};
pub use self::{
    calls::MAX_SERIES,
    labels::Surface,
    table::{METRICS, MetricDescription, MetricKind},
};
use crate::source_report::{BreakerState, SourceLatency};

/// The most names of clients in the metrics; further ones are counted together.
const MAX_CLIENTS: usize = 32;
const OTHER_CLIENTS: &str = "(others)";
/// Longest name of a client in the metrics, in characters.
const MAX_CLIENT: usize = 40;

/// The start of every metric name.
const PREFIX: &str = "toolcrib";

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RequestLabels {
    surface: Surface,
    status: u16,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct SurfaceLabels {
    surface: Surface,
}

/// Clients choose their names, so their number and their characters are limited.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ClientLabels {
    client: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct TaskLabels {
    task: &'static str,
}

/// The limit that stopped a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Limit {
    Rate,
    Quota,
    Breaker,
}

impl Limit {
    const ALL: [Self; 3] = [Self::Rate, Self::Quota, Self::Breaker];
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct LimitLabels {
    source: String,
    limit: &'static str,
}

/// A running call, as long as this value exists.
pub(crate) struct RunningCall(Gauge);

impl Drop for RunningCall {
    fn drop(&mut self) {
        self.0.dec();
    }
}

/// The values of some metrics. Times are in Unix seconds.
pub(crate) struct Readings {
    pub(crate) started: Timestamp,
    pub(crate) applications: u64,
    pub(crate) applied: i64,
    pub(crate) failures: u64,
    pub(crate) pending: i64,
    pub(crate) bytes: i64,
    pub(crate) waiting: i64,
    pub(crate) free: i64,
    pub(crate) unsigned: i64,
    pub(crate) checkpoint: i64,
}

/// All metrics of a gateway.
pub struct Metrics {
    registry: Registry,
    started: Timestamp,
    tasks: Tasks,
    task_failures: Family<TaskLabels, Counter>,
    tasks_down: Family<TaskLabels, Gauge>,
    panics: Counter,
    calls: CallMetrics,
    gate_seconds: Times,
    requests: Family<RequestLabels, Counter>,
    request_seconds: Family<SurfaceLabels, Times>,
    /// The series of requests, found without a lock.
    request_handles: Handles<(Surface, u16), (Counter, Times)>,
    config_applications: Counter,
    config_failures: Counter,
    config_applied: Gauge,
    approvals_pending: Gauge,
    mixed_versions: Family<ClientLabels, Counter>,
    /// The clients with a series.
    mixed_clients: Mutex<HashSet<String>>,
    /// The sources with series.
    sources: Mutex<HashSet<SourceId>>,
    source_up: Family<SourceLabels, Gauge>,
    source_tools: Family<SourceLabels, Gauge>,
    source_quarantined: Family<SourceLabels, Gauge>,
    source_drifts: Family<SourceLabels, Counter>,
    source_calls_refused: Family<LimitLabels, Counter>,
    source_breaker_state: Family<SourceLabels, Gauge>,
    source_breaker_opened: Family<SourceLabels, Counter>,
    source_discoveries: Family<SourceLabels, Counter>,
    source_discovery_failures: Family<SourceLabels, Counter>,
    unrecorded: Counter,
    store_bytes: Gauge,
    store_queue: Gauge,
    append_seconds: Times,
    append_failures: Counter,
    commit_seconds: Times,
    store_free: Gauge,
    store_low: Gauge,
    refusals_counted: Counter,
    request_bytes: Gauge,
    bodies_refused: Counter,
    handshakes_failed: Family<HandshakeLabels, Counter>,
    /// Without TLS this has no value, so that alerts do not take 1970 for the expiry of a
    /// certificate.
    certificate_expires: Family<NoLabels, Gauge>,
    generation: Gauge,
    checkpoints: Counter,
    checkpoint_time: Gauge,
    unsigned_events: Gauge,
    refuses_calls: Gauge,
    refused_checkpoints: Counter,
    anchor_failures: Counter,
    pruned: Counter,
    forwarded: Family<ForwardLabels, Counter>,
    forward_failures: Family<ForwardLabels, Counter>,
    forward_lag: Family<ForwardLabels, Gauge>,
    spans_exported: Counter,
    spans_dropped: Counter,
    spans: Option<Arc<dyn SpanSink>>,
}

fn encoded(metrics: &Registry) -> String {
    let mut out = String::new();
    match text::encode(&mut out, metrics) {
        Ok(()) => out,
        Err(fmt::Error) => String::new(),
    }
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
    /// Creates the metrics of a gateway that starts at `now` and whose background tasks are on the
    /// board `tasks`. `spans` receives its spans.
    pub(crate) fn new(tasks: Tasks, now: Timestamp, spans: Option<Arc<dyn SpanSink>>) -> Self {
        let mut all = Registry::with_prefix(PREFIX);
        let build = Info::new([
            ("version", env!("CARGO_PKG_VERSION")),
            ("os", std::env::consts::OS),
            ("arch", std::env::consts::ARCH),
        ]);
        all.register("build", meaning("build"), build);
        add(&mut all, "start_time_seconds", Gauge::<i64>::default()).set(now.timestamp());
        Self {
            calls: CallMetrics::new(&mut all),
            gate_seconds: add(&mut all, "gate_seconds", Times::default()),
            requests: add(&mut all, "http_requests", Family::default()),
            request_seconds: add(&mut all, "http_request_seconds", Family::default()),
            request_handles: Handles::default(),
            config_applications: add(&mut all, "config_applications", Counter::default()),
            config_failures: add(&mut all, "config_failures", Counter::default()),
            config_applied: add(&mut all, "config_applied_time_seconds", Gauge::default()),
            approvals_pending: add(&mut all, "approvals_pending", Gauge::default()),
            mixed_versions: add(&mut all, "mcp_mixed_versions", Family::default()),
            mixed_clients: Mutex::default(),
            sources: Mutex::default(),
            source_up: add(&mut all, "source_up", Family::default()),
            source_tools: add(&mut all, "source_tools", Family::default()),
            source_quarantined: add(&mut all, "source_tools_quarantined", Family::default()),
            source_drifts: add(&mut all, "source_tool_drifts", Family::default()),
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
            store_bytes: add(&mut all, "store_bytes", Gauge::default()),
            store_queue: add(&mut all, "store_queue_length", Gauge::default()),
            append_seconds: add(&mut all, "store_append_seconds", Times::default()),
            append_failures: add(&mut all, "store_append_failures", Counter::default()),
            commit_seconds: add(&mut all, "store_commit_seconds", Times::default()),
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
            checkpoint_time: add(&mut all, "record_checkpoint_time_seconds", Gauge::default()),
            unsigned_events: add(&mut all, "record_unsigned_events", Gauge::default()),
            refuses_calls: add(&mut all, "record_refuses_calls", Gauge::default()),
            refused_checkpoints: add(&mut all, "record_checkpoints_refused", Counter::default()),
            anchor_failures: add(&mut all, "record_anchor_failures", Counter::default()),
            pruned: add(&mut all, "record_pruned", Counter::default()),
            forwarded: add(&mut all, "record_forwarded", Family::default()),
            forward_failures: add(&mut all, "record_forward_failures", Family::default()),
            forward_lag: add(&mut all, "record_forward_lag", Family::default()),
            spans_exported: add(&mut all, "spans_exported", Counter::default()),
            spans_dropped: add(&mut all, "spans_dropped", Counter::default()),
            spans,
            started: now,
            tasks,
            registry: all,
        }
    }

    /// All metrics as OpenMetrics text. [`Gateway::metrics_text`](crate::Gateway::metrics_text)
    /// measures some of them first.
    pub fn encode(&self) -> String {
        self.count_tasks();
        self.count_spans();
        encoded(&self.registry)
    }

    /// Returns the metrics of the calls of `tenant` as OpenMetrics text. Other metrics would show
    /// calls of other tenants.
    pub fn encode_tenant(&self, tenant: &TenantId) -> String {
        let mut own = Registry::with_prefix(PREFIX);
        self.calls.encode_tenant(tenant, &mut own);
        encoded(&own)
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

    /// Copies the counts of the receiver of spans.
    fn count_spans(&self) {
        let Some(spans) = &self.spans else { return };
        let counts = spans.counts();
        for (counter, count) in
            [(&self.spans_exported, counts.exported), (&self.spans_dropped, counts.dropped)]
        {
            counter.inc_by(count.saturating_sub(counter.get()));
        }
    }

    /// Applies the labels of `config` at `now`, and removes the series of sources that it does not
    /// have.
    pub(crate) fn configure(&self, config: &Config, now: Timestamp) {
        self.config_applications.inc();
        self.config_applied.set(now.timestamp());
        self.calls.configure(config);
        let ids = || config.sources.iter().map(|source| source.spec.id.clone());
        let gone: Vec<SourceId> = {
            let mut sources = self.sources.lock();
            let before = std::mem::replace(&mut *sources, ids().collect());
            before.difference(&sources).cloned().collect()
        };
        for source in gone {
            self.calls.remove_source(&source);
            let labels = SourceLabels::of(&source);
            self.source_up.remove(&labels);
            self.source_tools.remove(&labels);
            self.source_quarantined.remove(&labels);
            self.source_drifts.remove(&labels);
            self.source_breaker_state.remove(&labels);
            self.source_breaker_opened.remove(&labels);
            self.source_discoveries.remove(&labels);
            self.source_discovery_failures.remove(&labels);
            for limit in Limit::ALL {
                self.source_calls_refused.remove(&LimitLabels::of(&source, limit));
            }
        }
    }

    /// Frees the places of tools that do not exist, if the table is full.
    pub(crate) fn retain_tools(&self, exists: impl Fn(&ToolId) -> bool) {
        self.calls.retain_tools(exists);
    }

    /// Counts a rejected change of the configuration.
    pub fn configuration_refused(&self) {
        self.config_failures.inc();
    }

    /// The main values for operators, without the text of all metrics.
    pub(crate) fn readings(&self) -> Readings {
        Readings {
            started: self.started,
            applications: self.config_applications.get(),
            applied: self.config_applied.get(),
            failures: self.config_failures.get(),
            pending: self.approvals_pending.get(),
            bytes: self.store_bytes.get(),
            waiting: self.store_queue.get(),
            free: self.store_free.get(),
            unsigned: self.unsigned_events.get(),
            checkpoint: self.checkpoint_time.get(),
        }
    }

    /// Counts a completed HTTP request, which took `time`.
    pub fn request(&self, surface: Surface, status: u16, time: Duration) {
        let handle = self.request_handles.get_or_insert(&(surface, status), || {
            let counter = self.requests.get_or_create_owned(&RequestLabels { surface, status });
            (counter, self.request_seconds.get_or_create_owned(&SurfaceLabels { surface }))
        });
        handle.0.inc();
        handle.1.observe(time);
    }

    /// Counts an MCP request with different revisions in header and body. Returns whether it is the
    /// first one of a client with this name.
    pub fn mixed_versions(&self, client: &str) -> bool {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_. ".contains(c);
        let mut client: String = client.chars().filter(|c| is_plain(*c)).take(MAX_CLIENT).collect();
        let is_first = {
            let mut clients = self.mixed_clients.lock();
            let is_known = clients.contains(&client);
            if !is_known && clients.len() >= MAX_CLIENTS {
                client = OTHER_CLIENTS.to_owned();
            }
            clients.insert(client.clone())
        };
        self.mixed_versions.get_or_create(&ClientLabels { client }).inc();
        is_first
    }

    /// Counts a completed call.
    pub(crate) fn call(&self, call: &FinishedCall<'_>) {
        self.calls.finished(call);
    }

    /// Notes the time that the gate added to a call.
    pub(crate) fn gate(&self, time: Duration) {
        self.gate_seconds.observe(time);
    }

    /// Notes an attempt to store events.
    pub(crate) fn appended(&self, time: Duration, is_stored: bool) {
        match is_stored {
            true => self.append_seconds.observe(time),
            false => drop(self.append_failures.inc()),
        }
    }

    /// The observer of the transactions of the store.
    pub(crate) fn commit_observer(&self) -> CommitObserver {
        let seconds = self.commit_seconds.clone();
        Arc::new(move |time| seconds.observe(time))
    }

    pub(crate) fn measured(&self, store: StoreMeasures) {
        let StoreMeasures { waiting, bytes } = store;
        self.store_queue.set(i64::try_from(waiting).unwrap_or(i64::MAX));
        if let Some(bytes) = bytes {
            self.store_bytes.set(i64::try_from(bytes).unwrap_or(i64::MAX));
        }
    }

    pub(crate) fn pending(&self, approvals: u64) {
        self.approvals_pending.set(i64::try_from(approvals).unwrap_or(i64::MAX));
    }

    /// Notes which sources are connected.
    pub(crate) fn up(&self, sources: impl Iterator<Item = (SourceId, bool)>) {
        for (source, is_up) in sources {
            self.source_up.get_or_create(&SourceLabels::of(&source)).set(is_up.into());
        }
    }

    /// How often background tasks of `source` failed.
    pub(crate) fn task_failures(&self, source: &SourceId) -> u64 {
        self.tasks.failures_of(source.as_str())
    }

    pub(crate) fn discovered(&self, source: &SourceId, tools: Result<usize, ()>) {
        let labels = SourceLabels::of(source);
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
            let labels = SourceLabels::of(source);
            let tools = i64::try_from(tools).unwrap_or(i64::MAX);
            self.source_quarantined.get_or_create(&labels).set(tools);
            // Created at the start, so that the first count is visible as a rise.
            drop(self.source_drifts.get_or_create(&labels));
        }
    }

    /// Creates the series of a source that rarely count, so that the first count is visible as a
    /// rise.
    pub(crate) fn begin(&self, source: &SourceId) {
        let labels = SourceLabels::of(source);
        drop(self.source_discoveries.get_or_create(&labels));
        drop(self.source_discovery_failures.get_or_create(&labels));
        for limit in Limit::ALL {
            drop(self.source_calls_refused.get_or_create(&LimitLabels::of(source, limit)));
        }
    }

    /// Counts a running call of `source`.
    pub(crate) fn runs(&self, source: &SourceId) -> RunningCall {
        let source = self.calls.source(source);
        source.running.inc();
        RunningCall(source.running.clone())
    }

    pub(crate) fn running(&self, source: &SourceId) -> u64 {
        u64::try_from(self.calls.source(source).running.get()).unwrap_or(0)
    }

    /// The run times of the calls of `source` in this process.
    pub(crate) fn latency(&self, source: &SourceId) -> Option<SourceLatency> {
        let summary = self.calls.source(source).latency()?;
        let milliseconds = |time: Duration| (time.as_secs_f64() * 1e5).round() / 1e2;
        Some(SourceLatency {
            calls: summary.count,
            p50_ms: milliseconds(summary.p50),
            p95_ms: milliseconds(summary.p95),
        })
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
        // Created at the start, so that the first count is visible as a rise.
        self.source_breaker_opened.get_or_create(&labels).inc_by(u64::from(opened));
    }

    pub(crate) fn drifted(&self, source: &SourceId, tools: usize) {
        let labels = SourceLabels::of(source);
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

    /// Sets how many bytes requests in flight and their responses take.
    pub fn request_bytes(&self, bytes: usize) {
        self.request_bytes.set(i64::try_from(bytes).unwrap_or(i64::MAX));
    }

    /// Counts a request that was rejected because its body had no room.
    pub fn body_refused(&self) {
        self.bodies_refused.inc();
    }

    /// Counts a TLS handshake that failed for `reason`, one of few constants.
    pub fn handshake_failed(&self, reason: &'static str) {
        self.handshakes_failed.get_or_create(&HandshakeLabels { reason }).inc();
    }

    /// Sets the expiry of the certificate of the listener.
    pub fn certificate_expires(&self, at: DateTime<Utc>) {
        self.certificate_expires.get_or_create(&NoLabels {}).set(at.timestamp());
    }

    pub(crate) fn refusal_counted(&self) {
        self.refusals_counted.inc();
    }

    /// Counts a checkpoint, signed at `now`.
    pub(crate) fn checkpoint(&self, now: Timestamp) {
        self.checkpoints.inc();
        self.checkpoint_time.set(now.timestamp());
    }

    /// Notes the number of events without a checkpoint, and whether calls are refused.
    pub(crate) fn signing(&self, unsigned: u64, refuses_calls: bool) {
        self.unsigned_events.set(i64::try_from(unsigned).unwrap_or(i64::MAX));
        self.refuses_calls.set(refuses_calls.into());
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

    /// Creates the numbers of a forwarder at its start.
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
