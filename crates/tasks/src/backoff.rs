//! The pause between two attempts.

use std::time::Duration;

/// Pauses that double with each failure, up to a maximum.
#[derive(Debug, Clone, Copy)]
pub struct Backoff {
    first: Duration,
    longest: Duration,
}

impl Backoff {
    /// Pauses from `first` up to `longest`.
    pub const fn new(first: Duration, longest: Duration) -> Self {
        Self { first, longest }
    }

    /// The pause after `failures` failures in a row.
    pub fn after(self, failures: u64) -> Duration {
        let doublings = u32::try_from(failures.saturating_sub(1).min(16)).unwrap_or(16);
        self.first.saturating_mul(1 << doublings).min(self.longest)
    }

    /// As [`after`](Self::after), times a random factor between 0.75 and 1.25, so that tasks that failed
    /// at the same time do not retry at the same time.
    pub fn jittered(self, failures: u64) -> Duration {
        let random = f64::from(getrandom::u32().unwrap_or_default()) / f64::from(u32::MAX);
        self.after(failures).mul_f64(0.75 + random / 2.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // I-27
    #[test]
    fn pauses_double_up_to_the_longest() {
        let (first, longest) = (Duration::from_millis(200), Duration::from_secs(60));
        let backoff = Backoff::new(first, longest);
        assert_eq!(backoff.after(0), first);
        assert_eq!(backoff.after(1), first);
        assert_eq!(backoff.after(2), first * 2);
        assert_eq!(backoff.after(9), Duration::from_millis(51_200));
        assert_eq!(backoff.after(10), longest);
        assert_eq!(backoff.after(u64::MAX), longest);
    }

    #[test]
    fn a_jittered_pause_stays_close_to_the_pause() {
        let backoff = Backoff::new(Duration::from_millis(250), Duration::from_secs(2));
        for failures in 0..20 {
            let (pause, base) = (backoff.jittered(failures), backoff.after(failures));
            assert!(pause >= base.mul_f64(0.74) && pause <= base.mul_f64(1.26), "{pause:?}");
        }
    }
}
