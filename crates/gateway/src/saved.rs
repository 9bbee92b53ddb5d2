//! Views of the record and calls that people save for their tenant.
//!
//! Invariant: a saved call exists only for the principal that saved it and for callers who may use
//! its tool, and a saved view only for those who may read the record. All others get the response
//! for a missing item, after the same work.

use std::sync::Arc;

use serde_json::{Map, Value};
use toolcrib_config::scopes::RouteScope;
use toolcrib_core::{
    catalog::Entry,
    event::{EventBody, SavedAction, SavedChanged},
    id::SavedId,
    principal::Principal,
    redact::{first_secret, has_secret_shape},
    store::{
        MAX_SAVED, MAX_SAVED_BY_ONE, SavedFilter, SavedInsertion, SavedItem, SavedKind, SavedStore,
        StoreError,
    },
    text::plain_name,
};

use crate::{CatalogScope, Gateway, Snapshot, ToolRef, audit::lone_event, ids::new_id};

/// The largest arguments of a saved call, in bytes of JSON text.
pub const MAX_ARGUMENTS: usize = 8 << 10;

/// The item to save.
#[derive(Debug)]
pub enum NewSaved {
    /// A view, with the query of its address.
    View(String),
    /// Arguments for a tool.
    Call {
        /// The id or the wire name of the tool.
        tool: String,
        /// The arguments; they may contain no secret.
        arguments: Map<String, Value>,
    },
}

/// Selects saved items.
#[derive(Debug, Clone, Copy)]
pub enum SavedQuery<'a> {
    /// The views of the tenant.
    Views,
    /// The calls of the tool with this id or wire name.
    CallsOf(&'a str),
    /// The calls that the caller saved, even of tools that it may not use any more.
    OwnCalls,
}

/// A saved item, as a caller sees it.
#[derive(Debug)]
pub struct VisibleItem {
    /// The item.
    pub item: SavedItem,
    /// Whether the caller may remove it.
    pub can_remove: bool,
}

/// Why an item was not saved or removed.
#[derive(Debug, thiserror::Error)]
pub enum SavedError {
    /// The caller may not use the tool, or the item does not exist for the caller.
    #[error("not found, or not visible to this caller")]
    Unknown,
    /// Another principal has saved an item with this name.
    #[error("another principal saved this name; choose another one")]
    NameTaken,
    /// The item belongs to another principal.
    #[error("another principal saved it; only that one and holders of `keys:manage` may remove it")]
    NotYours,
    /// The arguments are too large.
    #[error("must be at most {MAX_ARGUMENTS} bytes of JSON")]
    TooLarge,
    /// A member contains a secret.
    #[error(
        "contains a value that looks like a secret; leave it out, or write a variable such as \
         `{{{{password}}}}`, whose value the person who runs the call enters"
    )]
    Secret {
        /// The member of the request.
        member: &'static str,
        /// The place in it, as a JSON pointer.
        place: String,
    },
    /// The tool, or for views the tenant, has the maximum number of items.
    #[error("there are {MAX_SAVED} already; remove some")]
    PlaceFull,
    /// The principal has the maximum number of items.
    #[error(
        "you have saved {MAX_SAVED_BY_ONE} of this kind; remove some (`GET /v1/saved` lists your calls)"
    )]
    PrincipalFull,
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Gateway {
    /// Returns the items that `query` selects and `caller` may see, by tool and name. The route has
    /// checked the scope of views.
    ///
    /// # Errors
    /// [`SavedError::Store`].
    pub async fn saved(
        &self,
        caller: &Principal,
        query: SavedQuery<'_>,
    ) -> Result<Vec<VisibleItem>, SavedError> {
        let filter = match query {
            SavedQuery::Views => SavedFilter::Views,
            SavedQuery::OwnCalls => SavedFilter::CallsBy(caller.id.clone()),
            SavedQuery::CallsOf(name) => match usable(&self.snapshot(), caller, name) {
                Some(entry) => SavedFilter::CallsOf(entry.id.clone()),
                None => return Ok(Vec::new()),
            },
        };
        let items = self.saved_store().list(&caller.tenant, &filter).await?;
        Ok(items.into_iter().map(|item| visible(caller, item)).collect())
    }

    /// Saves a view or a call under a name, and replaces an item of `caller` with this name.
    /// Returns the item, and whether it is new.
    ///
    /// # Errors
    /// [`SavedError`]; in that case the items are unchanged.
    pub async fn save(
        &self,
        caller: &Principal,
        name: String,
        what: NewSaved,
    ) -> Result<(VisibleItem, bool), SavedError> {
        let name = plain_name(&name);
        without_secret("name", &name)?;
        let (kind, tool, content) = match what {
            NewSaved::View(query) => {
                let pairs = url::form_urlencoded::parse(query.as_bytes());
                without_secret("query", &query)?;
                for (key, value) in pairs {
                    without_secret("query", &key)?;
                    without_secret("query", &value)?;
                }
                (SavedKind::View, None, query)
            }
            NewSaved::Call { tool, arguments } => {
                let entry = self.usable_tool(caller, &tool).ok_or(SavedError::Unknown)?;
                let content = content_of(arguments, &entry)?;
                (SavedKind::Call, Some(entry.id.clone()), content)
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
    /// [`SavedError`]; in that case the items are unchanged.
    pub async fn remove_saved(&self, caller: &Principal, id: &SavedId) -> Result<(), SavedError> {
        let found = self.saved_store().find(&caller.tenant, id).await?;
        let snapshot = self.snapshot();
        let found = found.filter(|item| sees(&snapshot, caller, item));
        let item = found.ok_or(SavedError::Unknown)?;
        if !may_remove(caller, &item) {
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

    /// Finds a tool that `caller` may use. A refusal is recorded.
    fn usable_tool(&self, caller: &Principal, name: &str) -> Option<Arc<Entry>> {
        let snapshot = self.snapshot();
        if let Some(entry) = usable(&snapshot, caller, name) {
            return Some(entry);
        }
        let reference = match snapshot.catalog.by_wire(&caller.tenant, name) {
            Some(_) => ToolRef::Wire(name),
            None => ToolRef::Id(name),
        };
        self.find(&snapshot, caller, reference, &CatalogScope::default())
    }

    async fn put_saved(
        &self,
        caller: &Principal,
        mut item: SavedItem,
    ) -> Result<(SavedItem, SavedAction), SavedError> {
        let store = self.saved_store();
        loop {
            match store.insert(item.clone()).await? {
                SavedInsertion::Stored => return Ok((item, SavedAction::Added)),
                SavedInsertion::PlaceFull => return Err(SavedError::PlaceFull),
                SavedInsertion::PrincipalFull => return Err(SavedError::PrincipalFull),
                SavedInsertion::NameTaken { principal, .. } if principal != caller.id => {
                    return Err(SavedError::NameTaken);
                }
                SavedInsertion::NameTaken { id, .. } => item.id = id,
            }
            if store.replace(item.clone()).await? {
                return Ok((item, SavedAction::Replaced));
            }
            // It was removed meanwhile.
            item.id = new_id();
        }
    }

    async fn record_saved(&self, caller: &Principal, item: &SavedItem, action: SavedAction) {
        let body = EventBody::SavedChanged(SavedChanged {
            principal: caller.id.clone(),
            saved_id: item.id.clone(),
            kind: item.kind,
            action,
            tool_id: item.tool.clone(),
        });
        let event = lone_event(caller.tenant.clone(), body, self.now());
        self.audit().append_with_retry(vec![event]).await;
    }
}

/// Finds the tool with this id or name, if `caller` may use it. Does not record a refusal.
fn usable(snapshot: &Arc<Snapshot>, caller: &Principal, name: &str) -> Option<Arc<Entry>> {
    let found = |tool| snapshot.find(caller, tool, &CatalogScope::default()).ok();
    found(ToolRef::Id(name)).or_else(|| found(ToolRef::Wire(name)))
}

/// Whether `caller` may see an item of its tenant. It sees the items that it saved, the calls of
/// the tools that it may use, and the views if it may read the record.
fn sees(snapshot: &Arc<Snapshot>, caller: &Principal, item: &SavedItem) -> bool {
    match (&item.kind, &item.tool) {
        (SavedKind::View, _) => RouteScope::AuditRead.is_held_by(caller),
        (SavedKind::Call, _) if item.principal == caller.id => true,
        (SavedKind::Call, Some(tool)) => {
            let tool = ToolRef::Id(tool.as_str());
            snapshot.find(caller, tool, &CatalogScope::default()).is_ok()
        }
        (SavedKind::Call, None) => false,
    }
}

fn visible(caller: &Principal, item: SavedItem) -> VisibleItem {
    VisibleItem { can_remove: may_remove(caller, &item), item }
}

/// Whether `caller` saved the item, or administers the tenant.
fn may_remove(caller: &Principal, item: &SavedItem) -> bool {
    item.principal == caller.id || RouteScope::KeysManage.is_held_by(caller)
}

fn content_of(arguments: Map<String, Value>, tool: &Entry) -> Result<String, SavedError> {
    let arguments = Value::Object(arguments);
    let text = arguments.to_string();
    if text.len() > MAX_ARGUMENTS {
        return Err(SavedError::TooLarge);
    }
    let schema = tool
        .tool
        .input_schema
        .as_ref()
        .and_then(|schema| serde_json::from_str(schema.as_str()).ok());
    match first_secret(&arguments, schema.as_ref()) {
        Some(place) => Err(SavedError::Secret { member: "arguments", place }),
        None => Ok(text),
    }
}

fn without_secret(member: &'static str, text: &str) -> Result<(), SavedError> {
    match has_secret_shape(text) {
        true => Err(SavedError::Secret { member, place: String::new() }),
        false => Ok(()),
    }
}
