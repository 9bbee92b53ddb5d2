//! Views of the record and calls that people save for others of their tenant.
//!
//! Invariant: a saved call exists only for callers who may use its tool, and a saved view only for
//! those who may read the record. Everyone else gets the answer for an item that does not exist.

use std::sync::Arc;

use chrono::TimeDelta;
use serde_json::{Map, Value};
use toolcrib_core::{
    catalog::Entry,
    event::{EventBody, NewEvent, SavedAction, SavedChanged},
    id::{SavedId, TenantId, ToolId},
    principal::Principal,
    redact::first_secret,
    store::{
        MAX_SAVED, MAX_SAVED_BY_ONE, SavedInsertion, SavedItem, SavedKind, SavedStore, StoreError,
    },
};

use crate::{CatalogScope, Gateway, Snapshot, ToolRef, ids::new_id, scopes::RouteScope};

/// The largest arguments of a saved call, in bytes of JSON text.
pub const MAX_ARGUMENTS: usize = 8 << 10;

/// When a tenant has no place left, calls of tools that it no longer has are removed at this age.
const LEFTOVER: TimeDelta = TimeDelta::days(30);

/// What to save.
#[derive(Debug)]
pub enum NewSaved {
    /// A view, with the query of its address.
    View(String),
    /// Arguments for a tool, by any of its names.
    Call {
        /// The tool.
        tool: String,
        /// The arguments.
        arguments: Map<String, Value>,
    },
}

/// A saved item, as a caller sees it.
#[derive(Debug)]
pub struct VisibleItem {
    /// The item.
    pub item: SavedItem,
    /// Whether the caller may replace and remove it.
    pub can_change: bool,
}

/// Why nothing was saved or removed.
#[derive(Debug, thiserror::Error)]
pub enum SavedError {
    /// The caller may not use the tool, or no such item exists for the caller.
    #[error("not found, or not visible to this caller")]
    Unknown,
    /// Another principal has saved an item with this name.
    #[error(
        "another principal saved this name; choose another one, or ask for the scope `keys:manage`"
    )]
    NotYours,
    /// The arguments are too large.
    #[error("must be at most {MAX_ARGUMENTS} bytes of JSON")]
    TooLarge,
    /// The arguments contain a secret at this place.
    #[error(
        "contains a value that looks like a secret; leave it out; the person who runs the call \
         enters it"
    )]
    Secret(String),
    /// The tenant has no place for another one.
    #[error("the tenant has {MAX_SAVED} of this kind; remove some")]
    TenantFull,
    /// The principal has no place for another one.
    #[error("you have saved {MAX_SAVED_BY_ONE} of this kind; remove some")]
    PrincipalFull,
    /// The store does not answer.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Gateway {
    /// Returns the items of one kind that `caller` may see, by name. `tool` selects the calls of one
    /// tool by any of its names.
    ///
    /// # Errors
    /// [`SavedError::Store`].
    pub async fn saved(
        &self,
        caller: &Principal,
        kind: SavedKind,
        tool: Option<&str>,
    ) -> Result<Vec<VisibleItem>, SavedError> {
        let snapshot = self.snapshot();
        let items = self.saved_store().list(&caller.tenant, kind).await?;
        let wanted = tool.map(|name| usable(&snapshot, caller, name).map(|it| it.id.clone()));
        let is_wanted = |item: &SavedItem| match &wanted {
            None => true,
            Some(id) => id.is_some() && item.tool == *id,
        };
        let seen = items.into_iter().filter(|it| is_wanted(it) && sees(&snapshot, caller, it));
        Ok(seen.map(|item| visible(caller, item)).collect())
    }

    /// Saves a view or a call of `caller` under a name, in place of the one with this name that the
    /// caller may change. Returns it, and whether it is new.
    ///
    /// # Errors
    /// [`SavedError`]: nothing was saved.
    pub async fn save(
        &self,
        caller: &Principal,
        name: String,
        what: NewSaved,
    ) -> Result<(VisibleItem, bool), SavedError> {
        let (kind, tool, content) = match what {
            NewSaved::View(query) => (SavedKind::View, None, query),
            NewSaved::Call { tool, arguments } => {
                let id = self.usable_tool(caller, &tool).ok_or(SavedError::Unknown)?;
                (SavedKind::Call, Some(id), content_of(arguments)?)
            }
        };
        let item = SavedItem {
            id: new_id(),
            tenant: caller.tenant.clone(),
            kind,
            tool,
            name,
            content: Some(content),
            principal: caller.id.clone(),
            saved_at: self.now(),
        };
        let (item, action) = self.put_saved(caller, item).await?;
        self.record_saved(caller, &item, action).await;
        Ok((visible(caller, item), action == SavedAction::Added))
    }

    /// Removes an item that `caller` may see and change.
    ///
    /// # Errors
    /// [`SavedError`]: nothing was removed.
    pub async fn remove_saved(&self, caller: &Principal, id: &SavedId) -> Result<(), SavedError> {
        let found = self.saved_store().find(&caller.tenant, id).await?;
        let snapshot = self.snapshot();
        let found = found.filter(|item| match item.kind {
            SavedKind::View => RouteScope::AuditRead.is_held_by(caller),
            SavedKind::Call => sees(&snapshot, caller, item),
        });
        let item = found.ok_or(SavedError::Unknown)?;
        if !may_change(caller, &item) {
            return Err(SavedError::NotYours);
        }
        if !self.saved_store().remove(&item.tenant, id, &item.principal).await? {
            return Err(SavedError::Unknown);
        }
        self.record_saved(caller, &item, SavedAction::Removed).await;
        Ok(())
    }

    fn saved_store(&self) -> Arc<dyn SavedStore> {
        self.inner.services.storage.saved()
    }

    /// Returns the id of a tool that `caller` may use. A refusal is recorded.
    fn usable_tool(&self, caller: &Principal, name: &str) -> Option<ToolId> {
        let snapshot = self.snapshot();
        if let Some(entry) = usable(&snapshot, caller, name) {
            return Some(entry.id.clone());
        }
        let reference = match snapshot.catalog.by_wire(&caller.tenant, name) {
            Some(_) => ToolRef::Wire(name),
            None => ToolRef::Id(name),
        };
        self.find(&snapshot, caller, reference, &CatalogScope::default())
            .map(|entry| entry.id.clone())
    }

    async fn put_saved(
        &self,
        caller: &Principal,
        mut item: SavedItem,
    ) -> Result<(SavedItem, SavedAction), SavedError> {
        let store = self.saved_store();
        let mut made_room = false;
        loop {
            match store.insert(item.clone()).await? {
                SavedInsertion::Stored => return Ok((item, SavedAction::Added)),
                SavedInsertion::NameTaken => {}
                SavedInsertion::TenantFull | SavedInsertion::PrincipalFull
                    if !made_room && self.remove_leftovers(&item.tenant).await? =>
                {
                    made_room = true;
                    continue;
                }
                SavedInsertion::TenantFull => return Err(SavedError::TenantFull),
                SavedInsertion::PrincipalFull => return Err(SavedError::PrincipalFull),
            }
            let others = store.list(&item.tenant, item.kind).await?;
            let same = |it: &&SavedItem| it.tool == item.tool && it.name == item.name;
            // It may have been removed meanwhile.
            let Some(other) = others.iter().find(same) else { continue };
            if !may_change(caller, other) {
                return Err(SavedError::NotYours);
            }
            item.id = other.id.clone();
            if store.replace(&other.principal, item.clone()).await? {
                return Ok((item, SavedAction::Replaced));
            }
            item.id = new_id();
        }
    }

    /// Removes old calls of tools that the tenant no longer has. No caller can see or remove them.
    /// Returns whether there was one.
    async fn remove_leftovers(&self, tenant: &TenantId) -> Result<bool, StoreError> {
        let (store, snapshot) = (self.saved_store(), self.snapshot());
        let before = self.now() - LEFTOVER;
        let has = |tool: &ToolId| {
            let entries = [&snapshot.catalog, &snapshot.quarantined]
                .map(|catalog| catalog.by_id(tenant, tool.as_str()));
            entries.into_iter().flatten().any(|entry| entry.tenants.admits(tenant))
        };
        let mut removed = false;
        for item in store.list(tenant, SavedKind::Call).await? {
            if item.saved_at < before && !item.tool.as_ref().is_some_and(has) {
                removed |= store.remove(tenant, &item.id, &item.principal).await?;
            }
        }
        Ok(removed)
    }

    async fn record_saved(&self, caller: &Principal, item: &SavedItem, action: SavedAction) {
        let body = EventBody::SavedChanged(SavedChanged {
            principal: caller.id.clone(),
            saved_id: item.id.clone(),
            kind: item.kind,
            action,
            tool_id: item.tool.clone(),
        });
        let event = NewEvent {
            event_id: new_id(),
            tenant: caller.tenant.clone(),
            run_id: new_id(),
            body,
            timestamp: self.now(),
            causation_id: None,
        };
        self.audit().append_with_retry(vec![event]).await;
    }
}

/// Returns the tool with this id or name, if `caller` may use it. Records nothing.
fn usable(snapshot: &Arc<Snapshot>, caller: &Principal, name: &str) -> Option<Arc<Entry>> {
    let found = |tool| snapshot.find(caller, tool, &CatalogScope::default()).ok();
    found(ToolRef::Id(name)).or_else(|| found(ToolRef::Wire(name)))
}

/// Returns whether `caller` may see an item of its tenant. The route has checked the scope of views.
fn sees(snapshot: &Arc<Snapshot>, caller: &Principal, item: &SavedItem) -> bool {
    match (&item.kind, &item.tool) {
        (SavedKind::View, _) => true,
        (SavedKind::Call, Some(tool)) => {
            let tool = ToolRef::Id(tool.as_str());
            snapshot.find(caller, tool, &CatalogScope::default()).is_ok()
        }
        (SavedKind::Call, None) => false,
    }
}

fn visible(caller: &Principal, item: SavedItem) -> VisibleItem {
    VisibleItem { can_change: may_change(caller, &item), item }
}

/// Returns whether `caller` saved the item, or administers the tenant.
fn may_change(caller: &Principal, item: &SavedItem) -> bool {
    item.principal == caller.id || RouteScope::KeysManage.is_held_by(caller)
}

fn content_of(arguments: Map<String, Value>) -> Result<String, SavedError> {
    let arguments = Value::Object(arguments);
    let text = arguments.to_string();
    if text.len() > MAX_ARGUMENTS {
        return Err(SavedError::TooLarge);
    }
    match first_secret(&arguments) {
        Some(place) => Err(SavedError::Secret(place)),
        None => Ok(text),
    }
}
