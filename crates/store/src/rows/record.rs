//! Checkpoints of the record, and the cursors of its readers.

use toolcrib_core::{
    canonical::Digest,
    id::TenantId,
    record::{Checkpoint, CheckpointKind, Cursor, NO_CHECKPOINT},
};

use super::{Columns, Reader, Statement, values};
use crate::page::limit;

/// The columns of a [`checkpoint`].
pub(crate) const CHECKPOINT: &str =
    "kind, tenant, number, position, hash, signed_at, public_key, prev, signature";
const CURSOR: &str = "name, position, moved_at, failing_since, failures, problem";

/// Whether `new` continues the chain of checkpoints after `last`, and is true of the log, which has
/// `stored` as the hash at its position.
pub(crate) fn continues(
    new: &Checkpoint,
    last: Option<&Checkpoint>,
    stored: Option<Digest>,
) -> bool {
    let (number, prev, position) = match last {
        Some(last) => (last.number + 1, last.digest(), last.position),
        None => (1, NO_CHECKPOINT, 0),
    };
    // A mark of retention has an earlier position, and an accepted log may be shorter than before.
    let in_order = new.position >= position || new.kind != CheckpointKind::Head;
    new.number == number && new.prev == prev && stored == Some(new.hash) && in_order
}

pub(crate) fn insert(new: &Checkpoint) -> Statement {
    let params = values![
        new.kind.as_str(),
        new.tenant.as_str(),
        new.number,
        new.position,
        new.hash.0,
        new.at,
        new.public_key,
        new.prev.0,
        new.signature.to_vec(),
    ];
    Statement::insert("checkpoints", CHECKPOINT, params)
}

pub(crate) fn checkpoints(tenant: &TenantId, after: u64) -> Statement {
    let sql = format!(
        "SELECT {CHECKPOINT} FROM checkpoints WHERE tenant = ?1 AND number > ?2 \
         ORDER BY number LIMIT {}",
        limit(0)
    );
    Statement::new(sql, values![tenant.as_str(), after])
}

pub(crate) fn last_checkpoint(tenant: &TenantId) -> Statement {
    let sql = format!(
        "SELECT {CHECKPOINT} FROM checkpoints WHERE tenant = ?1 ORDER BY number DESC LIMIT 1"
    );
    Statement::new(sql, values![tenant.as_str()])
}

/// Deletes the checkpoints before the one that a mark of retention names. By number: a mark has an
/// earlier position, so positions do not rise along the chain.
pub(crate) fn prune_checkpoints(tenant: &TenantId) -> Statement {
    let sql = "DELETE FROM checkpoints WHERE tenant = ?1 AND number < \
               (SELECT max(number) FROM checkpoints WHERE tenant = ?1 AND kind <> 'pruned' \
                AND position = (SELECT max(position) FROM checkpoints \
                                WHERE tenant = ?1 AND kind = 'pruned'))";
    Statement::new(sql, values![tenant.as_str()])
}

pub(crate) fn cursors() -> Statement {
    Statement::new(format!("SELECT {CURSOR} FROM cursors ORDER BY name"), Vec::new())
}

pub(crate) fn set_cursor(cursor: &Cursor) -> Statement {
    let params = values![
        cursor.name.as_str(),
        cursor.position,
        cursor.moved_at,
        cursor.failing_since,
        cursor.failures,
        cursor.problem.as_deref(),
    ];
    Statement::insert("cursors", CURSOR, params).then(
        " ON CONFLICT (name) DO UPDATE SET position = ?2, moved_at = ?3, failing_since = ?4, \
         failures = ?5, problem = ?6",
    )
}

/// Reads a row of [`CHECKPOINT`].
pub(crate) fn checkpoint<R: Columns>(row: &R) -> Result<Checkpoint, R::Failure> {
    let row = Reader::new(row, "a checkpoint of the record");
    Ok(Checkpoint {
        kind: row.text(0)?.parse().map_err(|_| row.unreadable())?,
        tenant: row.id(1)?,
        number: row.whole(2)?,
        position: row.whole(3)?,
        hash: row.digest(4)?,
        at: row.time(5)?,
        public_key: row.digest(6)?.0,
        prev: row.digest(7)?,
        signature: row.bytes(8)?.try_into().map_err(|_| row.unreadable())?,
    })
}

/// Reads a row of [`cursors`].
pub(crate) fn cursor<R: Columns>(row: &R) -> Result<Cursor, R::Failure> {
    let row = Reader::new(row, "a cursor");
    Ok(Cursor {
        name: row.text(0)?,
        position: row.whole(1)?,
        moved_at: row.maybe_time(2)?,
        failing_since: row.maybe_time(3)?,
        failures: row.whole(4)?,
        problem: row.maybe_text(5)?,
    })
}
