//! The shared parts of the background tasks of the record, and their progress.

use std::{sync::Arc, time::Duration};

use toolcrib_core::{
    clock::{Clock, Timestamp},
    record::{CheckpointSigner, Cursor, DeliveryError, RecordStore, WitnessStore},
    store::{Storage, StoreError},
};
use toolcrib_tasks::Backoff;

use super::readiness::Readiness;
use crate::metrics::Metrics;

/// The pause after a failed delivery.
pub(crate) const DELIVERY_RETRY: Backoff =
    Backoff::new(Duration::from_millis(200), Duration::from_secs(60));

/// The shared parts of signing, anchors and forwarders.
pub(super) struct Context {
    pub(super) storage: Arc<dyn Storage>,
    pub(super) store: Arc<dyn RecordStore>,
    pub(super) signer: Arc<dyn CheckpointSigner>,
    pub(super) witness: Arc<dyn WitnessStore>,
    pub(super) key_may_be_new: bool,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) metrics: Arc<Metrics>,
    pub(super) readiness: Arc<Readiness>,
}

impl Context {
    /// The stored cursor `name`, or a new one.
    pub(super) async fn cursor(&self, name: &str) -> Result<Cursor, StoreError> {
        let cursors = self.store.cursors().await?;
        let known = cursors.into_iter().find(|cursor| cursor.name == name);
        Ok(known.unwrap_or_else(|| new_cursor(name)))
    }
}

/// A cursor before its first delivery.
pub(super) fn new_cursor(name: &str) -> Cursor {
    Cursor {
        name: name.to_owned(),
        position: 0,
        moved_at: None,
        failing_since: None,
        failures: 0,
        problem: None,
    }
}

/// Notes a failed delivery.
pub(super) fn failed(cursor: &mut Cursor, error: &DeliveryError, now: Timestamp) {
    cursor.failures += 1;
    cursor.failing_since.get_or_insert(now);
    cursor.problem = Some(error.to_string());
}

/// Notes a delivery up to `position`.
pub(super) fn moved(cursor: &mut Cursor, position: u64, now: Timestamp) {
    cursor.position = position;
    cursor.moved_at = Some(now);
    cursor.failing_since = None;
    cursor.failures = 0;
    cursor.problem = None;
}
