//! Saved views and calls. Their content is sealed before it reaches the database.

use async_trait::async_trait;
use tokio_postgres::Row;
use toolcrib_core::{
    id::{PrincipalId, SavedId, TenantId},
    store::{SavedFilter, SavedInsertion, SavedItem, SavedStore, StoreError},
};

use super::{
    failure::{Failure, within},
    handle::PostgresStore,
    row::{Param, execute, first, one, parse, rows, stored_time},
};
use crate::saved::{self, COLUMNS, Present, StoredItem};

/// Reseals the contents of older keys, and seals those that were stored without one.
pub(super) async fn reseal(store: &PostgresStore) -> Result<usize, StoreError> {
    let keys = &store.options().seal_keys;
    if !keys.can_seal() {
        return Ok(0);
    }
    let found = within(async {
        let sql = format!("SELECT {COLUMNS} FROM saved ORDER BY id");
        let found = rows(&store.client().await?, &sql, &[]).await?;
        found.iter().map(stored).collect::<Result<Vec<_>, _>>()
    });
    let mut resealed = 0;
    for (item, old) in found.await? {
        let Some(new) = saved::reseal(keys, &item, &old)? else { continue };
        // An item saved again meanwhile is sealed already.
        let changed = within(async {
            let sql = "UPDATE saved SET content = $3 WHERE id = $1 AND content = $2";
            execute(&store.client().await?, sql, &[&item.id.as_str(), &old, &new]).await
        });
        resealed += usize::try_from(changed.await?).unwrap_or(0);
    }
    Ok(resealed)
}

#[async_trait]
impl SavedStore for PostgresStore {
    async fn insert(&self, item: SavedItem) -> Result<SavedInsertion, StoreError> {
        let content = saved::pack(&self.options().seal_keys, &item)?;
        within(insert(self, &item, &content)).await
    }

    async fn replace(&self, item: SavedItem) -> Result<bool, StoreError> {
        let content = saved::pack(&self.options().seal_keys, &item)?;
        within(async {
            let sql = "UPDATE saved SET saved_at = $7, content = $8 \
                       WHERE tenant = $1 AND kind = $2 AND tool = $3 AND name = $4 AND id = $5 \
                       AND principal = $6";
            let [tenant, kind, tool, name] = item.place();
            let (id, principal) = (item.id.as_str(), item.principal.as_str());
            let at = stored_time(item.saved_at);
            let params: [Param<'_>; 8] =
                [&tenant, &kind, &tool, &name, &id, &principal, &at, &content];
            Ok(execute(&self.client().await?, sql, &params).await? > 0)
        })
        .await
    }

    async fn remove(
        &self,
        tenant: &TenantId,
        id: &SavedId,
        seen: &PrincipalId,
    ) -> Result<bool, StoreError> {
        within(async {
            let sql = "DELETE FROM saved WHERE tenant = $1 AND id = $2 AND principal = $3";
            let params: [Param<'_>; 3] = [&tenant.as_str(), &id.as_str(), &seen.as_str()];
            Ok(execute(&self.client().await?, sql, &params).await? > 0)
        })
        .await
    }

    async fn list(
        &self,
        tenant: &TenantId,
        filter: &SavedFilter,
    ) -> Result<Vec<SavedItem>, StoreError> {
        let (kind, column, value) = saved::selected(filter);
        let found = within(async {
            let sql = format!(
                "SELECT {COLUMNS} FROM saved WHERE tenant = $1 AND kind = $2 AND {column} = $3 \
                 ORDER BY tool, name"
            );
            let params: [Param<'_>; 3] = [&tenant.as_str(), &kind.as_str(), &value];
            let found = rows(&self.client().await?, &sql, &params).await?;
            found.iter().map(stored).collect::<Result<Vec<_>, _>>()
        });
        let keys = &self.options().seal_keys;
        Ok(found.await?.into_iter().map(|row| saved::unpack(keys, row)).collect())
    }

    async fn find(&self, tenant: &TenantId, id: &SavedId) -> Result<Option<SavedItem>, StoreError> {
        let found = within(async {
            let sql = format!("SELECT {COLUMNS} FROM saved WHERE tenant = $1 AND id = $2");
            let params: [Param<'_>; 2] = [&tenant.as_str(), &id.as_str()];
            let found = first(&self.client().await?, &sql, &params).await?;
            found.as_ref().map(stored).transpose()
        });
        Ok(found.await?.map(|row| saved::unpack(&self.options().seal_keys, row)))
    }
}

async fn insert(
    store: &PostgresStore,
    item: &SavedItem,
    content: &[u8],
) -> Result<SavedInsertion, Failure> {
    let [tenant, kind, tool, name] = item.place();
    let principal = item.principal.as_str();
    let mut client = store.client().await?;
    let transaction = client.transaction().await?;
    // Insertions into a tenant happen one after the other, so that its limits are exact.
    let lock = "SELECT pg_advisory_xact_lock(hashtextextended('toolcrib saved ' || $1::text, 0))";
    one(&transaction, lock, &[&tenant]).await?;
    let sql = "SELECT id, principal FROM saved \
               WHERE tenant = $1 AND kind = $2 AND tool = $3 AND name = $4";
    let params: [Param<'_>; 4] = [&tenant, &kind, &tool, &name];
    if let Some(row) = first(&transaction, sql, &params).await? {
        let id: String = row.try_get(0)?;
        let unreadable = || Failure::corrupt(format!("the saved item with id {id}"));
        let principal = parse(row.try_get(1)?, unreadable)?;
        return Ok(SavedInsertion::NameTaken { id: parse(id.clone(), unreadable)?, principal });
    }
    let sql = "SELECT (SELECT count(*) FROM saved WHERE tenant = $1 AND kind = $2 AND tool = $3), \
                      (SELECT count(*) FROM saved WHERE tenant = $1 AND kind = $2 AND principal = $4)";
    let params: [Param<'_>; 4] = [&tenant, &kind, &tool, &principal];
    let row = one(&transaction, sql, &params).await?;
    let counts: [i64; 2] = [row.try_get(0)?, row.try_get(1)?];
    if let Some(refusal) = Present::from(counts).refusal() {
        return Ok(refusal);
    }
    let sql = format!("INSERT INTO saved ({COLUMNS}) VALUES ($1, $2, $3, $4, $5, $6, $7, $8)");
    let (id, at) = (item.id.as_str(), stored_time(item.saved_at));
    let params: [Param<'_>; 8] = [&id, &tenant, &kind, &tool, &name, &principal, &at, &content];
    execute(&transaction, &sql, &params).await?;
    transaction.commit().await?;
    Ok(SavedInsertion::Stored)
}

fn stored(row: &Row) -> Result<StoredItem, Failure> {
    let id: String = row.try_get(0)?;
    // An id is not a secret; it identifies the item to save again.
    let unreadable = || Failure::corrupt(format!("the saved item with id {id}"));
    let tool: String = row.try_get(3)?;
    let tool = Some(tool).filter(|tool| !tool.is_empty());
    let item = SavedItem {
        id: parse(id.clone(), unreadable)?,
        tenant: parse(row.try_get(1)?, unreadable)?,
        kind: row.try_get::<_, &str>(2)?.parse().map_err(|_| unreadable())?,
        tool: tool.map(|tool| parse(tool, unreadable)).transpose()?,
        name: row.try_get(4)?,
        content: None,
        principal: parse(row.try_get(5)?, unreadable)?,
        saved_at: row.try_get(6)?,
    };
    Ok((item, row.try_get(7)?))
}
