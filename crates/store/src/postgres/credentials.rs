//! Credentials, sealed.
//!
//! Invariant: values are sealed before they reach the database and opened after they left it.

use async_trait::async_trait;
use toolcrib_core::{
    clock::Timestamp,
    credential::{
        Credential, CredentialStore, CredentialStoreError, Material, Owner, UnsealedCredential,
    },
    id::{CredentialId, CredentialName},
};

use super::handle::PostgresStore;
use crate::rows::credentials;

/// Reseals the secrets of older keys; see [`Storage::reseal`].
///
/// [`Storage::reseal`]: toolcrib_core::store::Storage::reseal
pub(super) async fn reseal(store: &PostgresStore) -> Result<usize, CredentialStoreError> {
    let keys = &store.options().seal_keys;
    let mut resealed = 0;
    for row in store.select(credentials::all(), credentials::stored).await? {
        let Some(statement) = credentials::reseal(keys, row)? else { continue };
        resealed += store.run(statement).await?;
    }
    Ok(resealed)
}

#[async_trait]
impl CredentialStore for PostgresStore {
    async fn list(&self) -> Result<Vec<Credential>, CredentialStoreError> {
        let rows = self.select(credentials::all(), credentials::stored).await?;
        Ok(rows.into_iter().map(|row| row.credential).collect())
    }

    async fn get(
        &self,
        owner: &Owner,
        name: &CredentialName,
    ) -> Result<Option<UnsealedCredential>, CredentialStoreError> {
        let select = credentials::of_owner(owner, name);
        let row = self.select(select, credentials::stored).await?.pop();
        row.map(|row| credentials::open(&self.options().seal_keys, row)).transpose()
    }

    async fn put(
        &self,
        credential: Credential,
        material: Material,
    ) -> Result<(), CredentialStoreError> {
        let keys = &self.options().seal_keys;
        let insert = credentials::insert(keys, &credential, &material)?;
        self.run(insert).await?;
        Ok(())
    }

    async fn rotate(
        &self,
        id: &CredentialId,
        seen: u64,
        material: Material,
        expires_at: Option<Timestamp>,
        at: Timestamp,
    ) -> Result<bool, CredentialStoreError> {
        let row = self.select(credentials::find(id), credentials::stored).await?.pop();
        let Some(row) = row else { return Ok(false) };
        let keys = &self.options().seal_keys;
        match credentials::rotate(keys, row, seen, &material, expires_at, at)? {
            Some(rotate) => Ok(self.run(rotate).await? > 0),
            None => Ok(false),
        }
    }

    async fn remove(&self, id: &CredentialId) -> Result<bool, CredentialStoreError> {
        Ok(self.run(credentials::remove(id)).await? > 0)
    }
}
