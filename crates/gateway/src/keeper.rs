//! What goes on beside the calls so that the record proves itself: checkpoints are signed and sent
//! to their anchors, events are forwarded, and what is old is pruned.
//!
//! Invariants:
//! - no call waits for any of it (I-73): whatever is down, calls are recorded and run;
//! - what was forwarded was delivered before its cursor moved, and nothing is pruned before that.

mod anchor;
pub(crate) mod backoff;
mod forward;
mod sign;

use std::{future::Future, sync::Arc};

use tokio::sync::{Mutex, broadcast, watch};
use tokio_util::sync::CancellationToken;
use toolcrib_core::{
    clock::Clock,
    record::{CheckpointSigner, Delivery, DeliveryFactory, RecordStore},
};
use toolcrib_tasks::{Policy, TaskName, Tasks};

use crate::{
    Gateway,
    config::{ForwardConfig, RecordConfig},
    metrics::Metrics,
};

/// Checkpoints that wait for a slow anchor; of a tenant only the last one counts, so an anchor that
/// has missed some reads the last ones from the store.
const MAX_SIGNED: usize = 1024;

/// What the keeper leans on.
pub struct Parts {
    /// The record.
    pub store: Arc<dyn RecordStore>,
    /// Who signs.
    pub signer: Arc<dyn CheckpointSigner>,
    /// Who knows how to deliver.
    pub deliveries: Arc<dyn DeliveryFactory>,
}

/// Keeps the record of a gateway. End it with [`close`](Self::close), after the gateway and before
/// the store.
pub struct Keeper {
    shared: Arc<Shared>,
    config: watch::Sender<RecordConfig>,
    signed: broadcast::Sender<toolcrib_core::record::Checkpoint>,
    signing: Mutex<Option<Task>>,
    outgoing: Mutex<Vec<(Outgoing, Task)>>,
    deliveries: Arc<dyn DeliveryFactory>,
    tasks: Tasks,
}

/// What all tasks lean on.
struct Shared {
    store: Arc<dyn RecordStore>,
    signer: Arc<dyn CheckpointSigner>,
    clock: Arc<dyn Clock>,
    metrics: Arc<Metrics>,
}

struct Task {
    end: CancellationToken,
    task: toolcrib_tasks::Task,
}

/// Something that is delivered to; when its description changes, it is another one.
#[derive(Debug, Clone, PartialEq)]
enum Outgoing {
    Anchor(usize, toolcrib_core::record::Destination),
    Forward(ForwardConfig),
}

// === impl Keeper ===

impl Keeper {
    /// Starts what `config` asks for. `gateway` gets to know the store, for those who ask how the
    /// forwarders do.
    ///
    /// # Errors
    /// A destination that can never work.
    pub async fn start(
        gateway: &Gateway,
        parts: Parts,
        config: &RecordConfig,
    ) -> Result<Self, String> {
        gateway.keeps_record_in(Arc::clone(&parts.store));
        let shared = Arc::new(Shared {
            store: parts.store,
            signer: parts.signer,
            clock: gateway.clock_handle(),
            metrics: gateway.metrics_handle(),
        });
        let keeper = Self {
            shared,
            config: watch::Sender::new(config.clone()),
            signed: broadcast::Sender::new(MAX_SIGNED),
            signing: Mutex::new(None),
            outgoing: Mutex::new(Vec::new()),
            deliveries: parts.deliveries,
            tasks: gateway.tasks().clone(),
        };
        keeper.apply(config).await?;
        let shared = Arc::clone(&keeper.shared);
        let (config, signed) = (keeper.config.subscribe(), keeper.signed.clone());
        let signing = keeper.start_task("signing".into(), move |end| {
            sign::run(Arc::clone(&shared), config.clone(), signed.clone(), end)
        });
        *keeper.signing.lock().await = Some(signing);
        Ok(keeper)
    }

    /// Takes over another configuration: what did not change goes on. On an error nothing changes.
    ///
    /// # Errors
    /// A destination that can never work.
    pub async fn apply(&self, config: &RecordConfig) -> Result<(), String> {
        let anchors = config.anchors.iter().enumerate();
        let wanted = anchors
            .map(|(index, to)| Outgoing::Anchor(index + 1, to.clone()))
            .chain(config.forwards.iter().cloned().map(Outgoing::Forward));
        let mut outgoing = self.outgoing.lock().await;
        let mut fresh: Vec<(Outgoing, Arc<dyn Delivery>)> = Vec::new();
        let mut kept = Vec::new();
        for wanted in wanted {
            match outgoing.iter().position(|(running, _)| *running == wanted) {
                Some(index) => kept.push(index),
                None => {
                    let delivery = self.deliveries.build(wanted.destination())?;
                    fresh.push((wanted, delivery));
                }
            }
        }
        let mut staying = Vec::new();
        for (index, (running, task)) in outgoing.drain(..).enumerate() {
            match kept.contains(&index) {
                true => staying.push((running, task)),
                false => task.end().await,
            }
        }
        *outgoing = staying;
        for (wanted, delivery) in fresh {
            let shared = Arc::clone(&self.shared);
            let task = match wanted.clone() {
                Outgoing::Anchor(number, _) => {
                    let signed = self.signed.clone();
                    self.start_task(TaskName::of("anchor", number.to_string()), move |end| {
                        let (shared, delivery) = (Arc::clone(&shared), Arc::clone(&delivery));
                        anchor::run(shared, number, delivery, signed.subscribe(), end)
                    })
                }
                Outgoing::Forward(forward) => {
                    let name = TaskName::of("forwarder", forward.name.as_str());
                    self.start_task(name, move |end| {
                        let (shared, delivery) = (Arc::clone(&shared), Arc::clone(&delivery));
                        forward::run(shared, forward.clone(), delivery, end)
                    })
                }
            };
            outgoing.push((wanted, task));
        }
        drop(outgoing);
        self.config.send_replace(config.clone());
        Ok(())
    }

    fn start_task<F, R>(&self, name: TaskName, run: F) -> Task
    where
        F: Fn(CancellationToken) -> R + Send + 'static,
        R: Future<Output = ()> + Send + 'static,
    {
        let end = CancellationToken::new();
        let token = end.clone();
        let run = move || run(token.clone());
        Task { task: self.tasks.spawn(name, Policy::Forever, end.clone(), run), end }
    }

    /// Signs what is not signed yet, sends that to the anchors, and ends everything. Whoever does not
    /// answer is not waited for: the next start goes on where this one ended.
    pub async fn close(&self) {
        if let Some(signing) = self.signing.lock().await.take() {
            signing.end().await;
        }
        let outgoing = std::mem::take(&mut *self.outgoing.lock().await);
        for (_, task) in &outgoing {
            task.end.cancel();
        }
        for (_, task) in outgoing {
            task.end().await;
        }
    }
}

impl Task {
    async fn end(self) {
        self.end.cancel();
        self.task.ended().await;
    }
}

impl Outgoing {
    fn destination(&self) -> &toolcrib_core::record::Destination {
        match self {
            Self::Anchor(_, destination) => destination,
            Self::Forward(forward) => &forward.destination,
        }
    }
}
