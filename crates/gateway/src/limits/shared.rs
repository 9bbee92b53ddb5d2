//! Rate limits that several servers share, and the rule while they are unreachable.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use toolcrib_config::OnOutage;
use toolcrib_core::{
    clock::Clock,
    id::TenantId,
    limit::{BucketKey, LimitError, Rate, RateLimiter},
    store::StoreError,
};

use crate::limits::rate_limit::MemoryLimiter;

/// The longest wait for a response.
const PATIENCE: Duration = Duration::from_secs(1);
/// Pause after a failure during which the shared limits are not used, so that not every call waits.
const PAUSE: Duration = Duration::from_secs(1);

/// A limiter that several servers share.
pub(crate) struct SharedLimiter {
    shared: Arc<dyn RateLimiter>,
    /// The limiter during an outage; `None` refuses the calls.
    local: Option<MemoryLimiter>,
    clock: Arc<dyn Clock>,
    /// The monotonic time from which the shared limits are used again.
    asked_from: AtomicU64,
    is_out: AtomicBool,
}

// === impl SharedLimiter ===

impl SharedLimiter {
    pub(crate) fn new(
        shared: Arc<dyn RateLimiter>,
        on_outage: OnOutage,
        clock: Arc<dyn Clock>,
    ) -> Self {
        let local = match on_outage {
            OnOutage::Refuse => None,
            OnOutage::Local => Some(MemoryLimiter::new(Arc::clone(&clock))),
        };
        Self { shared, local, clock, asked_from: AtomicU64::new(0), is_out: AtomicBool::new(false) }
    }

    /// Requests a token from the shared limits.
    ///
    /// # Errors
    /// As [`RateLimiter::take`]; also if they took too long or have just failed.
    async fn ask(&self, key: &BucketKey, rate: Rate) -> Result<(), LimitError> {
        let now = self.clock.monotonic_nanos();
        if now < self.asked_from.load(Ordering::Relaxed) {
            return Err(out("they did not answer a moment ago"));
        }
        let taken = match tokio::time::timeout(PATIENCE, self.shared.take(key, rate)).await {
            Ok(taken) => taken,
            Err(_) => Err(out("they did not answer within a second")),
        };
        match &taken {
            Err(LimitError::Unavailable(error)) => {
                let pause = u64::try_from(PAUSE.as_nanos()).unwrap_or(u64::MAX);
                let now = self.clock.monotonic_nanos();
                self.asked_from.store(now.saturating_add(pause), Ordering::Relaxed);
                if !self.is_out.swap(true, Ordering::Relaxed) {
                    let calls =
                        if self.local.is_some() { "limited by each server" } else { "refused" };
                    tracing::error!(%error, calls, "the shared rate limits cannot be used");
                }
            }
            Ok(()) | Err(LimitError::Exceeded { .. }) => {
                if self.is_out.swap(false, Ordering::Relaxed) {
                    tracing::warn!("the shared rate limits are used again");
                }
            }
        }
        taken
    }
}

#[async_trait]
impl RateLimiter for SharedLimiter {
    async fn take(&self, key: &BucketKey, rate: Rate) -> Result<(), LimitError> {
        match (self.ask(key, rate).await, &self.local) {
            (Err(LimitError::Unavailable(_)), Some(local)) => local.take(key, rate).await,
            (taken, _) => taken,
        }
    }

    async fn reset(&self, tenant: &TenantId) -> Result<(), StoreError> {
        if let Some(local) = &self.local {
            local.reset(tenant).await?;
        }
        self.shared.reset(tenant).await
    }
}

fn out(why: &str) -> LimitError {
    LimitError::Unavailable(StoreError::Unavailable(format!("the shared limits: {why}")))
}
