//! Retention of one server while another one compares the record with its witness (I-108). The other
//! server's retention runs between two queries of the comparison, on a real store.

use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use toolcrib_config::Config;
use toolcrib_core::{
    approval::ApprovalStore,
    bridge::BridgeStore,
    canonical::Digest,
    clock::Timestamp,
    credential::{CredentialStore, CredentialStoreError, GrantStore},
    event::EventLog,
    id::TenantId,
    idempotency::IdempotencyStore,
    pin::PinStore,
    quota::QuotaStore,
    record::{
        CheckedLink, Checkpoint, CheckpointSigner, Cursor, Head, LogGrowth, RecordStore,
        SharedWitnesses, StoredEvent, StoredQuery, Witness, WitnessStore,
    },
    store::{
        CatalogStore, Changes, ClientSessionStore, KeyStore, RunStore, SavedStore, SegmentStore,
        Storage, StoreError,
    },
};
use toolcrib_gateway::{CheckState, Gateway, audit::Parts};
use toolcrib_sources::Deliveries;
use toolcrib_store::{
    Options, WitnessFile,
    conformance::{
        event_log::decided,
        record_store::{prune, sign, signing_key},
    },
};
use toolcrib_testkit::postgres;

use crate::support::dir;

/// The query at which the other server removes events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum At {
    /// After the checkpoints were read, and before the event that the last one covers.
    Checkpoints,
    /// After that, and before the later events.
    Links,
}

/// A store on which another server applies retention at a given moment, once.
#[derive(Clone)]
struct Shared {
    store: Arc<dyn Storage>,
    at: At,
    first: Checkpoint,
    is_over: Arc<AtomicBool>,
}

impl Shared {
    async fn remove(&self, at: At) {
        if at != self.at || self.is_over.swap(true, Ordering::SeqCst) {
            return;
        }
        let store = &*self.store;
        let signed = sign(store, &signing_key(), "t", 2).await;
        store.events().append(&[decided("t", "r", "last")]).await.unwrap();
        let covered = match at {
            At::Checkpoints => &self.first,
            At::Links => &signed,
        };
        assert!(prune(store, &signing_key(), covered, 100).await > 0);
    }
}

#[async_trait]
impl RecordStore for Shared {
    async fn stored(&self, query: StoredQuery) -> Result<Vec<StoredEvent>, StoreError> {
        self.store.record().stored(query).await
    }

    async fn check_links(
        &self,
        tenant: &TenantId,
        after: u64,
        hash: Digest,
    ) -> Result<Vec<CheckedLink>, StoreError> {
        self.remove(At::Links).await;
        self.store.record().check_links(tenant, after, hash).await
    }

    async fn last_position(&self) -> Result<u64, StoreError> {
        self.store.record().last_position().await
    }

    async fn head(&self, tenant: &TenantId) -> Result<Option<Head>, StoreError> {
        self.store.record().head(tenant).await
    }

    async fn tenants(&self, after: Option<&TenantId>) -> Result<Vec<TenantId>, StoreError> {
        self.store.record().tenants(after).await
    }

    async fn news(&self, after: u64, to: u64) -> Result<Vec<LogGrowth>, StoreError> {
        self.store.record().news(after, to).await
    }

    async fn add_checkpoint(&self, checkpoint: Checkpoint) -> Result<bool, StoreError> {
        self.store.record().add_checkpoint(checkpoint).await
    }

    async fn checkpoints(
        &self,
        tenant: &TenantId,
        after: u64,
    ) -> Result<Vec<Checkpoint>, StoreError> {
        let page = self.store.record().checkpoints(tenant, after).await;
        if page.as_ref().is_ok_and(Vec::is_empty) {
            self.remove(At::Checkpoints).await;
        }
        page
    }

    async fn last_checkpoint(&self, tenant: &TenantId) -> Result<Option<Checkpoint>, StoreError> {
        self.store.record().last_checkpoint(tenant).await
    }

    async fn prunable(
        &self,
        tenant: &TenantId,
        before: Timestamp,
        delivered: u64,
    ) -> Result<Option<Checkpoint>, StoreError> {
        self.store.record().prunable(tenant, before, delivered).await
    }

    async fn prune(&self, tenant: &TenantId, limit: usize) -> Result<usize, StoreError> {
        self.store.record().prune(tenant, limit).await
    }

    async fn cursors(&self) -> Result<Vec<Cursor>, StoreError> {
        self.store.record().cursors().await
    }

    async fn set_cursor(&self, cursor: Cursor) -> Result<(), StoreError> {
        self.store.record().set_cursor(cursor).await
    }
}

#[async_trait]
impl Storage for Shared {
    fn events(&self) -> Arc<dyn EventLog> {
        self.store.events()
    }

    fn record(&self) -> Arc<dyn RecordStore> {
        Arc::new(self.clone())
    }

    fn witnesses(&self) -> Option<Arc<dyn SharedWitnesses>> {
        self.store.witnesses()
    }

    fn segments(&self) -> Arc<dyn SegmentStore> {
        self.store.segments()
    }

    fn keys(&self) -> Arc<dyn KeyStore> {
        self.store.keys()
    }

    fn catalogs(&self) -> Arc<dyn CatalogStore> {
        self.store.catalogs()
    }

    fn pins(&self) -> Arc<dyn PinStore> {
        self.store.pins()
    }

    fn approvals(&self) -> Arc<dyn ApprovalStore> {
        self.store.approvals()
    }

    fn runs(&self) -> Arc<dyn RunStore> {
        self.store.runs()
    }

    fn idempotency(&self) -> Arc<dyn IdempotencyStore> {
        self.store.idempotency()
    }

    fn client_sessions(&self) -> Arc<dyn ClientSessionStore> {
        self.store.client_sessions()
    }

    fn saved(&self) -> Arc<dyn SavedStore> {
        self.store.saved()
    }

    fn quotas(&self) -> Arc<dyn QuotaStore> {
        self.store.quotas()
    }

    fn credentials(&self) -> Arc<dyn CredentialStore> {
        self.store.credentials()
    }

    fn grants(&self) -> Arc<dyn GrantStore> {
        self.store.grants()
    }

    fn bridge(&self) -> Arc<dyn BridgeStore> {
        self.store.bridge()
    }

    async fn changes(&self, seen: Option<Changes>) -> Result<Changes, StoreError> {
        self.store.changes(seen).await
    }

    async fn instances(&self) -> Result<Vec<String>, StoreError> {
        self.store.instances().await
    }

    async fn recover(&self, now: Timestamp) -> Result<usize, StoreError> {
        self.store.recover(now).await
    }

    async fn reseal(&self) -> Result<usize, CredentialStoreError> {
        self.store.reseal().await
    }

    async fn damage(&self) -> Result<Vec<String>, StoreError> {
        self.store.damage().await
    }

    fn free_space(&self) -> Result<Option<u64>, StoreError> {
        self.store.free_space()
    }

    async fn close(&self) {
        self.store.close().await;
    }

    async fn ended(&self) {
        self.store.ended().await;
    }
}

/// Starts a server on `url` that remembers one checkpoint, and returns when it has signed the last
/// event.
async fn compare_during_retention(url: &str, at: At) {
    let dir = dir();
    let store = toolcrib_store::open(url, Options::default()).await.unwrap();
    let log = store.events();
    log.append(&["e1", "e2", "e3"].map(|id| decided("t", "r", id))).await.unwrap();
    let first = sign(&*store, &signing_key(), "t", 1).await;
    let mut witness = Witness::new(signing_key().public());
    witness.add(&first);
    witness.position = 3;
    let file = WitnessFile::new(dir.path().join("witness"));
    let signature = signing_key().sign(&witness.signed()).unwrap();
    file.save(witness.text(&signature)).await.unwrap();
    log.append(&["e4", "e5", "e6"].map(|id| decided("t", "r", id))).await.unwrap();

    let is_over = Arc::new(AtomicBool::new(false));
    let shared = Shared { store: Arc::clone(&store), at, first, is_over: Arc::clone(&is_over) };
    let shared: Arc<dyn Storage> = Arc::new(shared);
    let gateway = Gateway::builder(Arc::clone(&shared)).start().await.unwrap();
    let parts = Parts {
        storage: shared,
        signer: Arc::new(signing_key()),
        witness: Arc::new(file),
        key_may_be_new: false,
        deliveries: Arc::new(Deliveries::default()),
    };
    let mut record = Config::empty(Path::new("")).record;
    record.checkpoint_every = 1;
    let audit = gateway.start_audit(parts, &record).await.unwrap();
    let tenant = "t".parse().unwrap();
    loop {
        let check = gateway.health().into_iter().find(|it| it.name == "record").unwrap();
        assert_eq!(check.state, CheckState::Ok, "{at:?}: {check:?}");
        let last = store.record().last_checkpoint(&tenant).await.unwrap().unwrap();
        if last.position == 7 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert!(is_over.load(Ordering::SeqCst), "{at:?}: events were removed");
    let refused = "toolcrib_record_checkpoints_refused_total 0";
    assert!(gateway.metrics().encode().contains(refused), "{at:?}: {}", gateway.metrics().encode());
    gateway.close().await;
    audit.close().await;
    store.close().await;
}

// I-108
#[tokio::test(flavor = "multi_thread")]
async fn what_another_server_removes_meanwhile_is_not_missing() {
    for at in [At::Checkpoints, At::Links] {
        let dir = dir();
        let file = dir.path().join("toolcrib.db");
        compare_during_retention(&format!("sqlite:{}", file.display()), at).await;
    }
}

// I-108
#[tokio::test(flavor = "multi_thread")]
async fn what_another_server_removes_meanwhile_is_not_missing_on_postgres() {
    for at in [At::Checkpoints, At::Links] {
        let Some(database) = postgres::database() else { return };
        compare_during_retention(&database, at).await;
    }
}
