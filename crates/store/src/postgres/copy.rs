//! Copies of whole stores. A database is filled, and read again for the comparison, in one
//! transaction.

use async_trait::async_trait;
use deadpool_postgres::{Client, GenericClient};
use tokio::sync::{MappedMutexGuard, Mutex, MutexGuard};
use tokio_postgres::types::ToSql;
use toolcrib_core::{
    clock::Timestamp,
    record::StoredEvent,
    store::{Storage, StoreError},
};

use super::{
    failure::{Failure, within},
    handle::PostgresStore,
    partitions::MONTH,
    record,
    row::{Param, bound, execute, one, rows, stored_time},
};
use crate::{
    copy::{EPOCHS, Engine, Kind, SINGLE, SingleValues, Table, Value, page},
    event_text::time,
};

/// A database to copy or to fill.
pub(crate) struct PostgresCopy {
    store: PostgresStore,
    /// The only connection in use, because only the transaction that fills the store sees its rows.
    client: Mutex<Option<Client>>,
}

impl PostgresStore {
    pub(crate) fn filling(self) -> PostgresCopy {
        PostgresCopy { store: self, client: Mutex::new(None) }
    }
}

// === impl PostgresCopy ===

impl PostgresCopy {
    async fn client(&self) -> Result<MappedMutexGuard<'_, Client>, Failure> {
        match MutexGuard::try_map(self.client.lock().await, Option::as_mut) {
            Ok(client) => Ok(client),
            Err(none) => {
                let client = self.store.client().await?;
                Ok(MutexGuard::map(none, |slot| slot.insert(client)))
            }
        }
    }
}

#[async_trait]
impl Engine for PostgresCopy {
    fn storage(&self) -> &dyn Storage {
        &self.store
    }

    async fn rows(
        &self,
        table: &Table,
        skip: usize,
        limit: usize,
    ) -> Result<Vec<Vec<Value>>, StoreError> {
        let names: Vec<&str> = table.columns.iter().map(|(name, _)| *name).collect();
        let sql = format!(
            "SELECT {} FROM {} ORDER BY {} OFFSET $1 LIMIT $2",
            names.join(", "),
            table.name,
            order(table)
        );
        let (skip, limit) = (bound(skip as u64), bound(limit as u64));
        within(async {
            let found = rows(&*self.client().await?, &sql, &[&skip, &limit]).await?;
            let read = |row: &tokio_postgres::Row| {
                let columns = table.columns.iter().enumerate();
                columns.map(|(index, (_, kind))| value(row, index, *kind)).collect()
            };
            found.iter().map(read).collect()
        })
        .await
    }

    async fn single(&self) -> Result<SingleValues, StoreError> {
        within(async {
            let row = one(&*self.client().await?, SINGLE, &[]).await?;
            Ok(SingleValues {
                epochs: [
                    row.try_get(0)?,
                    row.try_get(1)?,
                    row.try_get(2)?,
                    row.try_get(3)?,
                    row.try_get(4)?,
                ],
                approvals: (row.try_get(5)?, row.try_get(6)?),
            })
        })
        .await
    }

    async fn events(&self, after: u64) -> Result<Vec<StoredEvent>, StoreError> {
        within(async { record::read(&*self.client().await?, &page(after)).await }).await
    }

    async fn last_position(&self) -> Result<u64, StoreError> {
        within(async { record::last_position(&*self.client().await?).await }).await
    }

    async fn begin(&self) -> Result<(), StoreError> {
        within(async {
            // The copy itself limits each of its steps.
            let sql = "BEGIN; SET LOCAL idle_in_transaction_session_timeout = 0; \
                       SET LOCAL synchronous_commit = on";
            Ok(self.client().await?.batch_execute(sql).await?)
        })
        .await
    }

    async fn insert(&self, table: &'static Table, rows: Vec<Vec<Value>>) -> Result<(), StoreError> {
        let names: Vec<&str> = table.columns.iter().map(|(name, _)| *name).collect();
        let places: Vec<String> = (1..)
            .zip(table.columns)
            .map(|(number, (_, kind))| format!("${number}::{}[]", type_of(*kind)))
            .collect();
        let sql = format!(
            "INSERT INTO {} ({}) SELECT * FROM unnest({})",
            table.name,
            names.join(", "),
            places.join(", ")
        );
        let columns = columns(table, rows);
        let params: Vec<Param<'_>> =
            columns.iter().map(|column| &**column as &(dyn ToSql + Sync)).collect();
        within(async { execute(&*self.client().await?, &sql, &params).await }).await.map(drop)
    }

    async fn insert_events(&self, events: Vec<StoredEvent>) -> Result<(), StoreError> {
        let times = events
            .iter()
            .map(|event| time(&event.timestamp).ok_or_else(|| corrupt("the time of an event")));
        let times = times.collect::<Result<Vec<Timestamp>, _>>()?;
        let hashes = events.iter().map(|event| {
            event.hash.map(|hash| hash.0.to_vec()).ok_or_else(|| corrupt("the hash of an event"))
        });
        let hashes = hashes.collect::<Result<Vec<_>, _>>()?;
        let number = |of: fn(&StoredEvent) -> u64| -> Vec<i64> {
            events.iter().map(|event| bound(of(event))).collect()
        };
        let text = |of: fn(&StoredEvent) -> &str| -> Vec<&str> { events.iter().map(of).collect() };
        let causes: Vec<Option<&str>> =
            events.iter().map(|event| event.causation_id.as_deref()).collect();
        let sql = format!(
            "INSERT INTO events (month, position, event_id, tenant, tenant_position, run_id, \
                                 sequence, type, timestamp, causation_id, payload, hash) \
             SELECT {MONTH}::date, e.* FROM unnest($1::bigint[], $2::text[], $3::text[], \
               $4::bigint[], $5::text[], $6::bigint[], $7::text[], $8::timestamptz[], \
               $9::text[], $10::text[], $11::bytea[]) AS e"
        );
        let params: [Param<'_>; 11] = [
            &number(|event| event.position),
            &text(|event| &event.event_id),
            &text(|event| &event.tenant),
            &number(|event| event.tenant_position),
            &text(|event| &event.run_id),
            &number(|event| event.sequence),
            &text(|event| &event.kind),
            &times,
            &causes,
            &text(|event| &event.payload),
            &hashes,
        ];
        within(async { execute(&*self.client().await?, &sql, &params).await }).await.map(drop)
    }

    async fn finish(&self, single: SingleValues, last: u64) -> Result<(), StoreError> {
        within(async {
            let client = self.client().await?;
            let client = &*client;
            let ends = "INSERT INTO tenants (tenant, position, hash) \
                        SELECT DISTINCT ON (tenant) tenant, tenant_position, hash FROM events \
                        ORDER BY tenant, tenant_position DESC";
            execute(client, "SET LOCAL statement_timeout = 0", &[]).await?;
            execute(client, ends, &[]).await?;
            let holders = "INSERT INTO once_holders (tenant, principal, calls, bytes) \
                           SELECT tenant, principal, count(*), sum(bytes) FROM once_calls \
                           GROUP BY tenant, principal";
            execute(client, holders, &[]).await?;
            let sql = "UPDATE log_position SET value = $1 WHERE id = 1";
            execute(client, sql, &[&bound(last)]).await?;
            for (name, epoch) in EPOCHS.iter().zip(single.epochs) {
                let sql = "UPDATE meta SET value = $2 WHERE name = $1";
                execute(client, sql, &[name, &epoch]).await?;
            }
            let (key, change) = single.approvals;
            let sql = "UPDATE approval_state SET key = $1, change = $2 WHERE id = 1";
            execute(client, sql, &[&key, &change]).await?;
            // For the comparison, too.
            Ok(client.batch_execute("ANALYZE").await?)
        })
        .await
    }

    async fn commit(&self) -> Result<(), StoreError> {
        within(async { Ok(self.client().await?.batch_execute("COMMIT").await?) }).await
    }
}

impl Drop for PostgresCopy {
    fn drop(&mut self) {
        // Its connection is closed, and with it the transaction, instead of going back to the pool.
        if let Some(client) = self.client.get_mut().take() {
            drop(deadpool_postgres::Object::take(client));
        }
    }
}

/// The order of a table, by bytes as in SQLite.
fn order(table: &Table) -> String {
    let by = table.order.split(", ").map(|column| {
        let kind = table.columns.iter().find(|(name, _)| *name == column).map(|(_, kind)| kind);
        match kind {
            Some(Kind::Text) => format!("{column} COLLATE \"C\""),
            _ => column.to_owned(),
        }
    });
    by.collect::<Vec<_>>().join(", ")
}

fn type_of(kind: Kind) -> &'static str {
    match kind {
        Kind::Text => "text",
        Kind::Number | Kind::Order => "bigint",
        Kind::Bytes => "bytea",
        Kind::Flag => "boolean",
        Kind::Time | Kind::Millis => "timestamptz",
    }
}

fn value(row: &tokio_postgres::Row, index: usize, kind: Kind) -> Result<Value, Failure> {
    Ok(match kind {
        Kind::Text => Value::Text(row.try_get(index)?),
        Kind::Number | Kind::Order => Value::Number(row.try_get(index)?),
        Kind::Bytes => Value::Bytes(row.try_get(index)?),
        Kind::Flag => Value::Flag(row.try_get(index)?),
        Kind::Time | Kind::Millis => Value::Time(row.try_get(index)?),
    })
}

/// Turns rows into one array per column.
fn columns(table: &Table, rows: Vec<Vec<Value>>) -> Vec<Box<dyn ToSql + Sync + Send>> {
    let mut columns: Vec<Vec<Value>> = table.columns.iter().map(|_| Vec::new()).collect();
    for row in rows {
        for (column, value) in columns.iter_mut().zip(row) {
            column.push(value);
        }
    }
    let array = |(values, (_, kind)): (Vec<Value>, &(&str, Kind))| match kind {
        Kind::Text => Box::new(all(values, |value| match value {
            Value::Text(text) => text,
            _ => None,
        })) as Box<dyn ToSql + Sync + Send>,
        Kind::Number | Kind::Order => Box::new(all(values, |value| match value {
            Value::Number(number) => number,
            _ => None,
        })),
        Kind::Bytes => Box::new(all(values, |value| match value {
            Value::Bytes(bytes) => bytes,
            _ => None,
        })),
        Kind::Flag => Box::new(all(values, |value| match value {
            Value::Flag(flag) => Some(flag),
            _ => None,
        })),
        Kind::Time | Kind::Millis => Box::new(all(values, |value| match value {
            Value::Time(time) => time.map(stored_time),
            _ => None,
        })),
    };
    columns.into_iter().zip(table.columns).map(array).collect()
}

fn all<T>(values: Vec<Value>, of: impl FnMut(Value) -> Option<T>) -> Vec<Option<T>> {
    values.into_iter().map(of).collect()
}

fn corrupt(what: &str) -> StoreError {
    StoreError::Corrupt(format!("{what} is malformed; `toolcrib audit verify` names the event"))
}
