//! The storage trait for approvals.

use async_trait::async_trait;

use super::request::{Approval, ApprovalState, Fingerprint};
use crate::{
    clock::Timestamp,
    event::NewEvent,
    id::{ApprovalId, PrincipalId, TenantId},
    store::StoreError,
};

/// The most approvals that one principal may have pending.
pub const MAX_PENDING: usize = 100;

/// The result of opening an approval.
#[derive(Debug, Clone, PartialEq)]
pub enum OpenOutcome {
    /// The request and its event are stored.
    Opened(Box<Approval>),
    /// The same call already has an approval in force.
    Existing(Box<Approval>),
    /// This principal has too many pending approvals.
    LimitReached,
}

/// Which approvals to list, newest first. Lists omit the arguments.
#[derive(Debug, Clone, Default)]
pub struct ApprovalQuery {
    /// Only this tenant's.
    pub tenant: Option<TenantId>,
    /// Only those that this principal requested.
    pub principal: Option<PrincipalId>,
    /// Only in this state.
    pub state: Option<ApprovalState>,
    /// Only those in force that expire by this time.
    pub overdue: Option<Timestamp>,
    /// Only those changed after this change number, in the order of their changes.
    pub changed_after: Option<u64>,
    /// Only those after this one in a list of the newest: requested before it, or at the same time
    /// with a smaller id.
    pub older_than: Option<(Timestamp, ApprovalId)>,
    /// The most to return; 0 means the store's own cap (1 000).
    pub limit: usize,
}

/// Approval requests.
///
/// An implementation passes `toolcrib_store::conformance`.
#[async_trait]
pub trait ApprovalStore: Send + Sync + 'static {
    /// Computes the fingerprint of `parts`; different parts have different fingerprints, and the
    /// first one names their purpose. The key is created on first use and never leaves the store.
    async fn fingerprint(&self, parts: Vec<Vec<u8>>) -> Result<Fingerprint, StoreError>;

    /// Returns the approval in force with that fingerprint.
    async fn live(
        &self,
        tenant: &TenantId,
        fingerprint: &Fingerprint,
    ) -> Result<Option<Approval>, StoreError>;

    /// Stores `approval` and `event`, both or neither, unless one with its fingerprint is in force.
    /// `arguments` is the displayable form of the call's arguments; a store that cannot seal them
    /// discards them.
    async fn open(
        &self,
        approval: Approval,
        arguments: Option<String>,
        event: NewEvent,
    ) -> Result<OpenOutcome, StoreError>;

    /// Replaces the approval with the same id and stores `events`, both or neither. Returns `false`
    /// if the stored revision differs from that of `approval`. Deletes the displayable arguments as
    /// soon as the approval is out of force.
    async fn change(&self, approval: Approval, events: Vec<NewEvent>) -> Result<bool, StoreError>;

    /// Finds one approval, with the displayable arguments of its call.
    async fn find(
        &self,
        tenant: &TenantId,
        id: &ApprovalId,
    ) -> Result<Option<(Approval, Option<String>)>, StoreError>;

    /// Returns the approvals that `query` selects.
    async fn list(&self, query: ApprovalQuery) -> Result<Vec<Approval>, StoreError>;

    /// The number of pending approvals of all tenants.
    async fn pending(&self) -> Result<u64, StoreError>;

    /// Returns the last change that `reader` has acknowledged. A new reader starts with the changes
    /// after its first request.
    async fn cursor(&self, reader: &str) -> Result<u64, StoreError>;

    /// Records that `reader` has seen every change up to `change`.
    async fn acknowledge(&self, reader: &str, change: u64) -> Result<(), StoreError>;

    /// Deletes the approvals created before `before` that are out of force, and returns their
    /// number.
    async fn prune(&self, before: Timestamp) -> Result<usize, StoreError>;
}
