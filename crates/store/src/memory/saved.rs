//! Saved views and calls in memory.

use std::sync::Mutex;

use async_trait::async_trait;
use chrono::SubsecRound;
use toolcrib_core::{
    id::{PrincipalId, SavedId, TenantId},
    store::{SavedFilter, SavedInsertion, SavedItem, SavedStore, StoreError},
};

use super::shared::lock;
use crate::rows::saved::{ItemCounts, selected};

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
        let alike = |saved: &&SavedItem| saved.tenant == item.tenant && saved.kind == item.kind;
        if let Some(other) = items.iter().find(|saved| saved.place() == item.place()) {
            let SavedItem { id, principal, .. } = other.clone();
            return Ok(SavedInsertion::NameTaken { id, principal });
        }
        let present = ItemCounts {
            place: items.iter().filter(alike).filter(|saved| saved.tool == item.tool).count(),
            own: items
                .iter()
                .filter(alike)
                .filter(|saved| saved.principal == item.principal)
                .count(),
        };
        if let Some(refusal) = present.refusal() {
            return Ok(refusal);
        }
        items.push(as_stored(item));
        items.sort_by(|a, b| a.place().cmp(&b.place()));
        Ok(SavedInsertion::Stored)
    }

    async fn replace(&self, item: SavedItem) -> Result<bool, StoreError> {
        let mut items = lock(&self.0);
        let is_same = |saved: &&mut SavedItem| {
            (&saved.id, saved.place(), &saved.principal)
                == (&item.id, item.place(), &item.principal)
        };
        let found = items.iter_mut().find(is_same);
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
        items.retain(|saved| (&saved.tenant, &saved.id, &saved.principal) != (tenant, id, seen));
        Ok(items.len() < before)
    }

    async fn list(
        &self,
        tenant: &TenantId,
        filter: &SavedFilter,
    ) -> Result<Vec<SavedItem>, StoreError> {
        let (kind, column, value) = selected(filter);
        let is_selected = |saved: &&SavedItem| {
            let [of, its_kind, tool, _name] = saved.place();
            let its_value = if column == "tool" { tool } else { saved.principal.as_str() };
            (of, its_kind, its_value) == (tenant.as_str(), kind.as_str(), value)
        };
        Ok(lock(&self.0).iter().filter(is_selected).cloned().collect())
    }

    async fn find(&self, tenant: &TenantId, id: &SavedId) -> Result<Option<SavedItem>, StoreError> {
        Ok(lock(&self.0).iter().find(|saved| saved.tenant == *tenant && saved.id == *id).cloned())
    }
}
