//! Last valid catalogs.

use async_trait::async_trait;
use toolcrib_core::{
    clock::Timestamp,
    id::SourceId,
    store::{CatalogStore, StoreError},
};

use super::{
    failure::within,
    handle::PostgresStore,
    row::{execute, first, stored_time},
};

#[async_trait]
impl CatalogStore for PostgresStore {
    async fn save(
        &self,
        source: &SourceId,
        catalog: String,
        at: Timestamp,
    ) -> Result<(), StoreError> {
        within(async {
            let sql = "WITH saved AS (INSERT INTO catalogs AS c (source, catalog, saved_at) \
                         VALUES ($1, $2, $3) ON CONFLICT (source) DO UPDATE \
                         SET catalog = $2, saved_at = $3 WHERE c.catalog <> $2 RETURNING 1) \
                       UPDATE meta SET value = value + 1 \
                       WHERE name = 'catalogs_epoch' AND EXISTS (SELECT 1 FROM saved)";
            let client = self.client().await?;
            execute(&client, sql, &[&source.as_str(), &catalog, &stored_time(at)]).await?;
            Ok(())
        })
        .await
    }

    async fn load(&self, source: &SourceId) -> Result<Option<(String, Timestamp)>, StoreError> {
        within(async {
            let sql = "SELECT catalog, saved_at FROM catalogs WHERE source = $1";
            let found = first(&self.client().await?, sql, &[&source.as_str()]).await?;
            found.map(|row| Ok((row.try_get(0)?, row.try_get(1)?))).transpose()
        })
        .await
    }
}
