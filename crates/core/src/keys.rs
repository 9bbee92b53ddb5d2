//! The storage trait for API keys.

use std::sync::Arc;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use crate::{
    clock::Timestamp,
    id::{KeyId, PrincipalId, TenantId},
    principal::Token,
    scope::Grant,
    store_error::StoreError,
};

/// One API key, without the key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyRecord {
    /// Its identifier.
    pub id: KeyId,
    /// Name for people.
    pub name: String,
    /// Tenant of the principal.
    pub tenant: TenantId,
    /// The bearer's principal.
    pub principal: PrincipalId,
    /// SHA-256 of the whole key text.
    pub digest: [u8; 32],
    /// Names of roles in the configuration; an unknown role gives no scope.
    pub roles: Vec<String>,
    /// Scopes held in addition to those of the roles.
    pub scopes: Vec<Grant>,
    /// When it was created.
    pub created_at: Timestamp,
    /// When it expires.
    pub expires_at: Option<Timestamp>,
    /// When it was revoked.
    pub revoked_at: Option<Timestamp>,
    /// When it was last used, as recorded: up to about a minute late.
    pub last_used_at: Option<Timestamp>,
    /// The key that it was created to replace.
    pub replaces: Option<KeyId>,
    /// Principals of its tenant that have handled its text, or that of a key it was created with.
    /// Empty when the operator created it.
    pub makers: Vec<PrincipalId>,
    /// Present if this is a browser session or an access token of a client instead of a key. Both
    /// have no roles and scopes themselves.
    pub session: Option<SessionCredential>,
}

/// The credential that a browser session or an access token represents. It is valid only while the
/// credential is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum SessionCredential {
    /// A key.
    Key(KeyId),
    /// A token of an issuer.
    Token(Arc<Token>),
    /// Not a session, but an access token of the client in the token.
    Access(Arc<Token>),
}

impl KeyRecord {
    /// Whether this is a browser session.
    pub fn is_session(&self) -> bool {
        use SessionCredential::{Access, Key, Token};
        match self.session {
            Some(Key(_) | Token(_)) => true,
            Some(Access(_)) | None => false,
        }
    }
}

/// How long an expired session stays in the store. More than the clocks of two servers can differ.
pub const SESSION_ROWS_KEPT: chrono::TimeDelta = chrono::TimeDelta::days(1);

/// The result of [`KeyStore::rotate`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum KeyRotation {
    /// The new key is stored.
    Rotated,
    /// No key with this id is active: it is unknown, revoked, or expired when the new key is made.
    /// The store is unchanged.
    NoActiveKey,
    /// Another unrevoked key replaces this one already, whether or not this one is still active.
    /// The store is unchanged.
    AlreadyReplaced,
}

/// API keys.
#[async_trait]
pub trait KeyStore: Send + Sync + 'static {
    /// Stores a new key. With a session or an access token, also deletes those that expired more than
    /// [`SESSION_ROWS_KEPT`] before it was created: by then they have expired by the clock of every
    /// server. Fails with [`StoreError::Conflict`] if the id or the digest exists.
    async fn insert(&self, key: KeyRecord) -> Result<(), StoreError>;

    /// Stores a new key if its principal is new; otherwise returns `false` and changes nothing. The
    /// tenant of a new principal has no key of that name, including revoked and expired ones. It
    /// also has no approval, run, quota, idempotent call, credential or saved item of that
    /// principal. The checks and the insertion are one step. Fails with [`StoreError::Conflict`]
    /// like [`insert`](Self::insert).
    async fn insert_for_new_principal(&self, key: KeyRecord) -> Result<bool, StoreError>;

    /// Returns all keys, including revoked and expired ones, by creation time.
    async fn list(&self) -> Result<Vec<KeyRecord>, StoreError>;

    /// The keys that were inserted, rotated or revoked after
    /// [`Changes::keys`](crate::store::Changes::keys) was `epoch`, in any order. The cost does not grow
    /// with the other keys.
    async fn changed_since(&self, epoch: u64) -> Result<Vec<KeyRecord>, StoreError>;

    /// Revokes a key; returns `false` if no unrevoked key has that id.
    async fn revoke(&self, id: &KeyId, at: Timestamp) -> Result<bool, StoreError>;

    /// Stores `new`, which replaces the key `old`, and lets `old` expire at `until` or earlier:
    /// both or neither. The checks of [`KeyRotation`] and the change are one step, across processes
    /// too: exactly one of several parallel rotations of a key succeeds. Fails with
    /// [`StoreError::Conflict`] like [`insert`](Self::insert).
    async fn rotate(
        &self,
        old: &KeyId,
        new: KeyRecord,
        until: Timestamp,
    ) -> Result<KeyRotation, StoreError>;

    /// Records when keys were last used. Ignores unknown keys and earlier times. Does not count in
    /// [`Changes`](crate::store::Changes).
    async fn note_used(&self, used: Vec<(KeyId, Timestamp)>) -> Result<(), StoreError>;
}
