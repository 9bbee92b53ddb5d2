//! Counts of quotas on SQLite.

use async_trait::async_trait;
use rusqlite::{Connection, OptionalExtension, params};
use toolcrib_core::{
    quota::{Day, Quota, QuotaKey, QuotaReservation, QuotaStore},
    store::StoreError,
};

use super::{
    failure::Failure,
    handle::SqliteStore,
    row::{execute, first, whole},
};

/// The most counts that one step deletes.
const MOST_FORGOTTEN: i64 = 4_096;

#[async_trait]
impl QuotaStore for SqliteStore {
    async fn reserve(
        &self,
        day: Day,
        key: QuotaKey,
        quota: Quota,
    ) -> Result<QuotaReservation, StoreError> {
        self.on_writer(move |connection| {
            let reserved = QuotaReservation::new(read(connection, day, &key)?, quota);
            let granted = i64::try_from(reserved.granted).unwrap_or_default();
            if granted > 0 {
                add(connection, day, &key, granted)?;
            }
            Ok(reserved)
        })
        .await
    }

    async fn add(&self, day: Day, counts: Vec<(QuotaKey, i64)>) -> Result<Vec<u64>, StoreError> {
        // A pure query does not wait for the writer.
        if counts.iter().all(|(_, calls)| *calls == 0) {
            let work = move |connection: &Connection| {
                counts.iter().map(|(key, _)| read(connection, day, key)).collect()
            };
            return self.on_reader(work).await;
        }
        self.on_writer(move |connection| {
            let mut totals = Vec::with_capacity(counts.len());
            for (key, calls) in &counts {
                if *calls != 0 {
                    add(connection, day, key, *calls)?;
                }
                totals.push(read(connection, day, key)?);
            }
            Ok(totals)
        })
        .await
    }

    async fn forget_before(&self, day: Day) -> Result<usize, StoreError> {
        self.on_writer(move |connection| {
            let mut forgotten = 0;
            let first: Option<i64> = connection
                .query_row("SELECT min(day) FROM quotas", [], |row| row.get(0))
                .optional()?
                .flatten();
            if first.is_some_and(|first| first < day.0) {
                let sql = "DELETE FROM quotas WHERE (day, tenant, principal, tool) IN \
                         (SELECT day, tenant, principal, tool FROM quotas WHERE day < ?1 LIMIT ?2)";
                forgotten = execute(connection, sql, [day.0, MOST_FORGOTTEN])?;
            }
            Ok(forgotten)
        })
        .await
    }
}

fn add(connection: &Connection, day: Day, key: &QuotaKey, calls: i64) -> Result<(), Failure> {
    let sql = "INSERT INTO quotas (day, tenant, principal, tool, calls) \
             VALUES (?1, ?2, ?3, ?4, max(?5, 0)) \
             ON CONFLICT (day, tenant, principal, tool) DO UPDATE SET calls = max(calls + ?5, 0)";
    execute(
        connection,
        sql,
        params![day.0, key.tenant.as_str(), key.principal.as_str(), tool(key), calls],
    )?;
    Ok(())
}

fn read(connection: &Connection, day: Day, key: &QuotaKey) -> Result<u64, Failure> {
    let sql = "SELECT calls FROM quotas \
             WHERE day = ?1 AND tenant = ?2 AND principal = ?3 AND tool = ?4";
    let params = params![day.0, key.tenant.as_str(), key.principal.as_str(), tool(key)];
    let calls: Option<i64> = first(connection, sql, params, |row| row.get(0))?;
    whole(calls.unwrap_or(0))
}

/// No tool has an empty id, so an empty text means all tools.
fn tool(key: &QuotaKey) -> &str {
    key.tool.as_ref().map_or("", |tool| tool.as_str())
}
