//! Background tasks that cannot disappear unnoticed.
//!
//! Every task that lives longer than a request is started through [`Tasks`]. It has a name, a
//! [`Policy`] for when it stops, and an entry on a board that probes, metrics and lists of sources
//! read.
//!
//! Invariant (I-90): a task that panics or stops early is counted. Then it is restarted, or the
//! process stops.
#![warn(missing_docs)]

mod backoff;
mod board;
pub mod cores;
pub mod panics;

use std::{future::Future, panic::AssertUnwindSafe, sync::Arc, time::Duration};

use futures_util::FutureExt as _;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

pub use crate::{
    backoff::Backoff,
    board::{TaskName, TaskReport, TaskState},
};
use board::{Board, BoardEntry, STABLE};

/// The pause before a task is started again.
const RESTART: Backoff = Backoff::new(Duration::from_millis(250), Duration::from_secs(60));

/// What happens after a task stops.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Policy {
    /// Runs until it is stopped. If it panics or finishes earlier, it is restarted.
    Forever,
    /// Returns after its work is done. If it panics, it is restarted.
    UntilDone,
    /// Runs until it is stopped, and is essential for the process. If it panics or finishes
    /// earlier, [`Tasks::fatal`] completes.
    Essential,
}

/// The background tasks of a process. Clones share one board.
#[derive(Debug, Clone, Default)]
pub struct Tasks {
    board: Arc<Board>,
}

/// A handle to a started task. Dropping it does not stop the task.
#[derive(Debug, Clone)]
pub struct Task {
    ended: CancellationToken,
}

// === impl Tasks ===

impl Tasks {
    /// Creates a board without tasks.
    pub fn new() -> Self {
        Self::default()
    }

    /// Starts a task. `run` creates each of its runs; a run must finish soon after `stop` is
    /// cancelled. Must be called inside a tokio runtime.
    pub fn spawn<F, R>(
        &self,
        name: impl Into<TaskName>,
        policy: Policy,
        stop: CancellationToken,
        run: F,
    ) -> Task
    where
        F: FnMut() -> R + Send + 'static,
        R: Future<Output = ()> + Send + 'static,
    {
        Task::start(self.supervise(name, policy, stop, run))
    }

    /// Creates the future that [`spawn`](Self::spawn) runs, for callers that track their own tasks.
    pub fn supervise<F, R>(
        &self,
        name: impl Into<TaskName>,
        policy: Policy,
        stop: CancellationToken,
        mut run: F,
    ) -> impl Future<Output = ()> + Send + 'static
    where
        F: FnMut() -> R + Send + 'static,
        R: Future<Output = ()> + Send + 'static,
    {
        let place = BoardEntry::enter(&self.board, name.into());
        async move {
            let mut failures = 0;
            loop {
                let started = Instant::now();
                // State that outlives a run is shared and behind locks that do not poison.
                let ended = AssertUnwindSafe(async { run().await }).catch_unwind().await;
                match ended {
                    Ok(()) if stop.is_cancelled() || policy == Policy::UntilDone => return,
                    Ok(()) => place.failed("stopped early"),
                    Err(_panic) => place.failed("panicked"),
                }
                if stop.is_cancelled() {
                    return;
                }
                if policy == Policy::Essential {
                    return place.give_up();
                }
                if started.elapsed() >= STABLE {
                    failures = 0;
                }
                failures += 1;
                tokio::select! {
                    () = stop.cancelled() => return,
                    () = tokio::time::sleep(RESTART.jittered(failures)) => place.resumed(),
                }
            }
        }
    }

    /// Runs `work` once, in a separate task. A panic is counted; the work is lost. Must be called
    /// inside a tokio runtime.
    pub fn once(
        &self,
        name: impl Into<TaskName>,
        work: impl Future<Output = ()> + Send + 'static,
    ) -> Task {
        let place = BoardEntry::enter(&self.board, name.into());
        Task::start(async move {
            if AssertUnwindSafe(work).catch_unwind().await.is_err() {
                place.failed("panicked");
            }
        })
    }

    /// Waits until an essential task fails, and returns its name.
    pub async fn fatal(&self) -> TaskName {
        self.board.fatal().await
    }

    /// A report for every task that runs or has failed, by name.
    pub fn reports(&self) -> Vec<TaskReport> {
        self.board.reports()
    }

    /// The number of failures of tasks of this instance (a source).
    pub fn failures_of(&self, instance: &str) -> u64 {
        let reports = self.board.reports();
        let own = reports.iter().filter(|report| report.name.instance.as_deref() == Some(instance));
        own.map(|report| report.failures).sum()
    }
}

// === impl Task ===

impl Task {
    fn start(work: impl Future<Output = ()> + Send + 'static) -> Self {
        let task = Self { ended: CancellationToken::new() };
        let ended = task.ended.clone().drop_guard();
        tokio::spawn(async move {
            let _ended = ended;
            work.await;
        });
        task
    }

    /// Waits until the task has stopped for good. Can be called repeatedly.
    pub async fn ended(&self) {
        self.ended.cancelled().await;
    }
}

#[cfg(test)]
mod tests;
