//! Storage in memory, for tests and for embedders that need no durability.
//!
//! The content is unbounded and does not survive the process. Times have millisecond precision, as
//! in the durable engines.

mod approvals;
mod bridge;
mod catalogs;
mod client_sessions;
mod credentials;
mod grants;
mod idempotency;
mod keys;
mod log;
mod pins;
mod quotas;
mod record;
mod runs;
mod saved;
mod segments;
mod shared;

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use tokio::sync::watch;
use toolcrib_core::{
    approval::ApprovalStore,
    bridge::BridgeStore,
    clock::Timestamp,
    credential::{CredentialStore, CredentialStoreError, GrantStore},
    event::EventLog,
    idempotency::IdempotencyStore,
    pin::{Pin, PinStore},
    quota::QuotaStore,
    record::RecordStore,
    store::{
        CatalogStore, Changes, ClientSessionStore, KeyStore, RunStore, SavedStore, SegmentStore,
        Storage, StoreError,
    },
};

use self::{
    approvals::MemoryApprovals, bridge::MemoryBridge, client_sessions::MemoryClientSessions,
    grants::MemoryGrants, idempotency::MemoryIdempotency, keys::MemoryKeys, pins::MemoryPins,
    quotas::MemoryQuotas, runs::MemoryRuns, saved::MemorySaved, segments::MemorySegments,
    shared::ChangeCounter,
};
pub use self::{catalogs::MemoryCatalogs, credentials::MemoryCredentials, log::MemoryLog};

/// The longest wait for a change.
const CONFIRMATION: Duration = Duration::from_millis(200);

/// A storage in memory. Clones share the content. Each part can be replaced, which other parts do
/// not notice.
#[derive(Clone)]
#[expect(missing_docs, reason = "the parts are those of `Storage`")]
pub struct MemoryStorage {
    pub events: Arc<dyn EventLog>,
    pub record: Arc<dyn RecordStore>,
    pub segments: Arc<dyn SegmentStore>,
    pub keys: Arc<dyn KeyStore>,
    pub catalogs: Arc<dyn CatalogStore>,
    pub pins: Arc<dyn PinStore>,
    pub approvals: Arc<dyn ApprovalStore>,
    pub runs: Arc<dyn RunStore>,
    pub idempotency: Arc<dyn IdempotencyStore>,
    pub client_sessions: Arc<dyn ClientSessionStore>,
    pub saved: Arc<dyn SavedStore>,
    pub quotas: Arc<dyn QuotaStore>,
    pub credentials: Arc<dyn CredentialStore>,
    pub grants: Arc<dyn GrantStore>,
    pub bridge: Arc<dyn BridgeStore>,
    changes: Arc<ChangeCounter>,
    closed: watch::Sender<bool>,
}

impl MemoryStorage {
    /// Creates an empty storage whose events, those of approvals included, go to `events`.
    pub fn with_events(events: impl EventLog) -> Self {
        Self::over(Arc::new(events), Arc::new(MemoryLog::default()), Vec::new())
    }

    /// Creates a storage with only these pins.
    pub(crate) fn with_pins(pins: Vec<Pin>) -> Self {
        let log = Arc::new(MemoryLog::default());
        Self::over(Arc::clone(&log) as _, log, pins)
    }

    fn over(events: Arc<dyn EventLog>, record: Arc<dyn RecordStore>, pins: Vec<Pin>) -> Self {
        let changes = Arc::default();
        Self {
            record,
            segments: Arc::new(MemorySegments::default()),
            keys: Arc::new(MemoryKeys::new(&changes)),
            catalogs: Arc::new(MemoryCatalogs::default()),
            pins: Arc::new(MemoryPins::new(pins, &changes)),
            approvals: Arc::new(MemoryApprovals::new(Arc::clone(&events), &changes)),
            runs: Arc::new(MemoryRuns::new(&changes)),
            idempotency: Arc::new(MemoryIdempotency::default()),
            client_sessions: Arc::new(MemoryClientSessions::new(&changes)),
            saved: Arc::new(MemorySaved::default()),
            quotas: Arc::new(MemoryQuotas::default()),
            credentials: Arc::new(MemoryCredentials::default()),
            grants: Arc::new(MemoryGrants::default()),
            bridge: Arc::new(MemoryBridge::default()),
            events,
            changes,
            closed: watch::Sender::new(false),
        }
    }
}

impl Default for MemoryStorage {
    fn default() -> Self {
        Self::with_pins(Vec::new())
    }
}

#[async_trait]
impl Storage for MemoryStorage {
    fn events(&self) -> Arc<dyn EventLog> {
        Arc::clone(&self.events)
    }

    fn record(&self) -> Arc<dyn RecordStore> {
        Arc::clone(&self.record)
    }

    fn segments(&self) -> Arc<dyn SegmentStore> {
        Arc::clone(&self.segments)
    }

    fn keys(&self) -> Arc<dyn KeyStore> {
        Arc::clone(&self.keys)
    }

    fn catalogs(&self) -> Arc<dyn CatalogStore> {
        Arc::clone(&self.catalogs)
    }

    fn pins(&self) -> Arc<dyn PinStore> {
        Arc::clone(&self.pins)
    }

    fn approvals(&self) -> Arc<dyn ApprovalStore> {
        Arc::clone(&self.approvals)
    }

    fn runs(&self) -> Arc<dyn RunStore> {
        Arc::clone(&self.runs)
    }

    fn idempotency(&self) -> Arc<dyn IdempotencyStore> {
        Arc::clone(&self.idempotency)
    }

    fn client_sessions(&self) -> Arc<dyn ClientSessionStore> {
        Arc::clone(&self.client_sessions)
    }

    fn saved(&self) -> Arc<dyn SavedStore> {
        Arc::clone(&self.saved)
    }

    fn quotas(&self) -> Arc<dyn QuotaStore> {
        Arc::clone(&self.quotas)
    }

    fn credentials(&self) -> Arc<dyn CredentialStore> {
        Arc::clone(&self.credentials)
    }

    fn grants(&self) -> Arc<dyn GrantStore> {
        Arc::clone(&self.grants)
    }

    fn bridge(&self) -> Arc<dyn BridgeStore> {
        Arc::clone(&self.bridge)
    }

    async fn changes(&self, seen: Option<Changes>) -> Result<Changes, StoreError> {
        if let Some(seen) = seen {
            tokio::time::timeout(CONFIRMATION, self.changes.differ_from(seen)).await.ok();
        }
        Ok(self.changes.now())
    }

    async fn instances(&self) -> Result<Vec<String>, StoreError> {
        Ok(vec!["memory".to_owned()])
    }

    /// The content does not survive its process, so there are no calls to recover.
    async fn recover(&self, _now: Timestamp) -> Result<usize, StoreError> {
        Ok(0)
    }

    async fn reseal(&self) -> Result<usize, CredentialStoreError> {
        Ok(0)
    }

    async fn damage(&self) -> Result<Vec<String>, StoreError> {
        Ok(Vec::new())
    }

    fn free_space(&self) -> Result<Option<u64>, StoreError> {
        Ok(None)
    }

    async fn close(&self) {
        self.closed.send_replace(true);
    }

    async fn ended(&self) {
        self.closed.subscribe().wait_for(|closed| *closed).await.ok();
    }
}
