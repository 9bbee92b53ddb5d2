//! Items of the authorization server for MCP clients in memory, unsealed.

use std::sync::Mutex;

use async_trait::async_trait;
use chrono::SubsecRound;
use toolcrib_core::{
    bridge::{BridgeItem, BridgeKind, BridgeStore},
    clock::Timestamp,
    credential::{CredentialStoreError, Secret},
    id::{CredentialId, PrincipalId, TenantId},
    store::StoreError,
};

use super::shared::lock;

/// Items in memory, unsealed.
#[derive(Debug, Default)]
pub(super) struct MemoryBridge(Mutex<Vec<(BridgeItem, Secret)>>);

fn as_stored(item: BridgeItem) -> BridgeItem {
    BridgeItem {
        created_at: item.created_at.trunc_subsecs(3),
        expires_at: item.expires_at.trunc_subsecs(3),
        ..item
    }
}

#[async_trait]
impl BridgeStore for MemoryBridge {
    async fn add(
        &self,
        item: BridgeItem,
        value: Secret,
        most: u64,
    ) -> Result<bool, CredentialStoreError> {
        let mut items = lock(&self.0);
        let is_of_kind = |other: &BridgeItem| other.kind == item.kind;
        items.retain(|(it, _)| !is_of_kind(it) || it.expires_at > item.created_at);
        if items.iter().any(|(it, _)| it.id == item.id) {
            return Err(StoreError::Conflict("an item with this id".to_owned()).into());
        }
        let others = items.iter().filter(|(it, _)| is_of_kind(it)).count();
        if u64::try_from(others).is_ok_and(|others| others >= most) {
            return Ok(false);
        }
        items.push((as_stored(item), value));
        items.sort_by(|(a, _), (b, _)| a.id.cmp(&b.id));
        Ok(true)
    }

    async fn get(
        &self,
        kind: BridgeKind,
        id: &CredentialId,
        now: Timestamp,
    ) -> Result<Option<(BridgeItem, Secret)>, CredentialStoreError> {
        let items = lock(&self.0);
        let found = items.iter().find(|(it, _)| it.kind == kind && it.id == *id);
        Ok(found.filter(|(it, _)| it.expires_at > now).cloned())
    }

    async fn change(&self, item: BridgeItem, value: Secret) -> Result<bool, CredentialStoreError> {
        let mut items = lock(&self.0);
        let identity = |it: &BridgeItem| (it.kind, it.id.clone(), it.owner.clone(), it.revision);
        let found = items.iter_mut().find(|(it, _)| identity(it) == identity(&item));
        let Some(found) = found else { return Ok(false) };
        let (created_at, revision) = (found.0.created_at, item.revision.saturating_add(1));
        *found = (as_stored(BridgeItem { created_at, revision, ..item }), value);
        Ok(true)
    }

    async fn take(
        &self,
        kind: BridgeKind,
        id: &CredentialId,
        now: Timestamp,
    ) -> Result<Option<(BridgeItem, Secret)>, CredentialStoreError> {
        let mut items = lock(&self.0);
        let place = items.iter().position(|(it, _)| it.kind == kind && it.id == *id);
        let taken = place.map(|place| items.remove(place));
        Ok(taken.filter(|(it, _)| it.expires_at > now))
    }

    async fn grants(
        &self,
        tenant: &TenantId,
        principal: Option<&PrincipalId>,
    ) -> Result<Vec<(BridgeItem, Secret)>, CredentialStoreError> {
        let is_listed = |(it, _): &&(BridgeItem, Secret)| {
            let owner = it.owner.as_ref();
            it.kind == BridgeKind::Grant
                && owner.is_some_and(|owner| {
                    owner.tenant == *tenant
                        && principal.is_none_or(|principal| owner.principal == *principal)
                })
        };
        Ok(lock(&self.0).iter().filter(is_listed).cloned().collect())
    }

    async fn sweep(&self, now: Timestamp) -> Result<u64, CredentialStoreError> {
        let mut items = lock(&self.0);
        let before = items.len();
        items.retain(|(it, _)| it.expires_at > now);
        Ok(u64::try_from(before - items.len()).unwrap_or(u64::MAX))
    }
}
