//! What makes the record prove itself: the chain of each tenant's events, signed checkpoints of it,
//! and the seam behind which both are kept.
//!
//! Invariants:
//! - the hash of an event covers every stored column of it and the hash of the event before it in
//!   its tenant's log, so that no event can be changed, removed, moved or put in without changing
//!   every hash after it (I-71);
//! - what a checkpoint signs names tenant, position and hash, and the checkpoint before it.

mod chain;
mod checkpoint;
mod deliver;
mod export;
mod witness;

use async_trait::async_trait;

pub use self::{
    chain::{Link, StoredEvent, genesis},
    checkpoint::{Checkpoint, CheckpointKind, InvalidCheckpoint, NO_CHECKPOINT, Signature, key_id},
    deliver::{
        CheckpointSigner, Delivery, DeliveryError, DeliveryFactory, Destination, WitnessStore,
    },
    export::ExportedEvent,
    witness::{Witness, Witnessed},
};
use crate::{canonical::Digest, clock::Timestamp, id::TenantId, store::StoreError};

/// Which stored events to read, oldest first.
#[derive(Debug, Clone, Default)]
pub struct StoredQuery {
    /// Only this tenant's. Then positions are those of its own log, else those of the whole log.
    pub tenant: Option<TenantId>,
    /// Only events at greater positions.
    pub after: u64,
    /// At most this many; 0 means the store's own cap (1 000).
    pub limit: usize,
    /// Whether [`StoredEvent::prev`] is wanted.
    pub with_prev: bool,
}

/// Where a tenant's log ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Head {
    /// Whose log.
    pub tenant: TenantId,
    /// Position of its last event.
    pub position: u64,
    /// Hash of that event.
    pub hash: Digest,
}

/// A tenant whose log has grown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct News {
    /// Whose log.
    pub tenant: TenantId,
    /// Position of its last event.
    pub position: u64,
    /// Hash of that event; `None` when what is stored is none.
    pub hash: Option<Digest>,
    /// Position of its last checkpoint that is no mark of retention, 0 when it has none.
    pub checkpointed: u64,
}

/// How far something that reads the whole log has come.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cursor {
    /// Whose cursor it is.
    pub name: String,
    /// Position in the whole log of the last event that is done with.
    pub position: u64,
    /// When it last moved.
    pub moved_at: Option<Timestamp>,
    /// Since when it does not move, although there is news.
    pub failing_since: Option<Timestamp>,
    /// Attempts in vain since then.
    pub failures: u64,
    /// Why the last one was in vain: a fixed text, never a receiver's own words.
    pub problem: Option<String>,
}

/// The record as it is stored, its checkpoints, and the cursors of those who read it.
///
/// An implementation passes `toolcrib_store::conformance`.
#[async_trait]
pub trait RecordStore: Send + Sync + 'static {
    /// What is wrong with the place where the record is kept: it is gone, emptied or replaced by
    /// another one. `None` for a sound one.
    async fn displaced(&self) -> Option<&'static str> {
        None
    }

    /// Events exactly as they are stored, also when they make no sense.
    async fn stored(&self, query: StoredQuery) -> Result<Vec<StoredEvent>, StoreError>;

    /// Position of the last event of the whole log, pruned ones included; 0 when there never was one.
    async fn last_position(&self) -> Result<u64, StoreError>;

    /// Where the log of `tenant` ends; `None` when it has no event.
    async fn head(&self, tenant: &TenantId) -> Result<Option<Head>, StoreError>;

    /// Every tenant that has an event or a checkpoint, by name, after `after`, at most 1 000.
    async fn tenants(&self, after: Option<&TenantId>) -> Result<Vec<TenantId>, StoreError>;

    /// The tenants of the events of the whole log after `after` and up to `to`.
    async fn news(&self, after: u64, to: u64) -> Result<Vec<News>, StoreError>;

    /// Appends a checkpoint to those of its tenant. `false`, and nothing stored, when its number is
    /// not the next one or what it says is not what is stored.
    async fn add_checkpoint(&self, checkpoint: Checkpoint) -> Result<bool, StoreError>;

    /// The checkpoints of a tenant whose number is greater than `after`, in order, at most 1 000.
    async fn checkpoints(
        &self,
        tenant: &TenantId,
        after: u64,
    ) -> Result<Vec<Checkpoint>, StoreError>;

    /// The checkpoint of a tenant with the greatest number.
    async fn last_checkpoint(&self, tenant: &TenantId) -> Result<Option<Checkpoint>, StoreError>;

    /// The newest checkpoint of a tenant of kind [`CheckpointKind::Head`] up to which everything may
    /// go: signed before `before`, with no event up to it after position `delivered` of the whole
    /// log or of a call or a session that is open, and not the end of the tenant's log.
    async fn prunable(
        &self,
        tenant: &TenantId,
        before: Timestamp,
        delivered: u64,
    ) -> Result<Option<Checkpoint>, StoreError>;

    /// Removes events of a tenant, oldest first, up to the position that its last mark of kind
    /// [`CheckpointKind::Pruned`] names; at most `limit` events. Returns how many there were. With the
    /// last of them it removes the checkpoints whose number is below that of the checkpoint that the
    /// mark was made of, so that those that stay are a chain without a gap.
    async fn prune(&self, tenant: &TenantId, limit: usize) -> Result<usize, StoreError>;

    /// Every cursor, by name.
    async fn cursors(&self) -> Result<Vec<Cursor>, StoreError>;

    /// Stores a cursor, replacing the one of its name.
    async fn set_cursor(&self, cursor: Cursor) -> Result<(), StoreError>;
}
