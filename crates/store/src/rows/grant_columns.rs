//! The columns that the tables of connected accounts have in common.

use serde::Serialize;
use toolcrib_core::{
    credential::{GrantPlace, Owner},
    store::StoreError,
};

use super::{Columns, Reader};

/// Reads the tenant, the owner and the source in the three columns from `at` on.
pub(super) fn place<R: Columns>(row: &Reader<'_, R>, at: usize) -> Result<GrantPlace, R::Failure> {
    Ok(GrantPlace {
        owner: Owner { tenant: row.id(at)?, principal: row.id_or_empty(at + 1)? },
        source: row.id(at + 2)?,
    })
}

/// The text of a column with JSON.
pub(super) fn encode(terms: &impl Serialize) -> Result<String, StoreError> {
    let unwritable = |_| StoreError::Unavailable("the terms have no JSON form".to_owned());
    serde_json::to_string(terms).map_err(unwritable)
}
