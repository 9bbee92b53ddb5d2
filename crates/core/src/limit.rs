//! Rate limits: the arithmetic of a token bucket, and the storage trait for buckets.
//!
//! A bucket is one number, its *theoretical arrival time* (GCRA): the time at which it would be
//! full again. Zero is an unused bucket. Stores keep that number and call [`take`].

use std::{fmt, num::NonZeroU32, str::FromStr, time::Duration};

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use crate::{
    id::{PrincipalId, TenantId, ToolId},
    store::StoreError,
};

/// A number of calls per period, and the number that may come at once (burst).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Rate {
    /// Calls per period.
    pub calls: NonZeroU32,
    /// The period; never zero.
    pub period: Duration,
    /// Calls that a full bucket permits at once; `None` permits all calls of a period.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub burst: Option<NonZeroU32>,
}

impl Rate {
    /// Selects the rate that permits fewer calls. If either has a burst, the result has the smaller
    /// of the two bursts.
    #[must_use]
    pub fn slower(self, other: Self) -> Self {
        let per = |calls: NonZeroU32, period: Duration| u128::from(calls.get()) * period.as_nanos();
        // Calls over period, compared crosswise.
        let slower = match per(self.calls, other.period) <= per(other.calls, self.period) {
            true => self,
            false => other,
        };
        match self.burst.or(other.burst) {
            Some(_) => Self { burst: Some(self.burst().min(other.burst())), ..slower },
            None => slower,
        }
    }

    /// The calls that a full bucket permits at once.
    pub fn burst(&self) -> NonZeroU32 {
        self.burst.unwrap_or(self.calls)
    }

    /// Replaces the burst.
    #[must_use]
    pub fn with_burst(self, burst: NonZeroU32) -> Self {
        Self { burst: Some(burst), ..self }
    }
}

/// The text is not a rate. It is never repeated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a rate is written like `30/m`: a number of calls from 1, a slash, and one of s, m, h, d")]
pub struct InvalidRate;

/// The name of a bucket. Limiters keep it as two texts, whatever it counts.
///
/// Each constructor has a prefix, and all parts but the last have their length before them, so that
/// different parts never make equal names. Principals are named by their ids, so new sessions, keys
/// or addresses do not reset a bucket.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BucketKey {
    tenant: Option<TenantId>,
    name: String,
}

/// Why a call may not continue.
#[derive(Debug, Clone, thiserror::Error)]
pub enum LimitError {
    /// The bucket is empty.
    #[error("rate limit reached")]
    Exceeded {
        /// When the next call will be possible.
        retry_after: Duration,
    },
    /// The limiter cannot decide, so the call is refused.
    #[error("the limiter is not available: {0}")]
    Unavailable(#[from] StoreError),
}

/// Storage for buckets.
#[async_trait]
pub trait RateLimiter: Send + Sync + 'static {
    /// Takes one call from the bucket, which is full at first. A refused call does not change the
    /// bucket.
    async fn take(&self, key: &BucketKey, rate: Rate) -> Result<(), LimitError>;

    /// Fills every bucket of `tenant`. Only for tests of a running server.
    async fn reset(&self, tenant: &TenantId) -> Result<(), StoreError>;
}

/// Converts a wait to whole milliseconds for dialects: rounded up, so that a caller who waits that
/// long is not too early.
pub fn wait_millis(wait: Duration) -> u64 {
    u64::try_from(wait.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX)
}

/// Takes one call from a bucket at `now`. Returns the bucket's new state, or as `Err` the
/// nanoseconds until the next call is possible; the state is then unchanged.
///
/// `tat` and `now` are nanoseconds of one clock that never decreases; an unused bucket is 0. A
/// `now` before an earlier one is harmless: it does not refill the bucket.
pub fn take(tat: u64, now: u64, rate: &Rate) -> Result<u64, u64> {
    let next = tat.max(now).saturating_add(rate.interval());
    let latest = now.saturating_add(rate.refill());
    if next <= latest { Ok(next) } else { Err(next - latest) }
}

// === impl BucketKey ===

impl BucketKey {
    /// The calls of `tool` by one principal.
    pub fn calls(tenant: &TenantId, principal: &PrincipalId, tool: &ToolId) -> Self {
        let length = principal.as_str().len();
        Self::of(tenant, format!("calls/{length}:{principal}{tool}"))
    }

    /// The recorded refusals of one principal.
    pub fn refusals(tenant: &TenantId, principal: &PrincipalId) -> Self {
        Self::of(tenant, format!("refusals/{principal}"))
    }

    /// The recorded refusals of all principals of a tenant.
    pub fn tenant_refusals(tenant: &TenantId) -> Self {
        Self::of(tenant, "tenant-refusals".to_owned())
    }

    /// The recorded refusals of callers without credentials on one route.
    pub fn route_refusals(route: &str) -> Self {
        Self { tenant: None, name: format!("route-refusals/{route}") }
    }

    fn of(tenant: &TenantId, name: String) -> Self {
        Self { tenant: Some(tenant.clone()), name }
    }

    /// Its tenant; empty for a bucket without one, because no tenant has an empty id.
    pub fn tenant(&self) -> &str {
        self.tenant.as_ref().map_or("", TenantId::as_str)
    }

    /// Its name within the tenant. It contains ids of callers.
    pub fn name(&self) -> &str {
        &self.name
    }
}

// === impl Rate ===

const UNITS: [(&str, u64); 4] = [("s", 1), ("m", 60), ("h", 3600), ("d", 86_400)];

impl Rate {
    /// Parses `30/m`: calls per second, minute, hour or day.
    pub fn parse(text: &str) -> Result<Self, InvalidRate> {
        let (calls, unit) = text.split_once('/').ok_or(InvalidRate)?;
        if !calls.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(InvalidRate); // Rust parses `+30`, but a configuration does not mean it
        }
        let calls = calls.parse().map_err(|_| InvalidRate)?;
        let (_, seconds) = UNITS.iter().find(|(name, _)| *name == unit).ok_or(InvalidRate)?;
        Ok(Self { calls, period: Duration::from_secs(*seconds), burst: None })
    }

    /// The nanoseconds in which one call is refilled; rounded up, so that the rate is never
    /// exceeded.
    pub fn interval(&self) -> u64 {
        let period = u64::try_from(self.period.as_nanos()).unwrap_or(u64::MAX);
        period.div_ceil(u64::from(self.calls.get())).max(1)
    }

    /// The nanoseconds in which an empty bucket fills up.
    pub fn refill(&self) -> u64 {
        self.interval().saturating_mul(u64::from(self.burst().get()))
    }
}

impl FromStr for Rate {
    type Err = InvalidRate;

    fn from_str(text: &str) -> Result<Self, InvalidRate> {
        Self::parse(text)
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match UNITS.iter().find(|(_, seconds)| Duration::from_secs(*seconds) == self.period) {
            Some((unit, _)) => write!(f, "{}/{unit}", self.calls)?,
            None => write!(f, "{} per {:?}", self.calls, self.period)?,
        }
        match self.burst.filter(|burst| *burst != self.calls) {
            Some(burst) => write!(f, ", {burst} at once"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn rate(calls: u32, period: Duration) -> Rate {
        Rate { calls: NonZeroU32::new(calls).unwrap(), period, burst: None }
    }

    #[test]
    fn different_parts_make_different_buckets() {
        let tenant = |text: &str| TenantId::parse(text).unwrap();
        let principal = |text: &str| PrincipalId::parse(text).unwrap();
        let tool = |text: &str| ToolId::parse(text).unwrap();
        let (acme, other) = (tenant("acme"), tenant("other"));
        let mut keys = vec![
            BucketKey::route_refusals("/v1"),
            BucketKey::route_refusals("acme"),
            BucketKey::tenant_refusals(&acme),
            BucketKey::tenant_refusals(&other),
            BucketKey::refusals(&acme, &principal("ann")),
            BucketKey::refusals(&acme, &principal("anna")),
            BucketKey::refusals(&other, &principal("ann")),
            // Without lengths, these would be equal.
            BucketKey::calls(&acme, &principal("ann"), &tool("mcp:a.b")),
            BucketKey::calls(&acme, &principal("annmcp:"), &tool("a.b")),
            BucketKey::calls(&acme, &principal("1:ann"), &tool("mcp:a.b")),
            BucketKey::calls(&other, &principal("ann"), &tool("mcp:a.b")),
        ];
        let all = keys.len();
        keys.sort_unstable_by(|a, b| (a.tenant(), a.name()).cmp(&(b.tenant(), b.name())));
        keys.dedup_by(|a, b| (a.tenant(), a.name()) == (b.tenant(), b.name()));
        assert_eq!(keys.len(), all);
    }

    #[test]
    fn the_slower_of_two_rates_lets_fewer_calls_through() {
        let rate = |text: &str| text.parse::<Rate>().unwrap();
        for (one, other, slower) in [
            ("10/s", "30/m", "30/m"),
            ("1/m", "59/h", "59/h"),
            ("60/m", "2/s", "60/m"),
            ("1/d", "24/d", "1/d"),
        ] {
            assert_eq!(rate(one).slower(rate(other)), rate(slower));
            assert_eq!(rate(other).slower(rate(one)), rate(slower));
        }
        let bursting = |text, burst| rate(text).with_burst(NonZeroU32::new(burst).unwrap());
        for (one, other, slower) in [
            (bursting("600/m", 5), rate("500/m"), bursting("500/m", 5)),
            (bursting("600/m", 5), rate("1/s"), bursting("1/s", 1)),
            (bursting("6/m", 50), bursting("7/m", 20), bursting("6/m", 20)),
        ] {
            assert_eq!(one.slower(other), slower);
            assert_eq!(other.slower(one), slower);
        }
    }

    #[test]
    fn rates_are_read_and_printed() {
        for text in ["1/s", "30/m", "4294967295/h", "7/d"] {
            assert_eq!(Rate::parse(text).unwrap().to_string(), text);
        }
        assert_eq!("30/m".parse(), Ok(rate(30, Duration::from_secs(60))));
        for text in [
            "",
            "30",
            "/m",
            "30/",
            "0/m",
            "-1/m",
            "+1/m",
            "1.5/m",
            "30/M",
            "30/min",
            "30 / m",
            "4294967296/s",
            "1/m/s",
        ] {
            assert_eq!(Rate::parse(text), Err(InvalidRate), "{text:?}");
        }
    }

    /// Tests a call at `at` seconds: it passes, or it has to wait the given seconds.
    fn check(text: &str, calls: &[(u64, Result<(), u64>)]) {
        check_rate(Rate::parse(text).unwrap(), calls);
    }

    fn check_rate(rate: Rate, calls: &[(u64, Result<(), u64>)]) {
        const SECOND: u64 = 1_000_000_000;
        let mut tat = 0;
        for (index, (at, expected)) in calls.iter().enumerate() {
            let taken = take(tat, at * SECOND, &rate);
            assert_eq!(taken.map(drop), expected.map_err(|s| s * SECOND), "call {index} of {rate}");
            tat = taken.unwrap_or(tat);
        }
    }

    #[test]
    fn a_bucket_starts_full_and_refills_evenly() {
        check(
            "1/s",
            &[(0, Ok(())), (0, Err(1)), (1, Ok(())), (1, Err(1)), (9, Ok(())), (9, Err(1))],
        );
        check(
            "3/m",
            &[
                (100, Ok(())),
                (100, Ok(())),
                (100, Ok(())),
                (100, Err(20)),
                (100, Err(20)), // a refused call takes nothing
                (119, Err(1)),
                (120, Ok(())),
                (120, Err(20)),
                (160, Ok(())),
                (160, Ok(())),
                (160, Err(20)),
                (10_000, Ok(())), // never more than full
                (10_000, Ok(())),
                (10_000, Ok(())),
                (10_000, Err(20)),
            ],
        );
    }

    #[test]
    fn a_burst_limits_calls_at_once_and_nothing_else() {
        let rate = |burst| Rate::parse("3/m").unwrap().with_burst(NonZeroU32::new(burst).unwrap());
        check_rate(
            rate(1),
            &[(0, Ok(())), (0, Err(20)), (20, Ok(())), (90, Ok(())), (90, Err(20))],
        );
        let five = [(0, Ok(())); 5];
        let after = [(0, Err(20)), (20, Ok(())), (20, Err(20)), (60, Ok(())), (60, Ok(()))];
        check_rate(rate(5), &[&five[..], &after, &[(60, Err(20))]].concat());
        assert_eq!(rate(5).to_string(), "3/m, 5 at once");
        assert_eq!(rate(3).to_string(), "3/m");
    }

    #[test]
    fn a_clock_that_goes_back_gives_nothing() {
        check("1/m", &[(100, Ok(())), (40, Err(120)), (100, Err(60)), (160, Ok(()))]);
    }

    #[test]
    fn the_ends_of_the_numbers_are_safe() {
        let slow = rate(u32::MAX, Duration::MAX);
        assert!(take(0, 0, &slow).is_ok());
        let once = rate(1, Duration::MAX);
        assert!(take(0, 0, &once).is_ok());
        assert_eq!(
            take(u64::MAX, 0, &rate(1, Duration::from_secs(1))),
            Err(u64::MAX - 1_000_000_000)
        );
        assert_eq!(
            take(0, 5, &rate(u32::MAX, Duration::ZERO)),
            Ok(6),
            "a zero period is one tick a call"
        );
    }

    /// A textbook bucket: each call takes `cost`, and each nanosecond refills one.
    struct Bucket {
        water: u128,
        full: u128,
        cost: u128,
        last: u64,
    }

    impl Bucket {
        fn take(&mut self, now: u64) -> Result<(), u64> {
            self.water = (self.water + u128::from(now - self.last)).min(self.full);
            self.last = now;
            match self.water.checked_sub(self.cost) {
                Some(left) => {
                    self.water = left;
                    Ok(())
                }
                None => Err(u64::try_from(self.cost - self.water).unwrap()),
            }
        }
    }

    proptest! {
        // I-12
        #[test]
        fn it_is_a_token_bucket(
            calls in 1..20_u32, burst in proptest::option::of(1..40_u32),
            period in 1..1_000_000_u64, start in 0..10_000_000_u64,
            steps in proptest::collection::vec(0..200_000_u64, 1..200),
        ) {
            let mut rate = rate(calls, Duration::from_nanos(period));
            rate.burst = burst.and_then(NonZeroU32::new);
            let burst = burst.unwrap_or(calls);
            let cost = u128::from(period.div_ceil(u64::from(calls)));
            let full = cost * u128::from(burst);
            let mut bucket = Bucket { water: full, full, cost, last: 0 };
            let (mut now, mut tat, mut taken) = (start, 0, Vec::new());
            for step in steps {
                now += step;
                let decision = take(tat, now, &rate);
                prop_assert_eq!(decision.map(drop), bucket.take(now));
                match decision {
                    Ok(next) => {
                        tat = next;
                        taken.push(now);
                    }
                    Err(wait) => {
                        prop_assert!(take(tat, now + wait, &rate).is_ok(), "after the wait the call passes");
                        prop_assert!(take(tat, now + wait - 1, &rate).is_err(), "and not before");
                    }
                }
            }
            // In any window: the burst, and the calls refilled meanwhile.
            for (i, first) in taken.iter().enumerate() {
                for (j, last) in taken.iter().enumerate().skip(i) {
                    let refilled = u128::from(last - first) / cost;
                    prop_assert!((j - i + 1) as u128 <= u128::from(burst) + refilled);
                }
            }
        }
    }
}
