//! Rate limits: the arithmetic of a token bucket, and the seam behind which buckets are kept.

use std::{num::NonZeroU32, time::Duration};

use async_trait::async_trait;

use crate::{
    id::{PrincipalId, TenantId, ToolId},
    store::StoreError,
};

/// So many calls per period; the whole amount may come at once (burst).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Rate {
    /// Calls per period, and the burst.
    pub calls: NonZeroU32,
    /// The period; never zero.
    pub period: Duration,
}

/// Whose bucket. The principal's id is stable, so new sessions, keys or addresses reset nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct LimitKey<'a> {
    /// Tenant.
    pub tenant: &'a TenantId,
    /// Principal within the tenant.
    pub principal: &'a PrincipalId,
    /// Tool.
    pub tool: &'a ToolId,
}

/// Why a call may not go on.
#[derive(Debug, Clone, thiserror::Error)]
pub enum LimitError {
    /// The bucket is empty.
    #[error("rate limit reached")]
    Exceeded {
        /// When one call will be possible.
        retry_after: Duration,
    },
    /// The limiter cannot decide, which is a refusal.
    #[error("the limiter is not available: {0}")]
    Unavailable(#[from] StoreError),
}

/// Keeps buckets.
#[async_trait]
pub trait RateLimiter: Send + Sync + 'static {
    /// Takes one call out of the bucket, which starts full. A refused call takes nothing.
    async fn take(&self, key: LimitKey<'_>, rate: Rate) -> Result<(), LimitError>;
}
