//! The storage trait for items that people save for others of their tenant.

use async_trait::async_trait;

use crate::{
    clock::Timestamp,
    id::{PrincipalId, SavedId, TenantId, ToolId},
    store_error::StoreError,
    text_types::closed_enum,
};

/// The limit of views of a tenant, and of calls of one of its tools. A caller that may save one sees all of
/// them, so a refusal discloses no hidden items.
pub const MAX_SAVED: usize = 500;
/// The limit of items of one kind of a principal, so that one principal cannot use up the limit of
/// all.
pub const MAX_SAVED_BY_ONE: usize = 100;

closed_enum! {
    /// The kind of a saved item.
    SavedKind {
        /// A query of the record.
        View = "view",
        /// Arguments for a tool.
        Call = "call",
    }
}

/// An item that a principal saved for its tenant. Kind, tool and name identify it there. Names of
/// calls are unique per tool: a name in use would otherwise disclose a call of a tool that the
/// caller may not know.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SavedItem {
    /// Unique.
    pub id: SavedId,
    /// The tenant.
    pub tenant: TenantId,
    /// Its kind.
    pub kind: SavedKind,
    /// The tool of a call.
    pub tool: Option<ToolId>,
    /// A name for people.
    pub name: String,
    /// The query of a view, or the JSON text of the arguments of a call. `None` if it was sealed with a
    /// key that this server does not have.
    pub content: Option<String>,
    /// The principal that saved it.
    pub principal: PrincipalId,
    /// When it was saved last.
    pub saved_at: Timestamp,
}

impl SavedItem {
    /// The tenant, the kind, the tool (empty for a view) and the name, which identify it.
    pub fn place(&self) -> [&str; 4] {
        let tool = self.tool.as_ref().map_or("", ToolId::as_str);
        [self.tenant.as_str(), self.kind.as_str(), tool, &self.name]
    }
}

/// The items to list. Other items are not read, so the duration discloses nothing about them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SavedFilter {
    /// All views.
    Views,
    /// The calls of one tool.
    CallsOf(ToolId),
    /// The calls that a principal saved.
    CallsBy(PrincipalId),
}

/// The result of [`SavedStore::insert`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use]
pub enum SavedInsertion {
    /// The item is stored.
    Stored,
    /// Another item has this tenant, kind, tool and name.
    NameTaken {
        /// Its id.
        id: SavedId,
        /// The principal that saved it.
        principal: PrincipalId,
    },
    /// There are [`MAX_SAVED`] views of the tenant, or calls of the tool.
    PlaceFull,
    /// The principal has [`MAX_SAVED_BY_ONE`] items of this kind.
    PrincipalFull,
}

/// Saved views and calls. Their content is sealed if the store has a seal key.
#[async_trait]
pub trait SavedStore: Send + Sync + 'static {
    /// Stores a new item. The checks and the insertion are one step. An item without content is stored
    /// with an empty one.
    async fn insert(&self, item: SavedItem) -> Result<SavedInsertion, StoreError>;

    /// Replaces content and time of the item with the id, the tenant, the kind, the tool, the name
    /// and the principal of `item`. Returns `false` if it is not found.
    async fn replace(&self, item: SavedItem) -> Result<bool, StoreError>;

    /// Removes an item if `seen` saved it; otherwise returns `false`.
    async fn remove(
        &self,
        tenant: &TenantId,
        id: &SavedId,
        seen: &PrincipalId,
    ) -> Result<bool, StoreError>;

    /// Returns the items of a tenant that `filter` selects, by tool and name.
    async fn list(
        &self,
        tenant: &TenantId,
        filter: &SavedFilter,
    ) -> Result<Vec<SavedItem>, StoreError>;

    /// Finds an item.
    async fn find(&self, tenant: &TenantId, id: &SavedId) -> Result<Option<SavedItem>, StoreError>;
}
