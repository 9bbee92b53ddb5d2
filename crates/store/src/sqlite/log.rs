//! The event log on SQLite.

use std::sync::Arc;

use async_trait::async_trait;
use rusqlite::{
    Connection, params,
    types::{ToSqlOutput, ValueRef},
};
use toolcrib_core::{
    event::{EventBody, EventLog, EventQuery, LoggedEvent, NewEvent},
    id::{CallId, EventId, SessionId, TenantId, ToolId},
    record::HashedParts,
    store::StoreError,
};

use super::{
    chain,
    compact::{self, Forms, Id, Payload},
    failure::Failure,
    handle::SqliteStore,
    log_state::RunKey,
    open_calls::{CallName, Opening},
    row::{all, bound, execute, first, limit},
    transaction::WriteTransaction,
};
use crate::event_text::{self, logged};

/// An event as its row, prepared before it reaches the writer thread.
#[derive(Debug)]
pub(super) struct Record {
    run: RunKey,
    event_id: EventId,
    id: u128,
    kind: &'static str,
    /// The time of the event, in milliseconds since the Unix epoch.
    at: i64,
    timestamp: String,
    causation_id: Option<EventId>,
    payload: String,
    /// The small form of the payload.
    small: Option<Payload>,
    effect: Effect,
}

/// The effect of an event on the open calls and sessions.
#[derive(Debug)]
enum Effect {
    OpensCall(Arc<Opening>),
    ClosesCall { call_id: CallId },
    OpensSession { session_id: SessionId, tool_id: ToolId },
    ClosesSession { session_id: SessionId, tool_id: ToolId },
    None,
}

const APPEND: &str = "INSERT INTO events (event_id, tenant, tenant_position, run_id, sequence, type, \
                      timestamp, causation_id, form, payload, hash, writer, closes) \
                      VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)";

// === impl EventLog ===

#[async_trait]
impl EventLog for SqliteStore {
    async fn append(&self, events: &[NewEvent]) -> Result<Vec<u64>, StoreError> {
        if events.is_empty() {
            return Ok(Vec::new());
        }
        let mut records = events.iter().map(Record::new).collect::<Result<Vec<_>, _>>()?;
        let work = move |transaction: &mut WriteTransaction<'_>| {
            records.iter_mut().map(|record| record.insert(transaction)).collect()
        };
        match events.iter().all(NewEvent::completes_call) {
            true => self.on_writer_completing(work).await,
            false => self.on_writer(work).await,
        }
    }

    async fn read(&self, query: EventQuery) -> Result<Vec<LoggedEvent>, StoreError> {
        self.on_reader(move |connection| select(connection, &query)).await
    }

    async fn at(&self, positions: &[u64]) -> Result<Vec<LoggedEvent>, StoreError> {
        let mut positions = positions.to_vec();
        positions.sort_unstable();
        positions.dedup();
        self.on_reader(move |connection| {
            let sql = format!(
                "SELECT {columns}, {prev} FROM events WHERE position = ?1",
                columns = chain::COLUMNS,
                prev = chain::PREV
            );
            let mut forms = Forms::new(connection);
            let mut found = Vec::with_capacity(positions.len());
            for position in positions {
                found.extend(first(connection, &sql, [bound(position)], |row| {
                    let place = || Failure::corrupt(format!("the event at position {position}"));
                    logged(chain::stored(row, &mut forms)?, position).ok_or_else(place)
                })?);
            }
            Ok(found)
        })
        .await
    }
}

// === impl Record ===

impl Record {
    pub(super) fn new(event: &NewEvent) -> Result<Self, StoreError> {
        let payload = event.body.payload_text().map_err(|_| {
            StoreError::Unavailable("an event's payload has no JSON form".to_owned())
        })?;
        let effect = match &event.body {
            EventBody::ToolCalled(called) => Effect::OpensCall(Arc::new(Opening {
                tenant: event.tenant.clone(),
                run: event.run_id.clone(),
                event: event.event_id.clone(),
                call: called.call_id.clone(),
                agent: called.agent_id.clone(),
                tool: called.tool_name.clone(),
            })),
            EventBody::ToolReturned(returned) => {
                Effect::ClosesCall { call_id: returned.call_id.clone() }
            }
            EventBody::ToolSessionOpened(opened) => Effect::OpensSession {
                session_id: opened.session_id.clone(),
                tool_id: opened.tool_id.clone(),
            },
            EventBody::ToolSessionClosed(closed) => Effect::ClosesSession {
                session_id: closed.session_id.clone(),
                tool_id: closed.tool_id.clone(),
            },
            // No other type opens or closes anything.
            _ => Effect::None,
        };
        Ok(Self {
            run: (event.tenant.clone(), event.run_id.clone()),
            id: Id::new(event.event_id.as_str()).key(),
            event_id: event.event_id.clone(),
            kind: event.body.kind(),
            at: event.timestamp.timestamp_millis(),
            timestamp: event_text::event_time(event.timestamp),
            causation_id: event.causation_id.clone(),
            small: Payload::split(&payload),
            payload,
            effect,
        })
    }

    /// Appends the event to its run and to its tenant's log, and returns its position in the whole
    /// log. Notes the call or session that the event opens or closes.
    pub(super) fn insert(
        &mut self,
        transaction: &mut WriteTransaction<'_>,
    ) -> Result<u64, Failure> {
        transaction.log.claim_id(self.id)?;
        let closes = self.close_call(transaction)?;
        let place = transaction.place(&self.run)?;
        let (tenant, run) = (self.run.0.as_str(), self.run.1.as_str());
        let parts = HashedParts {
            tenant,
            tenant_position: place.tenant_position,
            event_id: self.event_id.as_str(),
            run_id: run,
            sequence: place.sequence,
            kind: self.kind,
            timestamp: &self.timestamp,
            causation_id: self.causation_id.as_ref().map(EventId::as_str),
            payload: &self.payload,
        };
        let hash = parts.hash_after(&place.prev);
        let form = match &self.small {
            Some(payload) => transaction.form(&payload.form)?,
            None => None,
        };
        let payload = match (&self.small, form) {
            (Some(payload), Some(_)) => ValueRef::Blob(&payload.parts),
            _ => ValueRef::Text(self.payload.as_bytes()),
        };
        let stored = transaction.append(APPEND)?.execute(params![
            Id::new(self.event_id.as_str()),
            tenant,
            bound(place.tenant_position),
            Id::new(run),
            bound(place.sequence),
            ToSqlOutput::Borrowed(compact::kind_value(self.kind)),
            self.at,
            self.causation_id.as_ref().map(|cause| Id::new(cause.as_str())),
            form,
            ToSqlOutput::Borrowed(payload),
            hash.0,
            place.writer,
            closes,
        ])?;
        if stored != 1 {
            return Err(Failure::corrupt("a written event is not in the file"));
        }
        let position = transaction.last_insert_rowid();
        transaction.log.appended(&self.run, place, position, hash);
        self.apply_effect(transaction, position)?;
        u64::try_from(position).map_err(|_| Failure::corrupt("a negative position"))
    }

    /// One return closes one call: preferably the open one that it names as its cause. Returns its
    /// position unless it was in the table of open calls.
    fn close_call(&self, transaction: &mut WriteTransaction<'_>) -> Result<Option<i64>, Failure> {
        let Effect::ClosesCall { call_id } = &self.effect else { return Ok(None) };
        let (tenant, run) = (self.run.0.as_str(), self.run.1.as_str());
        let name = CallName { tenant, run, call: call_id.as_str() };
        transaction.close_call(name, self.causation_id.as_ref().map(EventId::as_str))
    }

    fn apply_effect(
        &self,
        transaction: &mut WriteTransaction<'_>,
        position: i64,
    ) -> Result<(), Failure> {
        let (tenant, run) = (self.run.0.as_str(), self.run.1.as_str());
        match &self.effect {
            Effect::OpensCall(opening) => transaction.log.opened(position, Arc::clone(opening)),
            // A tool is open in a session at most once: opening it again changes the holder.
            Effect::OpensSession { session_id, tool_id } => {
                let sql = "INSERT INTO open_sessions (tenant, run_id, session_id, tool_id, position, \
                         instance) VALUES (?1, ?2, ?3, ?4, ?5, ?6) ON CONFLICT DO UPDATE \
                         SET position = excluded.position, instance = excluded.instance";
                let instance = transaction.log.instance();
                let (session, tool) = (session_id.as_str(), tool_id.as_str());
                execute(
                    transaction,
                    sql,
                    params![tenant, run, session, tool, position, &*instance],
                )?;
            }
            Effect::ClosesSession { session_id, tool_id } => {
                let sql = "DELETE FROM open_sessions WHERE tenant = ?1 AND run_id = ?2 \
                         AND session_id = ?3 AND tool_id = ?4";
                execute(transaction, sql, [tenant, run, session_id.as_str(), tool_id.as_str()])?;
            }
            Effect::ClosesCall { .. } | Effect::None => {}
        }
        Ok(())
    }
}

fn select(connection: &Connection, query: &EventQuery) -> Result<Vec<LoggedEvent>, Failure> {
    let params = params![
        query.tenant.as_ref().map(TenantId::as_str),
        query.run.as_ref().map(|run| Id::new(run.as_str())),
        query.after.map_or(-1, bound),
        limit(query.limit),
    ];
    let mut forms = Forms::new(connection);
    let mut events = all(connection, &select_sql(query), params, |row| {
        let stored = chain::stored(row, &mut forms)?;
        let position =
            if query.tenant.is_some() { stored.tenant_position } else { stored.position };
        let place = format!("the event at position {position}");
        logged(stored, position).ok_or_else(|| Failure::corrupt(place))
    })?;
    if query.newest {
        events.reverse();
    }
    Ok(events)
}

/// The SQL of the query. It names the index, because without statistics SQLite guesses, and a wrong
/// guess reads the whole log. Within a run of a tenant, sequences and positions have the same
/// order. With a tenant, positions are those in its own log (I-9).
pub(super) fn select_sql(query: &EventQuery) -> String {
    let (index, filter, order) = match (&query.tenant, &query.run) {
        (None, None) => ("NOT INDEXED", "?1 IS NULL AND ?2 IS NULL", "position"),
        (Some(_), None) => {
            ("INDEXED BY events_by_tenant", "tenant = ?1 AND ?2 IS NULL", "tenant_position")
        }
        (None, Some(_)) => ("INDEXED BY events_by_run", "?1 IS NULL AND run_id = ?2", "position"),
        (Some(_), Some(_)) => {
            ("INDEXED BY events_by_run", "tenant = ?1 AND run_id = ?2", "events.position")
        }
    };
    let position = if query.tenant.is_some() { "tenant_position" } else { "position" };
    let direction = if query.newest { "DESC" } else { "ASC" };
    format!(
        "SELECT {columns}, {prev} FROM events {index} \
         WHERE {filter} AND {position} > ?3 ORDER BY {order} {direction} LIMIT ?4",
        columns = chain::COLUMNS,
        prev = chain::PREV
    )
}
