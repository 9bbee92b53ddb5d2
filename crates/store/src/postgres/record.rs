//! The stored record, its checkpoints and its readers' cursors.

use async_trait::async_trait;
use deadpool_postgres::GenericClient;
use tokio_postgres::Row;
use toolcrib_core::{
    clock::Timestamp,
    id::TenantId,
    record::{Checkpoint, Cursor, Head, LogGrowth, RecordStore, StoredEvent, StoredQuery},
    store::StoreError,
};

use super::{
    failure::{Failure, within},
    handle::PostgresStore,
    log::{COLUMNS, PREV, stored},
    partitions,
    row::{Param, bound, digest, execute, first, limit, one, parse, rows, stored_time, whole},
    schema_check,
    statement::{self, run},
};
use crate::rows::record::{self, CHECKPOINT};

#[async_trait]
impl RecordStore for PostgresStore {
    async fn displaced(&self) -> Option<&'static str> {
        match within(async { schema_check::run(&self.client().await?).await }).await {
            Err(StoreError::Corrupt(_)) => Some("the schema of the store was changed"),
            // Other read errors are reported by the operations that need the data.
            Ok(()) | Err(_) => None,
        }
    }

    async fn stored(&self, query: StoredQuery) -> Result<Vec<StoredEvent>, StoreError> {
        within(async { read(&self.client().await?, &query).await }).await
    }

    async fn last_position(&self) -> Result<u64, StoreError> {
        within(async { last_position(&self.client().await?).await }).await
    }

    async fn head(&self, tenant: &TenantId) -> Result<Option<Head>, StoreError> {
        within(async {
            let sql = "SELECT tenant_position, hash FROM events WHERE tenant = $1 \
                       ORDER BY tenant_position DESC LIMIT 1";
            let found = first(&self.client().await?, sql, &[&tenant.as_str()]).await?;
            let Some(row) = found else { return Ok(None) };
            let position = whole(row.try_get(0)?)?;
            let hash = digest(&row, 1)?.ok_or_else(|| Failure::corrupt("the hash of an event"))?;
            Ok(Some(Head { tenant: tenant.clone(), position, hash }))
        })
        .await
    }

    async fn tenants(&self, after: Option<&TenantId>) -> Result<Vec<TenantId>, StoreError> {
        within(async {
            // Also those that only have checkpoints.
            let sql = "SELECT tenant FROM \
                         (SELECT tenant FROM tenants WHERE position > 0 \
                          UNION SELECT tenant FROM checkpoints) t \
                       WHERE $1::text IS NULL OR tenant > $1 ORDER BY tenant LIMIT $2";
            let params: [Param<'_>; 2] = [&after.map(TenantId::as_str), &limit(0)];
            let found = rows(&self.client().await?, sql, &params).await?;
            let tenant = |row: &Row| parse(row.try_get(0)?, || Failure::corrupt("a tenant"));
            found.iter().map(tenant).collect()
        })
        .await
    }

    async fn news(&self, after: u64, to: u64) -> Result<Vec<LogGrowth>, StoreError> {
        within(async {
            let sql = "SELECT e.tenant, e.tenant_position, \
                       coalesce((SELECT c.position FROM checkpoints c \
                         WHERE c.tenant = e.tenant AND c.kind <> 'pruned' \
                         ORDER BY c.number DESC LIMIT 1), 0), e.hash \
                       FROM (SELECT DISTINCT ON (tenant) tenant, tenant_position, hash FROM events \
                             WHERE position > $1 AND position <= $2 \
                             ORDER BY tenant, tenant_position DESC) e ORDER BY e.tenant";
            let client = self.client().await?;
            let found = rows(&client, sql, &[&bound(after), &bound(to)]).await?;
            let news = |row: &Row| {
                Ok(LogGrowth {
                    tenant: parse(row.try_get(0)?, || Failure::corrupt("a tenant"))?,
                    position: whole(row.try_get(1)?)?,
                    checkpointed: whole(row.try_get(2)?)?,
                    hash: digest(row, 3)?,
                })
            };
            found.iter().map(news).collect()
        })
        .await
    }

    async fn add_checkpoint(&self, new: Checkpoint) -> Result<bool, StoreError> {
        within(async {
            let mut client = self.client().await?;
            let transaction = client.transaction().await?;
            lock(&transaction, &new.tenant).await?;
            let last = record::last_checkpoint(&new.tenant);
            let last = statement::first(&transaction, &last, record::checkpoint).await?;
            let sql = "SELECT hash FROM events WHERE tenant = $1 AND tenant_position = $2";
            let params: [Param<'_>; 2] = [&new.tenant.as_str(), &bound(new.position)];
            let stored = first(&transaction, sql, &params).await?;
            let stored = stored.map(|row| digest(&row, 0)).transpose()?.flatten();
            if !record::continues(&new, last.as_ref(), stored) {
                return Ok(false);
            }
            run(&transaction, &record::insert(&new)).await?;
            transaction.commit().await?;
            Ok(true)
        })
        .await
    }

    async fn checkpoints(
        &self,
        tenant: &TenantId,
        after: u64,
    ) -> Result<Vec<Checkpoint>, StoreError> {
        self.select(record::checkpoints(tenant, after), record::checkpoint).await
    }

    async fn last_checkpoint(&self, tenant: &TenantId) -> Result<Option<Checkpoint>, StoreError> {
        Ok(self.select(record::last_checkpoint(tenant), record::checkpoint).await?.pop())
    }

    async fn prunable(
        &self,
        tenant: &TenantId,
        before: Timestamp,
        delivered: u64,
    ) -> Result<Option<Checkpoint>, StoreError> {
        within(async {
            let sql = format!(
                "SELECT {CHECKPOINT} FROM checkpoints WHERE tenant = $1 AND kind = 'head' \
                 AND signed_at < $2 AND position > coalesce((SELECT max(position) \
                     FROM checkpoints WHERE tenant = $1 AND kind = 'pruned'), 0) \
                 AND position < least( \
                   (SELECT coalesce(max(tenant_position), 0) FROM events WHERE tenant = $1), \
                   (SELECT min(tenant_position) FROM events WHERE position > $3 AND tenant = $1), \
                   (SELECT min(tenant_position) FROM open_calls WHERE tenant = $1), \
                   (SELECT min(tenant_position) FROM open_sessions WHERE tenant = $1)) \
                 ORDER BY position DESC LIMIT 1"
            );
            let params: [Param<'_>; 3] =
                [&tenant.as_str(), &stored_time(before), &bound(delivered)];
            let found = first(&self.client().await?, &sql, &params).await?;
            found.as_ref().map(record::checkpoint).transpose()
        })
        .await
    }

    async fn prune(&self, tenant: &TenantId, limit: usize) -> Result<usize, StoreError> {
        const MARK: &str =
            "SELECT max(position) FROM checkpoints WHERE tenant = $1 AND kind = 'pruned'";
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        within(async {
            let mut client = self.client().await?;
            let transaction = client.transaction().await?;
            // A run without events counts from 0 again, so appends wait.
            lock(&transaction, tenant).await?;
            let sql = format!(
                "DELETE FROM events WHERE position IN ( \
                   SELECT position FROM events WHERE tenant = $1 AND tenant_position <= ({MARK}) \
                   AND tenant_position < (SELECT max(tenant_position) FROM events \
                                          WHERE tenant = $1) \
                   ORDER BY tenant_position LIMIT $2)"
            );
            let removed = execute(&transaction, &sql, &[&tenant.as_str(), &limit]).await?;
            if bound(removed) < limit {
                run(&transaction, &record::prune_checkpoints(tenant)).await?;
            }
            transaction.commit().await?;
            Ok(usize::try_from(removed).unwrap_or(usize::MAX))
        })
        .await
    }

    async fn drop_pruned(&self) -> Result<usize, StoreError> {
        let removed =
            within(async { partitions::drop_pruned(&mut self.client().await?).await }).await?;
        Ok(usize::try_from(removed).unwrap_or(usize::MAX))
    }

    async fn cursors(&self) -> Result<Vec<Cursor>, StoreError> {
        self.select(record::cursors(), record::cursor).await
    }

    async fn set_cursor(&self, cursor: Cursor) -> Result<(), StoreError> {
        self.run(record::set_cursor(&cursor)).await.map(drop)
    }
}

/// Locks the log of a tenant, so that appends wait.
async fn lock(client: &impl GenericClient, tenant: &TenantId) -> Result<(), Failure> {
    let sql = "SELECT 1 FROM tenants WHERE tenant = $1 FOR UPDATE";
    rows(client, sql, &[&tenant.as_str()]).await.map(drop)
}

/// Reads events as stored, without a check of their hashes.
pub(super) async fn read(
    client: &impl GenericClient,
    query: &StoredQuery,
) -> Result<Vec<StoredEvent>, Failure> {
    let prev = if query.with_prev { PREV } else { "NULL::bytea" };
    let from = match query.tenant {
        Some(_) => "e.tenant = $1 AND e.tenant_position > $2 ORDER BY e.tenant_position",
        None => "$1::text IS NULL AND e.position > $2 ORDER BY e.position",
    };
    let sql = format!("SELECT {COLUMNS}, {prev} FROM events e WHERE {from} LIMIT $3");
    let tenant = query.tenant.as_ref().map(|tenant| tenant.as_str());
    let params: [Param<'_>; 3] = [&tenant, &bound(query.after), &limit(query.limit)];
    rows(client, &sql, &params).await?.iter().map(stored).collect()
}

/// The last position of the whole log.
pub(super) async fn last_position(client: &impl GenericClient) -> Result<u64, Failure> {
    whole(one(client, "SELECT value FROM log_position WHERE id = 1", &[]).await?.try_get(0)?)
}
