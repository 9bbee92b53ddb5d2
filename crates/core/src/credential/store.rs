//! The seam behind which credentials are kept.

use async_trait::async_trait;

use super::{Credential, Material, Owner};
use crate::{
    clock::Timestamp,
    id::{CredentialId, CredentialName},
    store::StoreError,
};

/// A credential with its values.
#[derive(Debug, Clone)]
pub struct Opened {
    /// What it is.
    pub credential: Credential,
    /// Its values.
    pub material: Material,
}

/// Why credentials were not read or written. `Display` is for the operator and names no value.
#[derive(Debug, Clone, thiserror::Error)]
pub enum CredentialStoreError {
    /// There is no key to seal with, so no value is stored.
    #[error(
        "no seal key is configured, so no credential can be stored or read; make one with \
         `toolcrib credentials new-key` and name it as `[store] seal_key`"
    )]
    NoKey,
    /// It was sealed with a key that is not here.
    #[error("credential {0} was sealed with another key; name that one as `[store] old_seal_key`")]
    OtherKey(CredentialId),
    /// What was read is not what was sealed: it was damaged, changed or moved.
    #[error("credential {0} is not what was sealed; remove it and set it again")]
    NotGenuine(CredentialId),
    /// The store itself failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Credentials. What is at rest is sealed.
#[async_trait]
pub trait CredentialStore: Send + Sync + 'static {
    /// All credentials without their values, by tenant, principal (the tenant's own first) and
    /// name. Needs no key.
    async fn list(&self) -> Result<Vec<Credential>, CredentialStoreError>;

    /// The credential of that name that belongs to `owner`, exactly.
    async fn get(
        &self,
        owner: &Owner,
        name: &CredentialName,
    ) -> Result<Option<Opened>, CredentialStoreError>;

    /// Stores a new one. [`StoreError::Conflict`] when its owner has one of that name, or the id
    /// exists.
    async fn put(
        &self,
        credential: Credential,
        material: Material,
    ) -> Result<(), CredentialStoreError>;

    /// Replaces the values (and the expiry) of the credential `id`, if its revision still is
    /// `seen`; the revision rises by one. `false` when it is gone or was changed meanwhile.
    async fn rotate(
        &self,
        id: &CredentialId,
        seen: u64,
        material: Material,
        expires_at: Option<Timestamp>,
        at: Timestamp,
    ) -> Result<bool, CredentialStoreError>;

    /// Removes it; `false` when there is none of that id.
    async fn remove(&self, id: &CredentialId) -> Result<bool, CredentialStoreError>;
}
