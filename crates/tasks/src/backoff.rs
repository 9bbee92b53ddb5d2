//! The pause between two attempts.

use std::time::Duration;

/// A pause that doubles with each attempt, up to a maximum.
#[derive(Debug)]
pub struct Backoff {
    first: Duration,
    longest: Duration,
    next: Duration,
}

impl Backoff {
    /// Creates a backoff that begins with about `first`.
    pub fn new(first: Duration, longest: Duration) -> Self {
        Self { first, longest, next: first }
    }

    /// Begins again with the first pause.
    pub fn reset(&mut self) {
        self.next = self.first;
    }

    /// Returns the next pause: between three quarters and five quarters of a duration that doubles
    /// every time, so that tasks that failed together do not restart together.
    pub fn next_pause(&mut self) -> Duration {
        let base = self.next;
        self.next = (base * 2).min(self.longest);
        let random = f64::from(getrandom::u32().unwrap_or_default()) / f64::from(u32::MAX);
        base.mul_f64(0.75 + random / 2.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_a_cap_and_start_small_after_a_reset() {
        // I-27
        let first = Duration::from_millis(250);
        let mut pause = Backoff::new(first, Duration::from_secs(2));
        let mut base = first;
        for _ in 0..8 {
            let next = pause.next_pause();
            assert!(
                next >= base.mul_f64(0.75) && next <= base.mul_f64(1.25),
                "{next:?} of {base:?}"
            );
            base = (base * 2).min(Duration::from_secs(2));
        }
        pause.reset();
        assert!(pause.next_pause() <= first.mul_f64(1.25));
    }
}
