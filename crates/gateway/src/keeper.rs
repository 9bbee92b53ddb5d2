//! What goes on beside the calls so that the record proves itself: checkpoints are signed and sent
//! to their anchors, events are forwarded, and what is old is pruned.
//!
//! Invariants:
//! - no call waits for any of it (I-73): whatever is down, calls are recorded and run;
//! - what was forwarded was delivered before its cursor moved, and nothing is pruned before that;
//! - only a log that continues what the witness names is signed (I-72).

mod accept;
mod anchor;
pub(crate) mod backoff;
mod continuity;
mod forward;
mod sign;

use std::{future::Future, sync::Arc};

use tokio::sync::{Mutex, broadcast, watch};
use tokio_util::sync::CancellationToken;
use toolcrib_core::{
    clock::Clock,
    record::{CheckpointSigner, Delivery, DeliveryFactory, RecordStore, WitnessStore},
};
use toolcrib_tasks::{Policy, TaskName, Tasks};

pub use self::accept::{Acceptance, accept};

use crate::{
    Gateway,
    config::{ForwardConfig, RecordConfig},
    metrics::Metrics,
    readiness::Readiness,
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
    /// Where it is kept what was signed last.
    pub witness: Arc<dyn WitnessStore>,
    /// Whether the key may never have signed before; then a store without checkpoints needs no
    /// witness, whatever events it has.
    pub key_may_be_new: bool,
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
    witness: Arc<dyn WitnessStore>,
    key_may_be_new: bool,
    clock: Arc<dyn Clock>,
    metrics: Arc<Metrics>,
    readiness: Arc<Readiness>,
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
        gateway.set_record_store(Arc::clone(&parts.store));
        let shared = Arc::new(Shared {
            store: parts.store,
            signer: parts.signer,
            witness: parts.witness,
            key_may_be_new: parts.key_may_be_new,
            clock: gateway.clock_handle(),
            metrics: gateway.metrics_handle(),
            readiness: gateway.readiness_handle(),
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
        let (shared, signed) = (Arc::clone(&keeper.shared), keeper.signed.clone());
        let mut first = sign::Signing::new(Arc::clone(&shared), signed.clone());
        // Before the first call: it would run on a store that is not the one that was signed.
        first.check_all().await;
        let (first, config) = (parking_lot::Mutex::new(Some(first)), keeper.config.subscribe());
        let signing = keeper.start_task("signing".into(), move |end| {
            let again = || sign::Signing::new(Arc::clone(&shared), signed.clone());
            let signing = first.lock().take().unwrap_or_else(again);
            sign::run(signing, config.clone(), end)
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
