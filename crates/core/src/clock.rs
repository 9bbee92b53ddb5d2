//! Time as an argument.

use chrono::{DateTime, Utc};

/// A point in time, in UTC.
pub type Timestamp = DateTime<Utc>;

/// A source of time. The system clock lives in the gateway, the manual one in the test kit.
pub trait Clock: Send + Sync + 'static {
    /// The wall-clock time, for records.
    fn now(&self) -> Timestamp;

    /// Nanoseconds since a fixed point; never decreases. For durations and limits.
    fn monotonic_nanos(&self) -> u64;
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
