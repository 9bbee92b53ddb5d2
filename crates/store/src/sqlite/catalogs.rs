//! Last valid catalogs on SQLite.

use async_trait::async_trait;
use rusqlite::{OptionalExtension, params};
use toolcrib_core::{
    clock::Timestamp,
    id::SourceId,
    store::{CatalogStore, StoreError},
};

use super::{
    SqliteStore,
    failure::Failure,
    log::{time, time_text},
};

#[async_trait]
impl CatalogStore for SqliteStore {
    async fn save(
        &self,
        source: &SourceId,
        catalog: String,
        at: Timestamp,
    ) -> Result<(), StoreError> {
        let source = source.clone();
        self.inner
            .writer
            .write(move |connection| {
                connection.execute(
                    "INSERT INTO catalogs (source, catalog, saved_at) VALUES (?1, ?2, ?3) \
                     ON CONFLICT (source) DO UPDATE SET catalog = ?2, saved_at = ?3",
                    params![source.as_str(), catalog, time_text(at)],
                )?;
                Ok(())
            })
            .await
    }

    async fn load(&self, source: &SourceId) -> Result<Option<(String, Timestamp)>, StoreError> {
        let source = source.clone();
        self.inner
            .readers
            .read(move |connection| {
                let found: Option<(String, String)> = connection
                    .prepare_cached("SELECT catalog, saved_at FROM catalogs WHERE source = ?1")?
                    .query_row([source.as_str()], |row| Ok((row.get(0)?, row.get(1)?)))
                    .optional()?;
                let Some((catalog, saved_at)) = found else { return Ok(None) };
                let saved_at = time(&saved_at)
                    .ok_or_else(|| Failure::corrupt(format!("the catalog of source {source}")))?;
                Ok(Some((catalog, saved_at)))
            })
            .await
    }
}
