//! A clock that tests advance.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use chrono::{TimeDelta, Utc};
use toolcrib_core::clock::{Clock, Timestamp};

/// A clock that starts at the present time and advances only on request.
pub struct ManualClock {
    start: Timestamp,
    passed: AtomicU64,
}

impl Default for ManualClock {
    fn default() -> Self {
        Self { start: Utc::now(), passed: AtomicU64::new(0) }
    }
}

impl ManualClock {
    pub fn advance(&self, time: Duration) {
        let nanos = u64::try_from(time.as_nanos()).unwrap();
        self.passed.fetch_add(nanos, Ordering::SeqCst);
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        let passed = self.passed.load(Ordering::SeqCst);
        self.start + TimeDelta::nanoseconds(i64::try_from(passed).unwrap())
    }

    fn monotonic_nanos(&self) -> u64 {
        self.passed.load(Ordering::SeqCst)
    }
}
