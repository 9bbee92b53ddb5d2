//! The stored record, its checkpoints and its readers' cursors, on SQLite.

use std::sync::Arc;

use async_trait::async_trait;
use rusqlite::{Connection, OptionalExtension as _, Row, params};
use toolcrib_core::{
    canonical::Digest,
    clock::Timestamp,
    id::TenantId,
    record::{
        CheckedLink, Checkpoint, CheckpointKind, Cursor, Head, KnownHeads, NO_CHECKPOINT, News,
        RecordStore, StoredEvent, StoredQuery,
    },
    store::StoreError,
};

use super::{
    chain,
    failure::Failure,
    handle::SqliteStore,
    open_calls,
    row::{bound, execute, first, limit, moment, parse, time, time_text, whole},
    transaction::WriteTransaction,
};

const CHECKPOINT: &str =
    "kind, tenant, number, position, hash, signed_at, public_key, prev, signature";

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

    async fn news(&self, after: u64, to: u64) -> Result<Vec<News>, StoreError> {
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
                Ok(News {
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
        let tenant = tenant.to_string();
        let read = move |connection: &Connection| {
            let mut statement = connection.prepare_cached(&format!(
                "SELECT {CHECKPOINT} FROM checkpoints WHERE tenant = ?1 AND number > ?2 \
                 ORDER BY number LIMIT ?3"
            ))?;
            let rows =
                statement.query_and_then(params![tenant, bound(after), limit(0)], checkpoint)?;
            rows.collect()
        };
        self.on_reader(read).await
    }

    async fn last_checkpoint(&self, tenant: &TenantId) -> Result<Option<Checkpoint>, StoreError> {
        let tenant = tenant.to_string();
        self.on_reader(move |connection| last_of(connection, &tenant)).await
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
            rows.next()?.map(checkpoint).transpose()
        };
        self.on_reader(read).await
    }

    async fn prune(&self, tenant: &TenantId, limit: usize) -> Result<usize, StoreError> {
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
                // By number: a mark of retention has an earlier position, so positions do not rise
                // along the chain.
                let sql = format!(
                    "DELETE FROM checkpoints WHERE tenant = ?1 AND number < \
                         (SELECT max(number) FROM checkpoints \
                          WHERE tenant = ?1 AND kind <> 'pruned' AND position = ({mark}))"
                );
                execute(connection, &sql, [&tenant])?;
            }
            // A run without events counts from 0 again.
            transaction.log.forget();
            Ok(removed)
        };
        self.on_writer(work).await
    }

    async fn cursors(&self) -> Result<Vec<Cursor>, StoreError> {
        let read = |connection: &Connection| {
            let mut statement = connection.prepare_cached(
                "SELECT name, position, moved_at, failing_since, failures, problem FROM cursors \
                 ORDER BY name",
            )?;
            let cursor = |row: &Row<'_>| {
                let moment =
                    |column| moment(row, column, || Failure::corrupt("the moment of a cursor"));
                Ok(Cursor {
                    name: row.get(0)?,
                    position: whole(row.get(1)?)?,
                    moved_at: moment(2)?,
                    failing_since: moment(3)?,
                    failures: whole(row.get(4)?)?,
                    problem: row.get(5)?,
                })
            };
            statement.query_and_then([], cursor)?.collect()
        };
        self.on_reader(read).await
    }

    async fn set_cursor(&self, cursor: Cursor) -> Result<(), StoreError> {
        let work = move |connection: &mut WriteTransaction<'_>| {
            let sql = "INSERT OR REPLACE INTO cursors \
                     (name, position, moved_at, failing_since, failures, problem) \
                     VALUES (?1, ?2, ?3, ?4, ?5, ?6)";
            execute(
                connection,
                sql,
                params![
                    cursor.name,
                    bound(cursor.position),
                    cursor.moved_at.map(time_text),
                    cursor.failing_since.map(time_text),
                    bound(cursor.failures),
                    cursor.problem,
                ],
            )?;
            Ok(())
        };
        self.on_writer(work).await
    }
}

/// The last position of the whole log. Its event is never pruned.
fn last_position(connection: &Connection) -> Result<u64, Failure> {
    let mut statement = connection.prepare_cached("SELECT max(position) FROM events")?;
    let last: Option<i64> = statement.query_row([], |row| row.get(0))?;
    whole(last.unwrap_or(0))
}

fn last_of(connection: &Connection, tenant: &str) -> Result<Option<Checkpoint>, Failure> {
    let sql = format!(
        "SELECT {CHECKPOINT} FROM checkpoints WHERE tenant = ?1 ORDER BY number DESC LIMIT 1"
    );
    first(connection, &sql, [tenant], checkpoint)
}

fn add(connection: &Connection, new: &Checkpoint) -> Result<bool, Failure> {
    let tenant = new.tenant.as_str();
    let last = last_of(connection, tenant)?;
    let (number, prev, position) = match &last {
        Some(last) => (last.number + 1, last.digest(), last.position),
        None => (1, NO_CHECKPOINT, 0),
    };
    let stored: Option<Option<Digest>> = connection
        .prepare_cached(
            "SELECT hash FROM events INDEXED BY events_by_tenant \
             WHERE tenant = ?1 AND tenant_position = ?2",
        )?
        .query_row(params![tenant, bound(new.position)], |row| Ok(chain::digest(row, 0)))
        .optional()?;
    let true_of_log = stored.flatten() == Some(new.hash);
    // A mark of retention has an earlier position, and an accepted log may be shorter than before.
    let in_order = new.position >= position || new.kind != CheckpointKind::Head;
    if new.number != number || new.prev != prev || !true_of_log || !in_order {
        return Ok(false);
    }
    let sql = format!(
        "INSERT INTO checkpoints ({CHECKPOINT}) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)"
    );
    execute(
        connection,
        &sql,
        params![
            new.kind.as_str(),
            tenant,
            bound(new.number),
            bound(new.position),
            new.hash.0,
            time_text(new.at),
            new.public_key,
            new.prev.0,
            new.signature,
        ],
    )?;
    Ok(true)
}

fn checkpoint(row: &Row<'_>) -> Result<Checkpoint, Failure> {
    let unreadable = || Failure::corrupt("a checkpoint of the record");
    let digest = |column: usize| chain::digest(row, column).ok_or_else(unreadable);
    Ok(Checkpoint {
        kind: row.get::<_, String>(0)?.parse().map_err(|_| unreadable())?,
        tenant: parse(row.get(1)?, unreadable)?,
        number: whole(row.get(2)?)?,
        position: whole(row.get(3)?)?,
        hash: digest(4)?,
        at: time(&row.get::<_, String>(5)?).ok_or_else(unreadable)?,
        public_key: digest(6)?.0,
        prev: digest(7)?,
        signature: row.get(8).map_err(|_| unreadable())?,
    })
}
