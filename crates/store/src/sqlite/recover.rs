//! Closing the calls and then the tool sessions that a dead process left open: a session's end
//! follows the last of its calls.

use rusqlite::{Connection, Row, params};
use serde::Deserialize;
use toolcrib_core::{
    clock::Timestamp,
    event::{
        CallStatus, EventBody, EventError, NewEvent, SessionOutcome, ToolReturned,
        ToolSessionClosed,
    },
    id::PrincipalId,
    store::StoreError,
};

use super::{
    compact::{self, Forms},
    failure::Failure,
    handle::SqliteStore,
    idempotency,
    instance::{self, DeadInstance},
    log::Record,
    open_calls,
    row::{all, limit, parse},
    runs,
    transaction::WriteTransaction,
};

/// Calls or sessions closed in one transaction, so that other writers do not wait long.
const CHUNK: usize = 256;

/// Closes what dead instances left open; see [`Storage::recover`].
///
/// [`Storage::recover`]: toolcrib_core::store::Storage::recover
pub(super) async fn recover(store: &SqliteStore, now: Timestamp) -> Result<usize, StoreError> {
    let own = store.instance();
    let place = store.path().to_owned();
    // The locks of the dead instances are held until the end, so that no other process recovers
    // them.
    let dead = store.on_reader(move |connection| {
        let mut ids = instance::present(&place)?;
        ids.extend(with_something_open(connection)?);
        ids.sort_unstable();
        ids.dedup();
        let mut dead = Vec::new();
        for id in ids.iter().filter(|id| ***id != *own) {
            dead.extend(DeadInstance::claim(&place, id)?);
        }
        Ok(dead)
    });
    let mut closed = 0;
    for dead in dead.await? {
        let (id, taker) = (dead.id.clone(), store.instance());
        let adopt = move |transaction: &mut WriteTransaction<'_>| {
            open_calls::settle(transaction, &id)?;
            runs::adopt(transaction, &id, &taker, now)
        };
        store.on_writer(adopt).await?;
        // Idempotent calls come last: the record is complete for them once the calls are closed.
        let closers: [(CloseStep, bool); 3] =
            [(close_calls, true), (close_sessions, true), (close_claims, false)];
        for (close, is_counted) in closers {
            loop {
                let id = dead.id.clone();
                let found =
                    store.on_writer(move |transaction| close(transaction, &id, now)).await?;
                closed += if is_counted { found } else { 0 };
                if found < CHUNK {
                    break;
                }
            }
        }
        dead.bury();
    }
    Ok(closed)
}

/// Closes up to [`CHUNK`] items of an instance, and returns how many there were.
type CloseStep = fn(&mut WriteTransaction<'_>, &str, Timestamp) -> Result<usize, Failure>;

/// Decides about up to [`CHUNK`] idempotent calls of `instance`; their events are closed already.
fn close_claims(
    transaction: &mut WriteTransaction<'_>,
    instance: &str,
    _now: Timestamp,
) -> Result<usize, Failure> {
    idempotency::settle(transaction, instance, CHUNK)
}

fn with_something_open(connection: &Connection) -> Result<Vec<String>, Failure> {
    let mut statement = connection.prepare_cached(
        "SELECT instance FROM writers UNION SELECT instance FROM open_calls UNION SELECT instance FROM open_sessions \
         UNION SELECT instance FROM runs WHERE state = 'running' \
         UNION SELECT instance FROM once_calls WHERE state = 'running'",
    )?;
    let instances = statement.query_map([], |row| row.get(0))?.collect::<Result<_, _>>()?;
    Ok(instances)
}

/// Closes up to [`CHUNK`] calls of `instance`, oldest first.
fn close_calls(
    transaction: &mut WriteTransaction<'_>,
    instance: &str,
    now: Timestamp,
) -> Result<usize, Failure> {
    let sql = "SELECT c.tenant, c.run_id, c.event_id, c.call_id, c.agent_id, c.tool_name, \
               e.form, e.payload \
               FROM open_calls c JOIN events e ON e.position = c.position \
               WHERE c.instance = ?1 ORDER BY c.position LIMIT ?2";
    close(transaction, sql, instance, now, |row, forms| {
        let (call, agent) = (parse(row.get(3)?, unreadable)?, parse(row.get(4)?, unreadable)?);
        let tool: String = row.get(5)?;
        let message = "the process that ran this call exited before the call completed";
        Ok(EventBody::ToolReturned(ToolReturned {
            error: Some(EventError::new("interrupted", message)),
            principal: caller(&forms.payload(row, 6)?),
            ..ToolReturned::new(agent, tool, call, CallStatus::Error)
        }))
    })
}

/// Closes up to [`CHUNK`] sessions of `instance`, oldest first.
fn close_sessions(
    transaction: &mut WriteTransaction<'_>,
    instance: &str,
    now: Timestamp,
) -> Result<usize, Failure> {
    let sql = "SELECT s.tenant, s.run_id, e.event_id, s.session_id, s.tool_id \
               FROM open_sessions s JOIN events e ON e.position = s.position \
               WHERE s.instance = ?1 ORDER BY e.position LIMIT ?2";
    close(transaction, sql, instance, now, |row, _| {
        Ok(EventBody::ToolSessionClosed(ToolSessionClosed {
            session_id: parse(row.get(3)?, unreadable)?,
            tool_id: parse(row.get(4)?, unreadable)?,
            outcome: SessionOutcome::Failed,
        }))
    })
}

/// Appends a closing event for each row of `sql`. Its first columns are the tenant, the run and the
/// opening event.
fn close(
    transaction: &mut WriteTransaction<'_>,
    sql: &str,
    instance: &str,
    now: Timestamp,
    body: impl Fn(&Row<'_>, &mut Forms<'_>) -> Result<EventBody, Failure>,
) -> Result<usize, Failure> {
    let mut forms = Forms::new(transaction);
    let end = |row: &Row<'_>| {
        let cause = compact::id(row, 2).ok_or_else(unreadable)?;
        let event = NewEvent {
            event_id: parse(uuid::Uuid::now_v7().to_string(), unreadable)?,
            tenant: parse(row.get(0)?, unreadable)?,
            run_id: parse(row.get(1)?, unreadable)?,
            body: body(row, &mut forms)?,
            timestamp: now,
            causation_id: Some(parse(cause, unreadable)?),
        };
        Ok(Record::new(&event)?)
    };
    let mut records = all(transaction, sql, params![instance, limit(CHUNK)], end)?;
    for record in &mut records {
        record.insert(transaction)?;
    }
    Ok(records.len())
}

/// The principal in `payload`, the event that opened a call. A damaged payload has no principal,
/// and must not keep the call open.
fn caller(payload: &str) -> Option<PrincipalId> {
    #[derive(Deserialize)]
    struct Opening {
        principal: PrincipalId,
    }
    serde_json::from_str::<Opening>(payload).ok().map(|opening| opening.principal)
}

fn unreadable() -> Failure {
    Failure::corrupt("an open call or tool session")
}
