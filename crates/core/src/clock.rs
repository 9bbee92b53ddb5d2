//! Time as an argument.

use std::time::Duration;

use chrono::{DateTime, Utc};

/// How long a request uses what was read from the store before (I-110). Other servers and processes
/// may change it meanwhile.
pub const MAX_READ_AGE: Duration = Duration::from_secs(2);

/// A point in time, in UTC.
pub type Timestamp = DateTime<Utc>;

/// A source of time. The system clock lives in the gateway, the manual one in the test kit.
pub trait Clock: Send + Sync + 'static {
    /// The wall-clock time, for records.
    fn now(&self) -> Timestamp;

    /// Nanoseconds since a fixed point; never decreases. For durations and limits.
    fn monotonic_nanos(&self) -> u64;
}

/// The start of a read, in monotonic nanoseconds and in milliseconds of 1970. The monotonic clock
/// counts while this process is stopped, and the other one while the machine sleeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReadStart {
    /// Monotonic nanoseconds.
    pub at: u64,
    /// Milliseconds of 1970.
    pub wall_at: i64,
}

// === impl ReadStart ===

impl ReadStart {
    /// The start of a read now.
    pub fn now(clock: &dyn Clock) -> Self {
        Self { at: clock.monotonic_nanos(), wall_at: clock.now().timestamp_millis() }
    }

    /// The time of the start.
    pub fn time(self) -> Timestamp {
        DateTime::from_timestamp_millis(self.wall_at).unwrap_or_default()
    }

    /// Whether the read began at most `limit` before `now`. A wall clock that was set back is ignored.
    pub fn is_within(self, now: Self, limit: Duration) -> bool {
        let slept = u64::try_from(now.wall_at.saturating_sub(self.wall_at)).unwrap_or_default();
        Duration::from_nanos(now.at.saturating_sub(self.at)) <= limit
            && Duration::from_millis(slept) <= limit
    }
}

/// RFC 3339 with exactly three decimals and `Z`.
pub(crate) mod millis {
    use chrono::{DateTime, SecondsFormat, Utc};
    use serde::{Deserialize, Deserializer, Serializer};

    pub(crate) fn text(at: &DateTime<Utc>) -> String {
        at.to_rfc3339_opts(SecondsFormat::Millis, true)
    }

    pub(crate) fn serialize<S: Serializer>(at: &DateTime<Utc>, s: S) -> Result<S::Ok, S::Error> {
        s.serialize_str(&text(at))
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(d: D) -> Result<DateTime<Utc>, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(d)?;
        DateTime::parse_from_rfc3339(&text)
            .map(|at| at.with_timezone(&Utc))
            .map_err(serde::de::Error::custom)
    }
}
