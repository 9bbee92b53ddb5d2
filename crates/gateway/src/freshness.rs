//! The age of the copies of stored data that this process keeps in memory.
//!
//! Invariant (I-110): a request only uses keys and pins that the store has confirmed within
//! [`MAX_READ_AGE`]. After a pause of the process or a loss of its store, a request waits for
//! the next confirmation, and fails without one. Requests never read the store for this: the tasks
//! that follow it do, a few times a second.

use std::{
    sync::{
        Arc,
        atomic::{AtomicI64, AtomicU64, Ordering},
    },
    time::Duration,
};

use tokio::sync::watch;
use toolcrib_core::clock::{Clock, MAX_READ_AGE, ReadStart};

/// How long a request waits for a confirmation.
const PATIENCE: Duration = Duration::from_secs(5);

/// The age of a copy of stored data.
pub(crate) struct Confirmation {
    clock: Arc<dyn Clock>,
    /// The start of the last successful read: monotonic nanoseconds, [`NEVER`] before the first,
    /// and milliseconds of 1970. The monotonic clock counts while this process is stopped, and the
    /// other one while the machine sleeps.
    at: AtomicU64,
    wall_at: AtomicI64,
    /// Counts failed reads. Notifies of every read.
    failed: watch::Sender<u64>,
}

const NEVER: u64 = u64::MAX;

// === impl Confirmation ===

impl Confirmation {
    pub(crate) fn new(clock: Arc<dyn Clock>) -> Self {
        let (at, wall_at) = (AtomicU64::new(NEVER), AtomicI64::new(0));
        Self { clock, at, wall_at, failed: watch::Sender::new(0) }
    }

    /// Notes that the copy is as current as the read that started at `began`.
    pub(crate) fn confirm(&self, began: ReadStart) {
        let later = |at| (at == NEVER || at <= began.at).then_some(began.at);
        // A read with an earlier start than the last one adds no confirmation.
        if self.at.fetch_update(Ordering::AcqRel, Ordering::Acquire, later).is_ok() {
            self.wall_at.store(began.wall_at, Ordering::Release);
        }
        self.failed.send_modify(|_| {});
    }

    /// Notes that a read failed.
    pub(crate) fn fail(&self) {
        self.failed.send_modify(|failed| *failed += 1);
    }

    /// Whether the copy is valid now.
    pub(crate) fn is_fresh(&self) -> bool {
        self.is_within(MAX_READ_AGE)
    }

    /// Whether the copy was confirmed within `limit`.
    pub(crate) fn is_within(&self, limit: Duration) -> bool {
        let (at, wall_at) = (self.at.load(Ordering::Acquire), self.wall_at.load(Ordering::Acquire));
        let began = ReadStart { at, wall_at };
        at != NEVER && began.is_within(ReadStart::now(&*self.clock), limit)
    }

    /// Waits until the copy is valid. Returns `false` if the next read fails, or takes too long.
    pub(crate) async fn wait(&self) -> bool {
        if self.is_fresh() {
            return true;
        }
        let mut reads = self.failed.subscribe();
        let before = *reads.borrow_and_update();
        let confirmed = async {
            while !self.is_fresh() {
                if *reads.borrow_and_update() != before || reads.changed().await.is_err() {
                    return false;
                }
            }
            true
        };
        tokio::time::timeout(PATIENCE, confirmed).await.unwrap_or(false)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A clock that tests set: monotonic nanoseconds, and milliseconds of 1970.
    #[derive(Default)]
    struct TestClock(AtomicU64, AtomicI64);

    impl Clock for TestClock {
        fn now(&self) -> toolcrib_core::clock::Timestamp {
            let millis = self.1.load(Ordering::SeqCst);
            chrono::DateTime::from_timestamp_millis(millis).unwrap()
        }

        fn monotonic_nanos(&self) -> u64 {
            self.0.load(Ordering::SeqCst)
        }
    }

    fn second(number: u64) -> u64 {
        number * 1_000_000_000
    }

    /// I-110
    #[tokio::test(start_paused = true)]
    async fn a_copy_counts_for_two_seconds_from_the_beginning_of_its_read() {
        let clock = Arc::new(TestClock::default());
        let confirmation = Arc::new(Confirmation::new(Arc::clone(&clock) as _));
        assert!(!confirmation.is_fresh(), "nothing was read");
        let first = ReadStart::now(&*clock);
        clock.0.store(second(1), Ordering::SeqCst);
        confirmation.confirm(first);
        clock.0.store(second(2), Ordering::SeqCst);
        assert!(confirmation.wait().await);
        clock.0.store(second(2) + 1, Ordering::SeqCst);
        assert!(!confirmation.is_fresh());
        confirmation.confirm(first);
        assert!(!confirmation.is_fresh(), "a read from before a pause");

        let waiting = Arc::clone(&confirmation);
        let waiting = tokio::spawn(async move { waiting.wait().await });
        tokio::task::yield_now().await;
        confirmation.confirm(ReadStart::now(&*clock));
        assert!(waiting.await.unwrap());
        confirmation.confirm(first);
        assert!(confirmation.is_fresh(), "a slow read takes nothing back");
        clock.1.store(2_001, Ordering::SeqCst);
        assert!(!confirmation.is_fresh(), "the machine slept");
        confirmation.confirm(ReadStart::now(&*clock));
        clock.1.store(0, Ordering::SeqCst);
        assert!(confirmation.is_fresh(), "the clock was set back");
    }

    /// I-110
    #[tokio::test(start_paused = true)]
    async fn a_failed_read_ends_the_wait_for_it() {
        let confirmation = Arc::new(Confirmation::new(Arc::new(TestClock::default())));
        confirmation.fail();
        let waiting = Arc::clone(&confirmation);
        let waiting = tokio::spawn(async move { waiting.wait().await });
        tokio::task::yield_now().await;
        confirmation.fail();
        assert!(!waiting.await.unwrap());
        assert!(!confirmation.wait().await, "and no read ends it after a limit");
    }
}
