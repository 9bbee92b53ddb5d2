//! Closing the calls and then the tool sessions that a dead process left open: a session's end
//! follows the last of its calls.

use rusqlite::{Connection, params};
use serde::Deserialize;
use toolcrib_core::{
    clock::Timestamp,
    event::{
        CallStatus, EventBody, EventError, NewEvent, SessionOutcome, ToolReturned,
        ToolSessionClosed,
    },
    id::{EventId, PrincipalId},
    store::StoreError,
};

use super::{
    SqliteStore,
    failure::Failure,
    idempotency,
    instance::{self, Dead},
    log::{Record, parse},
    runs,
};

/// Calls or sessions closed in one transaction, so that other writers do not wait long.
const CHUNK: usize = 256;

impl SqliteStore {
    /// Closes every call of a dead process with an `agent.toolReturned` of status `error` and code
    /// `interrupted`. Then closes its tool sessions with a `tool.session.closed` of outcome
    /// `failed`. Returns how many of both there were. A durable workflow run is taken over instead,
    /// together with its call; [`RunStore::adopted`](toolcrib_core::store::RunStore) returns it.
    /// Calls of living processes, this one included, are unchanged. Safe to run in any number of
    /// processes at once.
    ///
    /// # Errors
    /// Fails with [`StoreError`]; everything closed before the failure stays closed.
    pub async fn recover(&self, now: Timestamp) -> Result<usize, StoreError> {
        let own = self.inner.instance.clone();
        let taker = own.clone();
        let place = self.path().to_owned();
        // The locks of the dead instances are held until the end, so that no other process recovers
        // them.
        let dead = self
            .inner
            .readers
            .read(move |connection| {
                let mut ids = instance::present(&place)?;
                ids.extend(with_something_open(connection)?);
                ids.sort_unstable();
                ids.dedup();
                let mut dead = Vec::new();
                for id in ids.iter().filter(|id| ***id != *own) {
                    dead.extend(Dead::claim(&place, id)?);
                }
                Ok(dead)
            })
            .await?;
        let mut closed = 0;
        for dead in dead {
            let (id, taker) = (dead.id.clone(), taker.clone());
            let adopt = move |connection: &Connection| runs::adopt(connection, &id, &taker, now);
            self.inner.writer.write(adopt).await?;
            // Idempotent calls come last: the record is complete for them once the calls are
            // closed.
            for close in [close_calls, close_sessions, close_claims] {
                loop {
                    let id = dead.id.clone();
                    let work = move |connection: &Connection| close(connection, &id, now);
                    let count = self.inner.writer.write(work).await?;
                    closed += count.counted;
                    if count.found < CHUNK {
                        break;
                    }
                }
            }
            dead.bury();
        }
        Ok(closed)
    }
}

/// The items that one step found, and those that count as closed.
struct Closed {
    found: usize,
    counted: usize,
}

impl Closed {
    fn all(found: usize) -> Self {
        Self { found, counted: found }
    }
}

/// Decides about up to [`CHUNK`] idempotent calls of `instance`; their events are closed already.
fn close_claims(
    connection: &Connection,
    instance: &str,
    _now: Timestamp,
) -> Result<Closed, Failure> {
    let found = idempotency::settle(connection, instance, CHUNK)?;
    Ok(Closed { found, counted: 0 })
}

fn with_something_open(connection: &Connection) -> Result<Vec<String>, Failure> {
    let mut statement = connection.prepare_cached(
        "SELECT instance FROM open_calls UNION SELECT instance FROM open_sessions \
         UNION SELECT instance FROM runs WHERE state = 'running' \
         UNION SELECT instance FROM once_calls WHERE state = 'running'",
    )?;
    let instances = statement.query_map([], |row| row.get(0))?.collect::<Result<_, _>>()?;
    Ok(instances)
}

/// Closes up to [`CHUNK`] calls of `instance`, oldest first.
fn close_calls(connection: &Connection, instance: &str, now: Timestamp) -> Result<Closed, Failure> {
    let mut statement = connection.prepare_cached(
        "SELECT c.tenant, c.run_id, c.call_id, c.event_id, c.agent_id, c.tool_name, \
         e.payload \
         FROM open_calls c JOIN events e ON e.event_id = c.event_id \
         WHERE c.instance = ?1 ORDER BY e.position LIMIT ?2",
    )?;
    let limit = i64::try_from(CHUNK).unwrap_or(i64::MAX);
    let mut rows = statement.query(params![instance, limit])?;
    let mut records = Vec::new();
    while let Some(row) = rows.next()? {
        let unreadable = || Failure::corrupt("an open call");
        records.push(Record::new(NewEvent {
            event_id: parse(uuid::Uuid::now_v7().to_string(), unreadable)?,
            tenant: parse(row.get(0)?, unreadable)?,
            run_id: parse(row.get(1)?, unreadable)?,
            body: EventBody::ToolReturned(ToolReturned {
                call_id: parse(row.get(2)?, unreadable)?,
                agent_id: parse(row.get(4)?, unreadable)?,
                tool_name: row.get(5)?,
                status: CallStatus::Error,
                duration_ms: None,
                error: Some(EventError {
                    code: "interrupted".to_owned(),
                    message: "the process that ran this call ended before the call did".to_owned(),
                }),
                principal: caller(&row.get::<_, String>(6)?),
            }),
            timestamp: now,
            causation_id: Some(parse::<EventId>(row.get(3)?, unreadable)?),
        })?);
    }
    drop(rows);
    for record in &records {
        record.insert(connection, instance)?;
    }
    Ok(Closed::all(records.len()))
}

/// Returns the principal in `payload`, the event that opened a call. A damaged payload has none,
/// and must not keep the call open.
fn caller(payload: &str) -> Option<PrincipalId> {
    #[derive(Deserialize)]
    struct Opening {
        principal: PrincipalId,
    }
    serde_json::from_str::<Opening>(payload).ok().map(|opening| opening.principal)
}

/// Closes up to [`CHUNK`] sessions of `instance`, oldest first.
fn close_sessions(
    connection: &Connection,
    instance: &str,
    now: Timestamp,
) -> Result<Closed, Failure> {
    let mut statement = connection.prepare_cached(
        "SELECT s.tenant, s.run_id, s.session_id, s.tool_id, s.event_id \
         FROM open_sessions s JOIN events e ON e.event_id = s.event_id \
         WHERE s.instance = ?1 ORDER BY e.position LIMIT ?2",
    )?;
    let limit = i64::try_from(CHUNK).unwrap_or(i64::MAX);
    let mut rows = statement.query(params![instance, limit])?;
    let mut records = Vec::new();
    while let Some(row) = rows.next()? {
        let unreadable = || Failure::corrupt("an open tool session");
        records.push(Record::new(NewEvent {
            event_id: parse(uuid::Uuid::now_v7().to_string(), unreadable)?,
            tenant: parse(row.get(0)?, unreadable)?,
            run_id: parse(row.get(1)?, unreadable)?,
            body: EventBody::ToolSessionClosed(ToolSessionClosed {
                session_id: parse(row.get(2)?, unreadable)?,
                tool_id: parse(row.get(3)?, unreadable)?,
                outcome: SessionOutcome::Failed,
            }),
            timestamp: now,
            causation_id: Some(parse::<EventId>(row.get(4)?, unreadable)?),
        })?);
    }
    drop(rows);
    for record in &records {
        record.insert(connection, instance)?;
    }
    Ok(Closed::all(records.len()))
}
