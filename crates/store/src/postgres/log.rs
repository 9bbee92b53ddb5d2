//! Reads the event log. `append.rs` writes it.

use async_trait::async_trait;
use tokio_postgres::Row;
use toolcrib_core::{
    clock::Timestamp,
    event::{EventLog, EventQuery, LoggedEvent, NewEvent},
    id::{RunId, TenantId},
    record::StoredEvent,
    store::StoreError,
};

use super::{
    entry::Record,
    failure::{Failure, within},
    handle::PostgresStore,
    row::{bound, digest, limit, rows, whole},
};
use crate::event_text::{event_time, logged};

/// The columns of a [`StoredEvent`], in the order of [`stored`]; the next column is its `prev`.
pub(super) const COLUMNS: &str = "e.position, e.tenant, e.tenant_position, e.event_id, e.run_id, \
                                  e.sequence, e.type, e.timestamp, e.causation_id, e.payload, e.hash";

/// The hash before the event of the row `e`.
pub(super) const PREV: &str = "coalesce(\
    (SELECT p.hash FROM events p WHERE p.tenant = e.tenant \
     AND p.tenant_position = e.tenant_position - 1), \
    (SELECT c.hash FROM checkpoints c WHERE c.tenant = e.tenant \
     AND c.position = e.tenant_position - 1 LIMIT 1), \
    decode(repeat('00', 32), 'hex'))";

#[async_trait]
impl EventLog for PostgresStore {
    async fn append(&self, events: &[NewEvent]) -> Result<Vec<u64>, StoreError> {
        if events.is_empty() {
            return Ok(Vec::new());
        }
        let records = events.iter().map(Record::new).collect::<Result<Vec<_>, _>>()?;
        let completes = events.iter().all(NewEvent::completes_call);
        self.inner.writer.append(records, completes).await
    }

    async fn read(&self, query: EventQuery) -> Result<Vec<LoggedEvent>, StoreError> {
        within(async {
            let tenant = query.tenant.as_ref().map(TenantId::as_str);
            let run = query.run.as_ref().map(RunId::as_str);
            let (after, limit) = (query.after.map_or(-1, bound), limit(query.limit));
            let mut events = Vec::new();
            for row in
                rows(&self.client().await?, &select(&query), &[&tenant, &run, &after, &limit])
                    .await?
            {
                let stored = stored(&row)?;
                let position = match query.tenant {
                    Some(_) => stored.tenant_position,
                    None => stored.position,
                };
                let place = || Failure::corrupt(format!("the event at position {position}"));
                events.push(logged(stored, position).ok_or_else(place)?);
            }
            if query.newest {
                events.reverse();
            }
            Ok(events)
        })
        .await
    }

    async fn at(&self, positions: &[u64]) -> Result<Vec<LoggedEvent>, StoreError> {
        let positions: Vec<i64> = positions.iter().copied().map(bound).collect();
        within(async {
            let sql = format!(
                "SELECT {COLUMNS}, {PREV} FROM events e WHERE e.position = ANY($1) \
                 ORDER BY e.position"
            );
            let mut found = Vec::with_capacity(positions.len());
            for row in rows(&self.client().await?, &sql, &[&positions]).await? {
                let stored = stored(&row)?;
                let position = stored.position;
                let place = || Failure::corrupt(format!("the event at position {position}"));
                found.push(logged(stored, position).ok_or_else(place)?);
            }
            Ok(found)
        })
        .await
    }
}

fn select(query: &EventQuery) -> String {
    let tenant = if query.tenant.is_some() { "e.tenant = $1" } else { "$1::text IS NULL" };
    let run = if query.run.is_some() { "e.run_id = $2" } else { "$2::text IS NULL" };
    let position = if query.tenant.is_some() { "e.tenant_position" } else { "e.position" };
    let direction = if query.newest { "DESC" } else { "ASC" };
    format!(
        "SELECT {COLUMNS}, {PREV} FROM events e WHERE {tenant} AND {run} AND {position} > $3 \
         ORDER BY {position} {direction} LIMIT $4"
    )
}

/// Reads a row as it is.
pub(super) fn stored(row: &Row) -> Result<StoredEvent, Failure> {
    let at: Timestamp = row.try_get(7)?;
    Ok(StoredEvent {
        position: whole(row.try_get(0)?)?,
        tenant: row.try_get(1)?,
        tenant_position: whole(row.try_get(2)?)?,
        event_id: row.try_get(3)?,
        run_id: row.try_get(4)?,
        sequence: whole(row.try_get(5)?)?,
        kind: row.try_get(6)?,
        timestamp: event_time(at),
        causation_id: row.try_get(8)?,
        payload: row.try_get(9)?,
        hash: digest(row, 10)?,
        prev: digest(row, 11)?,
    })
}
