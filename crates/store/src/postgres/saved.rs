//! Saved views and calls. Their content is sealed before it reaches the database.

use async_trait::async_trait;
use toolcrib_core::{
    id::{PrincipalId, SavedId, TenantId},
    store::{SavedFilter, SavedInsertion, SavedItem, SavedStore, StoreError},
};

use super::{
    failure::within,
    handle::PostgresStore,
    row::one,
    statement::{first, run},
};
use crate::rows::saved;

/// Reseals the contents of older keys, and seals those that were stored without one.
pub(super) async fn reseal(store: &PostgresStore) -> Result<usize, StoreError> {
    let keys = &store.options().seal_keys;
    if !keys.can_seal() {
        return Ok(0);
    }
    let mut resealed = 0;
    for row in store.select(saved::all(), saved::stored).await? {
        // An item saved again meanwhile is sealed already.
        let Some(statement) = saved::reseal(keys, row)? else { continue };
        resealed += store.run(statement).await?;
    }
    Ok(resealed)
}

#[async_trait]
impl SavedStore for PostgresStore {
    async fn insert(&self, item: SavedItem) -> Result<SavedInsertion, StoreError> {
        let insert = saved::insert(&item, saved::pack(&self.options().seal_keys, &item)?);
        within(async {
            let mut client = self.client().await?;
            let transaction = client.transaction().await?;
            // Insertions into a tenant happen one after the other, so that its limits are exact.
            let lock =
                "SELECT pg_advisory_xact_lock(hashtextextended('toolcrib saved ' || $1::text, 0))";
            one(&transaction, lock, &[&item.tenant.as_str()]).await?;
            let taken = first(&transaction, &saved::at_place(&item), saved::taken).await?;
            if let Some(taken) = taken {
                return Ok(taken);
            }
            let present = first(&transaction, &saved::count(&item), saved::present).await?;
            if let Some(refusal) = present.and_then(|counts| counts.refusal()) {
                return Ok(refusal);
            }
            run(&transaction, &insert).await?;
            transaction.commit().await?;
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
        let rows = self.select(saved::select(tenant, filter), saved::stored).await?;
        let keys = &self.options().seal_keys;
        Ok(rows.into_iter().map(|row| saved::unpack(keys, row)).collect())
    }

    async fn find(&self, tenant: &TenantId, id: &SavedId) -> Result<Option<SavedItem>, StoreError> {
        let row = self.select(saved::find(tenant, id), saved::stored).await?.pop();
        Ok(row.map(|row| saved::unpack(&self.options().seal_keys, row)))
    }
}
