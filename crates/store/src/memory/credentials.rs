//! Credentials in memory, unsealed.

use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use chrono::SubsecRound;
use toolcrib_core::{
    clock::Timestamp,
    credential::{
        Credential, CredentialStore, CredentialStoreError, Material, Owner, UnsealedCredential,
    },
    id::{CredentialId, CredentialName},
    store::StoreError,
};

use super::shared::lock;

/// Credentials in memory, unsealed.
#[derive(Debug, Clone, Default)]
pub struct MemoryCredentials(Arc<Mutex<Vec<UnsealedCredential>>>);

#[async_trait]
impl CredentialStore for MemoryCredentials {
    async fn list(&self) -> Result<Vec<Credential>, CredentialStoreError> {
        let mut all: Vec<_> = lock(&self.0).iter().map(|held| held.credential.clone()).collect();
        all.sort_by(|a, b| (&a.owner, &a.name).cmp(&(&b.owner, &b.name)));
        Ok(all)
    }

    async fn get(
        &self,
        owner: &Owner,
        name: &CredentialName,
    ) -> Result<Option<UnsealedCredential>, CredentialStoreError> {
        let held = lock(&self.0);
        let found = held.iter().map(|held| (held, &held.credential));
        let found =
            found.filter(|(_, credential)| credential.owner == *owner && credential.name == *name);
        Ok(found.map(|(held, _)| held.clone()).next())
    }

    async fn put(
        &self,
        mut credential: Credential,
        material: Material,
    ) -> Result<(), CredentialStoreError> {
        let mut held = lock(&self.0);
        let taken = |stored: &Credential| {
            stored.id == credential.id
                || (stored.owner == credential.owner && stored.name == credential.name)
        };
        if held.iter().any(|held| taken(&held.credential)) {
            let what = "a credential of this name or id".to_owned();
            return Err(StoreError::Conflict(what).into());
        }
        credential.created_at = credential.created_at.trunc_subsecs(3);
        credential.rotated_at = credential.rotated_at.trunc_subsecs(3);
        credential.expires_at = credential.expires_at.map(|at| at.trunc_subsecs(3));
        held.push(UnsealedCredential { credential, material });
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
        let mut held = lock(&self.0);
        let known = |stored: &Credential| stored.id == *id && stored.revision == seen;
        let Some(held) = held.iter_mut().find(|held| known(&held.credential)) else {
            return Ok(false);
        };
        held.material = material;
        held.credential.revision += 1;
        held.credential.rotated_at = at.trunc_subsecs(3);
        held.credential.expires_at = expires_at.map(|at| at.trunc_subsecs(3));
        Ok(true)
    }

    async fn remove(&self, id: &CredentialId) -> Result<bool, CredentialStoreError> {
        let mut held = lock(&self.0);
        let before = held.len();
        held.retain(|held| held.credential.id != *id);
        Ok(held.len() < before)
    }
}
