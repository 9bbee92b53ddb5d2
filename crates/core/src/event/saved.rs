//! Events of saved views and calls.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    id::{PrincipalId, SavedId, ToolId},
    store::SavedKind,
};

/// Payload of `saved.changed`. It has no name, query or argument.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SavedChanged {
    /// The principal that changed the item.
    pub principal: PrincipalId,
    /// The id of the item.
    pub saved_id: SavedId,
    /// `view` or `call`.
    pub kind: SavedKind,
    /// The action.
    pub action: SavedAction,
    /// The tool of a call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_id: Option<ToolId>,
}

/// An action on a saved item.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum SavedAction {
    /// Saved a new one.
    Added,
    /// Saved it again with other content.
    Replaced,
    /// Removed it.
    Removed,
}
