//! API keys.

use toolcrib_core::{
    clock::Timestamp,
    id::{KeyId, PrincipalId},
    scope::Grant,
    store::{KeyRecord, SESSION_ROWS_KEPT, StoreError},
};

use super::{Columns, Reader, Statement, values};

const COLUMNS: &str = "id, name, tenant, principal, digest, roles, scopes, created_at, expires_at, \
                       revoked_at, last_used_at, replaces, makers, session";

/// The tables with principals. Those of tokens have no key, so keys alone do not name all of them.
const PRINCIPALS: [&str; 9] = [
    "keys",
    "approvals",
    "runs",
    "quotas",
    "once_holders",
    "credentials",
    "account_grants",
    "bridge_items",
    "saved",
];

/// Deletes expired browser sessions before the insertion of another one.
pub(crate) fn sweep_sessions(key: &KeyRecord) -> Option<Statement> {
    key.session.as_ref()?;
    let sql = "DELETE FROM keys WHERE session IS NOT NULL AND expires_at < ?1";
    Some(Statement::new(sql, values![key.created_at - SESSION_ROWS_KEPT]))
}

/// Inserts a key, with `epoch` in the columns `epochs`.
pub(crate) fn insert(
    key: &KeyRecord,
    epochs: &[&str],
    epoch: i64,
) -> Result<Statement, StoreError> {
    let unwritable = |_| StoreError::Unavailable("a key has no JSON form".to_owned());
    let json = |texts: Vec<&str>| serde_json::to_string(&texts).map_err(unwritable);
    let session = key.session.as_ref().map(serde_json::to_string).transpose();
    let mut params = values![
        key.id.as_str(),
        key.name.as_str(),
        key.tenant.as_str(),
        key.principal.as_str(),
        key.digest,
        json(key.roles.iter().map(String::as_str).collect())?,
        json(key.scopes.iter().map(Grant::as_str).collect())?,
        key.created_at,
        key.expires_at,
        key.revoked_at,
        key.last_used_at,
        key.replaces.as_ref().map(KeyId::as_str),
        json(key.makers.iter().map(PrincipalId::as_str).collect())?,
        session.map_err(unwritable)?,
    ];
    params.extend(epochs.iter().map(|_| epoch.into()));
    let columns = format!("{COLUMNS}, {}", epochs.join(", "));
    Ok(Statement::insert("keys", &columns, params).or_conflict("a key with this id or digest"))
}

/// One query per table that may contain the principal of `key`.
pub(crate) fn principals(key: &KeyRecord) -> [Statement; 9] {
    PRINCIPALS.map(|table| {
        let sql =
            format!("SELECT EXISTS (SELECT 1 FROM {table} WHERE tenant = ?1 AND principal = ?2)");
        Statement::new(sql, values![key.tenant.as_str(), key.principal.as_str()])
    })
}

/// Selects all keys by their creation; `insertion` orders those of one moment.
pub(crate) fn list(insertion: &str) -> Statement {
    let sql = format!("SELECT {COLUMNS} FROM keys ORDER BY created_at, {insertion}");
    Statement::new(sql, Vec::new())
}

pub(crate) fn changed_since(epoch: u64) -> Statement {
    let sql = format!("SELECT {COLUMNS} FROM keys WHERE changed > ?1");
    Statement::new(sql, values![epoch])
}

pub(crate) fn revoke(id: &KeyId, at: Timestamp, epoch: i64) -> Statement {
    let sql = "UPDATE keys SET revoked_at = ?2, changed = ?3 \
               WHERE id = ?1 AND revoked_at IS NULL";
    Statement::new(sql, values![id.as_str(), at, epoch])
}

/// Whether an unrevoked key replaces the key `id`.
pub(crate) fn is_replaced(id: &KeyId) -> Statement {
    let sql = "SELECT EXISTS (SELECT 1 FROM keys WHERE replaces = ?1 AND revoked_at IS NULL)";
    Statement::new(sql, values![id.as_str()])
}

/// Lets a key that is active at `now` expire at `until`, unless it expires earlier.
pub(crate) fn expire(id: &KeyId, now: Timestamp, until: Timestamp, epoch: i64) -> Statement {
    let sql = "UPDATE keys SET changed = ?4, \
               expires_at = CASE WHEN expires_at < ?3 THEN expires_at ELSE ?3 END \
               WHERE id = ?1 AND revoked_at IS NULL AND (expires_at IS NULL OR expires_at > ?2)";
    Statement::new(sql, values![id.as_str(), now, until, epoch])
}

pub(crate) fn note_used(id: &KeyId, at: Timestamp) -> Statement {
    let sql = "UPDATE keys SET last_used_at = ?2 \
               WHERE id = ?1 AND (last_used_at IS NULL OR last_used_at < ?2)";
    Statement::new(sql, values![id.as_str(), at])
}

/// Reads a row of [`list`] or [`changed_since`].
pub(crate) fn record<R: Columns>(row: &R) -> Result<KeyRecord, R::Failure> {
    let row = Reader::with_id(row, "the key");
    Ok(KeyRecord {
        id: row.id(0)?,
        name: row.text(1)?,
        tenant: row.id(2)?,
        principal: row.id(3)?,
        digest: row.digest(4)?.0,
        roles: row.json(5)?,
        scopes: row.ids(6)?,
        created_at: row.time(7)?,
        expires_at: row.maybe_time(8)?,
        revoked_at: row.maybe_time(9)?,
        last_used_at: row.maybe_time(10)?,
        replaces: row.maybe_id(11)?,
        makers: row.ids(12)?,
        session: row.maybe_json(13)?,
    })
}
