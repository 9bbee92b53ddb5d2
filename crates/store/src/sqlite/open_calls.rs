//! Calls that were started and have not returned.
//!
//! Invariants:
//! - an open call is in the table `open_calls`, or it can be derived from the events: a process
//!   with a row in `writers` wrote its `agent.toolCalled` after `clear_to`, and no later event
//!   closes it;
//! - both change in the transaction that stores the event, so `kill -9` at any moment does not lose
//!   an open call.

use std::{
    collections::{BTreeMap, HashSet},
    sync::Arc,
};

use foldhash::HashMap;
use rusqlite::{Connection, OptionalExtension as _, Row, params};
use serde::Deserialize;
use toolcrib_core::id::{AgentId, CallId, EventId, RunId, TenantId};

use super::{
    compact::{self, Forms, Id, TOOL_CALLED},
    failure::Failure,
    row::{all, execute, parse},
};

/// The content of an `agent.toolCalled` that recovery needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Opening {
    pub(super) tenant: TenantId,
    pub(super) run: RunId,
    pub(super) event: EventId,
    pub(super) call: CallId,
    pub(super) agent: AgentId,
    pub(super) tool: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct OpenCall {
    /// The position of its opening event in the whole log.
    pub(super) position: i64,
    pub(super) opening: Arc<Opening>,
}

/// A call as its return names it.
#[derive(Debug, Clone, Copy)]
pub(super) struct CallName<'a> {
    pub(super) tenant: &'a str,
    pub(super) run: &'a str,
    pub(super) call: &'a str,
}

/// Open calls in memory, by their ids.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct OpenCalls(HashMap<CallId, Vec<OpenCall>>);

// === impl OpenCalls ===

impl OpenCalls {
    pub(super) fn insert(&mut self, call: OpenCall) {
        let same = self.0.entry(call.opening.call.clone()).or_default();
        let place = same.partition_point(|other| other.position < call.position);
        same.insert(place, call);
    }

    /// Removes the call opened at `position`.
    pub(super) fn remove(&mut self, call: &CallId, position: i64) {
        self.take(call.as_str(), |open| open.position == position);
    }

    /// Removes the call `name` that the event `cause` opened.
    pub(super) fn take_caused(&mut self, name: CallName<'_>, cause: &str) -> Option<OpenCall> {
        self.take(name.call, |open| name.is(&open.opening) && open.opening.event.as_str() == cause)
    }

    /// Removes the oldest call `name`.
    pub(super) fn take_oldest(&mut self, name: CallName<'_>) -> Option<OpenCall> {
        self.take(name.call, |open| name.is(&open.opening))
    }

    /// Removes the calls that other processes closed after `position`. They are read from the file,
    /// so this is needed only when another connection has changed it.
    pub(super) fn remove_closed(
        &mut self,
        connection: &Connection,
        position: i64,
        own: i64,
    ) -> Result<(), Failure> {
        if self.0.is_empty() {
            return Ok(());
        }
        let sql = "SELECT closes FROM events NOT INDEXED \
                   WHERE position > ?1 AND writer <> ?2 AND closes IS NOT NULL";
        let closed = all(connection, sql, [position, own], |row| Ok(row.get::<_, i64>(0)?))?;
        let closed: HashSet<i64> = closed.into_iter().collect();
        self.0.retain(|_, same| {
            same.retain(|open| !closed.contains(&open.position));
            !same.is_empty()
        });
        Ok(())
    }

    fn take(&mut self, call: &str, wanted: impl Fn(&OpenCall) -> bool) -> Option<OpenCall> {
        let same = self.0.get_mut(call)?;
        let taken = same.remove(same.iter().position(wanted)?);
        if same.is_empty() {
            self.0.remove(call);
        }
        Some(taken)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &OpenCall> {
        self.0.values().flatten()
    }
}

impl CallName<'_> {
    fn is(&self, opening: &Opening) -> bool {
        opening.tenant.as_str() == self.tenant
            && opening.run.as_str() == self.run
            && opening.call.as_str() == self.call
    }
}

/// Reads the open calls that the writer `number` opened after position `clear_to`, oldest first.
pub(super) fn derive(
    connection: &Connection,
    number: i64,
    clear_to: i64,
) -> Result<Vec<OpenCall>, Failure> {
    let mut statement = connection.prepare_cached(
        "SELECT position, closes, writer = ?1 AND type = ?3, tenant, run_id, event_id, form, payload \
         FROM events NOT INDEXED WHERE position > ?2 \
         AND (closes IS NOT NULL OR (writer = ?1 AND type = ?3))",
    )?;
    let mut rows = statement.query(params![number, clear_to, TOOL_CALLED])?;
    let mut forms = Forms::new(connection);
    let mut open = BTreeMap::new();
    while let Some(row) = rows.next()? {
        if let Some(closed) = row.get::<_, Option<i64>>(1)? {
            open.remove(&closed);
        }
        if row.get(2)? {
            open.insert(row.get(0)?, Arc::new(opening(row, &mut forms)?));
        }
    }
    Ok(open.into_iter().map(|(position, opening)| OpenCall { position, opening }).collect())
}

/// Reads an opening event from the columns 3 to 7. A damaged payload gets placeholders, because it
/// must not keep the call open.
fn opening(row: &Row<'_>, forms: &mut Forms<'_>) -> Result<Opening, Failure> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Payload {
        agent_id: AgentId,
        tool_name: String,
        call_id: CallId,
    }
    let unreadable = || Failure::corrupt("an event that opens a call");
    let event = compact::id(row, 5).ok_or_else(unreadable)?;
    let payload = match serde_json::from_str(&forms.payload(row, 6)?) {
        Ok(payload) => payload,
        Err(_) => Payload {
            agent_id: AgentId::system(),
            tool_name: "unknown".to_owned(),
            call_id: parse(event.clone(), unreadable)?,
        },
    };
    Ok(Opening {
        tenant: parse(row.get(3)?, unreadable)?,
        run: parse(compact::id(row, 4).ok_or_else(unreadable)?, unreadable)?,
        event: parse(event, unreadable)?,
        call: payload.call_id,
        agent: payload.agent_id,
        tool: payload.tool_name,
    })
}

/// Adds calls of `instance` to the table.
pub(super) fn store<'a>(
    connection: &Connection,
    calls: impl IntoIterator<Item = &'a OpenCall>,
    instance: &str,
) -> Result<(), Failure> {
    let mut statement = connection.prepare_cached(
        "INSERT OR REPLACE INTO open_calls (position, tenant, run_id, call_id, event_id, agent_id, \
         tool_name, instance) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
    )?;
    for OpenCall { position, opening } in calls {
        statement.execute(params![
            position,
            opening.tenant.as_str(),
            opening.run.as_str(),
            opening.call.as_str(),
            opening.event.as_str(),
            opening.agent.as_str(),
            opening.tool,
            instance,
        ])?;
    }
    Ok(())
}

/// Moves the derived calls of `instance` to the table, and removes its rows in `writers`. Requires
/// that the instance is dead.
pub(super) fn settle(connection: &Connection, instance: &str) -> Result<(), Failure> {
    for (number, owner, clear_to) in writers(connection)? {
        if owner == instance {
            store(connection, &derive(connection, number, clear_to)?, instance)?;
            execute(connection, "DELETE FROM writers WHERE number = ?1", [number])?;
        }
    }
    Ok(())
}

/// The lowest position in the log of `tenant` that an open call needs.
pub(super) fn first_of(connection: &Connection, tenant: &str) -> Result<Option<i64>, Failure> {
    let sql = "SELECT min(position) FROM open_calls WHERE tenant = ?1";
    let mut first: Option<i64> =
        connection.prepare_cached(sql)?.query_row([tenant], |row| row.get(0))?;
    for (number, _, clear_to) in writers(connection)? {
        let open = derive(connection, number, clear_to)?;
        let own = open.iter().find(|call| call.opening.tenant.as_str() == tenant);
        first = first.into_iter().chain(own.map(|call| call.position)).min();
    }
    let Some(first) = first else { return Ok(None) };
    let sql = "SELECT tenant_position FROM events WHERE position = ?1 AND tenant = ?2";
    let place = connection.prepare_cached(sql)?.query_row(params![first, tenant], |row| row.get(0));
    Ok(place.optional()?)
}

/// Reads number, instance and `clear_to` of every writer.
fn writers(connection: &Connection) -> Result<Vec<(i64, String, i64)>, Failure> {
    let sql = "SELECT number, instance, clear_to FROM writers";
    all(connection, sql, [], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))
}

/// Removes the call `name` that the event `cause` opened from the table; returns whether it was
/// there.
pub(super) fn remove_caused(
    connection: &Connection,
    name: CallName<'_>,
    cause: &str,
) -> Result<bool, Failure> {
    let sql = "DELETE FROM open_calls INDEXED BY open_calls_by_call \
               WHERE tenant = ?1 AND run_id = ?2 AND call_id = ?3 AND event_id = ?4";
    Ok(execute(connection, sql, [name.tenant, name.run, name.call, cause])? > 0)
}

/// Removes the oldest call `name` from the table; returns whether there was one.
pub(super) fn remove_oldest(connection: &Connection, name: CallName<'_>) -> Result<bool, Failure> {
    let sql = "DELETE FROM open_calls WHERE position = \
               (SELECT min(position) FROM open_calls INDEXED BY open_calls_by_call \
                WHERE tenant = ?1 AND run_id = ?2 AND call_id = ?3)";
    Ok(execute(connection, sql, [name.tenant, name.run, name.call])? > 0)
}

/// Reads the derived open calls `name` of every writer except `own`, oldest first.
pub(super) fn of_other_writers(
    connection: &Connection,
    name: CallName<'_>,
    own: Option<i64>,
) -> Result<Vec<OpenCall>, Failure> {
    let others = "SELECT 1 FROM writers WHERE number IS NOT ?1";
    if !connection.prepare_cached(others)?.exists([own])? {
        return Ok(Vec::new());
    }
    let sql = "SELECT e.position, NULL, NULL, e.tenant, e.run_id, e.event_id, e.form, e.payload \
               FROM events e INDEXED BY events_by_run JOIN writers w ON w.number = e.writer \
               WHERE e.run_id = ?2 AND e.tenant = ?1 AND e.type = ?4 AND e.position > w.clear_to \
               AND w.number IS NOT ?3 AND NOT EXISTS \
                (SELECT 1 FROM events c INDEXED BY events_by_run WHERE c.run_id = ?2 \
                 AND c.tenant = ?1 AND c.position > e.position AND c.closes = e.position) \
               ORDER BY e.position";
    let params = params![name.tenant, Id::new(name.run), own, TOOL_CALLED];
    let mut forms = Forms::new(connection);
    let mut open = all(connection, sql, params, |row| {
        Ok(OpenCall { position: row.get(0)?, opening: Arc::new(opening(row, &mut forms)?) })
    })?;
    open.retain(|call| call.opening.call.as_str() == name.call);
    Ok(open)
}
