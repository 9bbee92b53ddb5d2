//! The table of all metrics.

use prometheus_client::registry::{Metric, Registry};

use MetricKind::{Counter, Gauge, Histogram, Info};

/// A metric, for the documentation. The exposition omits metrics without a value.
#[derive(Debug, Clone, Copy)]
pub struct MetricDescription {
    /// Its name without `toolcrib_` and without the suffixes of its kind.
    pub name: &'static str,
    /// Its kind.
    pub kind: MetricKind,
    /// Its labels, without `le` of histograms.
    pub labels: &'static [&'static str],
    /// Its meaning, also the help text of the exposition.
    pub meaning: &'static str,
}

/// The kind of a metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MetricKind {
    /// A number that only grows, with the suffix `_total`.
    Counter,
    /// A number that grows and shrinks.
    Gauge,
    /// Observations in buckets: `_bucket`, `_sum` and `_count`.
    Histogram,
    /// Labels without a number, with the suffix `_info`.
    Info,
}

const fn metric(
    name: &'static str,
    kind: MetricKind,
    labels: &'static [&'static str],
    meaning: &'static str,
) -> MetricDescription {
    MetricDescription { name, kind, labels, meaning }
}

/// Every metric.
pub const METRICS: &[MetricDescription] = &[
    metric("build", Info, &["version", "os", "arch"], "The running program; always 1"),
    metric("start_time_seconds", Gauge, &[], "Unix time of the start of the gateway"),
    metric(
        "calls",
        Counter,
        &["surface", "source", "tool", "tenant", "result"],
        "Calls by surface, source, tool, tenant and result",
    ),
    metric(
        "call_seconds",
        Histogram,
        &["source"],
        "Run time of tools, with exemplars that have the run id of a call",
    ),
    metric(
        "gate_seconds",
        Histogram,
        &[],
        "Time that the gate adds to a call: checks and the two events of the record, without the run time of the tool and the wait for an approval",
    ),
    metric("http_requests", Counter, &["surface", "status"], "HTTP requests by surface and status"),
    metric(
        "http_request_seconds",
        Histogram,
        &["surface"],
        "Time from the headers of a request to those of its response",
    ),
    metric(
        "config_applications",
        Counter,
        &[],
        "Configurations that were applied, the first one included",
    ),
    metric(
        "config_failures",
        Counter,
        &[],
        "Changed configurations that were not applied, because they have errors",
    ),
    metric(
        "mcp_mixed_versions",
        Counter,
        &["client"],
        "MCP requests whose version header names another revision than the body, by the client's name",
    ),
    metric(
        "config_applied_time_seconds",
        Gauge,
        &[],
        "Unix time at which the current configuration was applied",
    ),
    metric(
        "approvals_pending",
        Gauge,
        &[],
        "Approvals that wait for an answer, those of all servers of the store",
    ),
    metric(
        "source_up",
        Gauge,
        &["source"],
        "1 while a source is connected and its tools could be listed, else 0",
    ),
    metric("source_tools", Gauge, &["source"], "Tools that a source offers"),
    metric("source_tools_quarantined", Gauge, &["source"], "Tools of a source in quarantine"),
    metric(
        "source_tool_drifts",
        Counter,
        &["source"],
        "Discovered forms of tools without an approval",
    ),
    metric("source_calls_running", Gauge, &["source"], "Running and queued calls of a source"),
    metric(
        "source_calls_refused",
        Counter,
        &["source", "limit"],
        "Calls of a source refused by a rate limit, a quota or its circuit breaker",
    ),
    metric(
        "source_breaker_state",
        Gauge,
        &["source"],
        "Circuit breaker of a source: 0 closed, 1 half-open, 2 open",
    ),
    metric(
        "source_breaker_opened",
        Counter,
        &["source"],
        "Openings of the circuit breaker of a source",
    ),
    metric("source_discoveries", Counter, &["source"], "Successful discoveries of a source"),
    metric("source_discovery_failures", Counter, &["source"], "Failed discoveries of a source"),
    metric(
        "events_unrecorded",
        Counter,
        &[],
        "Closing and denial events that were not stored, or omitted to save disk space",
    ),
    metric("store_bytes", Gauge, &[], "Size of the store"),
    metric("store_queue_length", Gauge, &[], "Transactions that wait for the writer of the store"),
    metric("store_append_seconds", Histogram, &[], "Time until events of a call are stored"),
    metric(
        "store_commit_seconds",
        Histogram,
        &[],
        "Time of a transaction of the writer of the store",
    ),
    metric("store_append_failures", Counter, &[], "Failed attempts to store events"),
    metric("store_free_bytes", Gauge, &[], "Free disk space at the store"),
    metric(
        "store_low_on_space",
        Gauge,
        &[],
        "1 while less than keep_free is free and refused calls are not recorded, else 0",
    ),
    metric(
        "refusals_counted",
        Counter,
        &[],
        "Refusals that events count instead of recording each",
    ),
    metric("request_bytes", Gauge, &[], "Bytes of requests and responses in server.max_body_total"),
    metric(
        "request_bodies_refused",
        Counter,
        &[],
        "Requests refused with 503 because of server.max_body_total",
    ),
    metric("tls_handshakes_failed", Counter, &["reason"], "TLS handshakes that failed"),
    metric(
        "tls_certificate_expires_seconds",
        Gauge,
        &[],
        "End of the validity of the server's certificate, in seconds since 1970",
    ),
    metric("catalog_generation", Gauge, &[], "Number of the current catalog"),
    metric("task_failures", Counter, &["task"], "Background tasks that panicked or stopped early"),
    metric("tasks_down", Gauge, &["task"], "Failed background tasks that are not running"),
    metric("panics", Counter, &[], "Panics in this process"),
    metric("record_checkpoints", Counter, &[], "Signed checkpoints"),
    metric(
        "record_checkpoint_time_seconds",
        Gauge,
        &[],
        "Unix time of the last checkpoint that this server signed; 0 before the first",
    ),
    metric("record_unsigned_events", Gauge, &[], "Events that wait for a checkpoint"),
    metric(
        "record_refuses_calls",
        Gauge,
        &[],
        "1 while calls are refused because signed events are missing, else 0",
    ),
    metric(
        "record_checkpoints_refused",
        Counter,
        &[],
        "Checkpoints not signed because the record does not continue the last one",
    ),
    metric(
        "record_anchor_failures",
        Counter,
        &[],
        "Failed attempts to send checkpoints to an anchor",
    ),
    metric("record_pruned", Counter, &[], "Events removed at the end of their retention"),
    metric("record_forwarded", Counter, &["forwarder"], "Events that a forwarder delivered"),
    metric("record_forward_failures", Counter, &["forwarder"], "Failed attempts of a forwarder"),
    metric(
        "record_forward_lag",
        Gauge,
        &["forwarder"],
        "Events that a forwarder has not delivered yet",
    ),
    metric("spans_exported", Counter, &[], "Spans that the receiver accepted"),
    metric("spans_dropped", Counter, &[], "Spans that were lost"),
];

// === impl MetricKind ===

impl MetricKind {
    /// The name of the kind in OpenMetrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
            Self::Info => "info",
        }
    }

    /// The suffixes of the names of its samples.
    pub fn endings(self) -> &'static [&'static str] {
        match self {
            Self::Counter => &["_total"],
            Self::Gauge => &[""],
            Self::Histogram => &["_bucket", "_sum", "_count"],
            Self::Info => &["_info"],
        }
    }
}

/// Registers `metric` under its name in [`METRICS`], with the meaning from that table.
pub(super) fn add<M: Metric + Clone>(registry: &mut Registry, name: &str, metric: M) -> M {
    registry.register(name, meaning(name), metric.clone());
    metric
}

pub(super) fn meaning(name: &str) -> &'static str {
    let found = METRICS.iter().find(|metric| metric.name == name);
    found.map(|metric| metric.meaning).unwrap_or_default()
}
