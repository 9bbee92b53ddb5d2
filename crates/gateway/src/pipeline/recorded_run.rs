//! Steps 7 to 9 of a call: it runs between its opening and its closing event.

use std::sync::Arc;

use tokio_util::sync::CancellationToken;
use toolcrib_core::{
    call::{CallError, Operation, UpstreamError, UpstreamErrorKind},
    catalog::Entry,
    id::CallId,
    source::Source,
};

use super::{
    dispatch::{self, Execution, StopConditions},
    late::LateCheck,
    request::RequestCharge,
    session::InteractionGuard,
};
use crate::{
    approvals::Approvals,
    audit::{Audit, CallIdentity, RecordedEnd, StartedCall},
    background::Services,
    breaker::Breaker,
    limits::quota::QuotaCharge,
    live_runs::{CallEnd, LiveRuns, StepContext},
    trace::{ActiveSpan, CallSpan},
    workflow_definition::offer::RunnableWorkflow,
};

/// An admitted call in a separate task, which outlives its caller (I-22).
pub(super) struct RecordedRun {
    pub(super) services: Services,
    pub(super) audit: Arc<Audit>,
    pub(super) approvals: Arc<Approvals>,
    pub(super) runs: Arc<LiveRuns>,
    pub(super) entry: Arc<Entry>,
    pub(super) source: Option<Arc<dyn Source>>,
    pub(super) breaker: Option<Arc<Breaker>>,
    /// The workflow, if the tool is one.
    pub(super) runnable: Option<Arc<RunnableWorkflow>>,
    pub(super) late: Arc<LateCheck>,
    /// Its step, if it is part of a workflow.
    pub(super) step: Option<StepContext>,
    pub(super) span: CallSpan,
    /// Fires when the caller disconnects.
    pub(super) cancelled: CancellationToken,
    pub(super) charge: Option<Arc<dyn RequestCharge>>,
    pub(super) guard: Option<InteractionGuard>,
}

/// The one attempt of a call at its source.
pub(super) struct Attempt {
    pub(super) operation: Operation,
    pub(super) span: ActiveSpan,
    /// The quotas that count it; released unless the call starts.
    pub(super) quota_charge: QuotaCharge,
}

// === impl RecordedRun ===

impl RecordedRun {
    /// Records the start, runs the call, and records its result.
    ///
    /// # Errors
    /// The start could not be recorded, so the call did not start (I-18).
    pub(super) async fn complete(
        self,
        identity: CallIdentity,
        attempt: Attempt,
    ) -> Result<Execution, CallError> {
        // 7. record the start, or do not start
        let id = identity.call.clone();
        let recording = self.span.begin_step("toolcrib.record");
        let started = recording.close(self.audit.started(identity).await)?;
        if let Err(error) = self.late.check_start(attempt.operation.invocation()).await {
            self.audit.finished(started, Err(&error), None, Vec::new()).await;
            return Ok(Execution::not_started(error));
        }

        // 8. run; a workflow finishes after its steps
        let egress = attempt.operation.invocation().egress.clone();
        let _running = self.services.metrics.runs(&self.entry.source);
        let (mut execution, call_end) = self.run(&id, &started, attempt).await;
        if matches!(call_end, CallEnd::Continues) {
            return Ok(execution);
        }
        if let Some(keep) = self.step.as_ref().and_then(|step| step.keep.as_ref()) {
            keep.keep(&id, execution.result.as_ref()).await;
        }

        // 9. record the result
        let result = execution.result.as_ref();
        let recording = self.span.begin_step("toolcrib.record");
        let end = self.audit.finished(started, result, execution.duration, egress.take()).await;
        drop(recording);
        if end == RecordedEnd::ClosedByAnother {
            execution.result = Err(interrupted());
        }
        self.span.end(&execution.result);
        // The link of a step is for the caller of the workflow, and neither stored nor recorded.
        if let CallEnd::NeedsConnection(required) = call_end
            && execution.result.is_ok()
        {
            execution.result = Err(CallError::ConnectionRequired(required));
        }
        // The memory of the request counts, and its interaction is open, until this point.
        drop((self.charge, self.guard));
        Ok(execution)
    }

    /// Sends the call to its source. Returns after all steps of a workflow.
    async fn run(
        &self,
        id: &CallId,
        started: &StartedCall,
        attempt: Attempt,
    ) -> (Execution, CallEnd) {
        let Attempt { operation, span, quota_charge } = attempt;
        let is_workflow = self.entry.tool.source.traits().is_in_gateway;
        let parent = self.step.as_ref().map(|step| step.parent.clone());
        let pauses = self.approvals.pauses();
        let deadline = pauses.deadline(is_workflow.then_some(id), parent.as_ref());
        let steps = is_workflow.then(|| {
            let (cause, cancelled) = (started.event().clone(), self.cancelled.clone());
            self.runs.enter(id, cause, parent, cancelled, self.runnable.clone())
        });
        let (source, breaker) = (self.source.as_deref(), self.breaker.as_ref());
        let clock = &*self.services.clock;
        let stop = StopConditions { deadline, cancelled: &self.cancelled, clock };
        let running = dispatch::run(source, breaker, &self.late.permit, operation, stop);
        let mut execution = match span.leads_elsewhere() {
            true => span.run(Box::pin(running)).await,
            false => running.await,
        };
        if let Some(error) = self.late.refused.lock().take() {
            execution = Execution { invoked: execution.invoked, ..Execution::not_started(error) };
        }
        span.end(&execution.result);
        drop(span);
        if execution.duration.is_some() {
            quota_charge.keep();
        }
        let end = match steps {
            Some(steps) => steps.recorded().await,
            None => CallEnd::Ended,
        };
        (execution, end)
    }
}

/// The error of a call of this process that another server has recorded as interrupted. A
/// repetition under the same idempotency key gets the same error.
pub(super) fn interrupted() -> CallError {
    let detail = "the process that ran it stopped";
    CallError::Upstream(UpstreamError::new(UpstreamErrorKind::Interrupted, detail))
}
