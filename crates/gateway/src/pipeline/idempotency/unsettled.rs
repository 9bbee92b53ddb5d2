//! Completed idempotent calls whose result the store did not accept, as during an outage of a
//! database. They are settled after the store recovers; until then their keys stay reserved.

use std::{collections::VecDeque, sync::Arc};

use bytes::Bytes;
use parking_lot::Mutex;
use toolcrib_core::{
    budget::Reservation,
    clock::Timestamp,
    id::RunId,
    idempotency::{IdempotencyKey, IdempotencyStore},
    store::StoreError,
};

/// The most waiting calls. Later ones keep their keys as long as this process runs.
const MAX: usize = 10_000;

/// Completed calls before their settlement, the oldest first.
#[derive(Debug, Clone, Default)]
pub(crate) struct UnsettledCalls(Arc<Mutex<VecDeque<Arc<EndedCall>>>>);

/// A completed call.
#[derive(Debug)]
pub(crate) struct EndedCall {
    pub(crate) key: IdempotencyKey,
    pub(crate) run: RunId,
    /// The answer; `None` frees the key.
    pub(crate) body: Option<Bytes>,
    pub(crate) until: Timestamp,
    /// The reserved bytes of the answer, until the call is settled.
    #[expect(dead_code, reason = "its drop frees the bytes")]
    pub(crate) reservation: Reservation,
}

// === impl EndedCall ===

impl EndedCall {
    /// Stores the answer, or frees the key.
    async fn settle(&self, store: &dyn IdempotencyStore) -> Result<(), StoreError> {
        match &self.body {
            None => store.release(&self.key, &self.run).await,
            Some(body) => {
                let text = std::str::from_utf8(body).ok().map(str::to_owned);
                store.keep(&self.key, &self.run, text, self.until).await
            }
        }
    }
}

// === impl UnsettledCalls ===

impl UnsettledCalls {
    /// Settles `call`, now or later.
    pub(crate) async fn settle(&self, store: &dyn IdempotencyStore, call: EndedCall) {
        if let Err(error) = call.settle(store).await {
            tracing::error!(%error, run = %call.run, "the result of an idempotent call could not be stored");
            self.settle_later(call);
        }
    }

    /// Settles `call` after the store recovers.
    pub(crate) fn settle_later(&self, call: EndedCall) {
        let mut waiting = self.0.lock();
        if waiting.len() < MAX {
            waiting.push_back(Arc::new(call));
        }
    }

    /// Settles the waiting calls, until one fails.
    pub(crate) async fn retry(&self, store: &dyn IdempotencyStore) {
        loop {
            let first = self.0.lock().front().cloned();
            let Some(call) = first else { return };
            if call.settle(store).await.is_err() {
                return;
            }
            self.remove(&call);
        }
    }

    /// Settles the calls under `key`, before a new call reserves it.
    ///
    /// # Errors
    /// Fails if the store fails.
    pub(crate) async fn settle_key(
        &self,
        store: &dyn IdempotencyStore,
        key: &IdempotencyKey,
    ) -> Result<(), StoreError> {
        loop {
            let found = self.0.lock().iter().find(|call| call.key == *key).cloned();
            let Some(call) = found else { return Ok(()) };
            call.settle(store).await?;
            self.remove(&call);
        }
    }

    /// Removes a settled call. Until then it is found by its key.
    fn remove(&self, settled: &Arc<EndedCall>) {
        self.0.lock().retain(|call| !Arc::ptr_eq(call, settled));
    }
}
