//! The seam behind which approvals are kept.

use std::fmt;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use super::request::{Approval, ApprovalState};
use crate::{
    clock::Timestamp,
    event::NewEvent,
    id::{ApprovalId, PrincipalId, TenantId},
    store::StoreError,
};

/// Approvals that one principal may have waiting at once.
pub const MAX_PENDING: usize = 100;

/// Tells a call from every other: HMAC-SHA-256, in lower hex, under a random key of the store over
/// everything that a consent is bound to.
///
/// The hash of a call in the record (`argsHash`) is over redacted arguments, so two calls that differ
/// in a secret have the same; their fingerprints differ, and tell nothing without the key.
#[derive(Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Fingerprint(pub String);

impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Fingerprint(..)")
    }
}

/// What came of asking for consent.
#[derive(Debug, Clone, PartialEq)]
pub enum Opened {
    /// The request is stored, and its event.
    Asked(Box<Approval>),
    /// The same call has been asked for already, and that still counts.
    Known(Box<Approval>),
    /// Too many of this principal's are waiting.
    Full,
}

/// Which approvals to list; the newest come first, and none is told with its arguments.
#[derive(Debug, Clone, Default)]
pub struct ApprovalQuery {
    /// Only this tenant's.
    pub tenant: Option<TenantId>,
    /// Only those that this principal asked for.
    pub principal: Option<PrincipalId>,
    /// Only in this state.
    pub state: Option<ApprovalState>,
    /// Only those that still count and have ended by then.
    pub overdue: Option<Timestamp>,
    /// Only those changed after this; then those that changed first come first.
    pub changed_after: Option<u64>,
    /// At most this many; 0 means the store's own cap (1 000).
    pub limit: usize,
}

/// Requests for consent.
///
/// An implementation passes `toolcrib_store::conformance`.
#[async_trait]
pub trait ApprovalStore: Send + Sync + 'static {
    /// The fingerprint of `parts`, which no others share. The key is made on first use and never
    /// leaves the store.
    async fn fingerprint(&self, parts: Vec<Vec<u8>>) -> Result<Fingerprint, StoreError>;

    /// The approval of that fingerprint that still counts.
    async fn live(
        &self,
        tenant: &TenantId,
        fingerprint: &Fingerprint,
    ) -> Result<Option<Approval>, StoreError>;

    /// Stores `approval` and `event`, both or neither, unless one of its fingerprint still counts.
    /// `arguments` are what may be shown of the call; a store that cannot seal them forgets them.
    async fn open(
        &self,
        approval: Approval,
        arguments: Option<String>,
        event: NewEvent,
    ) -> Result<Opened, StoreError>;

    /// Replaces the approval of the same id, and stores `events`, both or neither; `false` when it
    /// is no longer of the revision that `approval` has. What may be shown of a call is gone with
    /// the first change after which it does not count any more.
    async fn change(&self, approval: Approval, events: Vec<NewEvent>) -> Result<bool, StoreError>;

    /// One approval, with what may be shown of its call.
    async fn find(
        &self,
        tenant: &TenantId,
        id: &ApprovalId,
    ) -> Result<Option<(Approval, Option<String>)>, StoreError>;

    /// The approvals that `query` selects.
    async fn list(&self, query: ApprovalQuery) -> Result<Vec<Approval>, StoreError>;

    /// The last [`Approval::change`] that was given out. Cheap.
    async fn epoch(&self) -> Result<u64, StoreError>;

    /// The last change that `reader` has been told of; it begins with those that come after its
    /// first question.
    async fn cursor(&self, reader: &str) -> Result<u64, StoreError>;

    /// `reader` has been told of every change up to `change`.
    async fn told(&self, reader: &str, change: u64) -> Result<(), StoreError>;

    /// Forgets the approvals that do not count any more and were created before; how many.
    async fn prune(&self, before: Timestamp) -> Result<usize, StoreError>;
}
