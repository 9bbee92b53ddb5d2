//! The storage trait for last valid catalogs.

use async_trait::async_trait;

use crate::{clock::Timestamp, id::SourceId, store_error::StoreError};

/// The last valid catalog of each source, so that a restart does not wait for upstreams.
#[async_trait]
pub trait CatalogStore: Send + Sync + 'static {
    /// Replaces the stored catalog of `source` with `catalog` (JSON text).
    async fn save(
        &self,
        source: &SourceId,
        catalog: String,
        at: Timestamp,
    ) -> Result<(), StoreError>;

    /// Returns the catalog that was last stored for `source`, and when it was stored.
    async fn load(&self, source: &SourceId) -> Result<Option<(String, Timestamp)>, StoreError>;
}
