//! Quotas: the number of calls that a principal may make per day, and the storage trait for the
//! counts.
//!
//! Days are UTC days: they start at midnight, for all principals at once.

use std::{fmt, num::NonZeroU32, str::FromStr, time::Duration};

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use crate::{
    clock::Timestamp,
    id::{PrincipalId, TenantId, ToolId},
    store::StoreError,
};

/// A number of calls per UTC day.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Quota(pub NonZeroU32);

/// The text is not a quota. It is never repeated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a quota is written like `10000/d`: a number of calls from 1, and `/d`")]
pub struct InvalidQuota;

/// Days since 1970-01-01 in UTC.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Day(pub i64);

/// The calls that are counted together.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct QuotaKey {
    /// The caller's tenant.
    pub tenant: TenantId,
    /// Principal within the tenant.
    pub principal: PrincipalId,
    /// One tool, or all of them together.
    pub tool: Option<ToolId>,
}

/// The most calls that a server sets aside at once.
pub const MAX_RESERVED: u64 = 64;

/// Calls that a server has set aside: they count at the store, and only that server may make them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QuotaReservation {
    /// The calls of the day that count now, including these.
    pub used: u64,
    /// The number of calls; zero if the quota is used up.
    pub granted: u64,
}

impl QuotaReservation {
    /// Sets calls aside under `quota`, of which `used` count already. Takes a sixteenth of the
    /// rest, so that the last calls are set aside one by one, and no server keeps many that another
    /// could make.
    pub fn new(used: u64, quota: Quota) -> Self {
        let left = u64::from(quota.calls()).saturating_sub(used);
        let granted = (left / 16).clamp(1, MAX_RESERVED).min(left);
        Self { used: used + granted, granted }
    }
}

/// Stores counts of calls across restarts.
#[async_trait]
pub trait QuotaStore: Send + Sync + 'static {
    /// Sets calls of `day` aside with [`QuotaReservation::new`]: the calls that count never exceed
    /// `quota`, however many servers reserve at once. Unused calls are returned with a negative
    /// [`add`](Self::add).
    async fn reserve(
        &self,
        day: Day,
        key: QuotaKey,
        quota: Quota,
    ) -> Result<QuotaReservation, StoreError>;

    /// Adds to the counts of `day`, all or none of them, and returns the new counts in the same
    /// order. A negative result becomes zero.
    async fn add(&self, day: Day, counts: Vec<(QuotaKey, i64)>) -> Result<Vec<u64>, StoreError>;

    /// Deletes counts of days before `day`, up to a few thousand, and returns how many it deleted.
    async fn forget_before(&self, day: Day) -> Result<usize, StoreError>;
}

// === impl Quota ===

impl Quota {
    /// The calls per day.
    pub fn calls(self) -> u32 {
        self.0.get()
    }
}

impl FromStr for Quota {
    type Err = InvalidQuota;

    fn from_str(text: &str) -> Result<Self, InvalidQuota> {
        let calls = text.strip_suffix("/d").ok_or(InvalidQuota)?;
        if !calls.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(InvalidQuota);
        }
        calls.parse().map(Self).map_err(|_| InvalidQuota)
    }
}

impl fmt::Display for Quota {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/d", self.0)
    }
}

// === impl Day ===

const SECONDS: i64 = 86_400;

impl Day {
    /// The day of `now`.
    pub fn of(now: Timestamp) -> Self {
        Self(now.timestamp().div_euclid(SECONDS))
    }

    /// The time from `now` to the end of the day; zero after it.
    pub fn left(self, now: Timestamp) -> Duration {
        let end = self.0.saturating_add(1).saturating_mul(SECONDS);
        let end = Timestamp::from_timestamp(end, 0).unwrap_or(Timestamp::MAX_UTC);
        (end - now).to_std().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use chrono::{TimeZone as _, Utc};

    use super::*;

    #[test]
    fn quotas_are_read_and_printed() {
        for text in ["1/d", "10000/d", "4294967295/d"] {
            assert_eq!(text.parse::<Quota>().unwrap().to_string(), text);
        }
        for text in ["", "/d", "0/d", "10/h", "+1/d", "-1/d", "1 /d", "4294967296/d", "10"] {
            assert_eq!(text.parse::<Quota>(), Err(InvalidQuota), "{text:?}");
        }
    }

    #[test]
    fn the_last_calls_are_set_aside_one_by_one() {
        let quota: Quota = "2000/d".parse().unwrap();
        for (used, granted) in
            [(0, 64), (1500, 31), (1968, 2), (1969, 1), (1999, 1), (2000, 0), (2001, 0)]
        {
            let reserved = QuotaReservation { used: used + granted, granted };
            assert_eq!(QuotaReservation::new(used, quota), reserved, "{used}");
        }
    }

    #[test]
    fn a_day_ends_at_midnight_in_utc() {
        let at = |hour, minute, second| {
            Utc.with_ymd_and_hms(2026, 2, 28, hour, minute, second).single().unwrap()
        };
        let day = Day::of(at(0, 0, 0));
        assert_eq!(day, Day::of(at(23, 59, 59)));
        assert_eq!(day.left(at(0, 0, 0)), Duration::from_secs(86_400));
        assert_eq!(day.left(at(23, 59, 59)), Duration::from_secs(1));
        let next = Utc.with_ymd_and_hms(2026, 3, 1, 0, 0, 0).single().unwrap();
        assert_eq!(Day::of(next), Day(day.0 + 1));
        assert_eq!(day.left(next), Duration::ZERO);
        let long_ago = Utc.with_ymd_and_hms(1969, 12, 31, 23, 0, 0).single().unwrap();
        assert_eq!(Day::of(long_ago), Day(-1));
    }
}
