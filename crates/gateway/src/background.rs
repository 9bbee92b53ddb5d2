//! The background work of a gateway: tasks, periodic work and the signal that stops both.
//!
//! Invariant (I-91): background tasks stop with their gateway. Closing or dropping the gateway
//! cancels [`BackgroundTasks::ended`], which stops every task.

use std::{
    any::Any,
    future::Future,
    panic::AssertUnwindSafe,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};

use arc_swap::ArcSwap;
use futures_util::{FutureExt as _, future::BoxFuture};
use tokio::{runtime::Handle, task::JoinHandle};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use toolcrib_config::Config;
use toolcrib_core::{
    clock::{Clock, ReadStart, Timestamp},
    store::{Changes, Storage, StoreError},
};
use toolcrib_tasks::{Policy, TaskName, Tasks};

use crate::{arguments_hash::ArgumentsHash, metrics::Metrics, trace::Tracer};

/// Time limit for recording calls in flight after their sources are closed: the store takes
/// milliseconds, and a gateway does not wait for an unavailable store.
pub(crate) const CLOSING_TIME: Duration = Duration::from_secs(5);

/// The pause after a failed read of the store.
const RETRY: Duration = Duration::from_millis(200);

/// The services that every part of a gateway uses.
#[derive(Clone)]
pub(crate) struct Services {
    pub(crate) storage: Arc<dyn Storage>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) tracer: Tracer,
    pub(crate) background: BackgroundTasks,
    /// The current configuration.
    pub(crate) config: Arc<ArcSwap<Config>>,
    pub(crate) arguments_hash: ArgumentsHash,
}

/// The background tasks of one gateway and the signal that stops them.
#[derive(Clone)]
pub(crate) struct BackgroundTasks {
    tasks: Tasks,
    ending: CancellationToken,
    ended: CancellationToken,
    tracker: TaskTracker,
}

/// Work that runs to completion; see [`BackgroundTasks::complete`].
pub(crate) struct CompletingTask<T: Send + 'static> {
    /// `None` after it has finished.
    work: Option<BoxFuture<'static, Result<T, Panic>>>,
}

/// The payload of a panic.
pub(crate) type Panic = Box<dyn Any + Send>;

// === impl Services ===

impl Services {
    pub(crate) fn config(&self) -> Arc<Config> {
        self.config.load_full()
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Runs `work` with the numbers of changes in the store and the time of their request, until
    /// the gateway stops: at every change, and periodically without one. A panic restarts the task.
    pub(crate) fn follow<F, R>(&self, name: impl Into<TaskName>, work: F)
    where
        F: Fn(ReadStart, Result<Changes, StoreError>) -> R + Clone + Send + Sync + 'static,
        R: Future<Output = ()> + Send + 'static,
    {
        let (ended, storage) = (self.background.ended.clone(), Arc::clone(&self.storage));
        let clock = Arc::clone(&self.clock);
        self.background.tasks.spawn(name, Policy::Forever, ended.clone(), move || {
            let (ended, storage, work) = (ended.clone(), Arc::clone(&storage), work.clone());
            let clock = Arc::clone(&clock);
            async move {
                let mut seen = None;
                loop {
                    let began = ReadStart::now(&*clock);
                    let changes = tokio::select! {
                        changes = storage.changes(seen) => changes,
                        () = ended.cancelled() => return,
                    };
                    let failed = changes.is_err();
                    seen = changes.as_ref().ok().copied().or(seen);
                    work(began, changes).await;
                    if failed {
                        tokio::time::sleep(RETRY).await;
                    }
                }
            }
        });
    }
}

// === impl BackgroundTasks ===

impl BackgroundTasks {
    pub(crate) fn new(tasks: Tasks) -> Self {
        let (ending, ended) = (CancellationToken::new(), CancellationToken::new());
        Self { tasks, ending, ended, tracker: TaskTracker::new() }
    }

    /// The board of named tasks.
    pub(crate) fn tasks(&self) -> &Tasks {
        &self.tasks
    }

    /// Cancelled when no new requests come and those in flight are about to be interrupted, before
    /// [`ended`](Self::ended).
    pub(crate) fn ending(&self) -> &CancellationToken {
        &self.ending
    }

    /// Cancelled when the gateway closes or is dropped.
    pub(crate) fn ended(&self) -> &CancellationToken {
        &self.ended
    }

    /// Runs `work` after every `pause` until the gateway stops. A panic restarts the task.
    pub(crate) fn every<F, R>(&self, name: impl Into<TaskName>, pause: Duration, work: F)
    where
        F: Fn() -> R + Clone + Send + Sync + 'static,
        R: Future<Output = ()> + Send + 'static,
    {
        let ended = self.ended.clone();
        self.tasks.spawn(name, Policy::Forever, ended.clone(), move || {
            let (ended, work) = (ended.clone(), work.clone());
            async move {
                loop {
                    tokio::select! {
                        () = tokio::time::sleep(pause) => {}
                        () = ended.cancelled() => return,
                    }
                    work().await;
                }
            }
        });
    }

    /// Runs `work` until it finishes, and once more if it panics, until the gateway stops.
    pub(crate) fn until_done<F, R>(&self, name: impl Into<TaskName>, work: F)
    where
        F: FnMut() -> R + Send + 'static,
        R: Future<Output = ()> + Send + 'static,
    {
        self.tasks.spawn(name, Policy::UntilDone, self.ended.clone(), work);
    }

    /// Runs `work` in a separate task, for which [`close`](Self::close) waits.
    pub(crate) fn spawn<F>(&self, work: F) -> JoinHandle<F::Output>
    where
        F: Future<Output: Send + 'static> + Send + 'static,
    {
        self.tracker.spawn(work)
    }

    /// Runs `work` to completion. If the returned future is dropped before, it continues in a
    /// separate task; until then it needs no task. [`close`](Self::close) waits for it.
    pub(crate) fn complete<F>(&self, work: F) -> CompletingTask<F::Output>
    where
        F: Future<Output: Send + 'static> + Send + 'static,
    {
        let work = self.tracker.track_future(AssertUnwindSafe(work).catch_unwind());
        CompletingTask { work: Some(Box::pin(work)) }
    }

    /// Waits up to `limit` for the tasks of [`spawn`](Self::spawn) and the work of
    /// [`complete`](Self::complete), calls in flight among them; `false` if some have not finished.
    pub(crate) async fn close(&self, limit: Duration) -> bool {
        self.tracker.close();
        tokio::time::timeout(limit, self.tracker.wait()).await.is_ok()
    }
}

// === impl CompletingTask ===

impl<T: Send + 'static> Future for CompletingTask<T> {
    type Output = Result<T, Panic>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let Some(work) = &mut self.work else { return Poll::Pending };
        let output = ready!(work.as_mut().poll(cx));
        self.work = None;
        Poll::Ready(output)
    }
}

impl<T: Send + 'static> Drop for CompletingTask<T> {
    fn drop(&mut self) {
        // Without a runtime, the process is exiting, and the next one recovers the records of this
        // work.
        if let (Some(work), Ok(runtime)) = (self.work.take(), Handle::try_current()) {
            runtime.spawn(work);
        }
    }
}
