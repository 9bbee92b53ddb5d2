//! API keys in memory.

use std::{
    collections::{BTreeMap, HashSet},
    sync::{Arc, Mutex},
};

use async_trait::async_trait;
use chrono::SubsecRound;
use toolcrib_core::{
    clock::Timestamp,
    id::KeyId,
    store::{KeyRecord, KeyRotation, KeyStore, SESSION_ROWS_KEPT, StoreError},
};

use super::shared::{ChangeCounter, lock};

#[derive(Debug, Default)]
pub(super) struct MemoryKeys {
    records: Mutex<Vec<KeyRecord>>,
    /// The ids of changed keys by the number of the change, counted with `records` locked.
    changed: Mutex<BTreeMap<u64, Vec<KeyId>>>,
    changes: Arc<ChangeCounter>,
}

impl MemoryKeys {
    pub(super) fn new(changes: &Arc<ChangeCounter>) -> Self {
        Self { changes: Arc::clone(changes), ..Self::default() }
    }

    /// Counts a change of the keys `ids`. The caller holds `records`.
    fn changed(&self, ids: Vec<KeyId>) {
        let number = self.changes.count(|changes| &mut changes.keys);
        lock(&self.changed).insert(number, ids);
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
    if key.session.is_some() {
        let over = key.created_at - SESSION_ROWS_KEPT;
        records
            .retain(|held| held.session.is_none() || held.expires_at.is_none_or(|end| end >= over));
    }
    records.push(key);
    records.sort_by_key(|key| key.created_at);
    Ok(())
}

#[async_trait]
impl KeyStore for MemoryKeys {
    async fn insert(&self, key: KeyRecord) -> Result<(), StoreError> {
        let mut keys = lock(&self.records);
        let id = key.id.clone();
        insert(&mut keys, key)?;
        self.changed(vec![id]);
        Ok(())
    }

    async fn insert_for_new_principal(&self, key: KeyRecord) -> Result<bool, StoreError> {
        let mut keys = lock(&self.records);
        let same = |held: &KeyRecord| held.tenant == key.tenant && held.principal == key.principal;
        if keys.iter().any(same) {
            return Ok(false);
        }
        let id = key.id.clone();
        insert(&mut keys, key)?;
        self.changed(vec![id]);
        Ok(true)
    }

    async fn list(&self) -> Result<Vec<KeyRecord>, StoreError> {
        Ok(lock(&self.records).clone())
    }

    async fn changed_since(&self, epoch: u64) -> Result<Vec<KeyRecord>, StoreError> {
        let keys = lock(&self.records);
        let changed = lock(&self.changed);
        let after = changed.range(epoch.saturating_add(1)..).flat_map(|(_, ids)| ids);
        let ids: HashSet<&KeyId> = after.collect();
        if ids.is_empty() {
            return Ok(Vec::new());
        }
        Ok(keys.iter().filter(|key| ids.contains(&key.id)).cloned().collect())
    }

    async fn revoke(&self, id: &KeyId, at: Timestamp) -> Result<bool, StoreError> {
        let mut keys = lock(&self.records);
        let held = keys.iter_mut().find(|key| key.id == *id && key.revoked_at.is_none());
        let Some(key) = held else { return Ok(false) };
        key.revoked_at = Some(at.trunc_subsecs(3));
        self.changed(vec![id.clone()]);
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
        let ids = vec![old.clone(), new.id.clone()];
        insert(&mut keys, new)?;
        if let Some(key) = keys.iter_mut().find(|key| key.id == *old) {
            key.expires_at = Some(key.expires_at.map_or(until, |end| end.min(until)));
        }
        self.changed(ids);
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
