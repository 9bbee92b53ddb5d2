//! One anchor: receives checkpoints, so that a copy exists beyond the reach of a writer of the
//! store.
//!
//! Only the last pending checkpoint of each tenant is sent: it covers the earlier ones.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use tokio::sync::broadcast::{
    Receiver,
    error::{RecvError, TryRecvError},
};
use tokio_util::sync::CancellationToken;
use toolcrib_core::{
    clock::Timestamp,
    id::TenantId,
    record::{Checkpoint, CheckpointKind, Cursor, Delivery, DeliveryError},
    store::StoreError,
};

use super::context::{self, Context, DELIVERY_RETRY};

/// Time limit of the last delivery at shutdown.
const PARTING: Duration = Duration::from_secs(3);
/// Pause after an error of the store.
const STORE_PAUSE: Duration = Duration::from_secs(2);
const CONTENT_TYPE: &str = "application/x-ndjson";

struct Anchor {
    context: Arc<Context>,
    number: usize,
    delivery: Arc<dyn Delivery>,
    signed: Receiver<Checkpoint>,
    waiting: BTreeMap<TenantId, Checkpoint>,
    cursor: Cursor,
}

pub(super) async fn run(
    context: Arc<Context>,
    number: usize,
    delivery: Arc<dyn Delivery>,
    signed: Receiver<Checkpoint>,
    end: CancellationToken,
) {
    let cursor = context::new_cursor(&format!("anchor-{number}"));
    let waiting = BTreeMap::new();
    let mut anchor = Anchor { context, number, delivery, signed, waiting, cursor };
    let working = async {
        while let Err(error) = anchor.begin().await {
            tracing::error!(%error, number, "the checkpoints for an anchor could not be read");
            tokio::time::sleep(STORE_PAUSE).await;
        }
        loop {
            anchor.wait().await;
            if let Err(error) = anchor.deliver().await {
                tracing::debug!(number, %error, "an anchor did not accept checkpoints");
                tokio::time::sleep(DELIVERY_RETRY.after(anchor.cursor.failures)).await;
            }
        }
    };
    tokio::select! {
        () = end.cancelled() => {}
        () = working => {}
    }
    while anchor.take_one() {}
    if !anchor.waiting.is_empty() && tokio::time::timeout(PARTING, anchor.deliver()).await.is_err()
    {
        tracing::warn!(number, "an anchor is unavailable; it gets the checkpoints later");
    }
}

impl Anchor {
    /// Reads the undelivered checkpoints.
    async fn begin(&mut self) -> Result<(), StoreError> {
        let name = self.cursor.name.clone();
        self.cursor = self.context.cursor(&name).await?;
        let mut after = None;
        loop {
            let tenants = self.context.store.tenants(after.as_ref()).await?;
            for tenant in &tenants {
                if let Some(head) = self.last_head(tenant).await?
                    && self.cursor.moved_at.is_none_or(|moved| head.at > moved)
                {
                    self.put(head);
                }
            }
            after = tenants.last().cloned();
            if after.is_none() {
                return Ok(());
            }
        }
    }

    async fn last_head(&self, tenant: &TenantId) -> Result<Option<Checkpoint>, StoreError> {
        match self.context.store.last_checkpoint(tenant).await? {
            // The mark of a removal comes after the last head.
            Some(mark) if mark.kind == CheckpointKind::Pruned => {
                let before = mark.number.saturating_sub(3);
                let page = self.context.store.checkpoints(tenant, before).await?;
                Ok(page
                    .into_iter()
                    .rev()
                    .find(|checkpoint| checkpoint.kind == CheckpointKind::Head))
            }
            last => Ok(last),
        }
    }

    /// Waits for a checkpoint to deliver.
    async fn wait(&mut self) {
        while self.waiting.is_empty() {
            match self.signed.recv().await {
                Ok(checkpoint) => self.put(checkpoint),
                Err(RecvError::Lagged(_)) => {
                    if let Err(error) = self.begin().await {
                        tracing::error!(%error, "the checkpoints for an anchor could not be read");
                    }
                }
                // The audit has stopped, and stops this task.
                Err(RecvError::Closed) => std::future::pending().await,
            }
        }
        while self.take_one() {}
    }

    fn take_one(&mut self) -> bool {
        match self.signed.try_recv() {
            Ok(checkpoint) => {
                self.put(checkpoint);
                true
            }
            Err(TryRecvError::Lagged(_)) => true,
            Err(TryRecvError::Empty | TryRecvError::Closed) => false,
        }
    }

    fn put(&mut self, checkpoint: Checkpoint) {
        if checkpoint.kind == CheckpointKind::Head {
            self.waiting.insert(checkpoint.tenant.clone(), checkpoint);
        }
    }

    async fn deliver(&mut self) -> Result<(), DeliveryError> {
        let mut body = Vec::new();
        let mut newest: Option<Timestamp> = self.cursor.moved_at;
        for checkpoint in self.waiting.values() {
            if serde_json::to_writer(&mut body, checkpoint).is_ok() {
                body.push(b'\n');
            }
            newest = newest.max(Some(checkpoint.at));
        }
        let delivered = self.delivery.deliver(CONTENT_TYPE, body).await;
        match &delivered {
            Ok(()) => {
                if self.cursor.failures > 0 {
                    tracing::info!(number = self.number, "an anchor accepts checkpoints again");
                }
                let position = self.cursor.position + self.waiting.len() as u64;
                context::moved(&mut self.cursor, position, self.context.clock.now());
                self.cursor.moved_at = newest;
                self.waiting.clear();
            }
            Err(error) => {
                if self.cursor.failures == 0 {
                    tracing::warn!(number = self.number, %error, "an anchor does not accept checkpoints");
                }
                self.context.metrics.anchor_failed();
                context::failed(&mut self.cursor, error, self.context.clock.now());
            }
        }
        if let Err(error) = self.context.store.set_cursor(self.cursor.clone()).await {
            tracing::error!(%error, "the progress of an anchor could not be stored");
        }
        delivered
    }
}
