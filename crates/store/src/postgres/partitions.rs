//! The partitions of the events: one per month in which events were stored, by the clock of the
//! database in UTC.
//!
//! Invariants:
//! - the partitions of this month and of the next one exist while a server runs ([`ensure`]);
//! - a partition is dropped only when marks of retention cover every event in it, and never the
//!   last event of a tenant ([`drop_pruned`]).

use deadpool_postgres::{Client, GenericClient};
use tokio_postgres::error::SqlState;

use super::{
    failure::Failure,
    row::{execute, rows, whole},
};

/// The advisory lock of changes to the schema: "tcrb" in ASCII.
pub(super) const MIGRATION_LOCK: i64 = 0x7463_7262;

/// The start of this month.
pub(super) const MONTH: &str = "date_trunc('month', clock_timestamp() AT TIME ZONE 'UTC')";

struct MissingPartition {
    name: String,
    from: String,
    to: String,
}

/// Creates the partitions of this month and the next one, if they are missing.
pub(super) async fn ensure(client: &mut Client) -> Result<(), Failure> {
    if missing(client).await?.is_empty() {
        return Ok(());
    }
    let transaction = client.transaction().await?;
    execute(&transaction, "SELECT pg_advisory_xact_lock($1)", &[&MIGRATION_LOCK]).await?;
    for MissingPartition { name, from, to } in missing(&transaction).await? {
        // Attached, because `CREATE TABLE … PARTITION OF` locks out every reader.
        let sql = format!(
            "CREATE TABLE {name} (LIKE events INCLUDING ALL); \
             ALTER TABLE events ATTACH PARTITION {name} FOR VALUES FROM ('{from}') TO ('{to}')"
        );
        transaction.batch_execute(&sql).await?;
    }
    transaction.commit().await?;
    Ok(())
}

/// Reads `pg_class`, not `to_regclass`: its cache does not see what another process has created
/// while this one waited for the advisory lock.
async fn missing(client: &impl GenericClient) -> Result<Vec<MissingPartition>, Failure> {
    let sql = format!(
        "SELECT 'events_' || to_char(start, 'YYYY_MM'), start::date::text, \
                (start + interval '1 month')::date::text \
         FROM (SELECT {MONTH} + number * interval '1 month' AS start \
               FROM generate_series(0, 1) AS number) AS months \
         WHERE NOT EXISTS (SELECT 1 FROM pg_class \
               WHERE relname = 'events_' || to_char(start, 'YYYY_MM') \
                 AND relnamespace = current_schema()::regnamespace) \
         ORDER BY start"
    );
    let missing = rows(client, &sql, &[]).await?;
    let read = |row: &tokio_postgres::Row| {
        Ok(MissingPartition { name: row.try_get(0)?, from: row.try_get(1)?, to: row.try_get(2)? })
    };
    missing.iter().map(read).collect()
}

/// Whether a statement failed because the partition of its month is missing.
pub(super) fn is_missing(failure: &Failure) -> bool {
    matches!(failure, Failure::Postgres(error) if error.code() == Some(&SqlState::CHECK_VIOLATION))
}

/// Drops the partitions of earlier months in which marks of retention cover every event, and
/// returns the number of removed events. A partition in use is left for the next time.
pub(super) async fn drop_pruned(client: &mut Client) -> Result<u64, Failure> {
    let sql = format!(
        "SELECT c.relname::text FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid \
         WHERE i.inhparent = 'events'::regclass AND c.relname ~ '^events_[0-9]{{4}}_[0-9]{{2}}$' \
         AND c.relname < 'events_' || to_char({MONTH}, 'YYYY_MM') ORDER BY c.relname"
    );
    let mut removed = 0;
    for row in rows(client, &sql, &[]).await? {
        let partition: String = row.try_get(0)?;
        if is_kept(client, &partition).await? {
            continue;
        }
        match drop_one(client, &partition).await {
            Ok(count) => removed += count,
            Err(Failure::Postgres(error))
                if error.code() == Some(&SqlState::LOCK_NOT_AVAILABLE) => {}
            Err(failure) => return Err(failure),
        }
    }
    Ok(removed)
}

/// Whether `partition` has an event that must stay.
async fn is_kept(client: &impl GenericClient, partition: &str) -> Result<bool, Failure> {
    let sql = format!(
        "SELECT EXISTS (SELECT 1 FROM tenants t WHERE EXISTS (SELECT 1 FROM {partition} e \
           WHERE e.tenant = t.tenant AND e.tenant_position > least(t.position - 1, coalesce( \
             (SELECT max(c.position) FROM checkpoints c \
              WHERE c.tenant = t.tenant AND c.kind = 'pruned'), 0))))"
    );
    Ok(client.query_one(sql.as_str(), &[]).await?.try_get(0)?)
}

async fn drop_one(client: &mut Client, partition: &str) -> Result<u64, Failure> {
    let transaction = client.transaction().await?;
    // Appends wait from here on, and with them the sequences of runs, which start at 0 again
    // without events.
    transaction
        .batch_execute(
            "SET LOCAL lock_timeout = '1s'; LOCK TABLE ONLY events IN ACCESS EXCLUSIVE MODE",
        )
        .await?;
    if is_kept(&transaction, partition).await? {
        return Ok(0);
    }
    // The events of a tenant have no gaps.
    let sql = format!(
        "SELECT coalesce(sum(n.last - n.first + 1), 0)::bigint FROM tenants t, LATERAL (SELECT \
           (SELECT max(e.tenant_position) FROM {partition} e WHERE e.tenant = t.tenant) AS last, \
           (SELECT min(e.tenant_position) FROM {partition} e WHERE e.tenant = t.tenant) AS first) n \
         WHERE n.last IS NOT NULL"
    );
    let count = whole(transaction.query_one(sql.as_str(), &[]).await?.try_get(0)?)?;
    transaction.batch_execute(&format!("DROP TABLE {partition}")).await?;
    transaction.commit().await?;
    Ok(count)
}
