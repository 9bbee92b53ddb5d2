//! Buckets of rate limits, by the clock of the database.
//!
//! The table is not logged, so no commit waits for a disk. After a crash of the database the
//! buckets are full.

use std::time::Duration;

use async_trait::async_trait;
use toolcrib_core::{
    id::TenantId,
    limit::{BucketKey, LimitError, Rate, RateLimiter},
    store::StoreError,
};

use super::{
    failure::within,
    handle::PostgresStore,
    row::{Param, bound, execute, one},
};

/// The most buckets that one step removes.
const SWEEP: i64 = 4_096;

#[async_trait]
impl RateLimiter for PostgresStore {
    async fn take(&self, key: &BucketKey, rate: Rate) -> Result<(), LimitError> {
        let wait: i64 = within(async {
            // Time that passed while the row was locked does not refill the bucket.
            let sql = "WITH clock AS (SELECT \
                         (extract(epoch FROM clock_timestamp()) * 1000000)::bigint AS now), \
                       taken AS (INSERT INTO rates AS r (tenant, bucket, arrival) \
                         SELECT $1, $2, now + $3 FROM clock \
                         ON CONFLICT (tenant, bucket) DO UPDATE SET arrival = \
                           greatest(r.arrival, (SELECT now FROM clock)) + $3 \
                         WHERE greatest(r.arrival, (SELECT now FROM clock)) + $3 \
                           <= (SELECT now FROM clock) + $4 \
                         RETURNING 0::bigint AS wait) \
                       SELECT coalesce((SELECT wait FROM taken), (SELECT greatest(1, \
                         greatest(r.arrival, now) + $3 - now - $4) FROM rates r, clock \
                         WHERE r.tenant = $1 AND r.bucket = $2), 1)";
            let (interval, refill) = (micros(rate.interval()), micros(rate.refill()));
            let params: [Param<'_>; 4] = [&key.tenant(), &key.name(), &interval, &refill];
            Ok(one(&self.client().await?, sql, &params).await?.try_get(0)?)
        })
        .await?;
        match u64::try_from(wait) {
            Ok(0) => Ok(()),
            wait => {
                let retry_after = Duration::from_micros(wait.unwrap_or(1));
                Err(LimitError::Exceeded { retry_after })
            }
        }
    }

    async fn reset(&self, tenant: &TenantId) -> Result<(), StoreError> {
        within(async {
            let sql = "DELETE FROM rates WHERE tenant = $1";
            execute(&self.client().await?, sql, &[&tenant.as_str()]).await?;
            Ok(())
        })
        .await
    }
}

/// Removes buckets that are full again.
pub(super) async fn sweep(store: &PostgresStore) -> Result<u64, StoreError> {
    within(async {
        let sql = "DELETE FROM rates WHERE (tenant, bucket) IN (SELECT tenant, bucket \
                   FROM rates WHERE arrival < (extract(epoch FROM clock_timestamp()) \
                   * 1000000)::bigint LIMIT $1 FOR UPDATE SKIP LOCKED)";
        execute(&store.client().await?, sql, &[&SWEEP]).await
    })
    .await
}

/// Nanoseconds as stored, in microseconds; rounded up, so that a rate is never exceeded.
fn micros(nanos: u64) -> i64 {
    bound(nanos.div_ceil(1_000))
}
