//! Time as an argument.

use chrono::{DateTime, Utc};

/// A point in time, in UTC.
pub type Timestamp = DateTime<Utc>;

/// A source of time. The system clock lives in the gateway, the manual one in the test kit.
pub trait Clock: Send + Sync + 'static {
    /// Returns the wall-clock time, for records.
    fn now(&self) -> Timestamp;

    /// Returns nanoseconds since a fixed point; never decreases. For durations and limits.
    fn monotonic_nanos(&self) -> u64;
}
