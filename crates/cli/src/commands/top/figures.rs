//! The figures of one interval, from the metrics before and after it.

use std::collections::BTreeMap;

use serde::Serialize;

use super::exposition::{Exposition, Sample};

/// Results of calls that reached their tool, or wait for input of their caller.
const GOOD: &[&str] = &["ok", "input_required", "cancelled"];
/// Results of calls that the gate refused.
const REFUSED: &[&str] = &[
    "forbidden",
    "not_found",
    "rate_limited",
    "validation_error",
    "approval_required",
    "approval_rejected",
    "connection_required",
];

/// The figures of a server.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Figures {
    pub(super) version: String,
    pub(super) uptime_seconds: Option<f64>,
    pub(super) interval_seconds: f64,
    pub(super) generation: Option<f64>,
    /// All calls.
    pub(super) calls: Calls,
    /// The time that the gate adds to a call.
    pub(super) gate: Quantiles,
    pub(super) sources: Vec<SourceFigures>,
    pub(super) tools: Vec<ToolFigures>,
    pub(super) tenants: Vec<TenantFigures>,
    pub(super) pending_approvals: Option<f64>,
    pub(super) unsigned_events: Option<f64>,
    pub(super) refuses_calls: bool,
    pub(super) store_bytes: Option<f64>,
    pub(super) store_queue: Option<f64>,
    pub(super) tasks_down: f64,
    pub(super) panics: f64,
}

/// Calls in the interval.
#[derive(Debug, Default, Clone, Copy, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Calls {
    pub(super) per_second: f64,
    /// Those that failed, errors of the tools included.
    pub(super) errors_per_second: f64,
    /// Those that the gate refused.
    pub(super) refused_per_second: f64,
    /// Since the start of the server.
    pub(super) total: f64,
}

/// Quantiles in seconds; `None` without a call in the interval.
#[derive(Debug, Default, Clone, Copy, Serialize)]
pub(super) struct Quantiles {
    pub(super) p50: Option<f64>,
    pub(super) p95: Option<f64>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct SourceFigures {
    pub(super) source: String,
    pub(super) up: bool,
    pub(super) breaker: &'static str,
    pub(super) running: f64,
    pub(super) tools: f64,
    #[serde(flatten)]
    pub(super) calls: Calls,
    /// The run time of its tools.
    #[serde(flatten)]
    pub(super) run_time: Quantiles,
}

#[derive(Debug, Serialize)]
pub(super) struct ToolFigures {
    pub(super) tool: String,
    pub(super) source: String,
    #[serde(flatten)]
    pub(super) calls: Calls,
}

#[derive(Debug, Serialize)]
pub(super) struct TenantFigures {
    pub(super) tenant: String,
    #[serde(flatten)]
    pub(super) calls: Calls,
}

// === impl Figures ===

impl Figures {
    /// Computes the figures of the `seconds` between `before` and `now`; `unix` is the time of `now`.
    pub(super) fn new(before: &Exposition, now: &Exposition, seconds: f64, unix: f64) -> Self {
        let started = now.sum("start_time_seconds");
        // A restarted server counts from zero.
        let none = Exposition::default();
        let before = if before.sum("start_time_seconds") == started { before } else { &none };
        let calls = |label: &'static str| {
            by(before, now, seconds, move |sample| sample.label(label).into())
        };
        let of_sources = calls("source");
        let sources = now.samples("source_up").map(|up| {
            let source = up.label("source");
            let of = |name| {
                let sample = now.samples(name).find(|sample| sample.label("source") == source);
                sample.map_or(0.0, |found| found.value)
            };
            let state = of("source_breaker_state");
            SourceFigures {
                source: source.to_owned(),
                up: up.value > 0.0,
                breaker: if state > 1.5 {
                    "open"
                } else if state > 0.5 {
                    "half-open"
                } else {
                    "closed"
                },
                running: of("source_calls_running"),
                tools: of("source_tools"),
                calls: of_sources.get(source).copied().unwrap_or_default(),
                run_time: quantiles(before, now, "call_seconds_bucket", |sample| {
                    sample.label("source") == source
                }),
            }
        });
        let mut sources: Vec<_> = sources.collect();
        let pair =
            |sample: &Sample| (sample.label("tool").to_owned(), sample.label("source").to_owned());
        let tools = by(before, now, seconds, pair).into_iter();
        let mut tools: Vec<_> =
            tools.map(|((tool, source), calls)| ToolFigures { tool, source, calls }).collect();
        let tenants = calls("tenant").into_iter();
        let mut tenants: Vec<_> =
            tenants.map(|(tenant, calls)| TenantFigures { tenant, calls }).collect();
        sources.sort_by(|one, two| busiest(&one.calls, &two.calls));
        tools.sort_by(|one, two| busiest(&one.calls, &two.calls));
        tenants.sort_by(|one, two| busiest(&one.calls, &two.calls));
        let all = by(before, now, seconds, |_| ());
        let version =
            now.samples("build_info").next().map(|sample| sample.label("version").to_owned());
        Self {
            version: version.unwrap_or_default(),
            uptime_seconds: started.map(|started| (unix - started).max(0.0)),
            interval_seconds: seconds,
            generation: now.sum("catalog_generation"),
            calls: all.get(&()).copied().unwrap_or_default(),
            gate: quantiles(before, now, "gate_seconds_bucket", |_| true),
            sources,
            tools,
            tenants,
            pending_approvals: now.sum("approvals_pending"),
            unsigned_events: now.sum("record_unsigned_events"),
            refuses_calls: now.sum("record_refuses_calls").is_some_and(|value| value > 0.0),
            store_bytes: now.sum("store_bytes"),
            store_queue: now.sum("store_queue_length"),
            tasks_down: now.sum("tasks_down").unwrap_or_default(),
            panics: now.sum("panics_total").unwrap_or_default(),
        }
    }
}

/// The order of rows: the most calls of the interval first, then the most calls of all.
fn busiest(one: &Calls, two: &Calls) -> std::cmp::Ordering {
    let by_rate = two.per_second.total_cmp(&one.per_second);
    by_rate.then_with(|| two.total.total_cmp(&one.total))
}

/// Sums the calls by `key`.
fn by<K: Ord>(
    before: &Exposition,
    now: &Exposition,
    seconds: f64,
    key: impl Fn(&Sample) -> K,
) -> BTreeMap<K, Calls> {
    let earlier: BTreeMap<_, f64> =
        before.samples("calls_total").map(|sample| (&sample.labels, sample.value)).collect();
    let mut sums: BTreeMap<K, Calls> = BTreeMap::new();
    for sample in now.samples("calls_total") {
        let rate = rise(earlier.get(&sample.labels).copied(), sample.value) / seconds;
        let sum = sums.entry(key(sample)).or_default();
        sum.per_second += rate;
        sum.total += sample.value;
        let result = sample.label("result");
        if REFUSED.contains(&result) {
            sum.refused_per_second += rate;
        } else if !GOOD.contains(&result) {
            sum.errors_per_second += rate;
        }
    }
    sums
}

/// The increase of a counter; a lower value means that the server restarted, so it counts from 0.
fn rise(before: Option<f64>, now: f64) -> f64 {
    match before {
        Some(before) if before <= now => now - before,
        _ => now,
    }
}

/// The quantiles of the observations of the interval in the histogram `name`.
fn quantiles(
    before: &Exposition,
    now: &Exposition,
    name: &str,
    counts: impl Fn(&Sample) -> bool,
) -> Quantiles {
    let read = |exposition: &Exposition| {
        let samples = exposition.samples(name).filter(|sample| counts(sample));
        let mut buckets: Vec<(f64, f64)> = samples.filter_map(bucket).collect();
        buckets.sort_by(|one, two| one.0.total_cmp(&two.0));
        buckets
    };
    let earlier = read(before);
    let buckets: Vec<(f64, f64)> = read(now)
        .into_iter()
        .map(|(bound, count)| {
            let before = earlier.iter().find(|pair| pair.0.total_cmp(&bound).is_eq());
            (bound, rise(before.map(|pair| pair.1), count))
        })
        .collect();
    Quantiles { p50: quantile(&buckets, 0.5), p95: quantile(&buckets, 0.95) }
}

/// The upper bound and the count of a bucket.
fn bucket(sample: &Sample) -> Option<(f64, f64)> {
    let bound = match sample.label("le") {
        "+Inf" => f64::INFINITY,
        bound => bound.parse().ok()?,
    };
    Some((bound, sample.value))
}

/// The quantile of cumulative buckets, interpolated within its bucket as Prometheus does.
fn quantile(buckets: &[(f64, f64)], part: f64) -> Option<f64> {
    let all = buckets.last().map(|last| last.1).filter(|all| *all > 0.0)?;
    let rank = all * part;
    let (mut lower, mut below) = (0.0, 0.0);
    for (bound, count) in buckets {
        if *count >= rank {
            let within = if *count > below { (rank - below) / (count - below) } else { 1.0 };
            // Above the last bound the distribution is unknown.
            let is_open = bound.is_infinite();
            return Some(if is_open { lower } else { lower + (bound - lower) * within });
        }
        (lower, below) = (*bound, *count);
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Exposition {
        Exposition::parse(&format!("{text}# EOF\n")).unwrap()
    }

    const BEFORE: &str = "toolcrib_start_time_seconds 1000\n\
        toolcrib_calls_total{source=\"s\",tool=\"a\",tenant=\"t\",result=\"ok\"} 10\n";
    const NOW: &str = "toolcrib_start_time_seconds 1000\n\
        toolcrib_build_info{version=\"1.2.3\"} 1\n\
        toolcrib_calls_total{source=\"s\",tool=\"a\",tenant=\"t\",result=\"ok\"} 30\n\
        toolcrib_calls_total{source=\"s\",tool=\"b\",tenant=\"t\",result=\"upstream_died\"} 10\n\
        toolcrib_calls_total{source=\"none\",tool=\"none\",tenant=\"u\",result=\"forbidden\"} 4\n\
        toolcrib_call_seconds_bucket{source=\"s\",le=\"0.1\"} 10\n\
        toolcrib_call_seconds_bucket{source=\"s\",le=\"0.2\"} 20\n\
        toolcrib_call_seconds_bucket{source=\"s\",le=\"+Inf\"} 20\n\
        toolcrib_source_up{source=\"s\"} 1\n\
        toolcrib_source_breaker_state{source=\"s\"} 2\n\
        toolcrib_approvals_pending 3\n";

    #[test]
    fn rates_are_those_of_the_interval() {
        let figures = Figures::new(&read(BEFORE), &read(NOW), 2.0, 1060.0);
        assert_eq!((figures.version.as_str(), figures.uptime_seconds), ("1.2.3", Some(60.0)));
        let Calls { per_second, errors_per_second, refused_per_second, total } = figures.calls;
        assert_eq!(
            (per_second, errors_per_second, refused_per_second, total),
            (17.0, 5.0, 2.0, 44.0)
        );
        let tools: Vec<_> =
            figures.tools.iter().map(|tool| (tool.tool.as_str(), tool.calls.per_second)).collect();
        assert_eq!(tools, [("a", 10.0), ("b", 5.0), ("none", 2.0)]);
        let source = &figures.sources[0];
        assert_eq!((source.up, source.breaker, source.calls.per_second), (true, "open", 15.0));
        assert_eq!(source.run_time.p50, Some(0.1));
        assert!((source.run_time.p95.unwrap() - 0.19).abs() < 1e-9);
        assert_eq!(figures.pending_approvals, Some(3.0));
        assert_eq!(figures.gate.p50, None);
    }

    #[test]
    fn a_server_that_started_anew_counts_from_zero() {
        let before = BEFORE.replace("1000", "900").replace("} 10", "} 25");
        let figures = Figures::new(&read(&before), &read(NOW), 1.0, 1060.0);
        assert_eq!(figures.calls.per_second, 44.0);
    }
}
