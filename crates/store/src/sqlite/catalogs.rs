//! Last valid catalogs on SQLite.

use async_trait::async_trait;
use rusqlite::params;
use toolcrib_core::{
    clock::Timestamp,
    id::SourceId,
    store::{CatalogStore, StoreError},
};

use super::{
    failure::Failure,
    handle::SqliteStore,
    row::{execute, first, time, time_text},
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
        self.on_writer(move |connection| {
            let sql = "INSERT INTO catalogs (source, catalog, saved_at) VALUES (?1, ?2, ?3) \
                     ON CONFLICT (source) DO UPDATE SET catalog = ?2, saved_at = ?3";
            execute(connection, sql, params![source.as_str(), catalog, time_text(at)])?;
            Ok(())
        })
        .await
    }

    async fn load(&self, source: &SourceId) -> Result<Option<(String, Timestamp)>, StoreError> {
        let source = source.clone();
        self.on_reader(move |connection| {
            let sql = "SELECT catalog, saved_at FROM catalogs WHERE source = ?1";
            first(connection, sql, [source.as_str()], |row| {
                let unreadable = || Failure::corrupt(format!("the catalog of source {source}"));
                let saved_at = time(&row.get::<_, String>(1)?).ok_or_else(unreadable)?;
                Ok::<_, Failure>((row.get(0)?, saved_at))
            })
        })
        .await
    }
}
