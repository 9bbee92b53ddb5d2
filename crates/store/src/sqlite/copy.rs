//! Copies of whole stores. A file is filled under another name (`copy.rs` of the crate).

use async_trait::async_trait;
use rusqlite::{
    Row, params,
    types::{ToSqlOutput, Value as SqlValue, ValueRef},
};
use toolcrib_core::{
    record::StoredEvent,
    store::{Storage, StoreError},
};

use super::{
    SqliteStore,
    compact::{self, Id, Payload},
    failure::Failure,
    row::{all, bound, execute, time, time_text},
    transaction::WriteTransaction,
};
use crate::{
    copy::{EPOCHS, Engine, Kind, SINGLE, SingleValues, Table, Value},
    event_text::event_time,
};

/// The writer of copied events. No process has this number, so no process looks for open calls
/// among them.
const COPIED: i64 = 0;

const INSERT: &str = "INSERT INTO events (position, event_id, tenant, tenant_position, run_id, \
                      sequence, type, timestamp, causation_id, form, payload, hash, writer) \
                      VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)";

#[async_trait]
impl Engine for SqliteStore {
    fn storage(&self) -> &dyn Storage {
        self
    }

    async fn rows(
        &self,
        table: &Table,
        skip: usize,
        limit: usize,
    ) -> Result<Vec<Vec<Value>>, StoreError> {
        let columns = table.columns;
        let names: Vec<String> = columns.iter().map(|(name, kind)| read_as(name, *kind)).collect();
        let sql = format!(
            "SELECT {} FROM {} ORDER BY {} LIMIT ?2 OFFSET ?1",
            names.join(", "),
            table.name,
            table.order
        );
        let (skip, limit) = (bound(skip as u64), bound(limit as u64));
        self.on_reader(move |connection| {
            all(connection, &sql, params![skip, limit], |row| {
                let values = columns.iter().enumerate();
                values.map(|(index, (_, kind))| value(row, index, *kind)).collect()
            })
        })
        .await
    }

    async fn single(&self) -> Result<SingleValues, StoreError> {
        self.on_reader(|connection| {
            Ok(connection.query_row(SINGLE, [], |row| {
                Ok(SingleValues {
                    epochs: [row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?, row.get(4)?],
                    approvals: (row.get(5)?, row.get(6)?),
                })
            })?)
        })
        .await
    }

    async fn begin(&self) -> Result<(), StoreError> {
        Ok(())
    }

    async fn insert(&self, table: &'static Table, rows: Vec<Vec<Value>>) -> Result<(), StoreError> {
        let stored = || table.columns.iter().filter(|(_, kind)| *kind != Kind::Order);
        let names: Vec<&str> = stored().map(|(name, _)| *name).collect();
        let places: Vec<String> =
            (1..).zip(stored()).map(|(number, _)| format!("?{number}")).collect();
        let sql = format!(
            "INSERT INTO {} ({}) VALUES ({})",
            table.name,
            names.join(", "),
            places.join(", ")
        );
        self.on_writer(move |transaction| {
            for row in &rows {
                let values = row.iter().zip(table.columns);
                let values = values.filter(|(_, (_, kind))| *kind != Kind::Order);
                let values: Vec<SqlValue> =
                    values.map(|(value, (_, kind))| sql_value(value, *kind)).collect();
                execute(transaction, &sql, rusqlite::params_from_iter(values))?;
            }
            Ok(())
        })
        .await
    }

    async fn insert_events(&self, events: Vec<StoredEvent>) -> Result<(), StoreError> {
        self.on_writer(move |transaction| {
            events.iter().try_for_each(|event| insert_event(transaction, event))
        })
        .await
    }

    async fn finish(&self, single: SingleValues, _last: u64) -> Result<(), StoreError> {
        self.on_writer(move |transaction| {
            for (name, epoch) in EPOCHS.iter().zip(single.epochs) {
                let sql = "UPDATE meta SET value = ?2 WHERE name = ?1";
                execute(transaction, sql, params![name, epoch])?;
            }
            let (key, change) = &single.approvals;
            let sql = "UPDATE approval_state SET key = ?1, change = ?2 WHERE id = 1";
            execute(transaction, sql, params![key, change])?;
            Ok(())
        })
        .await
    }

    /// The file is renamed after the copy.
    async fn commit(&self) -> Result<(), StoreError> {
        Ok(())
    }
}

fn insert_event(
    transaction: &mut WriteTransaction<'_>,
    event: &StoredEvent,
) -> Result<(), Failure> {
    let malformed = || Failure::corrupt(format!("the event at position {}", event.position));
    let hash = event.hash.ok_or_else(malformed)?;
    // Only a time that is read back as the same text has the small form.
    let at = time(&event.timestamp).filter(|at| event_time(*at) == event.timestamp);
    let at = match at {
        Some(at) => ToSqlOutput::Owned(SqlValue::Integer(at.timestamp_millis())),
        None => ToSqlOutput::Borrowed(ValueRef::Text(event.timestamp.as_bytes())),
    };
    let small = Payload::split(&event.payload);
    let form = match &small {
        Some(payload) => transaction.form(&payload.form)?,
        None => None,
    };
    let payload = match (&small, form) {
        (Some(payload), Some(_)) => ValueRef::Blob(&payload.parts),
        _ => ValueRef::Text(event.payload.as_bytes()),
    };
    transaction.append(INSERT)?.execute(params![
        bound(event.position),
        Id::new(&event.event_id),
        event.tenant,
        bound(event.tenant_position),
        Id::new(&event.run_id),
        bound(event.sequence),
        ToSqlOutput::Borrowed(compact::kind_value(&event.kind)),
        at,
        event.causation_id.as_deref().map(Id::new),
        form,
        ToSqlOutput::Borrowed(payload),
        hash.0,
        COPIED,
    ])?;
    Ok(())
}

fn read_as(name: &str, kind: Kind) -> String {
    match kind {
        Kind::Order => "rowid".to_owned(),
        _ => name.to_owned(),
    }
}

fn value(row: &Row<'_>, index: usize, kind: Kind) -> Result<Value, Failure> {
    Ok(match kind {
        Kind::Text => Value::Text(row.get(index)?),
        Kind::Number | Kind::Order => Value::Number(row.get(index)?),
        Kind::Bytes => Value::Bytes(row.get(index)?),
        Kind::Flag => Value::Flag(row.get(index)?),
        Kind::Time => {
            let text: Option<String> = row.get(index)?;
            let read = |text: String| time(&text).ok_or_else(|| Failure::corrupt("a time"));
            Value::Time(text.map(read).transpose()?)
        }
        Kind::Millis => {
            let millis: i64 = row.get(index)?;
            let at = chrono::DateTime::from_timestamp_millis(millis);
            Value::Time(Some(at.ok_or_else(|| Failure::corrupt("a time"))?))
        }
    })
}

fn sql_value(value: &Value, kind: Kind) -> SqlValue {
    match value {
        Value::Text(Some(text)) => SqlValue::Text(text.clone()),
        Value::Number(Some(number)) => SqlValue::Integer(*number),
        Value::Bytes(Some(bytes)) => SqlValue::Blob(bytes.clone()),
        Value::Flag(flag) => SqlValue::Integer((*flag).into()),
        Value::Time(Some(at)) => match kind {
            Kind::Millis => SqlValue::Integer(at.timestamp_millis()),
            _ => SqlValue::Text(time_text(*at)),
        },
        Value::Text(None) | Value::Number(None) | Value::Bytes(None) | Value::Time(None) => {
            SqlValue::Null
        }
    }
}
