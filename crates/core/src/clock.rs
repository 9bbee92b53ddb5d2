//! Time as an argument.

use chrono::{DateTime, Utc};

/// A moment, in UTC.
pub type Timestamp = DateTime<Utc>;

/// Tells the time. The system clock lives in the gateway, the manual one in the test kit.
pub trait Clock: Send + Sync + 'static {
    /// Wall-clock time, for records.
    fn now(&self) -> Timestamp;

    /// Nanoseconds since some fixed point that never goes back, for durations and limits.
    fn monotonic_nanos(&self) -> u64;
}
