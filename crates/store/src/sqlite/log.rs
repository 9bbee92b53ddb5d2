//! The event log on SQLite.

use std::sync::Arc;

use async_trait::async_trait;
use rusqlite::{Connection, Row, params};
use toolcrib_core::{
    event::{EventBody, EventLog, EventQuery, LoggedEvent, NewEvent, RunEvent},
    id::{CallId, SessionId, TenantId, ToolId},
    record::{Link, StoredEvent, genesis},
    store::StoreError,
};

use super::{
    chain,
    failure::Failure,
    handle::SqliteStore,
    log_state::RunKey,
    open_calls::{CallName, Opening},
    row::{all, bound, execute, limit, parse, time, time_text},
    transaction::WriteTransaction,
};

/// An event as its row, prepared before it reaches the writer thread.
#[derive(Debug)]
pub(super) struct Record {
    run: RunKey,
    /// Complete except for its places and its hash.
    event: StoredEvent,
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

// === impl EventLog ===

#[async_trait]
impl EventLog for SqliteStore {
    async fn append(&self, events: Vec<NewEvent>) -> Result<Vec<u64>, StoreError> {
        if events.is_empty() {
            return Ok(Vec::new());
        }
        let mut records = events.into_iter().map(Record::new).collect::<Result<Vec<_>, _>>()?;
        self.on_writer(move |transaction| {
            records.iter_mut().map(|record| record.insert(transaction)).collect()
        })
        .await
    }

    async fn read(&self, query: EventQuery) -> Result<Vec<LoggedEvent>, StoreError> {
        self.on_reader(move |connection| select(connection, &query)).await
    }
}

// === impl Record ===

impl Record {
    pub(super) fn new(event: NewEvent) -> Result<Self, StoreError> {
        let payload = event.body.payload_text().map_err(|_| {
            StoreError::Unavailable("an event's payload has no JSON form".to_owned())
        })?;
        let kind = event.body.kind();
        let effect = match event.body {
            EventBody::ToolCalled(called) => Effect::OpensCall(Arc::new(Opening {
                tenant: event.tenant.clone(),
                run: event.run_id.clone(),
                event: event.event_id.clone(),
                call: called.call_id,
                agent: called.agent_id,
                tool: called.tool_name,
            })),
            EventBody::ToolReturned(returned) => Effect::ClosesCall { call_id: returned.call_id },
            EventBody::ToolSessionOpened(opened) => {
                Effect::OpensSession { session_id: opened.session_id, tool_id: opened.tool_id }
            }
            EventBody::ToolSessionClosed(closed) => {
                Effect::ClosesSession { session_id: closed.session_id, tool_id: closed.tool_id }
            }
            EventBody::AuthorizationDecided(_)
            | EventBody::EgressDecided(_)
            | EventBody::ToolPinDrifted(_)
            | EventBody::ToolPinApproved(_)
            | EventBody::InterruptRequested(_)
            | EventBody::ApprovalGranted(_)
            | EventBody::ApprovalRejected(_)
            | EventBody::ApprovalOverridden(_)
            | EventBody::RecordAccepted(_) => Effect::None,
        };
        let row = StoredEvent {
            position: 0,
            tenant: event.tenant.to_string(),
            tenant_position: 0,
            event_id: event.event_id.into(),
            run_id: event.run_id.to_string(),
            sequence: 0,
            kind: kind.to_owned(),
            timestamp: time_text(event.timestamp),
            causation_id: event.causation_id.map(Into::into),
            payload,
            prev: None,
            hash: None,
        };
        Ok(Self { run: (event.tenant, event.run_id), event: row, effect })
    }

    /// Appends the event to its run and to its tenant's log, notes which call or session it opens or
    /// closes, and returns the position in the whole log.
    pub(super) fn insert(
        &mut self,
        transaction: &mut WriteTransaction<'_>,
    ) -> Result<u64, Failure> {
        let closes = self.close_call(transaction)?;
        let place = transaction.place(&self.run)?;
        self.event.tenant_position = place.tenant_position;
        self.event.sequence = place.sequence;
        let hash = self.event.hash_after(&place.prev);
        let sql = "INSERT INTO events (event_id, tenant, tenant_position, run_id, sequence, type, \
                 timestamp, causation_id, payload, hash, writer, closes) \
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)";
        let stored = execute(
            transaction,
            sql,
            params![
                self.event.event_id,
                self.event.tenant,
                bound(place.tenant_position),
                self.event.run_id,
                bound(place.sequence),
                self.event.kind,
                self.event.timestamp,
                self.event.causation_id,
                self.event.payload,
                hash.0,
                place.writer,
                closes,
            ],
        )
        .map_err(|failure| failure.conflict_over("an event with this id"))?;
        if stored != 1 {
            return Err(Failure::corrupt("an event that was written is not in the file"));
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
        let name = CallName {
            tenant: &self.event.tenant,
            run: &self.event.run_id,
            call: call_id.as_str(),
        };
        transaction.close_call(name, self.event.causation_id.as_deref())
    }

    fn apply_effect(
        &self,
        transaction: &mut WriteTransaction<'_>,
        position: i64,
    ) -> Result<(), Failure> {
        let (tenant, run) = (&*self.event.tenant, &*self.event.run_id);
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

fn body(kind: &str, payload: &str) -> Option<EventBody> {
    let body = match kind {
        "agent.toolCalled" => serde_json::from_str(payload).map(EventBody::ToolCalled),
        "agent.toolReturned" => serde_json::from_str(payload).map(EventBody::ToolReturned),
        "authorization.decided" => {
            serde_json::from_str(payload).map(EventBody::AuthorizationDecided)
        }
        "egress.decided" => serde_json::from_str(payload).map(EventBody::EgressDecided),
        "tool.session.opened" => serde_json::from_str(payload).map(EventBody::ToolSessionOpened),
        "tool.session.closed" => serde_json::from_str(payload).map(EventBody::ToolSessionClosed),
        "tool.pin.drifted" => serde_json::from_str(payload).map(EventBody::ToolPinDrifted),
        "tool.pin.approved" => serde_json::from_str(payload).map(EventBody::ToolPinApproved),
        "interrupt.requested" => serde_json::from_str(payload).map(EventBody::InterruptRequested),
        "approval.granted" => serde_json::from_str(payload).map(EventBody::ApprovalGranted),
        "approval.rejected" => serde_json::from_str(payload).map(EventBody::ApprovalRejected),
        "approval.overridden" => serde_json::from_str(payload).map(EventBody::ApprovalOverridden),
        "record.accepted" => serde_json::from_str(payload).map(EventBody::RecordAccepted),
        _ => return None,
    };
    body.ok()
}

fn select(connection: &Connection, query: &EventQuery) -> Result<Vec<LoggedEvent>, Failure> {
    let params = params![
        query.tenant.as_ref().map(TenantId::as_str),
        query.run.as_ref().map(|run| run.as_str()),
        query.after.map_or(-1, bound),
        limit(query.limit),
    ];
    let mut events = all(connection, &select_sql(query), params, logged)?;
    if query.newest {
        events.reverse();
    }
    Ok(events)
}

/// Returns the query. It names the index, because without statistics SQLite guesses, and a wrong
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
        "SELECT {position}, tenant, event_id, run_id, type, payload, timestamp, sequence, \
         causation_id, tenant_position, hash, {prev} FROM events {index} \
         WHERE {filter} AND {position} > ?3 ORDER BY {order} {direction} LIMIT ?4",
        prev = chain::PREV
    )
}

fn logged(row: &Row<'_>) -> Result<LoggedEvent, Failure> {
    let position: i64 = row.get(0)?;
    let unreadable = || Failure::corrupt(format!("the event at position {position}"));
    let text = |column: usize| -> Result<String, Failure> { Ok(row.get(column)?) };
    let causation: Option<String> = row.get(8)?;
    Ok(LoggedEvent {
        position: u64::try_from(position).map_err(|_| unreadable())?,
        tenant: parse(text(1)?, unreadable)?,
        link: Link {
            position: u64::try_from(row.get::<_, i64>(9)?).map_err(|_| unreadable())?,
            hash: chain::digest(row, 10).ok_or_else(unreadable)?,
            prev: chain::digest(row, 11).unwrap_or_else(genesis),
        },
        event: RunEvent {
            event_id: parse(text(2)?, unreadable)?,
            run_id: parse(text(3)?, unreadable)?,
            body: body(&text(4)?, &text(5)?).ok_or_else(unreadable)?,
            timestamp: time(&text(6)?).ok_or_else(unreadable)?,
            sequence: u64::try_from(row.get::<_, i64>(7)?).map_err(|_| unreadable())?,
            causation_id: causation.map(|id| parse(id, unreadable)).transpose()?,
        },
    })
}
