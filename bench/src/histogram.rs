//! Latencies in buckets of about 3 %: precise enough for a median and a 99th percentile, and cheap
//! to add to.

use std::time::Duration;

/// Buckets per power of two.
const STEPS: u32 = 32;
const STEP_BITS: u32 = STEPS.trailing_zeros();
/// Up to 2^36 ns, more than a minute.
const BUCKETS: usize = (36 * STEPS) as usize;

#[derive(Debug, Clone)]
pub(crate) struct Histogram {
    counts: Vec<u64>,
    total: u64,
}

impl Histogram {
    pub(crate) fn new() -> Self {
        Self { counts: vec![0; BUCKETS], total: 0 }
    }

    pub(crate) fn add(&mut self, latency: Duration) {
        let nanoseconds = u64::try_from(latency.as_nanos()).unwrap_or(u64::MAX);
        if let Some(count) = self.counts.get_mut(bucket(nanoseconds).min(BUCKETS - 1)) {
            *count += 1;
        }
        self.total += 1;
    }

    pub(crate) fn merge(&mut self, other: &Self) {
        for (count, more) in self.counts.iter_mut().zip(&other.counts) {
            *count += more;
        }
        self.total += other.total;
    }

    pub(crate) fn total(&self) -> u64 {
        self.total
    }

    /// Returns the latency that `share` (0 to 1) of the requests did not exceed, rounded up to its
    /// bucket.
    pub(crate) fn quantile(&self, share: f64) -> Duration {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            clippy::cast_precision_loss,
            reason = "counts are far below 2^52 and shares are positive"
        )]
        let wanted = (self.total as f64 * share).ceil() as u64;
        let mut seen = 0;
        for (index, count) in self.counts.iter().enumerate() {
            seen += count;
            if seen >= wanted.max(1) {
                return Duration::from_nanos(upper_bound(index));
            }
        }
        Duration::ZERO
    }
}

/// The bucket of a value: exact below 2 * STEPS, then STEPS buckets per power of two.
fn bucket(nanoseconds: u64) -> usize {
    let magnitude = 63_u32.saturating_sub(nanoseconds.leading_zeros());
    let shift = magnitude.saturating_sub(STEP_BITS);
    let within = usize::try_from(nanoseconds >> shift).unwrap_or(BUCKETS);
    (shift * STEPS) as usize + within
}

fn upper_bound(index: usize) -> u64 {
    let steps = STEPS as usize;
    let shift = (index / steps).saturating_sub(1);
    let within = (index - shift * steps) as u64;
    ((within + 1) << shift) - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_lies_in_its_bucket() {
        for value in (0..5_000).chain([65_535, 65_536, 1_000_000, 999_999_999, 30_000_000_000]) {
            let index = bucket(value);
            assert!(index < BUCKETS, "{value}");
            assert!(value <= upper_bound(index), "{value} above bucket {index}");
            assert!(index == 0 || value > upper_bound(index - 1), "{value} below bucket {index}");
        }
    }

    #[test]
    fn quantiles_are_close() {
        let mut histogram = Histogram::new();
        for microseconds in 1..=1_000 {
            histogram.add(Duration::from_micros(microseconds));
        }
        let (half, high) = (histogram.quantile(0.5), histogram.quantile(0.99));
        assert!((480..=520).contains(&half.as_micros()), "{half:?}");
        assert!((970..=1_025).contains(&high.as_micros()), "{high:?}");
    }
}
