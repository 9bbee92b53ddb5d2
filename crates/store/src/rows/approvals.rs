//! Approval requests.

use toolcrib_core::{
    approval::{Approval, ApprovalQuery, ApprovalState, Fingerprint},
    clock::Timestamp,
    id::{ApprovalId, TenantId},
    store::StoreError,
};

use super::{Columns, Reader, Statement, values};
use crate::{key_text, page::limit, seal::SealKeys, seal_places};

/// Takes the fingerprint key, and stores `mine` if there is none. One row with the stored key.
pub(crate) fn fingerprint_key(keys: &SealKeys) -> Result<Statement, StoreError> {
    let mine = keys.pack(&seal_places::FINGERPRINT_KEY, key_text::generate()?.expose())?;
    let sql = "UPDATE approval_state SET key = coalesce(key, ?1) WHERE id = 1 RETURNING key";
    Ok(Statement::new(sql, values![mine]))
}

/// Seals the fingerprint key again if it was stored without a seal key, or with an old one.
pub(crate) fn reseal_fingerprint_key(
    keys: &SealKeys,
    text: &str,
    stored: Vec<u8>,
) -> Result<Option<Statement>, StoreError> {
    if !keys.can_seal() || keys.is_current(&stored) {
        return Ok(None);
    }
    let sealed = keys.pack(&seal_places::FINGERPRINT_KEY, text)?;
    let sql = "UPDATE approval_state SET key = ?1 WHERE id = 1 AND key = ?2";
    Ok(Some(Statement::new(sql, values![sealed, stored])))
}

/// The displayable arguments of a call as they are stored: only sealed.
pub(crate) fn shown(
    keys: &SealKeys,
    approval: &Approval,
    arguments: Option<String>,
) -> Result<Option<Vec<u8>>, StoreError> {
    let place = seal_places::approval(&approval.tenant, &approval.id);
    let shown = arguments.filter(|_| keys.can_seal());
    shown.map(|text| keys.seal_text(&place, &text)).transpose()
}

/// Counts a change; one row with its number.
pub(crate) fn next_change() -> Statement {
    let sql = "UPDATE approval_state SET change = change + 1 WHERE id = 1 RETURNING change";
    Statement::new(sql, Vec::new())
}

/// Selects the request in force for a fingerprint.
pub(crate) fn live(tenant: &TenantId, fingerprint: &Fingerprint) -> Statement {
    let sql = "SELECT body FROM approvals WHERE tenant = ?1 AND live = ?2";
    Statement::new(sql, values![tenant.as_str(), fingerprint.0.as_str()])
}

/// Counts the pending requests of the principal of `approval`. `index` follows the table's name.
pub(crate) fn pending_of(approval: &Approval, index: &str) -> Statement {
    let sql = format!(
        "SELECT count(*) FROM approvals{index} \
         WHERE tenant = ?1 AND principal = ?2 AND state = 'pending'"
    );
    Statement::new(sql, values![approval.tenant.as_str(), approval.principal.as_str()])
}

pub(crate) fn pending() -> Statement {
    Statement::new("SELECT count(*) FROM approvals WHERE state = 'pending'", Vec::new())
}

pub(crate) fn insert(approval: &Approval, shown: Option<Vec<u8>>) -> Result<Statement, StoreError> {
    let params = values![
        approval.tenant.as_str(),
        approval.id.as_str(),
        approval.principal.as_str(),
        approval.state.as_str(),
        approval.live.then_some(approval.fingerprint.0.as_str()),
        approval.revision,
        approval.change,
        approval.created_at,
        approval.expires_at,
        text(approval)?,
        shown,
    ];
    let columns = "tenant, id, principal, state, live, revision, change, created_at, expires_at, \
                   body, shown";
    Ok(Statement::insert("approvals", columns, params).or_conflict("an approval with this id"))
}

/// Replaces the stored approval if it has the previous revision.
pub(crate) fn replace(approval: &Approval) -> Result<Statement, StoreError> {
    let sql = "UPDATE approvals SET state = ?3, live = ?4, revision = ?5, change = ?6, \
               expires_at = ?7, body = ?8, \
               shown = CASE WHEN CAST(?4 AS TEXT) IS NULL THEN NULL ELSE shown END \
               WHERE tenant = ?1 AND id = ?2 AND revision = CAST(?5 AS BIGINT) - 1";
    let params = values![
        approval.tenant.as_str(),
        approval.id.as_str(),
        approval.state.as_str(),
        approval.live.then_some(approval.fingerprint.0.as_str()),
        approval.revision,
        approval.change,
        approval.expires_at,
        text(approval)?,
    ];
    Ok(Statement::new(sql, params))
}

pub(crate) fn find(tenant: &TenantId, id: &ApprovalId) -> Statement {
    let sql = "SELECT body, shown FROM approvals WHERE tenant = ?1 AND id = ?2";
    Statement::new(sql, values![tenant.as_str(), id.as_str()])
}

pub(crate) fn select(query: &ApprovalQuery) -> Statement {
    let order = match query.changed_after {
        Some(_) => "change",
        None => "created_at DESC, id DESC",
    };
    let older_than = query.older_than.as_ref().map(|(at, id)| values![*at, id.as_str()]);
    Statement::new("SELECT body FROM approvals WHERE TRUE", Vec::new())
        .and("tenant = ?", query.tenant.as_ref().map(|tenant| tenant.as_str()))
        .and("principal = ?", query.principal.as_ref().map(|principal| principal.as_str()))
        .and("state = ?", query.state.map(ApprovalState::as_str))
        .and("live IS NOT NULL AND expires_at <= ?", query.overdue)
        .and("change > ?", query.changed_after)
        .and_all("(created_at, id) < (?, ?)", older_than)
        .then(&format!(" ORDER BY {order} LIMIT {}", limit(query.limit)))
}

/// Adds a reader that has seen all changes, unless it is known.
pub(crate) fn add_reader(reader: &str) -> Statement {
    let sql = "INSERT INTO approval_readers (reader, change) \
               SELECT ?1, change FROM approval_state WHERE id = 1 ON CONFLICT (reader) DO NOTHING";
    Statement::new(sql, values![reader])
}

pub(crate) fn cursor(reader: &str) -> Statement {
    let sql = "SELECT change FROM approval_readers WHERE reader = ?1";
    Statement::new(sql, values![reader])
}

pub(crate) fn acknowledge(reader: &str, change: u64) -> Statement {
    let sql = "UPDATE approval_readers SET change = ?2 WHERE reader = ?1 AND change < ?2";
    Statement::new(sql, values![reader, change])
}

pub(crate) fn prune(before: Timestamp) -> Statement {
    let sql = "DELETE FROM approvals WHERE created_at < ?1 AND live IS NULL";
    Statement::new(sql, values![before])
}

fn text(approval: &Approval) -> Result<String, StoreError> {
    serde_json::to_string(approval)
        .map_err(|_| StoreError::Unavailable("an approval has no JSON form".to_owned()))
}

/// Reads a row whose first column is the body.
pub(crate) fn approval<R: Columns>(row: &R) -> Result<Approval, R::Failure> {
    Reader::new(row, "an approval").json(0)
}

/// Reads a row of [`find`]: the request, and its displayable arguments as stored.
pub(crate) fn found<R: Columns>(row: &R) -> Result<(Approval, Option<Vec<u8>>), R::Failure> {
    Ok((approval(row)?, Reader::new(row, "an approval").maybe_bytes(1)?))
}

/// Opens the displayable arguments of a row of [`find`], if there is a key that can.
pub(crate) fn open(
    keys: &SealKeys,
    (approval, shown): (Approval, Option<Vec<u8>>),
) -> (Approval, Option<String>) {
    let place = seal_places::approval(&approval.tenant, &approval.id);
    let shown = shown.and_then(|shown| keys.open_text(&place, &shown));
    (approval, shown)
}
