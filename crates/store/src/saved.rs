//! The parts of saved views and calls that are the same in all engines: the limits, and sealed
//! content.

use toolcrib_core::store::{
    MAX_SAVED, MAX_SAVED_BY_ONE, SavedFilter, SavedInsertion, SavedItem, SavedKind, StoreError,
};

use crate::{seal::SealKeys, seal_places};

/// The columns of a row, in the order in which the engines read them.
pub(crate) const COLUMNS: &str = "id, tenant, kind, tool, name, principal, saved_at, content";

/// A row: the item without its content, and the content as stored.
pub(crate) type StoredItem = (SavedItem, Vec<u8>);

/// The items of its kind that are present when another one is inserted.
pub(crate) struct Present {
    /// Those of its tenant with its tool.
    pub(crate) place: usize,
    /// Those of its principal.
    pub(crate) own: usize,
}

impl Present {
    /// Why another item cannot be inserted; `None` if it can.
    pub(crate) fn refusal(&self) -> Option<SavedInsertion> {
        match self {
            Self { place: MAX_SAVED.., .. } => Some(SavedInsertion::PlaceFull),
            Self { own: MAX_SAVED_BY_ONE.., .. } => Some(SavedInsertion::PrincipalFull),
            Self { .. } => None,
        }
    }
}

impl From<[i64; 2]> for Present {
    /// Takes the counts of a database: `place` and `own`.
    fn from(counts: [i64; 2]) -> Self {
        let [place, own] = counts.map(|it| usize::try_from(it).unwrap_or(usize::MAX));
        Self { place, own }
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
    item: &SavedItem,
    stored: &[u8],
) -> Result<Option<Vec<u8>>, StoreError> {
    if keys.is_current(stored) {
        return Ok(None);
    }
    let place = seal_places::saved(item);
    let content = keys.unpack_any(&place, stored).ok_or_else(|| {
        let id = &item.id;
        StoreError::Corrupt(format!(
            "the saved item {id} cannot be opened with `seal_key` or `old_seal_key`"
        ))
    })?;
    keys.pack(&place, &content).map(Some)
}
