//! Lock-free histograms of durations. Those of the library take a lock for each observation, which
//! all threads would share.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use prometheus_client::{
    encoding::{EncodeMetric, MetricEncoder, NoLabelSet},
    metrics::{MetricType, TypedMetric},
};

/// The upper bounds of the buckets in seconds: from a step of the gate to the longest request.
const BOUNDS: [f64; 20] = [
    0.000_01, 0.000_025, 0.000_05, 0.000_1, 0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025,
    0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 60.0,
];

/// A histogram of durations. Clones share it.
#[derive(Debug, Clone, Default)]
pub(super) struct Times(Arc<Counts>);

#[derive(Debug, Default)]
struct Counts {
    /// Observations up to each bound, excluding the lower bounds.
    buckets: [AtomicU64; BOUNDS.len()],
    /// Observations above the last bound.
    above: AtomicU64,
    nanos: AtomicU64,
}

// === impl Times ===

impl Times {
    pub(super) fn observe(&self, time: Duration) {
        let seconds = time.as_secs_f64();
        let index = BOUNDS.partition_point(|bound| *bound < seconds);
        let bucket = self.0.buckets.get(index).unwrap_or(&self.0.above);
        bucket.fetch_add(1, Ordering::Relaxed);
        let nanos = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        self.0.nanos.fetch_add(nanos, Ordering::Relaxed);
    }
}

/// A summary of durations.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Summary {
    pub(super) count: u64,
    pub(super) p50: Duration,
    pub(super) p95: Duration,
}

impl Times {
    /// Summarizes the number of observations and two quantiles, interpolated inside their buckets;
    /// `None` without an observation.
    pub(super) fn summary(&self) -> Option<Summary> {
        let counts: Vec<u64> =
            self.0.buckets.iter().map(|count| count.load(Ordering::Relaxed)).collect();
        let above = self.0.above.load(Ordering::Relaxed);
        let count = counts.iter().sum::<u64>() + above;
        if count == 0 {
            return None;
        }
        let quantile = |share: f64| {
            let wanted = share * count as f64;
            let (mut below, mut from) = (0.0, 0.0);
            for (bound, inside) in BOUNDS.into_iter().zip(&counts) {
                let inside = *inside as f64;
                if inside > 0.0 && below + inside >= wanted {
                    let part = (wanted - below) / inside;
                    return Duration::from_secs_f64(from + (bound - from) * part);
                }
                (below, from) = (below + inside, bound);
            }
            // Above the last bound, only the bound is known.
            Duration::from_secs_f64(from)
        };
        Some(Summary { count, p50: quantile(0.5), p95: quantile(0.95) })
    }
}

impl TypedMetric for Times {
    const TYPE: MetricType = MetricType::Histogram;
}

impl EncodeMetric for Times {
    fn encode(&self, mut encoder: MetricEncoder<'_>) -> Result<(), fmt::Error> {
        let bounds = BOUNDS.into_iter().chain([f64::INFINITY]);
        let counts = self.0.buckets.iter().chain([&self.0.above]);
        let buckets: Vec<(f64, u64)> = bounds
            .zip(counts)
            .map(|(bound, count)| (bound, count.load(Ordering::Relaxed)))
            .collect();
        let count = buckets.iter().map(|(_, count)| count).sum();
        let sum = Duration::from_nanos(self.0.nanos.load(Ordering::Relaxed)).as_secs_f64();
        encoder.encode_histogram::<NoLabelSet>(sum, count, &buckets, None)
    }

    fn metric_type(&self) -> MetricType {
        Self::TYPE
    }
}

#[cfg(test)]
mod tests {
    use prometheus_client::{encoding::text, registry::Registry};

    use super::*;

    #[test]
    fn quantiles_are_inside_the_bucket_of_their_observation() {
        let times = Times::default();
        assert_eq!(times.summary(), None);
        for _ in 0..94 {
            times.observe(Duration::from_millis(3));
        }
        for _ in 0..6 {
            times.observe(Duration::from_millis(700));
        }
        let summary = times.summary().unwrap();
        assert_eq!(summary.count, 100);
        assert!((2.5..=5.0).contains(&(summary.p50.as_secs_f64() * 1e3)), "{summary:?}");
        assert!((0.5..=1.0).contains(&summary.p95.as_secs_f64()), "{summary:?}");
        times.observe(Duration::from_secs(500));
        assert_eq!(times.summary().unwrap().count, 101);
    }

    #[test]
    fn durations_are_in_the_buckets_up_to_their_bound() {
        let times = Times::default();
        for micros in [1, 10, 11, 1_000, 59_000_000, 61_000_000] {
            times.observe(Duration::from_micros(micros));
        }
        let mut registry = Registry::default();
        registry.register("t", "Times", times);
        let mut text = String::new();
        text::encode(&mut text, &registry).unwrap();
        for line in [
            "t_sum 120.001022",
            "t_count 6",
            "t_bucket{le=\"0.00001\"} 2",
            "t_bucket{le=\"0.000025\"} 3",
            "t_bucket{le=\"0.0005\"} 3",
            "t_bucket{le=\"0.001\"} 4",
            "t_bucket{le=\"60.0\"} 5",
            "t_bucket{le=\"+Inf\"} 6",
        ] {
            assert!(text.lines().any(|found| found == line), "{line} is not in\n{text}");
        }
    }
}
