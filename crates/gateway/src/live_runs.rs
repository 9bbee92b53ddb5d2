//! The workflow runs of this process: the causes of their calls, their recorded steps, and their
//! cancellation.

use std::{collections::HashMap, sync::Arc};

use async_trait::async_trait;
use parking_lot::Mutex;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;
use toolcrib_core::{
    call::{CallError, ConnectionRequired, Outcome},
    id::{CallId, EventId, RunId, TenantId},
};

use crate::{background::CLOSING_TIME, workflow_definition::offer::RunnableWorkflow};

/// Runs of this process.
#[derive(Default)]
pub(crate) struct LiveRuns {
    /// Calls of workflows whose opening event is stored, until the workflow starts.
    called: Mutex<HashMap<CallId, WorkflowCall>>,
    running: Mutex<HashMap<CallId, LiveRun>>,
}

/// A call of a workflow, as its steps see it.
pub(crate) struct WorkflowCall {
    /// The workflow, in the snapshot of the call.
    pub(crate) runnable: Option<Arc<RunnableWorkflow>>,
    /// The opening event of the call.
    pub(crate) cause: EventId,
    /// The parent call, if this call is a step of a workflow.
    pub(crate) parent: Option<CallId>,
    /// Cancelled to stop the call.
    pub(crate) end: CancellationToken,
    /// Takes the state of the call after all steps have been recorded.
    pub(crate) recorded: oneshot::Sender<CallEnd>,
}

struct LiveRun {
    tenant: TenantId,
    run: RunId,
    end: CancellationToken,
}

/// Waits for the steps of a workflow to be recorded.
pub(crate) struct Steps {
    runs: Arc<LiveRuns>,
    call: CallId,
    recorded: oneshot::Receiver<CallEnd>,
}

/// The state of the call of a workflow after its task.
#[derive(Debug)]
pub(crate) enum CallEnd {
    /// It has finished.
    Ended,
    /// It has failed because its caller must connect an account. The link is for the caller alone.
    NeedsConnection(Box<ConnectionRequired>),
    /// Another process continues its run, and records its result.
    Continues,
}

/// A run that can be cancelled as long as this value exists.
pub(crate) struct CancellableRun {
    runs: Arc<LiveRuns>,
    call: CallId,
}

/// The context of a call that is a step of a workflow.
pub(crate) struct StepContext {
    pub(crate) call: CallId,
    /// The call of the workflow.
    pub(crate) parent: CallId,
    /// The opening event of that call.
    pub(crate) cause: EventId,
    /// Stores the result, if the run must survive the process.
    pub(crate) keep: Option<Arc<dyn CallResultStore>>,
}

/// Stores the result of a call until its run finishes.
#[async_trait]
pub(crate) trait CallResultStore: Send + Sync {
    /// Stores it durably, before the call's closing event.
    async fn keep(&self, call: &CallId, result: Result<&Outcome, &CallError>);
}

// === impl LiveRuns ===

impl LiveRuns {
    /// Registers a call of a workflow whose opening event is `cause`.
    pub(crate) fn enter(
        self: &Arc<Self>,
        call: &CallId,
        cause: EventId,
        parent: Option<CallId>,
        end: CancellationToken,
        runnable: Option<Arc<RunnableWorkflow>>,
    ) -> Steps {
        let (sender, recorded) = oneshot::channel();
        let called = WorkflowCall { runnable, cause, parent, end, recorded: sender };
        self.called.lock().insert(call.clone(), called);
        Steps { runs: Arc::clone(self), call: call.clone(), recorded }
    }

    /// Removes and returns the registration of `call`.
    pub(crate) fn begin(&self, call: &CallId) -> Option<WorkflowCall> {
        self.called.lock().remove(call)
    }

    /// Lists the run, so that `end` can be cancelled.
    pub(crate) fn list(
        self: &Arc<Self>,
        call: &CallId,
        tenant: TenantId,
        run: RunId,
        end: CancellationToken,
    ) -> CancellableRun {
        self.running.lock().insert(call.clone(), LiveRun { tenant, run, end });
        CancellableRun { runs: Arc::clone(self), call: call.clone() }
    }

    /// Cancels the workflows of `run`. Returns their number.
    pub(crate) fn cancel(&self, tenant: &TenantId, run: &RunId) -> usize {
        let running = self.running.lock();
        let wanted =
            running.values().filter(|workflow| workflow.tenant == *tenant && workflow.run == *run);
        wanted.map(|workflow| workflow.end.cancel()).count()
    }

    /// Cancels one workflow.
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
    /// Waits until all steps have been recorded, for seconds at most.
    pub(crate) async fn recorded(self) -> CallEnd {
        // A workflow that has not started never will.
        self.runs.called.lock().remove(&self.call);
        match tokio::time::timeout(CLOSING_TIME, self.recorded).await {
            Ok(end) => end.unwrap_or(CallEnd::Ended),
            Err(_late) => {
                tracing::warn!(call = %self.call, "a workflow finished before the last of its steps");
                CallEnd::Ended
            }
        }
    }
}

impl Drop for CancellableRun {
    fn drop(&mut self) {
        self.runs.running.lock().remove(&self.call);
    }
}
