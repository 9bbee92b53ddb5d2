//! What the authorization server of MCP clients keeps: registered clients, sign-ins in progress, the
//! grants of clients, and used assertions.
//!
//! Invariant: values are sealed, bound to every other field but the time of creation. The ids of
//! sign-ins and assertions are hashes.

use async_trait::async_trait;

use crate::{
    clock::Timestamp,
    credential::{CredentialStoreError, Secret},
    id::{CredentialId, PrincipalId, TenantId},
    principal::PrincipalKey,
};

/// An item without its value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BridgeItem {
    /// What it is.
    pub kind: BridgeKind,
    /// Unique among all items.
    pub id: CredentialId,
    /// The person; `None` before the sign-in.
    pub owner: Option<PrincipalKey>,
    /// When it was created.
    pub created_at: Timestamp,
    /// When it expires. It is then removed.
    pub expires_at: Timestamp,
    /// Increases by one with every change.
    pub revision: u64,
}

/// The kinds of items.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum BridgeKind {
    /// A client that registered itself (RFC 7591).
    Client,
    /// A person who is away at the identity provider.
    SignIn,
    /// The permission of a client to act for a person, with the hashes of its current tokens.
    Grant,
    /// An assertion that must not be used again.
    Assertion,
}

/// Items, sealed at rest. Methods that read or write values fail with
/// [`CredentialStoreError::NoKey`] without a seal key.
#[async_trait]
pub trait BridgeStore: Send + Sync + 'static {
    /// Stores an item, and removes those of its kind that have expired when it was created. Returns
    /// `false` if there are `most` others of its kind. Fails with a conflict if the id exists.
    async fn add(
        &self,
        item: BridgeItem,
        value: Secret,
        most: u64,
    ) -> Result<bool, CredentialStoreError>;

    /// Returns an item, unless it has expired at `now`.
    async fn get(
        &self,
        kind: BridgeKind,
        id: &CredentialId,
        now: Timestamp,
    ) -> Result<Option<(BridgeItem, Secret)>, CredentialStoreError>;

    /// Replaces expiry and value of an item if its revision is still that of `item`; the revision
    /// increases by one. Returns `false` if it was removed or changed meanwhile.
    async fn change(&self, item: BridgeItem, value: Secret) -> Result<bool, CredentialStoreError>;

    /// Removes an item and returns it, unless it has expired at `now`. Only one of several callers
    /// receives it.
    async fn take(
        &self,
        kind: BridgeKind,
        id: &CredentialId,
        now: Timestamp,
    ) -> Result<Option<(BridgeItem, Secret)>, CredentialStoreError>;

    /// The grants of a tenant, or of one of its principals, by id, expired ones included. Those that
    /// were changed, or sealed with a key that is missing, are left out.
    async fn grants(
        &self,
        tenant: &TenantId,
        principal: Option<&PrincipalId>,
    ) -> Result<Vec<(BridgeItem, Secret)>, CredentialStoreError>;

    /// Removes the items that have expired at `now`, and returns their number. Requires no key.
    async fn sweep(&self, now: Timestamp) -> Result<u64, CredentialStoreError>;
}

// === impl BridgeItem ===

impl BridgeItem {
    /// The tenant and the principal of its owner; both are empty without one.
    pub fn owner_parts(&self) -> [&str; 2] {
        let owner = self.owner.as_ref();
        owner.map_or([""; 2], |owner| [owner.tenant.as_str(), owner.principal.as_str()])
    }
}

// === impl BridgeKind ===

impl BridgeKind {
    /// The word in the store.
    pub fn word(self) -> &'static str {
        match self {
            Self::Client => "client",
            Self::SignIn => "sign-in",
            Self::Grant => "grant",
            Self::Assertion => "assertion",
        }
    }

    /// The kind of a word.
    pub fn parse(word: &str) -> Option<Self> {
        let all = [Self::Client, Self::SignIn, Self::Grant, Self::Assertion];
        all.into_iter().find(|kind| kind.word() == word)
    }
}
