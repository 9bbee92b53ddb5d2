//! The chain of each tenant's events (I-71): every insert continues it inside its own transaction.

use rusqlite::{Connection, OptionalExtension as _, Row, params};
use toolcrib_core::{
    canonical::Digest,
    record::{StoredEvent, StoredQuery, genesis},
};

use super::{
    compact::{self, Forms},
    failure::Failure,
    row::{bound, limit},
};

/// The columns of a [`StoredEvent`], in the order of [`stored`]; its `prev` is the next one.
pub(super) const COLUMNS: &str = "position, tenant, tenant_position, event_id, run_id, sequence, \
                                  type, timestamp, causation_id, form, payload, hash";

/// The hash before the event of the row `events`.
pub(super) const PREV: &str = "coalesce(\
    (SELECT p.hash FROM events p INDEXED BY events_by_tenant \
     WHERE p.tenant = events.tenant AND p.tenant_position = events.tenant_position - 1), \
    (SELECT c.hash FROM checkpoints c \
     WHERE c.tenant = events.tenant AND c.position = events.tenant_position - 1 LIMIT 1), \
    zeroblob(32))";

/// Position and hash of the last event of `tenant`; 0 and [`genesis`] when it has none.
pub(super) fn last(connection: &Connection, tenant: &str) -> Result<(u64, Digest), Failure> {
    let mut statement = connection.prepare_cached(
        "SELECT tenant_position, hash FROM events INDEXED BY events_by_tenant \
         WHERE tenant = ?1 ORDER BY tenant_position DESC LIMIT 1",
    )?;
    let row = |row: &Row<'_>| Ok((number(row, 0), digest(row, 1)));
    match statement.query_row([tenant], row).optional()? {
        None => Ok((0, genesis())),
        Some((position, Some(hash))) => Ok((position, hash)),
        Some((_, None)) => Err(Failure::corrupt("the hash of an event")),
    }
}

/// Returns events as stored.
pub(super) fn select(
    connection: &Connection,
    query: &StoredQuery,
) -> Result<Vec<StoredEvent>, Failure> {
    let prev = if query.with_prev { PREV } else { "NULL" };
    let from = match query.tenant {
        Some(_) => {
            "events INDEXED BY events_by_tenant WHERE tenant = ?1 AND tenant_position > ?2 \
             ORDER BY tenant_position"
        }
        None => "events NOT INDEXED WHERE ?1 IS NULL AND position > ?2 ORDER BY position",
    };
    let sql = format!("SELECT {COLUMNS}, {prev} FROM {from} LIMIT ?3");
    let mut statement = connection.prepare_cached(&sql)?;
    let params = params![
        query.tenant.as_ref().map(|tenant| tenant.as_str()),
        bound(query.after),
        limit(query.limit),
    ];
    let mut forms = Forms::new(connection);
    statement.query_and_then(params, |row| stored(row, &mut forms))?.collect()
}

/// Reads a row as it is, even when another program wrote it.
pub(super) fn stored(row: &Row<'_>, forms: &mut Forms<'_>) -> Result<StoredEvent, Failure> {
    Ok(StoredEvent {
        position: number(row, 0),
        tenant: compact::id(row, 1).unwrap_or_default(),
        tenant_position: number(row, 2),
        event_id: compact::id(row, 3).unwrap_or_default(),
        run_id: compact::id(row, 4).unwrap_or_default(),
        sequence: number(row, 5),
        kind: compact::kind(row, 6),
        timestamp: forms.timestamp(row, 7),
        causation_id: compact::id(row, 8),
        payload: forms.payload(row, 9)?,
        hash: digest(row, 11),
        prev: digest(row, 12),
    })
}

fn number(row: &Row<'_>, column: usize) -> u64 {
    let number = row.get_ref(column).ok().and_then(|value| value.as_i64().ok());
    number.and_then(|number| u64::try_from(number).ok()).unwrap_or(u64::MAX)
}

pub(super) fn digest(row: &Row<'_>, column: usize) -> Option<Digest> {
    let bytes = row.get_ref(column).ok()?.as_blob().ok()?;
    bytes.try_into().ok().map(Digest)
}
