//! Closing the calls that a dead process left open.

use rusqlite::{Connection, params};
use toolcrib_core::{
    clock::Timestamp,
    event::{CallStatus, EventBody, EventError, NewEvent, ToolReturned},
    id::EventId,
    store::StoreError,
};

use super::{
    SqliteStore,
    failure::Failure,
    instance::{self, Dead},
    log::{Record, parse},
};

/// Calls closed in one transaction, so that living writers are not kept out for long.
const CHUNK: usize = 256;

impl SqliteStore {
    /// Closes every call whose process is dead with an `agent.toolReturned` of status `error` and
    /// code `interrupted`, and returns how many there were. Calls of living processes, this one
    /// included, are not touched. Safe to run in any number of processes at once.
    ///
    /// # Errors
    /// [`StoreError`]; what was closed before the failure stays closed.
    pub async fn recover(&self, now: Timestamp) -> Result<usize, StoreError> {
        let own = self.inner.instance.clone();
        let place = self.path().to_owned();
        // Holding the locks of the dead until the end keeps other processes from burying them too.
        let dead = self
            .inner
            .readers
            .read(move |connection| {
                let mut ids = instance::present(&place)?;
                ids.extend(with_open_calls(connection)?);
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
            loop {
                let id = dead.id.clone();
                let count =
                    self.inner.writer.write(move |connection| close(connection, &id, now)).await?;
                closed += count;
                if count < CHUNK {
                    break;
                }
            }
            dead.bury();
        }
        Ok(closed)
    }
}

fn with_open_calls(connection: &Connection) -> Result<Vec<String>, Failure> {
    let mut statement = connection.prepare_cached("SELECT DISTINCT instance FROM open_calls")?;
    let instances = statement.query_map([], |row| row.get(0))?.collect::<Result<_, _>>()?;
    Ok(instances)
}

/// Closes up to [`CHUNK`] calls of `instance`, oldest first.
fn close(connection: &Connection, instance: &str, now: Timestamp) -> Result<usize, Failure> {
    let mut statement = connection.prepare_cached(
        "SELECT c.tenant, c.run_id, c.call_id, c.event_id, c.agent_id, c.tool_name \
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
            }),
            timestamp: now,
            causation_id: Some(parse::<EventId>(row.get(3)?, unreadable)?),
        })?);
    }
    drop(rows);
    for record in &records {
        record.insert(connection, instance)?;
    }
    Ok(records.len())
}
