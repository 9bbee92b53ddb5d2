//! The storage of a gateway: one [`Storage`] hands out every part and has the lifecycle.
//!
//! A part changes only its own data, except in these transactions, which succeed or fail as a
//! whole:
//! - [`ApprovalStore::open`] and [`ApprovalStore::change`] store events together with the request;
//! - [`KeyStore::insert_for_new_principal`] reads every part that names principals;
//! - [`RecordStore::prune`] keeps the events of calls and sessions that are open in the log;
//! - [`Storage::recover`] changes the log, the runs and the idempotent calls of a dead instance.

mod catalogs;
mod client_sessions;
mod runs;
mod segments;

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;

pub use self::{
    catalogs::CatalogStore,
    client_sessions::{ClientSession, ClientSessionStore, SessionNotice},
    runs::{KeptRun, RunQuery, RunRecord, RunState, RunStore},
    segments::{NewSegment, SegmentPart, SegmentStore},
};
use crate::{
    approval::ApprovalStore,
    bridge::BridgeStore,
    clock::Timestamp,
    credential::{CredentialStore, CredentialStoreError, GrantStore},
    event::EventLog,
    idempotency::IdempotencyStore,
    limit::RateLimiter,
    pin::PinStore,
    quota::QuotaStore,
    record::{RecordStore, SharedWitnesses},
};
pub use crate::{
    keys::{KeyRecord, KeyRotation, KeyStore, SESSION_ROWS_KEPT, SessionCredential},
    saved::{
        MAX_SAVED, MAX_SAVED_BY_ONE, SavedFilter, SavedInsertion, SavedItem, SavedKind, SavedStore,
    },
    store_error::StoreError,
};

/// Numbers that increase with changes made by any process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Changes {
    /// Keys that were inserted, rotated or revoked.
    pub keys: u64,
    /// Changes of pins.
    pub pins: u64,
    /// The last [`Approval::change`](crate::approval::Approval::change) that was assigned.
    pub approvals: u64,
    /// Requests to cancel runs.
    pub cancellations: u64,
    /// The last number of a notice about client sessions.
    pub sessions: u64,
    /// Saved catalogs that differ from the one before; 0 for an engine of one server.
    pub catalogs: u64,
}

/// Receives the duration of each transaction that a store has committed.
pub type CommitObserver = Arc<dyn Fn(Duration) + Send + Sync>;

/// Measurements of a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct StoreMeasures {
    /// Requests that wait for the writer.
    pub waiting: u64,
    /// The size of all data in bytes; `None` for an engine without a measurable one.
    pub bytes: Option<u64>,
}

/// An open store. Several processes may have the same one open.
///
/// An implementation passes `toolcrib_store::conformance`.
#[async_trait]
pub trait Storage: Send + Sync + 'static {
    /// The log of events, in which each tenant has its own positions.
    fn events(&self) -> Arc<dyn EventLog>;

    /// The same log with its chain and its checkpoints.
    fn record(&self) -> Arc<dyn RecordStore>;

    /// The witnesses of all servers of a shared store; `None` for an engine of one server.
    fn witnesses(&self) -> Option<Arc<dyn SharedWitnesses>> {
        None
    }

    /// The index of the log. It can be rebuilt from the log at any time.
    fn segments(&self) -> Arc<dyn SegmentStore>;

    /// The API keys.
    fn keys(&self) -> Arc<dyn KeyStore>;

    /// The last valid catalogs.
    fn catalogs(&self) -> Arc<dyn CatalogStore>;

    /// The pins of tools.
    fn pins(&self) -> Arc<dyn PinStore>;

    /// The approvals. Their events are in the log.
    fn approvals(&self) -> Arc<dyn ApprovalStore>;

    /// The runs of workflows.
    fn runs(&self) -> Arc<dyn RunStore>;

    /// The idempotent calls and their answers.
    fn idempotency(&self) -> Arc<dyn IdempotencyStore>;

    /// The closed sessions of clients.
    fn client_sessions(&self) -> Arc<dyn ClientSessionStore>;

    /// The items that people saved for others of their tenant.
    fn saved(&self) -> Arc<dyn SavedStore>;

    /// The counts of quotas.
    fn quotas(&self) -> Arc<dyn QuotaStore>;

    /// The buckets of rate limits that all servers share; `None` for an engine without shared
    /// buckets.
    fn limiter(&self) -> Option<Arc<dyn RateLimiter>> {
        None
    }

    /// The credentials that principals and tenants store for their calls.
    fn credentials(&self) -> Arc<dyn CredentialStore>;

    /// The accounts that people connected, and pending authorizations.
    fn grants(&self) -> Arc<dyn GrantStore>;

    /// The clients, sign-ins and grants of the authorization server for MCP clients.
    fn bridge(&self) -> Arc<dyn BridgeStore>;

    /// Returns the current numbers of changes. With `seen`, waits until they differ, but at most
    /// about half a second: the reply confirms that the store can be read and that nothing else has
    /// changed.
    async fn changes(&self, seen: Option<Changes>) -> Result<Changes, StoreError>;

    /// Returns the ids of the instances that have the store open, including this one.
    async fn instances(&self) -> Result<Vec<String>, StoreError>;

    /// Whether several servers may use the store at once. Each of them then calls
    /// [`recover`](Self::recover) repeatedly, for the others.
    fn is_shared(&self) -> bool {
        false
    }

    /// Whether this instance does the work `duty`. At most one living instance does; another takes
    /// over after it dies. Always `true` for an engine of a single server.
    async fn leads(&self, _duty: &str) -> Result<bool, StoreError> {
        Ok(true)
    }

    /// Whether this instance still owns its calls: no other instance has closed them as those of a
    /// dead one, and none will in the next moments. Always `true` for an engine of a single server.
    async fn is_alive(&self) -> Result<bool, StoreError> {
        Ok(true)
    }

    /// Hands the work `duty` to another instance, if this one does it.
    async fn resign(&self, _duty: &str) -> Result<(), StoreError> {
        Ok(())
    }

    /// Closes every call of a dead instance with an `agent.toolReturned` of status `error` and code
    /// `interrupted`. Then closes its tool sessions with a `tool.session.closed` of outcome
    /// `failed`. Returns how many of both it closed. Takes over a durable workflow run together
    /// with its call instead; [`RunStore::adopted`] lists it. An idempotent call that did not run
    /// frees its key. Data of living instances, including this one, is unchanged. Safe to run in
    /// any number of processes at once.
    ///
    /// # Errors
    /// Fails with [`StoreError`]; everything closed before the failure stays closed.
    async fn recover(&self, now: Timestamp) -> Result<usize, StoreError>;

    /// Reseals with the current key the values that an older key sealed, and returns their number.
    /// Servers that know both keys may run meanwhile.
    ///
    /// # Errors
    /// Fails at the first value that cannot be opened; earlier values stay resealed.
    async fn reseal(&self) -> Result<usize, CredentialStoreError>;

    /// Checks all files and returns the defects that the engine itself finds; empty for a sound
    /// store.
    async fn damage(&self) -> Result<Vec<String>, StoreError>;

    /// Returns the bytes that the store may still use; `None` if it is on another machine. Blocks
    /// for as long as the file system takes.
    fn free_space(&self) -> Result<Option<u64>, StoreError>;

    /// Calls `observer` after each transaction of the writer. Only the first observer counts.
    fn observe_commits(&self, _observer: CommitObserver) {}

    /// Current measurements, for operators.
    async fn measure(&self) -> Result<StoreMeasures, StoreError> {
        Ok(StoreMeasures::default())
    }

    /// Stores all accepted data and releases this instance. Afterwards operations of an engine with
    /// files fail with [`StoreError::Unavailable`].
    ///
    /// The next [`recover`](Self::recover) closes calls that are still open as interrupted, so
    /// finish them first.
    async fn close(&self);

    /// Waits until the store cannot be written any more: it was closed, or its engine failed.
    async fn ended(&self);
}
