//! Appends to the event log, measured.

use std::{sync::Arc, time::Duration};

use toolcrib_core::{
    clock::Clock,
    event::{EventLog, NewEvent},
    store::StoreError,
};

use super::{events::Events, readiness::Readiness};
use crate::metrics::Metrics;

/// The event log, and the state of its store.
pub(super) struct Writer {
    pub(super) log: Arc<dyn EventLog>,
    pub(super) metrics: Arc<Metrics>,
    pub(super) readiness: Arc<Readiness>,
    pub(super) events: Events,
}

impl Writer {
    pub(super) fn clock(&self) -> &dyn Clock {
        &*self.events.clock
    }

    /// Stores `events`, and measures how long that takes.
    pub(super) async fn append(&self, events: &[NewEvent]) -> Result<Vec<u64>, StoreError> {
        let began = self.clock().monotonic_nanos();
        let stored = self.log.append(events).await;
        let time = self.clock().monotonic_nanos().saturating_sub(began);
        self.metrics.appended(Duration::from_nanos(time), stored.is_ok());
        match &stored {
            Ok(_) => self.readiness.stored(),
            // The event is already stored.
            Err(StoreError::Conflict(_)) => {}
            Err(_) => self.readiness.failed(self.clock().now()),
        }
        stored
    }
}
