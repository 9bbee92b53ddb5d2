//! One run of one workflow.
//!
//! Invariant (I-22): a run has a task of its own. A caller that hangs up cancels it, and everything
//! of its steps is recorded before the end of its own call.
//! Invariant: every step is called in an [`Interaction`] of the caller, with what the caller holds
//! then, and its call is caused by the call of the workflow.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use tokio_util::sync::CancellationToken;
use toolcrib_core::{
    authorize::Permit,
    call::{self, CallError, Invocation, Outcome, ProgressSink, UpstreamError, UpstreamErrorKind},
    event::SessionOutcome,
    id::{CallId, EventId, TenantId},
    principal::{AuthMethod, Principal},
    store::{RunRecord, RunState, RunStore},
};

use super::{
    failure::{self, Failure, Kept},
    live::Keep,
    plan::Plan,
    resume::Past,
};
use crate::{Gateway, session::Interaction};

/// A run under way.
pub(super) struct Run {
    pub(super) gateway: Gateway,
    pub(super) plan: Arc<Plan>,
    pub(super) inputs: serde_json::Value,
    pub(super) principal: Arc<Principal>,
    /// The call of the workflow, and its opening event.
    pub(super) call: CallId,
    pub(super) cause: EventId,
    pub(super) interaction: Interaction,
    pub(super) keep: Option<Arc<dyn Keep>>,
    pub(super) past: Past,
    pub(super) progress: Option<Arc<dyn ProgressSink>>,
    /// Trace context of the caller.
    pub(super) meta: serde_json::Map<String, serde_json::Value>,
}

/// What may end a run from outside.
pub(super) struct RunStopConditions {
    /// Somebody wants it to end.
    pub(super) asked: CancellationToken,
    /// Nobody waits for it any more.
    pub(super) left: CancellationToken,
    /// Whoever runs it goes.
    pub(super) closed: CancellationToken,
    pub(super) gateway: CancellationToken,
    /// It has taken its time.
    pub(super) timeout: Duration,
    /// The call within which it runs; what it waits for is no time of that one either.
    pub(super) parent: Option<CallId>,
}

/// How a run ended.
pub(super) enum End {
    Completed(Outcome),
    Failed(Failure),
    Cancelled,
}

/// Keeps results in the store of runs.
struct KeepIn {
    store: Arc<dyn RunStore>,
    tenant: TenantId,
    call: CallId,
}

/// Runs the workflow that `permit` is for.
pub(super) async fn run(
    gateway: Gateway,
    permit: &Permit,
    call: Invocation,
    durable: Option<bool>,
    closed: CancellationToken,
) -> Result<Outcome, UpstreamError> {
    let entry = permit.entry();
    let unavailable = |why: &str| UpstreamError::new(UpstreamErrorKind::Unavailable, why);
    let called = gateway.runs().begin(&call.call_id);
    let called = called.ok_or_else(|| unavailable("it was not called through the gate"))?;
    let known = gateway.snapshot().workflows.get(entry).map(Arc::clone);
    let runnable = known
        .filter(|known| known.digest == entry.digest)
        .ok_or_else(|| unavailable("the workflow was changed while it was called"))?;
    let principal = Arc::new(permit.principal().clone());
    let interaction = gateway
        .interaction_in(call.run_id.clone(), &principal)
        .map_err(|error| unavailable(&error.to_string()))?;
    let store = gateway.run_store().map(Arc::clone);
    let lasts = store.as_ref().is_some_and(|store| lasts(durable, store.as_ref(), &principal));
    let record = RunRecord {
        tenant: principal.tenant.clone(),
        run_id: call.run_id.clone(),
        call_id: call.call_id.clone(),
        tool_id: entry.id.clone(),
        digest: runnable.digest.as_ref().map(ToString::to_string).unwrap_or_default(),
        principal: principal.id.clone(),
        key: match &principal.auth {
            AuthMethod::ApiKey(key) => Some(key.clone()),
            AuthMethod::Jwt(_) | AuthMethod::Anonymous | AuthMethod::Operator => None,
        },
        parent: called.parent.clone(),
        state: RunState::Running,
        code: None,
        durable: lasts,
        started_at: gateway.clock().now(),
        ended_at: None,
    };
    let keep = store.as_ref().filter(|_| lasts);
    let keep = keep.map(|store| keep_in(store, &principal.tenant, &call.call_id));
    let left = CancellationToken::new();
    let _left_when_dropped = left.clone().drop_guard();
    let ends = RunStopConditions {
        asked: called.end.clone(),
        left,
        closed,
        gateway: gateway.ended().clone(),
        timeout: call.timeout,
        parent: called.parent,
    };
    let listed = gateway.runs().list(
        &call.call_id,
        principal.tenant.clone(),
        call.run_id.clone(),
        called.end.clone(),
    );
    let tasks = gateway.running().clone();
    let run = Run {
        gateway,
        plan: Arc::clone(&runnable.plan),
        inputs: serde_json::Value::Object(call.arguments),
        principal,
        call: call.call_id,
        cause: called.cause,
        interaction,
        keep,
        past: Past::default(),
        progress: call.progress,
        meta: call.meta,
    };
    let (recorded, max_bytes) = (called.recorded, call.max_result_bytes);
    let task = tasks.spawn(async move {
        let inputs = lasts.then(|| run.inputs.to_string());
        let end = match begin(store.as_deref(), record, inputs).await {
            Ok(()) => run.until(ends, max_bytes).await,
            Err(failure) => End::Failed(failure),
        };
        run.finish(&end).await;
        drop((listed, recorded));
        end
    });
    match task.await {
        Ok(End::Completed(outcome)) => Ok(outcome),
        Ok(End::Failed(failure)) => Ok(Outcome::text(&failure.message, true)),
        Ok(End::Cancelled) => Ok(Outcome::text("the run was cancelled", true)),
        Err(_panicked) => {
            Err(UpstreamError::new(UpstreamErrorKind::Died, "the run of a workflow panicked"))
        }
    }
}

/// Whether a run of `principal` survives the process.
fn lasts(durable: Option<bool>, store: &dyn RunStore, principal: &Principal) -> bool {
    match principal.auth {
        AuthMethod::ApiKey(_) | AuthMethod::Anonymous => durable.unwrap_or_else(|| store.seals()),
        // The operator at the machine ends with the command that was typed, and a token is not kept:
        // nobody could say for the next process that it still holds.
        AuthMethod::Operator | AuthMethod::Jwt(_) => false,
    }
}

async fn begin(
    store: Option<&dyn RunStore>,
    record: RunRecord,
    inputs: Option<String>,
) -> Result<(), Failure> {
    let Some(store) = store else { return Ok(()) };
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
) -> Arc<dyn Keep> {
    Arc::new(KeepIn { store: Arc::clone(store), tenant: tenant.clone(), call: call.clone() })
}

// === impl Run ===

impl Run {
    /// Runs the steps until all have ended, one has failed, or something ends it from outside.
    pub(super) async fn until(&self, ends: RunStopConditions, max_bytes: usize) -> End {
        let pauses = self.gateway.approval_gate().pauses();
        let deadline = pauses.deadline(Some(&self.call), ends.parent.as_ref());
        let ended = tokio::select! {
            biased;
            () = ends.asked.cancelled() => return End::Cancelled,
            () = ends.closed.cancelled() => Err(Failure::interrupted()),
            () = ends.gateway.cancelled() => Err(Failure::interrupted()),
            // A caller that hangs up also asks for the end; what is left is the gateway's deadline.
            () = ends.left.cancelled() => match ends.asked.is_cancelled() {
                true => return End::Cancelled,
                false => Err(too_long()),
            },
            ended = deadline.within(ends.timeout, self.drive()) => match ended {
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
                match outcome.len() > max_bytes {
                    true => End::Failed(Failure::new(
                        UpstreamErrorKind::TooLarge.code(),
                        "the outputs are larger than the limit",
                    )),
                    false => End::Completed(outcome),
                }
            }
            Err(failure) => End::Failed(failure),
        }
    }

    /// Ends the steps that still run, waits until they are recorded, and stores the end.
    pub(super) async fn finish(&self, end: &End) {
        let (session, state, code) = match end {
            End::Completed(_) => (SessionOutcome::Completed, RunState::Completed, None),
            End::Failed(failure) => {
                (SessionOutcome::Failed, RunState::Failed, Some(failure.code.as_str()))
            }
            End::Cancelled => (SessionOutcome::Cancelled, RunState::Cancelled, None),
        };
        self.interaction.close(session).await;
        let Some(store) = self.gateway.run_store() else { return };
        let now = self.gateway.clock().now();
        if let Err(error) = store.end(&self.principal.tenant, &self.call, state, code, now).await {
            tracing::error!(call = %self.call, %error, "the end of a run could not be stored");
        }
    }
}

fn too_long() -> Failure {
    Failure::new(UpstreamErrorKind::Timeout.code(), "the workflow did not end in its time")
}

// === impl KeepIn ===

#[async_trait]
impl Keep for KeepIn {
    async fn keep(&self, call: &CallId, result: Result<&Outcome, &CallError>) {
        // A run that is being ended has no use for it.
        if matches!(result, Err(CallError::Cancelled)) {
            return;
        }
        let kept = Kept::from(failure::ended(result));
        let stored = match serde_json::to_string(&kept) {
            Ok(json) => self.store.keep(&self.tenant, &self.call, call, json).await,
            Err(_) => return,
        };
        if let Err(error) = stored {
            tracing::error!(%call, %error, "what came of a step could not be kept");
        }
    }
}
