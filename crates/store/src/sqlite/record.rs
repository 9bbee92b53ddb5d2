//! The stored record, its checkpoints and its readers' cursors, on SQLite.

use std::sync::Arc;

use async_trait::async_trait;
use rusqlite::{Connection, OptionalExtension as _, Row, params};
use toolcrib_core::{
    canonical::Digest,
    clock::Timestamp,
    id::TenantId,
    record::{
        CheckedLink, Checkpoint, Cursor, Head, KnownHeads, LogGrowth, RecordStore, StoredEvent,
        StoredQuery,
    },
    store::StoreError,
};

use super::{
    chain,
    failure::Failure,
    handle::SqliteStore,
    open_calls,
    row::{bound, execute, limit, parse, time_text, whole},
    statement::{first, run},
    transaction::WriteTransaction,
};
use crate::rows::record::{self, CHECKPOINT};

#[async_trait]
impl RecordStore for SqliteStore {
    async fn displaced(&self) -> Option<&'static str> {
        if let Some(displaced) = self.inner.place.displaced() {
            return Some(displaced);
        }
        let schema = Arc::clone(&self.inner.schema);
        match self.on_reader(move |connection| schema.run(connection)).await {
            Err(StoreError::Corrupt(_)) => Some("the schema of the store was changed"),
            // Other read errors are reported by the operations that need the data.
            Ok(()) | Err(_) => None,
        }
    }

    async fn stored(&self, query: StoredQuery) -> Result<Vec<StoredEvent>, StoreError> {
        self.on_reader(move |connection| chain::select(connection, &query)).await
    }

    async fn check_links(
        &self,
        tenant: &TenantId,
        after: u64,
        hash: Digest,
    ) -> Result<Vec<CheckedLink>, StoreError> {
        let tenant = tenant.clone();
        self.on_reader(move |connection| chain::check(connection, &tenant, after, hash)).await
    }

    async fn known_heads(&self) -> Result<Option<KnownHeads>, StoreError> {
        self.on_writer(|transaction| Ok(Some(transaction.log.known_heads()))).await
    }

    async fn last_position(&self) -> Result<u64, StoreError> {
        self.on_reader(last_position).await
    }

    async fn head(&self, tenant: &TenantId) -> Result<Option<Head>, StoreError> {
        let tenant = tenant.clone();
        let read = move |connection: &Connection| {
            let mut statement = connection.prepare_cached(
                "SELECT tenant_position, hash FROM events INDEXED BY events_by_tenant \
                 WHERE tenant = ?1 ORDER BY tenant_position DESC LIMIT 1",
            )?;
            let row = |row: &Row<'_>| Ok((row.get::<_, i64>(0)?, chain::digest(row, 1)));
            let Some((position, hash)) = statement.query_row([tenant.as_str()], row).optional()?
            else {
                return Ok(None);
            };
            let position = whole(position)?;
            let hash = hash.ok_or_else(|| Failure::corrupt("the hash of an event"))?;
            Ok(Some(Head { tenant, position, hash }))
        };
        self.on_reader(read).await
    }

    async fn tenants(&self, after: Option<&TenantId>) -> Result<Vec<TenantId>, StoreError> {
        let after = after.map(|after| after.to_string());
        let read = move |connection: &Connection| {
            // One index step per tenant, regardless of the number of its events.
            let mut statement = connection.prepare_cached(
                "WITH RECURSIVE them (tenant) AS ( \
                   SELECT min(tenant) FROM events INDEXED BY events_by_tenant \
                   WHERE ?1 IS NULL OR tenant > ?1 \
                   UNION ALL \
                   SELECT (SELECT min(tenant) FROM events INDEXED BY events_by_tenant \
                           WHERE tenant > them.tenant) FROM them WHERE tenant IS NOT NULL \
                 ), signed (tenant) AS ( \
                   SELECT min(tenant) FROM checkpoints WHERE ?1 IS NULL OR tenant > ?1 \
                   UNION ALL \
                   SELECT (SELECT min(tenant) FROM checkpoints WHERE tenant > signed.tenant) \
                   FROM signed WHERE tenant IS NOT NULL \
                 ) SELECT tenant FROM them WHERE tenant IS NOT NULL \
                 UNION SELECT tenant FROM signed WHERE tenant IS NOT NULL \
                 ORDER BY tenant LIMIT ?2",
            )?;
            let tenant = |row: &Row<'_>| parse(row.get(0)?, || Failure::corrupt("a tenant"));
            statement.query_and_then(params![after, limit(0)], tenant)?.collect()
        };
        self.on_reader(read).await
    }

    async fn news(&self, after: u64, to: u64) -> Result<Vec<LogGrowth>, StoreError> {
        let read = move |connection: &Connection| {
            let mut statement = connection.prepare_cached(
                "SELECT e.tenant, e.last, \
                 coalesce((SELECT c.position FROM checkpoints c \
                   WHERE c.tenant = e.tenant AND c.kind <> 'pruned' \
                   ORDER BY c.number DESC LIMIT 1), 0), e.hash \
                 FROM (SELECT tenant, max(tenant_position) AS last, hash FROM events NOT INDEXED \
                       WHERE position > ?1 AND position <= ?2 GROUP BY tenant) e",
            )?;
            let news = |row: &Row<'_>| {
                Ok(LogGrowth {
                    tenant: parse(row.get(0)?, || Failure::corrupt("a tenant"))?,
                    position: whole(row.get(1)?)?,
                    checkpointed: whole(row.get(2)?)?,
                    hash: chain::digest(row, 3),
                })
            };
            statement.query_and_then([bound(after), bound(to)], news)?.collect()
        };
        self.on_reader(read).await
    }

    async fn add_checkpoint(&self, checkpoint: Checkpoint) -> Result<bool, StoreError> {
        self.on_writer(move |connection| add(connection, &checkpoint)).await
    }

    async fn checkpoints(
        &self,
        tenant: &TenantId,
        after: u64,
    ) -> Result<Vec<Checkpoint>, StoreError> {
        self.select(record::checkpoints(tenant, after), |row| record::checkpoint(row)).await
    }

    async fn last_checkpoint(&self, tenant: &TenantId) -> Result<Option<Checkpoint>, StoreError> {
        let last = record::last_checkpoint(tenant);
        Ok(self.select(last, |row| record::checkpoint(row)).await?.pop())
    }

    async fn prunable(
        &self,
        tenant: &TenantId,
        before: Timestamp,
        delivered: u64,
    ) -> Result<Option<Checkpoint>, StoreError> {
        let tenant = tenant.to_string();
        // Derived open calls of a running process would be read again with every query.
        self.on_writer(|transaction| transaction.clear()).await?;
        let read = move |connection: &Connection| {
            let open = open_calls::first_of(connection, &tenant)?;
            let mut statement = connection.prepare_cached(&format!(
                "SELECT {CHECKPOINT} FROM checkpoints WHERE tenant = ?1 AND kind = 'head' \
                 AND signed_at < ?2 AND position > coalesce((SELECT max(position) \
                     FROM checkpoints WHERE tenant = ?1 AND kind = 'pruned'), 0) \
                 AND position < min( \
                   (SELECT coalesce(max(tenant_position), 0) FROM events WHERE tenant = ?1), \
                   coalesce((SELECT tenant_position FROM events NOT INDEXED \
                    WHERE position > ?3 AND tenant = ?1 ORDER BY position LIMIT 1), \
                    9223372036854775807), \
                   ?4, \
                   (SELECT coalesce(min(e.tenant_position), 9223372036854775807) \
                    FROM open_sessions o JOIN events e ON e.position = o.position \
                    WHERE o.tenant = ?1)) \
                 ORDER BY position DESC LIMIT 1"
            ))?;
            let open = open.unwrap_or(i64::MAX);
            let params = params![tenant, time_text(before), bound(delivered), open];
            let mut rows = statement.query(params)?;
            rows.next()?.map(record::checkpoint).transpose()
        };
        self.on_reader(read).await
    }

    async fn prune(&self, tenant: &TenantId, limit: usize) -> Result<usize, StoreError> {
        let prune_checkpoints = record::prune_checkpoints(tenant);
        let tenant = tenant.to_string();
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let work = move |transaction: &mut WriteTransaction<'_>| {
            let connection = &*transaction;
            let mark =
                "SELECT max(position) FROM checkpoints WHERE tenant = ?1 AND kind = 'pruned'";
            let sql = format!(
                "DELETE FROM events WHERE position IN ( \
                       SELECT position FROM events INDEXED BY events_by_tenant \
                       WHERE tenant = ?1 AND tenant_position <= ({mark}) \
                       AND tenant_position < (SELECT max(tenant_position) FROM events \
                                              WHERE tenant = ?1) \
                       ORDER BY tenant_position LIMIT ?2)"
            );
            let removed = execute(connection, &sql, params![tenant, limit])?;
            if i64::try_from(removed).unwrap_or(i64::MAX) < limit {
                run(connection, &prune_checkpoints)?;
            }
            // A run without events counts from 0 again.
            transaction.log.forget();
            Ok(removed)
        };
        self.on_writer(work).await
    }

    async fn cursors(&self) -> Result<Vec<Cursor>, StoreError> {
        self.select(record::cursors(), |row| record::cursor(row)).await
    }

    async fn set_cursor(&self, cursor: Cursor) -> Result<(), StoreError> {
        self.run(record::set_cursor(&cursor)).await.map(drop)
    }
}

/// The last position of the whole log. Its event is never pruned.
fn last_position(connection: &Connection) -> Result<u64, Failure> {
    let mut statement = connection.prepare_cached("SELECT max(position) FROM events")?;
    let last: Option<i64> = statement.query_row([], |row| row.get(0))?;
    whole(last.unwrap_or(0))
}

fn add(connection: &Connection, new: &Checkpoint) -> Result<bool, Failure> {
    let last = record::last_checkpoint(&new.tenant);
    let last = first(connection, &last, |row| record::checkpoint(row))?;
    let stored: Option<Option<Digest>> = connection
        .prepare_cached(
            "SELECT hash FROM events INDEXED BY events_by_tenant \
             WHERE tenant = ?1 AND tenant_position = ?2",
        )?
        .query_row(params![new.tenant.as_str(), bound(new.position)], |row| {
            Ok(chain::digest(row, 0))
        })
        .optional()?;
    if !record::continues(new, last.as_ref(), stored.flatten()) {
        return Ok(false);
    }
    run(connection, &record::insert(new))?;
    Ok(true)
}
