//! Last valid catalogs in memory.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
};

use async_trait::async_trait;
use chrono::SubsecRound;
use toolcrib_core::{
    clock::Timestamp,
    id::SourceId,
    store::{CatalogStore, StoreError},
};

use super::shared::lock;

/// Last valid catalogs in memory.
#[derive(Debug, Clone, Default)]
pub struct MemoryCatalogs(Arc<Mutex<HashMap<SourceId, (String, Timestamp)>>>);

#[async_trait]
impl CatalogStore for MemoryCatalogs {
    async fn save(
        &self,
        source: &SourceId,
        catalog: String,
        at: Timestamp,
    ) -> Result<(), StoreError> {
        lock(&self.0).insert(source.clone(), (catalog, at.trunc_subsecs(3)));
        Ok(())
    }

    async fn load(&self, source: &SourceId) -> Result<Option<(String, Timestamp)>, StoreError> {
        Ok(lock(&self.0).get(source).cloned())
    }
}
