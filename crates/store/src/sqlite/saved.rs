//! Saved views and calls on SQLite. Their content is sealed before it reaches the writer.

use async_trait::async_trait;
use toolcrib_core::{
    id::{PrincipalId, SavedId, TenantId},
    store::{SavedFilter, SavedInsertion, SavedItem, SavedStore, StoreError},
};

use super::{
    handle::SqliteStore,
    statement::{first, run},
};
use crate::rows::saved;

/// Reseals the contents of older keys, and seals those that were stored without one.
pub(super) async fn reseal(store: &SqliteStore) -> Result<usize, StoreError> {
    let keys = &store.options().seal_keys;
    if !keys.can_seal() {
        return Ok(0);
    }
    let mut resealed = 0;
    for row in store.select(saved::all(), |row| saved::stored(row)).await? {
        // An item saved again meanwhile is sealed already.
        let Some(statement) = saved::reseal(keys, row)? else { continue };
        resealed += store.run(statement).await?;
    }
    Ok(resealed)
}

#[async_trait]
impl SavedStore for SqliteStore {
    async fn insert(&self, item: SavedItem) -> Result<SavedInsertion, StoreError> {
        let insert = saved::insert(&item, saved::pack(&self.options().seal_keys, &item)?);
        let (taken, count) = (saved::at_place(&item), saved::count(&item));
        self.on_writer(move |connection| {
            if let Some(taken) = first(connection, &taken, |row| saved::taken(row))? {
                return Ok(taken);
            }
            let present = first(connection, &count, |row| saved::present(row))?;
            if let Some(refusal) = present.and_then(|counts| counts.refusal()) {
                return Ok(refusal);
            }
            run(connection, &insert)?;
            Ok(SavedInsertion::Stored)
        })
        .await
    }

    async fn replace(&self, item: SavedItem) -> Result<bool, StoreError> {
        let content = saved::pack(&self.options().seal_keys, &item)?;
        Ok(self.run(saved::replace(&item, content)).await? > 0)
    }

    async fn remove(
        &self,
        tenant: &TenantId,
        id: &SavedId,
        seen: &PrincipalId,
    ) -> Result<bool, StoreError> {
        Ok(self.run(saved::remove(tenant, id, seen)).await? > 0)
    }

    async fn list(
        &self,
        tenant: &TenantId,
        filter: &SavedFilter,
    ) -> Result<Vec<SavedItem>, StoreError> {
        let rows = self.select(saved::select(tenant, filter), |row| saved::stored(row)).await?;
        let keys = &self.options().seal_keys;
        Ok(rows.into_iter().map(|row| saved::unpack(keys, row)).collect())
    }

    async fn find(&self, tenant: &TenantId, id: &SavedId) -> Result<Option<SavedItem>, StoreError> {
        let row = self.select(saved::find(tenant, id), |row| saved::stored(row)).await?.pop();
        Ok(row.map(|row| saved::unpack(&self.options().seal_keys, row)))
    }
}
