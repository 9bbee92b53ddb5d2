//! One run of one workflow.
//!
//! Invariant (I-22): a run has a separate task. A caller that disconnects cancels it, and the
//! events of its steps are recorded before the closing event of its call.
//! Invariant (I-49): every step is called in an interaction of the caller, with the caller's
//! current scopes, and its cause is the call of the workflow.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use tokio_util::sync::CancellationToken;
use toolcrib_core::{
    call::{self, CallError, Invocation, Outcome, ProgressSink, UpstreamError, UpstreamErrorKind},
    catalog::{Entry, Permit},
    clock::Timestamp,
    event::SessionOutcome,
    id::{CallId, EventId, TenantId},
    principal::{AuthMethod, Principal},
    store::{RunRecord, RunState, RunStore},
};

use super::{
    Workflows,
    failure::{self, Failure, StoredStepOutcome},
    past::EarlierCalls,
};
use crate::{
    live_runs::{CallEnd, CallResultStore, WorkflowCall},
    pipeline::session::InteractionState,
    trace::TaskContext,
    workflow_definition::plan::Plan,
};

/// A run in progress.
pub(super) struct Run {
    pub(super) workflows: Arc<Workflows>,
    pub(super) plan: Arc<Plan>,
    pub(super) inputs: serde_json::Value,
    pub(super) principal: Arc<Principal>,
    /// The call of the workflow, and its opening event.
    pub(super) call: CallId,
    pub(super) cause: EventId,
    pub(super) interaction: Arc<InteractionState>,
    pub(super) keep: Option<Arc<dyn CallResultStore>>,
    pub(super) past: EarlierCalls,
    pub(super) progress: Option<Arc<dyn ProgressSink>>,
    /// Trace context of the caller.
    pub(super) meta: serde_json::Map<String, serde_json::Value>,
}

/// The conditions that stop a run early.
pub(super) struct RunStopConditions {
    /// Its cancellation was requested.
    pub(super) requested: CancellationToken,
    /// Its caller disconnected.
    pub(super) left: CancellationToken,
    /// Its source was closed.
    pub(super) closed: CancellationToken,
    /// The gateway stops.
    pub(super) gateway: CancellationToken,
    pub(super) timeout: Duration,
    /// The workflow call with this run as a step. While a step waits for approval, both deadlines
    /// pause.
    pub(super) parent: Option<CallId>,
}

/// The result of a run.
pub(super) enum End {
    Completed(Outcome),
    Failed(Failure),
    Cancelled,
}

/// Keeps results in the store of runs.
struct RunResultStore {
    store: Arc<dyn RunStore>,
    tenant: TenantId,
    call: CallId,
}

/// Runs the workflow of `permit`.
pub(super) async fn run(
    workflows: &Arc<Workflows>,
    permit: &Permit,
    call: Invocation,
    durable: Option<bool>,
    closed: CancellationToken,
) -> Result<Outcome, UpstreamError> {
    let entry = permit.entry();
    let unavailable = |why: &str| UpstreamError::new(UpstreamErrorKind::Unavailable, why);
    let called = workflows.live.begin(&call.call_id);
    let called = called.ok_or_else(|| unavailable("it was not called through the gate"))?;
    let runnable = called
        .runnable
        .as_ref()
        .filter(|known| known.digest == entry.digest)
        .ok_or_else(|| unavailable("the workflow was changed while it was called"))?;
    // A run belongs to the credential, and survives a sign-out in the browser.
    let principal = Arc::new(permit.principal().without_session());
    let interaction = workflows
        .interactions
        .start(call.run_id.clone(), &principal)
        .map_err(|error| unavailable(&error.to_string()))?;
    let store = Arc::clone(&workflows.store);
    let lasts = lasts(durable, &*store, &principal);
    let record = record(&call, &principal, entry, &called, lasts, workflows.services.now());
    let keep = lasts.then(|| keep_in(&store, &principal.tenant, &call.call_id));
    let left = CancellationToken::new();
    let _left_when_dropped = left.clone().drop_guard();
    let ends = RunStopConditions {
        requested: called.end.clone(),
        left,
        closed,
        gateway: workflows.services.background.ended().clone(),
        timeout: call.timeout,
        parent: called.parent,
    };
    let listed = workflows.live.list(
        &call.call_id,
        principal.tenant.clone(),
        call.run_id.clone(),
        called.end.clone(),
    );
    let run = Run {
        workflows: Arc::clone(workflows),
        plan: Arc::clone(&runnable.plan),
        inputs: serde_json::Value::Object(call.arguments),
        principal,
        call: call.call_id,
        cause: called.cause,
        interaction,
        keep,
        past: EarlierCalls::default(),
        progress: call.progress,
        meta: call.meta,
    };
    let (recorded, max_bytes) = (called.recorded, call.max_result_bytes);
    let task = workflows.services.background.spawn(TaskContext::carry(async move {
        let inputs = lasts.then(|| run.inputs.to_string());
        let end = match begin(&*store, record, inputs).await {
            Ok(()) => run.until(ends, max_bytes).await,
            Err(failure) => End::Failed(failure),
        };
        let is_cut_off = run.workflows.services.background.ending().is_cancelled();
        let how = match &end {
            // As after a crash, the next process resumes interrupted runs.
            End::Cancelled if lasts && is_cut_off => CallEnd::Continues,
            End::Failed(failure) if lasts && is_cut_off && failure.is_interrupted() => {
                CallEnd::Continues
            }
            End::Failed(Failure { connection: Some(required), .. }) => {
                CallEnd::NeedsConnection(required.clone())
            }
            _ => CallEnd::Ended,
        };
        match how {
            CallEnd::Ended | CallEnd::NeedsConnection(_) => run.finish(&end).await,
            CallEnd::Continues => run.interaction.close(SessionOutcome::Failed).await,
        }
        drop(listed);
        // The receiver may be gone, if the call was dropped.
        recorded.send(how).ok();
        end
    }));
    match task.await {
        Ok(End::Completed(outcome)) => Ok(outcome),
        Ok(End::Failed(failure)) => Ok(Outcome::text(&failure.message, true)),
        Ok(End::Cancelled) => Ok(Outcome::text("the run was cancelled", true)),
        Err(_panicked) => {
            Err(UpstreamError::new(UpstreamErrorKind::Died, "the run of a workflow panicked"))
        }
    }
}

fn record(
    call: &Invocation,
    principal: &Principal,
    entry: &Entry,
    called: &WorkflowCall,
    durable: bool,
    started_at: Timestamp,
) -> RunRecord {
    RunRecord {
        tenant: principal.tenant.clone(),
        run_id: call.run_id.clone(),
        call_id: call.call_id.clone(),
        tool_id: entry.id.clone(),
        digest: entry.digest.as_ref().map(ToString::to_string).unwrap_or_default(),
        principal: principal.id.clone(),
        key: principal.auth.key().cloned(),
        parent: called.parent.clone(),
        state: RunState::Running,
        code: None,
        durable,
        started_at,
        ended_at: None,
    }
}

/// Whether a run of `principal` survives the process.
fn lasts(durable: Option<bool>, store: &dyn RunStore, principal: &Principal) -> bool {
    match principal.auth {
        AuthMethod::ApiKey(_) | AuthMethod::Anonymous => durable.unwrap_or_else(|| store.seals()),
        // A command of the operator stops with its process. Tokens are not stored: the next process
        // could not check whether one is still valid.
        AuthMethod::Operator | AuthMethod::Jwt(_) => false,
    }
}

async fn begin(
    store: &dyn RunStore,
    record: RunRecord,
    inputs: Option<String>,
) -> Result<(), Failure> {
    store.begin(record, inputs).await.map_err(|error| {
        tracing::error!(%error, "a run could not be stored");
        let error = CallError::NotAccountable("stored");
        Failure::new(error.code(), error.to_string())
    })
}

pub(super) fn keep_in(
    store: &Arc<dyn RunStore>,
    tenant: &TenantId,
    call: &CallId,
) -> Arc<dyn CallResultStore> {
    Arc::new(RunResultStore {
        store: Arc::clone(store),
        tenant: tenant.clone(),
        call: call.clone(),
    })
}

// === impl Run ===

impl Run {
    /// Runs the steps until all have finished, one has failed, or an external condition stops the
    /// run.
    pub(super) async fn until(&self, ends: RunStopConditions, max_bytes: usize) -> End {
        let pauses = self.workflows.approvals.pauses();
        let deadline = pauses.deadline(Some(&self.call), ends.parent.as_ref());
        let ended = tokio::select! {
            biased;
            () = ends.requested.cancelled() => return End::Cancelled,
            () = ends.closed.cancelled() => Err(Failure::interrupted()),
            () = ends.gateway.cancelled() => Err(Failure::interrupted()),
            // A caller that disconnects also cancels; otherwise the deadline of the call has
            // passed.
            () = ends.left.cancelled() => match ends.requested.is_cancelled() {
                true => return End::Cancelled,
                false => Err(too_long()),
            },
            ended = deadline.with_timeout(ends.timeout, self.drive()) => match ended {
                Some(ended) => ended,
                None => Err(too_long()),
            },
        };
        match ended {
            Ok(outputs) => {
                let text = outputs.to_string();
                let outcome = Outcome {
                    structured: Some(call::raw(&outputs)),
                    ..Outcome::text(&text, false)
                };
                match outcome.check_size(max_bytes) {
                    Ok(()) => End::Completed(outcome),
                    Err(error) => End::Failed(Failure::new(error.kind.code(), error.to_string())),
                }
            }
            Err(failure) => End::Failed(failure),
        }
    }

    /// Cancels the running steps, waits until they are recorded, and stores the result.
    pub(super) async fn finish(&self, end: &End) {
        let (session, state, code) = match end {
            End::Completed(_) => (SessionOutcome::Completed, RunState::Completed, None),
            End::Failed(failure) => {
                (SessionOutcome::Failed, RunState::Failed, Some(failure.code.as_str()))
            }
            End::Cancelled => (SessionOutcome::Cancelled, RunState::Cancelled, None),
        };
        self.interaction.close(session).await;
        let (store, now) = (&self.workflows.store, self.workflows.services.now());
        if let Err(error) = store.end(&self.principal.tenant, &self.call, state, code, now).await {
            tracing::error!(call = %self.call, %error, "the result of a run could not be stored");
        }
    }
}

fn too_long() -> Failure {
    Failure::new(UpstreamErrorKind::Timeout.code(), "the workflow exceeded its time limit")
}

// === impl RunResultStore ===

#[async_trait]
impl CallResultStore for RunResultStore {
    async fn keep(&self, call: &CallId, result: Result<&Outcome, &CallError>) {
        // A cancelled run does not need it.
        if matches!(result, Err(CallError::Cancelled)) {
            return;
        }
        let kept = StoredStepOutcome::from(failure::ended(result));
        let stored = match serde_json::to_string(&kept) {
            Ok(json) => self.store.keep(&self.tenant, &self.call, call, json).await,
            Err(_) => return,
        };
        if let Err(error) = stored {
            tracing::error!(%call, %error, "the result of a step could not be stored");
        }
    }
}
