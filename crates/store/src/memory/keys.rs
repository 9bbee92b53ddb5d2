//! API keys in memory.

use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use chrono::SubsecRound;
use toolcrib_core::{
    clock::Timestamp,
    id::KeyId,
    store::{KeyRecord, KeyRotation, KeyStore, StoreError},
};

use super::shared::{ChangeCounter, lock};

/// API keys in memory.
#[derive(Debug, Default)]
pub(super) struct MemoryKeys {
    records: Mutex<Vec<KeyRecord>>,
    changes: Arc<ChangeCounter>,
}

impl MemoryKeys {
    pub(super) fn new(changes: &Arc<ChangeCounter>) -> Self {
        Self { records: Mutex::default(), changes: Arc::clone(changes) }
    }

    fn changed(&self) {
        self.changes.count(|changes| &mut changes.keys);
    }
}

fn insert(records: &mut Vec<KeyRecord>, mut key: KeyRecord) -> Result<(), StoreError> {
    if records.iter().any(|held| held.id == key.id || held.digest == key.digest) {
        return Err(StoreError::Conflict("a key with this id or digest".to_owned()));
    }
    key.created_at = key.created_at.trunc_subsecs(3);
    key.expires_at = key.expires_at.map(|at| at.trunc_subsecs(3));
    key.revoked_at = key.revoked_at.map(|at| at.trunc_subsecs(3));
    key.last_used_at = key.last_used_at.map(|at| at.trunc_subsecs(3));
    records.push(key);
    records.sort_by_key(|key| key.created_at);
    Ok(())
}

#[async_trait]
impl KeyStore for MemoryKeys {
    async fn insert(&self, key: KeyRecord) -> Result<(), StoreError> {
        insert(&mut lock(&self.records), key)?;
        self.changed();
        Ok(())
    }

    async fn insert_for_new_principal(&self, key: KeyRecord) -> Result<bool, StoreError> {
        let mut keys = lock(&self.records);
        let same = |held: &KeyRecord| held.tenant == key.tenant && held.principal == key.principal;
        if keys.iter().any(same) {
            return Ok(false);
        }
        insert(&mut keys, key)?;
        self.changed();
        Ok(true)
    }

    async fn list(&self) -> Result<Vec<KeyRecord>, StoreError> {
        Ok(lock(&self.records).clone())
    }

    async fn revoke(&self, id: &KeyId, at: Timestamp) -> Result<bool, StoreError> {
        let mut keys = lock(&self.records);
        let held = keys.iter_mut().find(|key| key.id == *id && key.revoked_at.is_none());
        let Some(key) = held else { return Ok(false) };
        key.revoked_at = Some(at.trunc_subsecs(3));
        self.changed();
        Ok(true)
    }

    async fn rotate(
        &self,
        old: &KeyId,
        new: KeyRecord,
        until: Timestamp,
    ) -> Result<KeyRotation, StoreError> {
        let (now, until) = (new.created_at.trunc_subsecs(3), until.trunc_subsecs(3));
        let lasts = |key: &KeyRecord| {
            key.id == *old && key.revoked_at.is_none() && key.expires_at.is_none_or(|end| end > now)
        };
        let replaces =
            |key: &KeyRecord| key.replaces.as_ref() == Some(old) && key.revoked_at.is_none();
        let mut keys = lock(&self.records);
        if keys.iter().any(replaces) {
            return Ok(KeyRotation::AlreadyReplaced);
        }
        if !keys.iter().any(lasts) {
            return Ok(KeyRotation::NoActiveKey);
        }
        insert(&mut keys, new)?;
        self.changed();
        if let Some(key) = keys.iter_mut().find(|key| key.id == *old) {
            key.expires_at = Some(key.expires_at.map_or(until, |end| end.min(until)));
        }
        Ok(KeyRotation::Rotated)
    }

    async fn note_used(&self, used: Vec<(KeyId, Timestamp)>) -> Result<(), StoreError> {
        let mut keys = lock(&self.records);
        for (id, at) in used {
            let at = Some(at.trunc_subsecs(3));
            if let Some(key) = keys.iter_mut().find(|key| key.id == id) {
                key.last_used_at = key.last_used_at.max(at);
            }
        }
        Ok(())
    }
}
