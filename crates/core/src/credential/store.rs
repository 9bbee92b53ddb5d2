//! The storage trait for credentials.

use async_trait::async_trait;

use super::{Credential, Material, Owner};
use crate::{
    clock::Timestamp,
    id::{CredentialId, CredentialName},
    store::StoreError,
};

/// A credential with its values.
#[derive(Debug, Clone)]
pub struct UnsealedCredential {
    /// Everything except its values.
    pub credential: Credential,
    /// Its values.
    pub material: Material,
}

/// Why credentials were not read or written. `Display` is for the operator and never contains a
/// value.
#[derive(Debug, Clone, thiserror::Error)]
pub enum CredentialStoreError {
    /// No seal key is configured, so values are not stored.
    #[error(
        "no seal key is configured, so no credential can be stored or read; make one with \
         `toolcrib credentials new-key` and name it as `[store] seal_key`"
    )]
    NoKey,
    /// It was sealed with a key missing from the configuration.
    #[error("credential {0} was sealed with another key; name that one as `[store] old_seal_key`")]
    OtherKey(CredentialId),
    /// The sealed value fails authentication: it was damaged, changed or moved.
    #[error(
        "credential {0} was damaged, changed or moved since it was sealed; remove it and set it again"
    )]
    NotGenuine(CredentialId),
    /// The store itself failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Credentials, sealed at rest.
#[async_trait]
pub trait CredentialStore: Send + Sync + 'static {
    /// All credentials without their values, by tenant, principal (the tenant's own first) and
    /// name. Requires no key.
    async fn list(&self) -> Result<Vec<Credential>, CredentialStoreError>;

    /// Returns the credential with that name that belongs to exactly `owner`.
    async fn get(
        &self,
        owner: &Owner,
        name: &CredentialName,
    ) -> Result<Option<UnsealedCredential>, CredentialStoreError>;

    /// Stores a new credential. Fails with [`StoreError::Conflict`] if its owner has one with that
    /// name, or if the id exists.
    async fn put(
        &self,
        credential: Credential,
        material: Material,
    ) -> Result<(), CredentialStoreError>;

    /// Replaces the values and the expiry of the credential `id` if its revision is still `seen`;
    /// the revision increases by one. Returns `false` if it was removed or changed meanwhile.
    async fn rotate(
        &self,
        id: &CredentialId,
        seen: u64,
        material: Material,
        expires_at: Option<Timestamp>,
        at: Timestamp,
    ) -> Result<bool, CredentialStoreError>;

    /// Removes a credential; returns `false` if the id is unknown.
    async fn remove(&self, id: &CredentialId) -> Result<bool, CredentialStoreError>;
}
