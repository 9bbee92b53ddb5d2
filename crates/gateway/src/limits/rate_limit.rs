//! Token buckets in this process.
//!
//! Invariant: memory is bounded. Only full buckets are forgotten, because forgetting any other
//! would reset a limit. If a shard has no full bucket left, the call is refused.

use std::{
    collections::HashMap,
    hash::{BuildHasher as _, RandomState},
    num::NonZeroU32,
    sync::Arc,
    time::Duration,
};

use async_trait::async_trait;
use parking_lot::Mutex;
use toolcrib_core::{
    call::CallError,
    clock::Clock,
    id::TenantId,
    limit::{self, BucketKey, LimitError, Rate, RateLimiter},
    store::StoreError,
};

use crate::{audit::CallIdentity, background::Services, metrics::Limit};

/// Enough that callers on two to sixty-four cores rarely contend.
const SHARDS: usize = 64;
/// Buckets in one shard: 1 million in all, about 100 bytes each.
const MAX_PER_SHARD: usize = 16_384;

/// Buckets, as theoretical arrival times.
pub struct MemoryLimiter {
    clock: Arc<dyn Clock>,
    hasher: RandomState,
    shards: Vec<Mutex<HashMap<BucketKey, u64>>>,
    max_per_shard: usize,
}

impl MemoryLimiter {
    /// Creates an empty limiter that reads `clock`.
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self::with_capacity(clock, MAX_PER_SHARD)
    }

    fn with_capacity(clock: Arc<dyn Clock>, max_per_shard: usize) -> Self {
        let shards = (0..SHARDS).map(|_| Mutex::default()).collect();
        Self { clock, hasher: RandomState::new(), shards, max_per_shard }
    }
}

#[async_trait]
impl RateLimiter for MemoryLimiter {
    async fn take(&self, key: &BucketKey, rate: Rate) -> Result<(), LimitError> {
        let now = self.clock.monotonic_nanos();
        let shard = usize::try_from(self.hasher.hash_one(key)).unwrap_or(0) % SHARDS;
        let Some(shard) = self.shards.get(shard) else {
            return Err(LimitError::Unavailable(StoreError::Unavailable("no shard".to_owned())));
        };
        let mut buckets = shard.lock();
        if buckets.len() >= self.max_per_shard && !buckets.contains_key(key) {
            buckets.retain(|_, arrival| *arrival > now);
            if buckets.len() >= self.max_per_shard {
                let reason = "too many principals are being limited at once".to_owned();
                return Err(LimitError::Unavailable(StoreError::Unavailable(reason)));
            }
        }
        let exceeded = |wait| LimitError::Exceeded { retry_after: Duration::from_nanos(wait) };
        match buckets.get_mut(key) {
            Some(arrival) => *arrival = limit::take(*arrival, now, &rate).map_err(exceeded)?,
            None => {
                let arrival = limit::take(0, now, &rate).map_err(exceeded)?;
                buckets.insert(key.clone(), arrival);
            }
        }
        Ok(())
    }

    async fn reset(&self, tenant: &TenantId) -> Result<(), StoreError> {
        for shard in &self.shards {
            shard.lock().retain(|key, _| key.tenant() != tenant.as_str());
        }
        Ok(())
    }
}

pub(crate) struct RateLimits {
    limiter: Arc<dyn RateLimiter>,
    services: Services,
}

impl RateLimits {
    pub(crate) fn new(limiter: Arc<dyn RateLimiter>, services: Services) -> Self {
        Self { limiter, services }
    }

    /// Takes a token for `call`.
    ///
    /// # Errors
    /// [`CallError::RateLimited`], and [`CallError::NotAccountable`] when the limiter is unavailable.
    pub(crate) async fn take(&self, call: &CallIdentity) -> Result<(), CallError> {
        let entry = &call.entry;
        let Some(rate) = entry.rate else { return Ok(()) };
        let key = BucketKey::calls(&call.tenant, &call.principal, &entry.id);
        match self.limiter.take(&key, rate).await {
            Ok(()) => Ok(()),
            Err(LimitError::Exceeded { retry_after }) => {
                self.services.metrics.refused(&entry.source, Limit::Rate);
                let (tool, limit) = (entry.id.clone(), NonZeroU32::get(rate.calls));
                Err(CallError::RateLimited { tool, retry_after, limit, daily: false })
            }
            Err(LimitError::Unavailable(error)) => {
                tracing::error!(%error, "a call was refused because it could not be limited");
                Err(CallError::NotAccountable("limited"))
            }
        }
    }

    /// Refills every bucket of `tenant`.
    ///
    /// # Errors
    /// [`StoreError`]: the limiter is unavailable.
    pub(crate) async fn reset(&self, tenant: &TenantId) -> Result<(), StoreError> {
        self.limiter.reset(tenant).await
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use chrono::DateTime;
    use toolcrib_core::clock::Timestamp;

    use super::*;
    use crate::clock::SystemClock;

    toolcrib_store::limiter_suite!(in_memory, {
        let limiter: Arc<dyn RateLimiter> =
            Arc::new(MemoryLimiter::new(Arc::new(SystemClock::default())));
        (Arc::clone(&limiter), limiter, ())
    });

    #[derive(Default)]
    struct StepClock(AtomicU64);
    impl Clock for StepClock {
        fn now(&self) -> Timestamp {
            DateTime::UNIX_EPOCH
        }
        fn monotonic_nanos(&self) -> u64 {
            self.0.load(Ordering::SeqCst)
        }
    }

    fn ids(principal: &str, tool: &str) -> BucketKey {
        let tenant = TenantId::parse("t").unwrap();
        BucketKey::calls(&tenant, &principal.parse().unwrap(), &tool.parse().unwrap())
    }

    async fn take(limiter: &MemoryLimiter, key: &BucketKey) -> Result<(), LimitError> {
        limiter.take(key, Rate::parse("3/m").unwrap()).await
    }

    /// I-12: another principal and another tool have buckets of their own.
    #[tokio::test]
    async fn buckets_are_separate_and_refill() {
        let clock = Arc::new(StepClock::default());
        let limiter = MemoryLimiter::new(Arc::clone(&clock) as Arc<dyn Clock>);
        let (a, b, c) = (ids("p", "x"), ids("q", "x"), ids("p", "y"));
        for _ in 0..3 {
            take(&limiter, &a).await.unwrap();
        }
        let Err(LimitError::Exceeded { retry_after }) = take(&limiter, &a).await else {
            panic!("the fourth call must wait");
        };
        assert_eq!(retry_after, Duration::from_secs(20));
        take(&limiter, &b).await.unwrap();
        take(&limiter, &c).await.unwrap();
        clock.0.fetch_add(20_000_000_000, Ordering::SeqCst);
        take(&limiter, &a).await.unwrap();
        assert!(take(&limiter, &a).await.is_err());
    }

    #[tokio::test]
    async fn a_full_table_refuses_rather_than_forgets() {
        let clock = Arc::new(StepClock::default());
        let limiter = MemoryLimiter::with_capacity(Arc::clone(&clock) as Arc<dyn Clock>, 1);
        let mut refused = 0;
        for i in 0..(SHARDS * 4) {
            if take(&limiter, &ids(&format!("p{i}"), "x")).await.is_err() {
                refused += 1;
            }
        }
        assert!(refused > 0, "more principals than room");
        clock.0.fetch_add(3_600_000_000_000, Ordering::SeqCst);
        for i in 0..SHARDS {
            let _kept = take(&limiter, &ids(&format!("q{i}"), "x")).await;
        }
        take(&limiter, &ids("q0", "x")).await.unwrap();
    }
}
