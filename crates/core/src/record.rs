//! The tamper-evident record: the hash chain of each tenant's events, its signed checkpoints, and
//! the storage trait for both.
//!
//! Invariants:
//! - The hash of an event covers its stored columns and the hash of the previous event in its
//!   tenant's log. Changing, removing, moving or inserting an event therefore changes every later
//!   hash (I-71).
//! - A checkpoint signs tenant, position and hash, and the checkpoint before it.

mod chain;
mod checkpoint;
mod deliver;
mod export;
mod witness;

use std::collections::HashMap;

use async_trait::async_trait;

pub use self::{
    chain::{CheckedLink, HashedParts, Link, StoredEvent, genesis},
    checkpoint::{Checkpoint, CheckpointKind, InvalidCheckpoint, NO_CHECKPOINT, Signature, key_id},
    deliver::{
        CheckpointSigner, Delivery, DeliveryError, DeliveryFactory, Destination, SavedWitness,
        SharedWitnesses, WitnessStore,
    },
    export::{ExportedEvent, RecordFormat},
    witness::{Witness, WitnessEntry},
};
use crate::{canonical::Digest, clock::Timestamp, id::TenantId, store::StoreError};

/// Which stored events to read, oldest first.
#[derive(Debug, Clone, Default)]
pub struct StoredQuery {
    /// Only this tenant's events. Positions are then those of its own log, else those of the whole
    /// log.
    pub tenant: Option<TenantId>,
    /// Only events at greater positions.
    pub after: u64,
    /// The most to return; 0 means the store's own cap (1 000).
    pub limit: usize,
    /// Whether to read [`StoredEvent::prev`].
    pub with_prev: bool,
}

/// The last event of a tenant's log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Head {
    /// The tenant.
    pub tenant: TenantId,
    /// Position of its last event.
    pub position: u64,
    /// Hash of that event.
    pub hash: Digest,
}

/// The last events of logs, from the memory of the process that appends to them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KnownHeads {
    /// Changes if anything but this process may have changed the log since the last answer. With
    /// the same number, this process has appended every event in between.
    pub generation: u64,
    /// Position and hash of the last event of each tenant that received events in this generation.
    pub heads: HashMap<TenantId, (u64, Digest)>,
}

/// A tenant whose log has grown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogGrowth {
    /// The tenant.
    pub tenant: TenantId,
    /// Position of its last event.
    pub position: u64,
    /// Hash of that event; `None` when the stored hash is malformed.
    pub hash: Option<Digest>,
    /// Position of its last checkpoint other than a retention mark; 0 without one.
    pub checkpointed: u64,
}

/// The progress of a reader of the whole log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cursor {
    /// The reader's name.
    pub name: String,
    /// Position in the whole log of the last processed event.
    pub position: u64,
    /// When it last moved.
    pub moved_at: Option<Timestamp>,
    /// When it stopped moving, although there are new events.
    pub failing_since: Option<Timestamp>,
    /// Failed attempts since then.
    pub failures: u64,
    /// Why the last attempt failed: a fixed text, never a receiver's own words.
    pub problem: Option<String>,
}

/// The stored record, its checkpoints, and the cursors of its readers.
///
/// An implementation passes `toolcrib_store::conformance`.
#[async_trait]
pub trait RecordStore: Send + Sync + 'static {
    /// The problem of the storage location: it was removed, emptied or replaced. `None` if it is
    /// sound.
    async fn displaced(&self) -> Option<&'static str> {
        None
    }

    /// Reads events exactly as stored, including malformed ones.
    async fn stored(&self, query: StoredQuery) -> Result<Vec<StoredEvent>, StoreError>;

    /// Recomputes the chain of the log of `tenant`, from the event after position `after`, whose
    /// hash is `hash`. Returns a page of links, oldest first; empty at the end of the log.
    async fn check_links(
        &self,
        tenant: &TenantId,
        after: u64,
        hash: Digest,
    ) -> Result<Vec<CheckedLink>, StoreError> {
        let tenant = Some(tenant.clone());
        let query = StoredQuery { tenant, after, ..StoredQuery::default() };
        let mut prev = hash;
        let check = |event: StoredEvent| {
            prev = event.hash_after(&prev);
            CheckedLink { position: event.tenant_position, stored: event.hash, computed: prev }
        };
        Ok(self.stored(query).await?.into_iter().map(check).collect())
    }

    /// The last events of the logs that this process has appended to, without reading the logs;
    /// `None` if the store does not know them.
    async fn known_heads(&self) -> Result<Option<KnownHeads>, StoreError> {
        Ok(None)
    }

    /// The position of the last event of the whole log, including pruned ones; 0 before the first
    /// event.
    async fn last_position(&self) -> Result<u64, StoreError>;

    /// The last event of the log of `tenant`; `None` if the log is empty.
    async fn head(&self, tenant: &TenantId) -> Result<Option<Head>, StoreError>;

    /// Returns the tenants with an event or a checkpoint, by name, after `after`. At most 1 000.
    async fn tenants(&self, after: Option<&TenantId>) -> Result<Vec<TenantId>, StoreError>;

    /// Returns the tenants of the events of the whole log after `after` and up to `to`.
    async fn news(&self, after: u64, to: u64) -> Result<Vec<LogGrowth>, StoreError>;

    /// Appends a checkpoint to those of its tenant. Returns `false` and changes nothing if its
    /// number is not the next one, or if it contradicts the stored events.
    async fn add_checkpoint(&self, checkpoint: Checkpoint) -> Result<bool, StoreError>;

    /// The checkpoints of a tenant with numbers greater than `after`, in order. At most 1 000.
    async fn checkpoints(
        &self,
        tenant: &TenantId,
        after: u64,
    ) -> Result<Vec<Checkpoint>, StoreError>;

    /// The checkpoint of a tenant with the greatest number.
    async fn last_checkpoint(&self, tenant: &TenantId) -> Result<Option<Checkpoint>, StoreError>;

    /// The newest checkpoint of a tenant of kind [`CheckpointKind::Head`] up to which events may be
    /// pruned. It was signed before `before` and is not the end of the tenant's log. No event up to
    /// it is after position `delivered` of the whole log, or belongs to an open call or session.
    async fn prunable(
        &self,
        tenant: &TenantId,
        before: Timestamp,
        delivered: u64,
    ) -> Result<Option<Checkpoint>, StoreError>;

    /// Removes events of a tenant, oldest first, up to the position in its last mark of kind
    /// [`CheckpointKind::Pruned`], at most `limit` events. Returns how many it removed. With the
    /// last event it also removes the checkpoints before the one that the mark was made from. The
    /// remaining checkpoints are then a chain without a gap.
    async fn prune(&self, tenant: &TenantId, limit: usize) -> Result<usize, StoreError>;

    /// Removes whole parts of the log in which marks of kind [`CheckpointKind::Pruned`] cover the
    /// events of every tenant, if the engine supports this. Returns how many events it removed.
    /// [`prune`](Self::prune) removes the rest, and the checkpoints.
    async fn drop_pruned(&self) -> Result<usize, StoreError> {
        Ok(0)
    }

    /// All cursors, by name.
    async fn cursors(&self) -> Result<Vec<Cursor>, StoreError>;

    /// Stores a cursor, replacing the one with its name.
    async fn set_cursor(&self, cursor: Cursor) -> Result<(), StoreError>;
}
