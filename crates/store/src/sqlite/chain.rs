//! The chain of each tenant's events (I-71): every insert continues it inside its own transaction.

use rusqlite::{Connection, OptionalExtension as _, Row, params};
use toolcrib_core::{
    canonical::Digest,
    id::TenantId,
    record::{CheckedLink, StoredEvent, StoredQuery, genesis},
};

use super::{
    compact::{self, Forms},
    failure::Failure,
    row::{bound, limit},
};

/// The columns of a [`StoredEvent`], in the order of [`stored`]; the next column is its `prev`.
pub(super) const COLUMNS: &str = "position, tenant, tenant_position, event_id, run_id, sequence, \
                                  type, timestamp, causation_id, form, payload, hash";

/// The hash before the event of the row `events`.
pub(super) const PREV: &str = "coalesce(\
    (SELECT p.hash FROM events p INDEXED BY events_by_tenant \
     WHERE p.tenant = events.tenant AND p.tenant_position = events.tenant_position - 1), \
    (SELECT c.hash FROM checkpoints c \
     WHERE c.tenant = events.tenant AND c.position = events.tenant_position - 1 LIMIT 1), \
    zeroblob(32))";

/// Position and hash of the last event of `tenant`; 0 and [`genesis`] if the tenant has no events.
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

/// Reads events as stored.
pub(crate) fn select(
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

/// Recomputes the chain of `tenant` from the event after position `after`, whose hash is `prev`.
pub(super) fn check(
    connection: &Connection,
    tenant: &TenantId,
    after: u64,
    mut prev: Digest,
) -> Result<Vec<CheckedLink>, Failure> {
    let mut statement = connection.prepare_cached(&format!(
        "SELECT {COLUMNS}, NULL FROM events INDEXED BY events_by_tenant \
         WHERE tenant = ?1 AND tenant_position > ?2 ORDER BY tenant_position LIMIT ?3"
    ))?;
    let mut rows = statement.query(params![tenant.as_str(), bound(after), limit(0)])?;
    let (mut forms, mut event, mut links) =
        (Forms::new(connection), StoredEvent::default(), Vec::new());
    while let Some(row) = rows.next()? {
        read(row, &mut forms, &mut event)?;
        prev = event.hash_after(&prev);
        let (position, stored) = (event.tenant_position, event.hash);
        links.push(CheckedLink { position, stored, computed: prev });
    }
    Ok(links)
}

/// Reads a row as it is, even when another program wrote it.
pub(super) fn stored(row: &Row<'_>, forms: &mut Forms<'_>) -> Result<StoredEvent, Failure> {
    let mut event = StoredEvent::default();
    read(row, forms, &mut event)?;
    Ok(event)
}

/// Like [`stored`], into the memory of an earlier event: a check reads millions.
fn read(row: &Row<'_>, forms: &mut Forms<'_>, event: &mut StoredEvent) -> Result<(), Failure> {
    let texts = [&mut event.tenant, &mut event.event_id, &mut event.run_id];
    for (text, column) in texts.into_iter().zip([1, 3, 4]) {
        text.clear();
        compact::push_id(row, column, text);
    }
    let mut cause = event.causation_id.take().unwrap_or_default();
    cause.clear();
    event.causation_id = compact::push_id(row, 8, &mut cause).then_some(cause);
    event.position = number(row, 0);
    event.tenant_position = number(row, 2);
    event.sequence = number(row, 5);
    for text in [&mut event.kind, &mut event.timestamp, &mut event.payload] {
        text.clear();
    }
    compact::push_kind(row, 6, &mut event.kind);
    forms.push_timestamp(row, 7, &mut event.timestamp);
    forms.push_payload(row, 9, &mut event.payload)?;
    event.hash = digest(row, 11);
    event.prev = digest(row, 12);
    Ok(())
}

fn number(row: &Row<'_>, column: usize) -> u64 {
    let number = row.get_ref(column).ok().and_then(|value| value.as_i64().ok());
    number.and_then(|number| u64::try_from(number).ok()).unwrap_or(u64::MAX)
}

pub(super) fn digest(row: &Row<'_>, column: usize) -> Option<Digest> {
    let bytes = row.get_ref(column).ok()?.as_blob().ok()?;
    bytes.try_into().ok().map(Digest)
}
