//! Saved views and calls in memory.

use std::sync::Mutex;

use async_trait::async_trait;
use chrono::SubsecRound;
use toolcrib_core::{
    id::{PrincipalId, SavedId, TenantId},
    store::{SavedInsertion, SavedItem, SavedKind, SavedStore, StoreError},
};

use super::shared::lock;
use crate::saved::Present;

/// Saved views and calls in memory.
#[derive(Debug, Default)]
pub(super) struct MemorySaved(Mutex<Vec<SavedItem>>);

fn as_stored(item: SavedItem) -> SavedItem {
    let content = Some(item.content.unwrap_or_default());
    SavedItem { content, saved_at: item.saved_at.trunc_subsecs(3), ..item }
}

#[async_trait]
impl SavedStore for MemorySaved {
    async fn insert(&self, item: SavedItem) -> Result<SavedInsertion, StoreError> {
        let mut items = lock(&self.0);
        let alike = |it: &&SavedItem| it.tenant == item.tenant && it.kind == item.kind;
        let own = |it: &&SavedItem| it.principal == item.principal;
        let same = |it: &&SavedItem| it.place() == item.place();
        let present = Present {
            all: items.iter().filter(alike).count(),
            own: items.iter().filter(alike).filter(own).count(),
            same: items.iter().filter(alike).filter(same).count(),
        };
        if let Some(refusal) = present.refusal() {
            return Ok(refusal);
        }
        items.push(as_stored(item));
        items.sort_by(|a, b| a.place().cmp(&b.place()));
        Ok(SavedInsertion::Stored)
    }

    async fn replace(&self, seen: &PrincipalId, item: SavedItem) -> Result<bool, StoreError> {
        let mut items = lock(&self.0);
        let found = items
            .iter_mut()
            .find(|it| it.id == item.id && it.place() == item.place() && it.principal == *seen);
        let Some(found) = found else { return Ok(false) };
        *found = as_stored(item);
        Ok(true)
    }

    async fn remove(
        &self,
        tenant: &TenantId,
        id: &SavedId,
        seen: &PrincipalId,
    ) -> Result<bool, StoreError> {
        let mut items = lock(&self.0);
        let before = items.len();
        items.retain(|it| (&it.tenant, &it.id, &it.principal) != (tenant, id, seen));
        Ok(items.len() < before)
    }

    async fn list(&self, tenant: &TenantId, kind: SavedKind) -> Result<Vec<SavedItem>, StoreError> {
        let items = lock(&self.0);
        Ok(items.iter().filter(|it| it.tenant == *tenant && it.kind == kind).cloned().collect())
    }

    async fn find(&self, tenant: &TenantId, id: &SavedId) -> Result<Option<SavedItem>, StoreError> {
        Ok(lock(&self.0).iter().find(|it| it.tenant == *tenant && it.id == *id).cloned())
    }
}
