//! Counts of quotas.

use async_trait::async_trait;
use toolcrib_core::{
    quota::{Day, Quota, QuotaKey, QuotaReservation, QuotaStore},
    store::StoreError,
};

use super::{
    failure::within,
    handle::PostgresStore,
    row::{bound, execute, first, one, whole},
};

/// The most counts that one step deletes.
const MOST_FORGOTTEN: i64 = 4_096;

#[async_trait]
impl QuotaStore for PostgresStore {
    async fn reserve(
        &self,
        day: Day,
        key: QuotaKey,
        quota: Quota,
    ) -> Result<QuotaReservation, StoreError> {
        within(async {
            let mut client = self.client().await?;
            let transaction = client.transaction().await?;
            let (tenant, principal) = (key.tenant.as_str(), key.principal.as_str());
            let tool = key.tool.as_ref().map_or("", |tool| tool.as_str());
            // The row is locked, so that servers reserve one after the other.
            let sql = "INSERT INTO quotas AS q (day, tenant, principal, tool, calls) \
                       VALUES ($1, $2, $3, $4, 0) \
                       ON CONFLICT (day, tenant, principal, tool) \
                       DO UPDATE SET calls = q.calls RETURNING calls";
            let used =
                one(&transaction, sql, &[&day.0, &tenant, &principal, &tool]).await?.try_get(0)?;
            let reserved = QuotaReservation::new(whole(used)?, quota);
            if reserved.granted > 0 {
                let sql = "UPDATE quotas SET calls = $5 \
                           WHERE day = $1 AND tenant = $2 AND principal = $3 AND tool = $4";
                let used = bound(reserved.used);
                execute(&transaction, sql, &[&day.0, &tenant, &principal, &tool, &used]).await?;
            }
            transaction.commit().await?;
            Ok(reserved)
        })
        .await
    }

    async fn add(&self, day: Day, counts: Vec<(QuotaKey, i64)>) -> Result<Vec<u64>, StoreError> {
        // In one order, so that two processes do not wait for one another.
        let mut ordered: Vec<_> = counts.iter().enumerate().collect();
        ordered.sort_by(|(_, (a, _)), (_, (b, _))| a.cmp(b));
        let ordered = &ordered;
        within(async move {
            let mut client = self.client().await?;
            let transaction = client.transaction().await?;
            let mut totals = Vec::with_capacity(ordered.len());
            for (index, (key, calls)) in ordered {
                let (tenant, principal) = (key.tenant.as_str(), key.principal.as_str());
                // No tool has an empty id, so an empty text means all tools.
                let tool = key.tool.as_ref().map_or("", |tool| tool.as_str());
                let total: Option<i64> = if *calls == 0 {
                    let sql = "SELECT calls FROM quotas \
                               WHERE day = $1 AND tenant = $2 AND principal = $3 AND tool = $4";
                    let found =
                        first(&transaction, sql, &[&day.0, &tenant, &principal, &tool]).await?;
                    found.map(|row| row.try_get(0)).transpose()?
                } else {
                    let sql = "INSERT INTO quotas AS q (day, tenant, principal, tool, calls) \
                               VALUES ($1, $2, $3, $4, greatest($5::bigint, 0)) \
                               ON CONFLICT (day, tenant, principal, tool) \
                               DO UPDATE SET calls = greatest(q.calls + $5::bigint, 0) \
                               RETURNING calls";
                    let params: [super::row::Param<'_>; 5] =
                        [&day.0, &tenant, &principal, &tool, calls];
                    Some(one(&transaction, sql, &params).await?.try_get(0)?)
                };
                totals.push((*index, whole(total.unwrap_or(0))?));
            }
            transaction.commit().await?;
            totals.sort_unstable();
            Ok(totals.into_iter().map(|(_, total)| total).collect())
        })
        .await
    }

    async fn forget_before(&self, day: Day) -> Result<usize, StoreError> {
        within(async {
            let sql = "DELETE FROM quotas WHERE (day, tenant, principal, tool) IN \
                       (SELECT day, tenant, principal, tool FROM quotas WHERE day < $1 LIMIT $2)";
            let client = self.client().await?;
            let forgotten = execute(&client, sql, &[&day.0, &MOST_FORGOTTEN]).await?;
            Ok(usize::try_from(forgotten).unwrap_or(usize::MAX))
        })
        .await
    }
}
