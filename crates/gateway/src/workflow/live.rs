//! The workflow runs of this process: what their calls are caused by, when their steps have been
//! recorded, and how to end them.

use std::{collections::HashMap, sync::Arc};

use async_trait::async_trait;
use parking_lot::Mutex;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;
use toolcrib_core::{
    call::{CallError, Outcome},
    id::{CallId, EventId, RunId, TenantId},
};

use crate::gateway::CLOSING_TIME;

/// Runs of this process.
#[derive(Default)]
pub(crate) struct LiveRuns {
    /// Calls of workflows whose opening event is stored, until the workflow begins.
    called: Mutex<HashMap<CallId, WorkflowCall>>,
    running: Mutex<HashMap<CallId, Running>>,
}

/// A workflow's call, as its steps see it.
pub(super) struct WorkflowCall {
    /// The opening event of the call.
    pub(super) cause: EventId,
    /// The workflow's call that it is a step of.
    pub(super) parent: Option<CallId>,
    /// Cancelled when somebody wants the call to end.
    pub(super) end: CancellationToken,
    /// Dropped when everything of the steps has been recorded.
    pub(super) recorded: oneshot::Sender<()>,
}

struct Running {
    tenant: TenantId,
    run: RunId,
    end: CancellationToken,
}

/// Waits for the steps of a workflow to be recorded.
pub(crate) struct Steps {
    runs: Arc<LiveRuns>,
    call: CallId,
    recorded: oneshot::Receiver<()>,
}

/// A run that can be cancelled as long as this lives.
pub(super) struct Listed {
    runs: Arc<LiveRuns>,
    call: CallId,
}

/// What makes a call one of a workflow's step.
pub(crate) struct StepContext {
    /// The id of the call.
    pub(crate) call: CallId,
    /// The workflow's call.
    pub(crate) parent: CallId,
    /// The opening event of that.
    pub(crate) cause: EventId,
    /// Keeps what comes of it, when the run is to survive the process.
    pub(crate) keep: Option<Arc<dyn Keep>>,
}

/// Keeps what came of a call until its run ends.
#[async_trait]
pub(crate) trait Keep: Send + Sync {
    /// Stores it, durably: the call's closing event follows.
    async fn keep(&self, call: &CallId, result: Result<&Outcome, &CallError>);
}

// === impl LiveRuns ===

impl LiveRuns {
    /// A workflow is about to run, because of `cause`.
    pub(crate) fn enter(
        self: &Arc<Self>,
        call: &CallId,
        cause: EventId,
        parent: Option<CallId>,
        end: CancellationToken,
    ) -> Steps {
        let (sender, recorded) = oneshot::channel();
        let called = WorkflowCall { cause, parent, end, recorded: sender };
        self.called.lock().insert(call.clone(), called);
        Steps { runs: Arc::clone(self), call: call.clone(), recorded }
    }

    /// What [`enter`](Self::enter) told of `call`.
    pub(super) fn begin(&self, call: &CallId) -> Option<WorkflowCall> {
        self.called.lock().remove(call)
    }

    /// Has `end` cancelled when somebody wants the run to end.
    pub(super) fn list(
        self: &Arc<Self>,
        call: &CallId,
        tenant: TenantId,
        run: RunId,
        end: CancellationToken,
    ) -> Listed {
        self.running.lock().insert(call.clone(), Running { tenant, run, end });
        Listed { runs: Arc::clone(self), call: call.clone() }
    }

    /// Ends the workflows of `run`; how many there were.
    pub(crate) fn cancel(&self, tenant: &TenantId, run: &RunId) -> usize {
        let running = self.running.lock();
        let wanted = running.values().filter(|it| it.tenant == *tenant && it.run == *run);
        wanted.map(|it| it.end.cancel()).count()
    }

    /// Ends one workflow.
    pub(crate) fn cancel_call(&self, call: &CallId) {
        if let Some(running) = self.running.lock().get(call) {
            running.end.cancel();
        }
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.running.lock().is_empty()
    }
}

// === impl Steps ===

impl Steps {
    /// Waits until everything of the steps has been recorded, for seconds at most.
    pub(crate) async fn recorded(self) {
        // A workflow that has not begun will not.
        self.runs.called.lock().remove(&self.call);
        if tokio::time::timeout(CLOSING_TIME, self.recorded).await.is_err() {
            tracing::warn!(call = %self.call, "a workflow ended before the last of its steps");
        }
    }
}

impl Drop for Listed {
    fn drop(&mut self) {
        self.runs.running.lock().remove(&self.call);
    }
}
