//! Events of API keys.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    clock::Timestamp,
    id::{KeyId, PrincipalId},
    store::KeyRecord,
};

/// Payload of `key.changed`. It has neither the name nor the text of the key.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct KeyChanged {
    /// The principal that made the change.
    pub principal: PrincipalId,
    /// The id of the key.
    pub key_id: KeyId,
    /// The action.
    pub action: KeyAction,
    /// The principal of the key.
    pub holder: PrincipalId,
    /// The roles of the key.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub roles: Vec<String>,
    /// The scopes of the key beyond its roles.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub scopes: Vec<String>,
    /// When the key expires.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub expires_at: Option<Timestamp>,
    /// The key that this one replaces.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub replaces: Option<KeyId>,
}

/// An action on a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum KeyAction {
    /// Created it, also in place of another one.
    Created,
    /// Revoked it.
    Revoked,
}

// === impl KeyChanged ===

impl KeyChanged {
    /// Creates the payload for an action of `principal` on `key`.
    pub fn new(principal: PrincipalId, action: KeyAction, key: &KeyRecord) -> Self {
        Self {
            principal,
            key_id: key.id.clone(),
            action,
            holder: key.principal.clone(),
            roles: key.roles.clone(),
            scopes: key.scopes.iter().map(ToString::to_string).collect(),
            expires_at: key.expires_at,
            replaces: key.replaces.clone(),
        }
    }
}
