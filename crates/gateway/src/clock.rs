//! The real clock.

use std::time::{Duration, Instant};

use chrono::{SubsecRound as _, Utc};
use toolcrib_core::clock::{Clock, Timestamp};

/// System time, and time since the creation of this value.
#[derive(Debug, Clone, Copy)]
pub struct SystemClock(Instant);

impl Default for SystemClock {
    fn default() -> Self {
        Self(Instant::now())
    }
}

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        // For people and records. Decisions need no finer time.
        Utc::now().trunc_subsecs(3)
    }

    fn monotonic_nanos(&self) -> u64 {
        u64::try_from(self.0.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }
}

/// The time `time` after `now`, or the latest possible one.
pub(crate) fn after(now: Timestamp, time: Duration) -> Timestamp {
    chrono::Duration::from_std(time).map_or(Timestamp::MAX_UTC, |time| {
        now.checked_add_signed(time).unwrap_or(Timestamp::MAX_UTC)
    })
}
