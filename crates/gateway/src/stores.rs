//! The stores of a gateway.

use std::sync::Arc;

use toolcrib_core::{
    approval::ApprovalStore,
    event::EventLog,
    idempotency::IdempotencyStore,
    pin::PinStore,
    quota::QuotaStore,
    store::{CatalogStore, KeyStore, RunStore},
};

/// The stores of a gateway, which survive a restart.
#[derive(Clone)]
pub struct Stores {
    /// Events.
    pub log: Arc<dyn EventLog>,
    /// API keys.
    pub keys: Arc<dyn KeyStore>,
    /// Last good catalogs.
    pub catalogs: Arc<dyn CatalogStore>,
    /// Runs of workflows; without it nothing is known of them once they are over.
    pub runs: Option<Arc<dyn RunStore>>,
    /// Pins of tools; without it no tool is offered of a source whose tools are to be pinned.
    pub pins: Option<Arc<dyn PinStore>>,
    /// Requests for approval; without it a call that requires approval does not run.
    pub approvals: Option<Arc<dyn ApprovalStore>>,
    /// Answers of calls that name themselves; without it they last as long as the process.
    pub idempotency: Option<Arc<dyn IdempotencyStore>>,
    /// Counts of quotas; without it they last as long as the process.
    pub quotas: Option<Arc<dyn QuotaStore>>,
}

// === impl Stores ===

impl Stores {
    /// One store for everything.
    pub fn of<S: EventLog + KeyStore + CatalogStore + PinStore>(store: S) -> Self {
        let store = Arc::new(store);
        let (log, keys) = (Arc::<S>::clone(&store), Arc::<S>::clone(&store));
        let pins = Some(Arc::<S>::clone(&store) as _);
        Self { pins, ..Self::with(log, keys, store) }
    }

    /// A store for each.
    pub fn new(log: impl EventLog, keys: impl KeyStore, catalogs: impl CatalogStore) -> Self {
        Self::with(Arc::new(log), Arc::new(keys), Arc::new(catalogs))
    }

    fn with(
        log: Arc<dyn EventLog>,
        keys: Arc<dyn KeyStore>,
        catalogs: Arc<dyn CatalogStore>,
    ) -> Self {
        let (runs, pins, approvals, idempotency, quotas) = (None, None, None, None, None);
        Self { log, keys, catalogs, runs, pins, approvals, idempotency, quotas }
    }

    /// The same, with a store for pins of tools.
    #[must_use]
    pub fn with_pins(mut self, pins: impl PinStore) -> Self {
        self.pins = Some(Arc::new(pins));
        self
    }

    /// The same, with a store for runs of workflows.
    #[must_use]
    pub fn with_runs(mut self, runs: impl RunStore) -> Self {
        self.runs = Some(Arc::new(runs));
        self
    }

    /// The same, with a store for answers of calls that name themselves.
    #[must_use]
    pub fn with_idempotency(mut self, idempotency: impl IdempotencyStore) -> Self {
        self.idempotency = Some(Arc::new(idempotency));
        self
    }

    /// The same, with a store for counts of quotas.
    #[must_use]
    pub fn with_quotas(mut self, quotas: impl QuotaStore) -> Self {
        self.quotas = Some(Arc::new(quotas));
        self
    }

    /// The same, with a store for approvals, whose events have to go to the same log.
    #[must_use]
    pub fn with_approvals(mut self, approvals: impl ApprovalStore) -> Self {
        self.approvals = Some(Arc::new(approvals));
        self
    }
}
