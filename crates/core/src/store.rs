//! Seams to what must survive a restart, beside the event log.

use async_trait::async_trait;

use crate::{
    clock::Timestamp,
    id::{KeyId, PrincipalId, SourceId, TenantId},
    scope::Grant,
};

/// Why the store did not do what was asked. `Display` is for the operator.
#[derive(Debug, Clone, thiserror::Error)]
pub enum StoreError {
    /// Disk full, locked, gone, shut down.
    #[error("the store is not available: {0}")]
    Unavailable(String),
    /// What was read is not what was written.
    #[error("the store holds something unreadable: {0}")]
    Corrupt(String),
    /// It was written by a newer version.
    #[error(
        "the store was written by a newer version (schema {found}, this program knows {known})"
    )]
    TooNew {
        /// Version found.
        found: u32,
        /// Newest version known.
        known: u32,
    },
    /// The thing to insert is there already.
    #[error("already exists: {0}")]
    Conflict(String),
}

/// One API key, without the key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyRecord {
    /// Its identifier.
    pub id: KeyId,
    /// Name for people.
    pub name: String,
    /// Tenant of the principal.
    pub tenant: TenantId,
    /// Who the bearer is.
    pub principal: PrincipalId,
    /// SHA-256 of the whole key text.
    pub digest: [u8; 32],
    /// Names of roles in the configuration; an unknown role gives no scope.
    pub roles: Vec<String>,
    /// Scopes held beside those of the roles.
    pub scopes: Vec<Grant>,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it stops working.
    pub expires_at: Option<Timestamp>,
    /// When it was revoked.
    pub revoked_at: Option<Timestamp>,
}

/// API keys.
#[async_trait]
pub trait KeyStore: Send + Sync + 'static {
    /// Stores a new key. [`StoreError::Conflict`] when the id or the digest exists.
    async fn insert(&self, key: KeyRecord) -> Result<(), StoreError>;

    /// All keys, revoked and expired ones included, by creation time.
    async fn list(&self) -> Result<Vec<KeyRecord>, StoreError>;

    /// Revokes a key; `false` when there is none of that id that is not revoked already.
    async fn revoke(&self, id: &KeyId, at: Timestamp) -> Result<bool, StoreError>;

    /// A number that changes whenever any process inserts or revokes a key. Cheap.
    async fn epoch(&self) -> Result<u64, StoreError>;
}

/// The last good catalog of each source, so that a restart does not wait for upstreams.
#[async_trait]
pub trait CatalogStore: Send + Sync + 'static {
    /// Replaces what is stored for `source` with `catalog` (JSON text).
    async fn save(
        &self,
        source: &SourceId,
        catalog: String,
        at: Timestamp,
    ) -> Result<(), StoreError>;

    /// What was stored last for `source`, and when.
    async fn load(&self, source: &SourceId) -> Result<Option<(String, Timestamp)>, StoreError>;
}
