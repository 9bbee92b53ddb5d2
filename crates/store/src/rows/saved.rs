//! Saved views and calls: their rows, their limits, and their sealed content.

use toolcrib_core::{
    id::{PrincipalId, SavedId, TenantId},
    store::{
        MAX_SAVED, MAX_SAVED_BY_ONE, SavedFilter, SavedInsertion, SavedItem, SavedKind, StoreError,
    },
};

use super::{Columns, Reader, Statement, values};
use crate::{seal::SealKeys, seal_places};

const COLUMNS: &str = "id, tenant, kind, tool, name, principal, saved_at, content";

/// A row: the item without its content, and the content as stored.
pub(crate) type StoredItem = (SavedItem, Vec<u8>);

/// The items of its kind that are present when another one is inserted.
pub(crate) struct ItemCounts {
    /// Those of its tenant with its tool.
    pub(crate) place: usize,
    /// Those of its principal.
    pub(crate) own: usize,
}

impl ItemCounts {
    /// Why another item cannot be inserted; `None` if it can.
    pub(crate) fn refusal(&self) -> Option<SavedInsertion> {
        match self {
            Self { place: MAX_SAVED.., .. } => Some(SavedInsertion::PlaceFull),
            Self { own: MAX_SAVED_BY_ONE.., .. } => Some(SavedInsertion::PrincipalFull),
            Self { .. } => None,
        }
    }
}

/// The kind of the items that `filter` selects, the column that it compares, and the value.
pub(crate) fn selected(filter: &SavedFilter) -> (SavedKind, &'static str, &str) {
    match filter {
        SavedFilter::Views => (SavedKind::View, "tool", ""),
        SavedFilter::CallsOf(tool) => (SavedKind::Call, "tool", tool.as_str()),
        SavedFilter::CallsBy(principal) => (SavedKind::Call, "principal", principal.as_str()),
    }
}

// === statements ===

pub(crate) fn insert(item: &SavedItem, content: Vec<u8>) -> Statement {
    let [tenant, kind, tool, name] = item.place();
    let (id, principal) = (item.id.as_str(), item.principal.as_str());
    let params = values![id, tenant, kind, tool, name, principal, item.saved_at, content];
    Statement::insert("saved", COLUMNS, params)
}

pub(crate) fn replace(item: &SavedItem, content: Vec<u8>) -> Statement {
    let sql = "UPDATE saved SET saved_at = ?7, content = ?8 WHERE tenant = ?1 AND kind = ?2 \
               AND tool = ?3 AND name = ?4 AND id = ?5 AND principal = ?6";
    let [tenant, kind, tool, name] = item.place();
    let (id, principal) = (item.id.as_str(), item.principal.as_str());
    Statement::new(sql, values![tenant, kind, tool, name, id, principal, item.saved_at, content])
}

pub(crate) fn replace_content(item: &SavedItem, old: Vec<u8>, new: Vec<u8>) -> Statement {
    let sql = "UPDATE saved SET content = ?3 WHERE id = ?1 AND content = ?2";
    Statement::new(sql, values![item.id.as_str(), old, new])
}

pub(crate) fn remove(tenant: &TenantId, id: &SavedId, seen: &PrincipalId) -> Statement {
    let sql = "DELETE FROM saved WHERE tenant = ?1 AND id = ?2 AND principal = ?3";
    Statement::new(sql, values![tenant.as_str(), id.as_str(), seen.as_str()])
}

pub(crate) fn all() -> Statement {
    Statement::new(format!("SELECT {COLUMNS} FROM saved ORDER BY id"), Vec::new())
}

pub(crate) fn select(tenant: &TenantId, filter: &SavedFilter) -> Statement {
    let (kind, column, value) = selected(filter);
    let sql = format!(
        "SELECT {COLUMNS} FROM saved WHERE tenant = ?1 AND kind = ?2 AND {column} = ?3 \
         ORDER BY tool, name"
    );
    Statement::new(sql, values![tenant.as_str(), kind.as_str(), value])
}

pub(crate) fn find(tenant: &TenantId, id: &SavedId) -> Statement {
    let sql = format!("SELECT {COLUMNS} FROM saved WHERE tenant = ?1 AND id = ?2");
    Statement::new(sql, values![tenant.as_str(), id.as_str()])
}

/// Selects the item that has the place of `item`.
pub(crate) fn at_place(item: &SavedItem) -> Statement {
    let sql = "SELECT id, principal FROM saved \
               WHERE tenant = ?1 AND kind = ?2 AND tool = ?3 AND name = ?4";
    let [tenant, kind, tool, name] = item.place();
    Statement::new(sql, values![tenant, kind, tool, name])
}

/// Selects the [`ItemCounts`] before `item` is inserted.
pub(crate) fn count(item: &SavedItem) -> Statement {
    let sql = "SELECT (SELECT count(*) FROM saved WHERE tenant = ?1 AND kind = ?2 AND tool = ?3), \
               (SELECT count(*) FROM saved WHERE tenant = ?1 AND kind = ?2 AND principal = ?4)";
    let [tenant, kind, tool, _name] = item.place();
    Statement::new(sql, values![tenant, kind, tool, item.principal.as_str()])
}

// === rows ===

/// Reads a row of [`select`], [`find`] or [`all`].
pub(crate) fn stored<R: Columns>(row: &R) -> Result<StoredItem, R::Failure> {
    let row = Reader::with_id(row, "the saved item");
    let item = SavedItem {
        id: row.id(0)?,
        tenant: row.id(1)?,
        kind: row.text(2)?.parse().map_err(|_| row.unreadable())?,
        tool: row.id_or_empty(3)?,
        name: row.text(4)?,
        content: None,
        principal: row.id(5)?,
        saved_at: row.time(6)?,
    };
    Ok((item, row.bytes(7)?))
}

/// Reads a row of [`at_place`].
pub(crate) fn taken<R: Columns>(row: &R) -> Result<SavedInsertion, R::Failure> {
    let row = Reader::with_id(row, "the saved item");
    Ok(SavedInsertion::NameTaken { id: row.id(0)?, principal: row.id(1)? })
}

/// Reads the row of [`count`].
pub(crate) fn present<R: Columns>(row: &R) -> Result<ItemCounts, R::Failure> {
    let row = Reader::new(row, "the number of saved items");
    let count =
        |column| row.whole(column).map(|number| usize::try_from(number).unwrap_or(usize::MAX));
    Ok(ItemCounts { place: count(0)?, own: count(1)? })
}

// === content ===

/// The content of an item as it is stored: sealed if there is a key.
pub(crate) fn pack(keys: &SealKeys, item: &SavedItem) -> Result<Vec<u8>, StoreError> {
    keys.pack(&seal_places::saved(item), item.content.as_deref().unwrap_or_default())
}

/// The item of a row with its content, if the keys can open it.
pub(crate) fn unpack(keys: &SealKeys, (item, content): StoredItem) -> SavedItem {
    let content = keys.unpack(&seal_places::saved(&item), &content);
    SavedItem { content, ..item }
}

/// Seals the content of a row with the current key; `None` if it is already sealed with that key.
/// Fails if no key opens it.
pub(crate) fn reseal(
    keys: &SealKeys,
    (item, old): StoredItem,
) -> Result<Option<Statement>, StoreError> {
    if keys.is_current(&old) {
        return Ok(None);
    }
    let place = seal_places::saved(&item);
    let content = keys.unpack_any(&place, &old).ok_or_else(|| {
        let id = &item.id;
        StoreError::Corrupt(format!(
            "the saved item {id} cannot be opened with `seal_key` or `old_seal_key`"
        ))
    })?;
    let new = keys.pack(&place, &content)?;
    Ok(Some(replace_content(&item, old, new)))
}
