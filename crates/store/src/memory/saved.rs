//! Saved views and calls in memory.

use std::sync::Mutex;

use async_trait::async_trait;
use chrono::SubsecRound;
use toolcrib_core::{
    id::{PrincipalId, SavedId, TenantId},
    store::{
        MAX_SAVED, MAX_SAVED_BY_ONE, SavedInsertion, SavedItem, SavedKind, SavedStore, StoreError,
    },
};

use super::shared::lock;

/// Saved views and calls in memory.
#[derive(Debug, Default)]
pub(super) struct MemorySaved(Mutex<Vec<SavedItem>>);

fn as_stored(item: SavedItem) -> SavedItem {
    let content = Some(item.content.unwrap_or_default());
    SavedItem { content, saved_at: item.saved_at.trunc_subsecs(3), ..item }
}

fn place(item: &SavedItem) -> (&TenantId, SavedKind, Option<&str>, &str) {
    (&item.tenant, item.kind, item.tool.as_ref().map(|tool| tool.as_str()), &item.name)
}

#[async_trait]
impl SavedStore for MemorySaved {
    async fn insert(&self, item: SavedItem) -> Result<SavedInsertion, StoreError> {
        let mut items = lock(&self.0);
        let alike = |it: &&SavedItem| it.tenant == item.tenant && it.kind == item.kind;
        if items.iter().any(|it| place(it) == place(&item)) {
            return Ok(SavedInsertion::NameTaken);
        }
        if items.iter().filter(alike).count() >= MAX_SAVED {
            return Ok(SavedInsertion::TenantFull);
        }
        let own = items.iter().filter(alike).filter(|it| it.principal == item.principal);
        if own.count() >= MAX_SAVED_BY_ONE {
            return Ok(SavedInsertion::PrincipalFull);
        }
        items.push(as_stored(item));
        items.sort_by(|a, b| place(a).cmp(&place(b)));
        Ok(SavedInsertion::Stored)
    }

    async fn replace(&self, seen: &PrincipalId, item: SavedItem) -> Result<bool, StoreError> {
        let mut items = lock(&self.0);
        let found = items
            .iter_mut()
            .find(|it| it.id == item.id && place(it) == place(&item) && it.principal == *seen);
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
