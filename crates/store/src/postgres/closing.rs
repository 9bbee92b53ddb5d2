//! Closes calls and tool sessions that their own process does not close.

use deadpool_postgres::{Client, Transaction};
use tokio_postgres::Row;
use toolcrib_core::{
    clock::Timestamp,
    event::{
        CallStatus, EventBody, EventError, NewEvent, SessionOutcome, ToolReturned,
        ToolSessionClosed,
    },
};

use super::{
    append::append,
    entry::Record,
    failure::Failure,
    row::{Param, first, parse, rows},
};

/// Calls or sessions closed in one transaction, so that other writers do not wait long.
pub(super) const CHUNK: usize = 256;

/// The open calls and sessions of the instance `$1`.
pub(super) const OF_INSTANCE: &str = "instance = $1";
/// The calls and sessions that the events with the ids `$1` opened.
const OF_EVENTS: &str = "event_id = ANY($1)";

/// Why the call of a dead process was closed.
pub(super) const ENDED: &str = "the process that ran this call exited before the call completed";
/// Why a call was closed that never ran.
const NEVER_RAN: &str = "the call was refused, because it was unknown whether its start was stored";

/// Closes what `opening` events of this process opened, whose outcome was unknown: their callers
/// were refused, so the calls do not run. At most [`CHUNK`] events.
pub(super) async fn close_unknown(
    client: &mut Client,
    own: &str,
    opening: &[&str],
) -> Result<usize, Failure> {
    let transaction = client.transaction().await?;
    // Every transaction of the log holds a weaker lock on this row: afterwards the lost
    // transactions of this process have finished.
    let sql = "SELECT clock_timestamp() FROM instances WHERE id = $1 FOR UPDATE";
    let Some(row) = first(&transaction, sql, &[&own]).await? else { return Ok(0) };
    let now: Timestamp = row.try_get(0)?;
    let mut ends = close_calls(&transaction, OF_EVENTS, &opening, NEVER_RAN, now).await?;
    ends.extend(close_sessions(&transaction, OF_EVENTS, &opening, now).await?);
    let closed = append_all(&transaction, &ends, own).await?;
    transaction.commit().await?;
    Ok(closed)
}

pub(super) async fn append_all(
    transaction: &Transaction<'_>,
    records: &[Record],
    own: &str,
) -> Result<usize, Failure> {
    if !records.is_empty() {
        let records: Vec<&Record> = records.iter().collect();
        append(transaction, &records, own).await?;
    }
    Ok(records.len())
}

/// Creates the closing events of up to [`CHUNK`] calls that meet `condition` on `value`. The append
/// removes their rows.
pub(super) async fn close_calls(
    transaction: &Transaction<'_>,
    condition: &str,
    value: Param<'_>,
    message: &str,
    now: Timestamp,
) -> Result<Vec<Record>, Failure> {
    let sql = format!(
        "SELECT tenant, run_id, event_id, call_id, agent_id, tool_name, principal \
         FROM open_calls WHERE {condition} ORDER BY tenant, tenant_position LIMIT {CHUNK}"
    );
    let end = |row: &Row| {
        let (call, agent) =
            (parse(row.try_get(3)?, unreadable)?, parse(row.try_get(4)?, unreadable)?);
        let body = EventBody::ToolReturned(ToolReturned {
            error: Some(EventError::new("interrupted", message)),
            principal: parse(row.try_get(6)?, unreadable).ok(),
            ..ToolReturned::new(agent, row.try_get::<_, String>(5)?, call, CallStatus::Error)
        });
        event(row, body, now)
    };
    rows(transaction, &sql, &[value]).await?.iter().map(end).collect()
}

/// Creates the closing events of up to [`CHUNK`] sessions that meet `condition` on `value`.
pub(super) async fn close_sessions(
    transaction: &Transaction<'_>,
    condition: &str,
    value: Param<'_>,
    now: Timestamp,
) -> Result<Vec<Record>, Failure> {
    let sql = format!(
        "SELECT tenant, run_id, event_id, session_id, tool_id FROM open_sessions \
         WHERE {condition} ORDER BY tenant, tenant_position LIMIT {CHUNK}"
    );
    let end = |row: &Row| {
        let body = EventBody::ToolSessionClosed(ToolSessionClosed {
            session_id: parse(row.try_get(3)?, unreadable)?,
            tool_id: parse(row.try_get(4)?, unreadable)?,
            outcome: SessionOutcome::Failed,
        });
        event(row, body, now)
    };
    rows(transaction, &sql, &[value]).await?.iter().map(end).collect()
}

/// Creates an event whose tenant, run and cause are the first columns of `row`.
fn event(row: &Row, body: EventBody, now: Timestamp) -> Result<Record, Failure> {
    let event = NewEvent {
        event_id: parse(uuid::Uuid::now_v7().to_string(), unreadable)?,
        tenant: parse(row.try_get(0)?, unreadable)?,
        run_id: parse(row.try_get(1)?, unreadable)?,
        body,
        timestamp: now,
        causation_id: Some(parse(row.try_get(2)?, unreadable)?),
    };
    Ok(Record::new(&event)?)
}

fn unreadable() -> Failure {
    Failure::corrupt("an open call or tool session")
}
