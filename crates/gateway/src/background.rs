//! What goes on beside the requests of a gateway.
//!
//! Invariant (I-91): a background task holds the gateway only while it works, and ends when the
//! gateway is closed or dropped.

use std::{borrow::Cow, future::Future, time::Duration};

use toolcrib_tasks::{Policy, TaskName, TaskState};

use crate::{Gateway, authn::AuthError, gateway::WeakGateway};

/// Something that probes look at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Check {
    /// Which part of the gateway.
    pub name: &'static str,
    /// How it is doing.
    pub state: CheckState,
    /// What is wrong, in words that anybody may read: no names of sources, tenants or tools.
    pub reason: Option<Cow<'static, str>>,
}

/// The states of a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CheckState {
    /// It works.
    Ok,
    /// Something failed; callers are served.
    Degraded,
    /// Callers cannot be served.
    Failed,
}

// === impl Check ===

impl Check {
    /// A check that is fine.
    pub fn ok(name: &'static str) -> Self {
        Self { name, state: CheckState::Ok, reason: None }
    }

    /// A check that is not.
    pub fn not(
        name: &'static str,
        state: CheckState,
        reason: impl Into<Cow<'static, str>>,
    ) -> Self {
        Self { name, state, reason: Some(reason.into()) }
    }
}

impl CheckState {
    /// The state as a word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Degraded => "degraded",
            Self::Failed => "failed",
        }
    }
}

// === impl Gateway ===

impl Gateway {
    /// How the parts of the gateway are doing that callers depend on. Sources do not count: one that
    /// is down takes only its own tools with it.
    pub fn health(&self) -> Vec<Check> {
        // No key is empty, so the answer shows only whether keys are known.
        let keys = match self.authenticator().authenticate("") {
            Err(AuthError::Unavailable) => {
                Check::not("keys", CheckState::Failed, "keys cannot be read")
            }
            Ok(_) | Err(AuthError::Missing | AuthError::Invalid) => Check::ok("keys"),
        };
        let worst = self.tasks().reports().into_iter().map(|report| report.state).max();
        let tasks = match worst {
            None | Some(TaskState::Running) => Check::ok("tasks"),
            Some(TaskState::Recovering | TaskState::Restarting) => {
                Check::not("tasks", CheckState::Degraded, "a background task failed")
            }
            Some(TaskState::Ended) => {
                Check::not("tasks", CheckState::Failed, "a background task ended")
            }
        };
        let disk = match self.is_low_on_space() {
            false => Check::ok("disk"),
            true => Check::not("disk", CheckState::Degraded, "the store is low on disk space"),
        };
        let record = match self.readiness().reason() {
            None => Check::ok("record"),
            Some(reason) => Check::not("record", CheckState::Failed, reason),
        };
        vec![keys, tasks, disk, record]
    }

    /// Starts a task that runs until the gateway ends.
    pub(crate) fn spawn_forever<F, R>(&self, name: impl Into<TaskName>, mut run: F)
    where
        F: FnMut(WeakGateway) -> R + Send + 'static,
        R: Future<Output = ()> + Send + 'static,
    {
        let (weak, ended) = (self.downgrade(), self.ended().clone());
        self.tasks().spawn(name, Policy::Forever, ended, move || run(weak.clone()));
    }

    /// Does `work` after every `pause` until the gateway ends.
    pub(crate) fn spawn_each<F, R>(&self, kind: &'static str, pause: Duration, work: F)
    where
        F: Fn(Gateway) -> R + Clone + Send + 'static,
        R: Future<Output = ()> + Send + 'static,
    {
        let ended = self.ended().clone();
        self.spawn_forever(kind, move |weak| {
            let (ended, work) = (ended.clone(), work.clone());
            async move {
                loop {
                    tokio::select! {
                        () = tokio::time::sleep(pause) => {}
                        () = ended.cancelled() => return,
                    }
                    let Some(gateway) = weak.upgrade() else { return };
                    work(gateway).await;
                }
            }
        });
    }
}
