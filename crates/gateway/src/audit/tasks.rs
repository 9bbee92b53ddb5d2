//! The background work on the record: signing checkpoints, sending them to anchors, forwarding
//! events and applying retention.
//!
//! Invariants:
//! - calls never wait for it (I-73): they are recorded and run whatever is unavailable;
//! - a cursor moves after its delivery, and no event is removed before that;
//! - a log is signed only if it continues the state in the witness (I-72).

use std::{future::Future, sync::Arc};

use tokio::sync::{Mutex, broadcast, watch};
use tokio_util::sync::CancellationToken;
use toolcrib_config::{ForwardConfig, RecordConfig};
use toolcrib_core::{
    record::{CheckpointSigner, Delivery, DeliveryFactory, WitnessStore},
    store::Storage,
};
use toolcrib_tasks::{Policy, TaskName, Tasks};

use super::{anchor, append::Audit, checkpoint, context::Context, forward};
use crate::background::Services;

/// Pending checkpoints for a slow anchor. Only the last one of a tenant counts, so an anchor that
/// missed some reads the last ones from the store.
const MAX_SIGNED: usize = 1024;

/// The parts of an [`AuditTasks`].
pub struct Parts {
    /// The store.
    pub storage: Arc<dyn Storage>,
    /// The signing key.
    pub signer: Arc<dyn CheckpointSigner>,
    /// The store of the last signed state.
    pub witness: Arc<dyn WitnessStore>,
    /// Whether the key may be new. If so, a store without checkpoints needs no witness, whatever
    /// events it has.
    pub key_may_be_new: bool,
    /// Builds deliveries to anchors and forwarders.
    pub deliveries: Arc<dyn DeliveryFactory>,
}

/// Signs, anchors, forwards and prunes the record of a gateway. Close it after the gateway and
/// before the store.
pub struct AuditTasks {
    context: Arc<Context>,
    config: watch::Sender<RecordConfig>,
    signed: broadcast::Sender<toolcrib_core::record::Checkpoint>,
    signing: Mutex<Option<Task>>,
    outgoing: Mutex<Vec<(DestinationSpec, Task)>>,
    deliveries: Arc<dyn DeliveryFactory>,
    tasks: Tasks,
}

struct Task {
    end: CancellationToken,
    task: toolcrib_tasks::Task,
}

/// A destination. A changed description is another destination.
#[derive(Debug, Clone, PartialEq)]
enum DestinationSpec {
    Anchor(usize, toolcrib_core::record::Destination),
    Forward(ForwardConfig),
}

// === impl AuditTasks ===

impl AuditTasks {
    /// Starts signing and the anchors and forwarders of `config`. See
    /// [`Gateway::start_audit`](crate::Gateway::start_audit).
    ///
    /// # Errors
    /// Fails if a destination can never work.
    pub(crate) async fn start(
        audit: &Audit,
        services: &Services,
        parts: Parts,
        config: &RecordConfig,
    ) -> Result<Self, String> {
        let store = parts.storage.record();
        audit.set_store(Arc::clone(&store));
        let context = Arc::new(Context {
            storage: parts.storage,
            store,
            signer: parts.signer,
            witness: parts.witness,
            key_may_be_new: parts.key_may_be_new,
            clock: Arc::clone(&services.clock),
            metrics: Arc::clone(&services.metrics),
            readiness: Arc::clone(audit.readiness()),
        });
        let tasks = Self {
            context,
            config: watch::Sender::new(config.clone()),
            signed: broadcast::Sender::new(MAX_SIGNED),
            signing: Mutex::new(None),
            outgoing: Mutex::new(Vec::new()),
            deliveries: parts.deliveries,
            tasks: services.background.tasks().clone(),
        };
        tasks.apply(config).await?;
        let (context, signed) = (Arc::clone(&tasks.context), tasks.signed.clone());
        let mut first = checkpoint::Signing::new(Arc::clone(&context), signed.clone());
        // Before the first call, which could otherwise run on a store other than the signed one.
        first.check_all().await;
        let (first, config) = (parking_lot::Mutex::new(Some(first)), tasks.config.subscribe());
        let signing = tasks.start_task("signing".into(), move |end| {
            let again = || checkpoint::Signing::new(Arc::clone(&context), signed.clone());
            let signing = first.lock().take().unwrap_or_else(again);
            checkpoint::run(signing, config.clone(), end)
        });
        *tasks.signing.lock().await = Some(signing);
        Ok(tasks)
    }

    /// Applies another configuration: unchanged destinations continue. On an error the current one
    /// stays.
    ///
    /// # Errors
    /// Fails if a destination can never work.
    pub async fn apply(&self, config: &RecordConfig) -> Result<(), String> {
        let anchors = config.anchors.iter().enumerate();
        let wanted = anchors
            .map(|(index, to)| DestinationSpec::Anchor(index + 1, to.clone()))
            .chain(config.forwards.iter().cloned().map(DestinationSpec::Forward));
        let mut outgoing = self.outgoing.lock().await;
        let mut fresh: Vec<(DestinationSpec, Arc<dyn Delivery>)> = Vec::new();
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
            let context = Arc::clone(&self.context);
            let task = match wanted.clone() {
                DestinationSpec::Anchor(number, _) => {
                    let signed = self.signed.clone();
                    self.start_task(TaskName::of("anchor", number.to_string()), move |end| {
                        let (context, delivery) = (Arc::clone(&context), Arc::clone(&delivery));
                        anchor::run(context, number, delivery, signed.subscribe(), end)
                    })
                }
                DestinationSpec::Forward(forward) => {
                    let name = TaskName::of("forwarder", forward.name.as_str());
                    self.start_task(name, move |end| {
                        let (context, delivery) = (Arc::clone(&context), Arc::clone(&delivery));
                        forward::run(context, forward.clone(), delivery, end)
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

    /// Signs every unsigned event, sends the checkpoints to the anchors, and stops every task. Does
    /// not wait for an unavailable anchor or forwarder: the next start continues from its cursor.
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

impl DestinationSpec {
    fn destination(&self) -> &toolcrib_core::record::Destination {
        match self {
            Self::Anchor(_, destination) => destination,
            Self::Forward(forward) => &forward.destination,
        }
    }
}
