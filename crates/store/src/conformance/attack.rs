//! Attacks on a record by an attacker who can write the store's file and compute its hashes, but
//! lacks the signing key. `docs/explanation/record.md` lists which check detects each of them.
#![expect(missing_docs, reason = "the names say it")]

use std::path::Path;

use rusqlite::{Connection, params};
use toolcrib_core::{
    canonical::Digest,
    record::{StoredEvent, StoredQuery, genesis},
};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Attack {
    /// Changes an event and recomputes every hash after it; the checkpoints stay.
    Change,
    /// Like `Change`, and removes all checkpoints of the tenant.
    ChangeWithoutCheckpoints,
    /// Like `Change`, and removes the checkpoints from the changed event on.
    ChangeWithoutLaterCheckpoints,
    /// Changes the event of the last checkpoint, and removes that checkpoint.
    ChangeWithoutLastCheckpoint,
    /// Removes an event, renumbers those after it, and removes all checkpoints of the tenant.
    RemoveAndRenumber,
    /// Removes everything of the tenant, and closes the gap in the positions of the whole log.
    RemoveTenant,
    /// Adds an event after the last checkpoint.
    InsertAfterLastCheckpoint,
    /// Removes the end together with the last checkpoint.
    CutSignedEnd,
    /// Removes the events after the last checkpoint.
    CutUnsignedEnd,
}

// === impl Attack ===

impl Attack {
    pub const ALL: [Self; 9] = [
        Self::Change,
        Self::ChangeWithoutCheckpoints,
        Self::ChangeWithoutLaterCheckpoints,
        Self::ChangeWithoutLastCheckpoint,
        Self::RemoveAndRenumber,
        Self::RemoveTenant,
        Self::InsertAfterLastCheckpoint,
        Self::CutSignedEnd,
        Self::CutUnsignedEnd,
    ];

    /// Commits the attack on the log of `tenant` in the store at `path`, which needs two
    /// checkpoints.
    pub fn commit(self, path: &Path, tenant: &str) {
        let connection = open(path);
        let heads = heads(&connection, tenant);
        let last = heads[heads.len() - 1];
        let remove = |sql: &str, from: i64| {
            connection.execute(sql, params![tenant, from]).unwrap();
        };
        let remove_checkpoints =
            |from| remove("DELETE FROM checkpoints WHERE tenant = ?1 AND position >= ?2", from);
        let remove_events =
            |from| remove("DELETE FROM events WHERE tenant = ?1 AND tenant_position >= ?2", from);
        match self {
            Self::Change => change(&connection, tenant, 2),
            Self::ChangeWithoutCheckpoints => {
                change(&connection, tenant, 2);
                remove_checkpoints(0);
            }
            Self::ChangeWithoutLaterCheckpoints => {
                change(&connection, tenant, heads[1]);
                remove_checkpoints(heads[1]);
            }
            Self::ChangeWithoutLastCheckpoint => {
                change(&connection, tenant, last);
                remove_checkpoints(last);
            }
            Self::RemoveAndRenumber => {
                remove_and_renumber(&connection, tenant);
                rechain(&connection, tenant);
                remove_checkpoints(0);
            }
            Self::RemoveTenant => {
                remove_events(0);
                remove_checkpoints(0);
            }
            Self::InsertAfterLastCheckpoint => {
                let mut event = events(&connection, tenant).pop().unwrap();
                let prev = event.hash.unwrap();
                event.tenant_position += 1;
                event.event_id = format!("{}-again", event.event_id);
                event.sequence += 1;
                let hash = event.hash_after(&prev);
                connection
                    .execute(
                        "INSERT INTO events (event_id, tenant, tenant_position, run_id, sequence, \
                         type, timestamp, causation_id, payload, hash, writer) \
                         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, 1)",
                        params![
                            event.event_id,
                            event.tenant,
                            i64::try_from(event.tenant_position).unwrap(),
                            event.run_id,
                            i64::try_from(event.sequence).unwrap(),
                            event.kind,
                            event.timestamp,
                            event.causation_id,
                            event.payload,
                            hash.0
                        ],
                    )
                    .unwrap();
            }
            Self::CutSignedEnd => {
                remove_events(last);
                remove_checkpoints(last);
            }
            Self::CutUnsignedEnd => remove_events(last + 1),
        }
        close_gaps(&connection);
    }
}

/// Opens the store at `path`, bypassing this crate.
pub fn open(path: &Path) -> Connection {
    Connection::open(path).unwrap()
}

/// The positions of the checkpoints of `tenant`, without marks of retention.
fn heads(connection: &Connection, tenant: &str) -> Vec<i64> {
    let sql = "SELECT position FROM checkpoints WHERE tenant = ?1 AND kind <> 'pruned' \
               ORDER BY number";
    let mut statement = connection.prepare(sql).unwrap();
    let rows = statement.query_map([tenant], |row| row.get(0)).unwrap();
    rows.collect::<Result<_, _>>().unwrap()
}

/// Changes an event of `tenant`, and recomputes all hashes.
pub fn change(connection: &Connection, tenant: &str, position: i64) {
    let number = u64::try_from(position).unwrap();
    let event =
        events(connection, tenant).into_iter().find(|event| event.tenant_position == number);
    let payload = event.unwrap().payload.replace("\":\"", "\":\"x");
    let sql = "UPDATE events SET form = NULL, payload = ?3 \
               WHERE tenant = ?1 AND tenant_position = ?2";
    assert_eq!(connection.execute(sql, params![tenant, position, payload]).unwrap(), 1);
    rechain(connection, tenant);
}

fn remove_and_renumber(connection: &Connection, tenant: &str) {
    connection
        .execute("DELETE FROM events WHERE tenant = ?1 AND tenant_position = 2", [tenant])
        .unwrap();
    for event in events(connection, tenant).iter().filter(|event| event.tenant_position > 2) {
        let place = i64::try_from(event.position).unwrap();
        connection
            .execute(
                "UPDATE events SET tenant_position = tenant_position - 1 WHERE position = ?1",
                [place],
            )
            .unwrap();
    }
}

/// Recomputes all hashes of a tenant.
pub fn rechain(connection: &Connection, tenant: &str) {
    let mut prev: Digest = genesis();
    for event in events(connection, tenant) {
        prev = event.hash_after(&prev);
        let position = i64::try_from(event.position).unwrap();
        connection
            .execute("UPDATE events SET hash = ?1 WHERE position = ?2", params![prev.0, position])
            .unwrap();
    }
}

fn events(connection: &Connection, tenant: &str) -> Vec<StoredEvent> {
    let (tenant, mut events) = (tenant.parse().ok(), Vec::new());
    loop {
        let after = events.last().map_or(0, |last: &StoredEvent| last.tenant_position);
        let query = StoredQuery { tenant: tenant.clone(), after, ..StoredQuery::default() };
        let page = crate::sqlite::chain::select(connection, &query).unwrap();
        if page.is_empty() {
            return events;
        }
        events.extend(page);
    }
}

/// Renumbers the positions of the whole log without gaps.
fn close_gaps(connection: &Connection) {
    let mut statement =
        connection.prepare("SELECT position FROM events ORDER BY position").unwrap();
    let rows = statement.query_map([], |row| row.get::<_, i64>(0)).unwrap();
    let all: Vec<i64> = rows.collect::<Result<_, _>>().unwrap();
    for (position, place) in all.iter().zip(1_i64..) {
        connection
            .execute("UPDATE events SET position = ?2 WHERE position = ?1", [*position, place])
            .unwrap();
    }
}
