//! Continues the runs of a dead process, and stops the runs that other processes cancel.
//!
//! Invariant (I-49): a call is never repeated, unless the log shows its refusal or its tool may be
//! repeated.

use std::{
    collections::HashMap,
    future::Future,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use tokio_util::sync::CancellationToken;
use toolcrib_core::{
    authorize::Authorizer as _,
    event::{CallStatus, EventBody, EventError, SessionOutcome, ToolReturned, ToolSessionClosed},
    id::{AgentId, CallId, EventId, RunId, SessionId, TenantId, ToolId},
    json,
    principal::{AuthMethod, Principal},
    scope::ScopeSet,
    store::{Changes, KeptRun, RunRecord, RunState, StoreError},
};

use super::{
    Workflows,
    failure::{self, Failure, StepOutcome, StoredStepOutcome},
    past::{EarlierCalls, History},
    run::{End, Run, RunStopConditions, keep_in},
};
use crate::live_runs::CallResultStore;

/// How often dead servers are searched for.
const TAKE_OVER: Duration = Duration::from_secs(5);

impl Workflows {
    /// After `settled`, continues the runs that this process has adopted. Stops the runs that other
    /// processes cancel, until the gateway stops.
    pub(crate) fn start(self: &Arc<Self>, settled: impl Future<Output = ()> + Send + 'static) {
        let services = &self.services;
        services.background.spawn(resume_all(Arc::clone(self), settled));
        if services.storage.is_shared() {
            self.take_over();
        }
        let workflows = Arc::clone(self);
        // The last completed requests; `u64::MAX` if some are incomplete.
        let done = Arc::new(AtomicU64::new(u64::MAX));
        services.follow("workflows", move |_, changes| {
            let (workflows, done) = (Arc::clone(&workflows), Arc::clone(&done));
            async move {
                if let Err(error) = workflows.cancel_requested(changes, &done).await {
                    tracing::warn!(%error, "cancelled runs cannot be read");
                }
            }
        });
    }

    /// Closes the calls and continues the runs of dead servers, until the gateway stops.
    fn take_over(self: &Arc<Self>) {
        let workflows = Arc::clone(self);
        self.services.background.every("recovery", TAKE_OVER, move || {
            let workflows = Arc::clone(&workflows);
            async move {
                let services = &workflows.services;
                match services.storage.recover(services.now()).await {
                    Ok(0) => {}
                    Ok(closed) => tracing::warn!(
                        closed,
                        "calls and tool sessions of a dead server were recorded as failed"
                    ),
                    Err(error) => {
                        return tracing::warn!(%error, "dead servers could not be searched for");
                    }
                }
                let resumed = resume_all(Arc::clone(&workflows), std::future::ready(()));
                services.background.spawn(resumed);
            }
        });
    }

    /// Stops the runs whose cancellation was requested, again if they are still listed.
    async fn cancel_requested(
        &self,
        changes: Result<Changes, StoreError>,
        done: &AtomicU64,
    ) -> Result<(), StoreError> {
        let requests = changes?.cancellations;
        if self.live.is_idle() || done.load(Ordering::Relaxed) == requests {
            return Ok(());
        }
        let calls = self.store.requested_cancellations().await?;
        calls.iter().for_each(|call| self.live.cancel_call(call));
        done.store(if calls.is_empty() { requests } else { u64::MAX }, Ordering::Relaxed);
        Ok(())
    }
}

async fn resume_all(workflows: Arc<Workflows>, settled: impl Future<Output = ()>) {
    let adopted = match workflows.store.adopted().await {
        Ok(adopted) if adopted.is_empty() => return,
        Ok(adopted) => adopted,
        Err(error) => {
            return tracing::error!(%error, "workflow runs of a crashed process cannot be read");
        }
    };
    tracing::info!(runs = adopted.len(), "resuming workflow runs of a crashed process");
    tokio::select! {
        // Runs that are not resumed now are adopted by the next process.
        () = workflows.services.background.ended().cancelled() => return,
        () = settled => {}
    }
    let mut groups: HashMap<(TenantId, RunId), Vec<KeptRun>> = HashMap::new();
    for kept in adopted {
        let key = (kept.record.tenant.clone(), kept.record.run_id.clone());
        groups.entry(key).or_default().push(kept);
    }
    let groups = groups.into_iter().map(|((tenant, run), kept)| {
        let workflows = &workflows;
        async move {
            if let Err(error) = resume_group(workflows, &tenant, &run, kept).await {
                tracing::error!(%run, %error, "a run cannot be resumed: its events cannot be read");
            }
        }
    });
    let groups: Vec<_> = groups.collect();
    futures_util::future::join_all(groups).await;
}

/// Continues the workflows of one run. Nested workflows continue when their parents reach them.
async fn resume_group(
    workflows: &Arc<Workflows>,
    tenant: &TenantId,
    run: &RunId,
    kept: Vec<KeptRun>,
) -> Result<(), StoreError> {
    let mut history = History::read(&workflows.audit, tenant, run).await?;
    let calls: Vec<CallId> = kept.iter().map(|kept| kept.record.call_id.clone()).collect();
    let (roots, others): (Vec<_>, Vec<_>) =
        kept.into_iter().partition(|kept| kept.record.parent.is_none());
    let (children, orphans): (Vec<_>, Vec<_>) = others
        .into_iter()
        .partition(|kept| kept.record.parent.as_ref().is_some_and(|parent| calls.contains(parent)));
    let open_sessions = std::mem::take(&mut history.open_sessions);
    *history.children.lock() =
        children.into_iter().map(|kept| (kept.record.call_id.clone(), kept)).collect();
    let history = Arc::new(history);
    let roots: Vec<_> =
        roots.into_iter().map(|root| resume(workflows, root, &history, None)).collect();
    futures_util::future::join_all(roots).await;
    // Their callers have finished without them.
    let rest: Vec<KeptRun> = history.children.lock().drain().map(|(_, kept)| kept).collect();
    for left in orphans.into_iter().chain(rest) {
        let end = End::Failed(Failure::interrupted());
        store_end(workflows, &left.record, &end).await;
        close_call(workflows, &left.record, &history, &end).await;
    }
    close_sessions(workflows, tenant, run, open_sessions).await;
    Ok(())
}

/// Continues one run until it finishes, and closes its call.
pub(super) async fn resume(
    workflows: &Arc<Workflows>,
    kept: KeptRun,
    history: &Arc<History>,
    keep: Option<Arc<dyn CallResultStore>>,
) -> StepOutcome {
    let record = kept.record.clone();
    let end = match prepare(workflows, kept, history).await {
        Ok((run, ends)) => {
            let listed = workflows.live.list(
                &record.call_id,
                record.tenant.clone(),
                record.run_id.clone(),
                ends.requested.clone(),
            );
            let max_bytes = workflows.snapshots.load().gate.max_result_bytes;
            let end = Box::pin(run.until(ends, max_bytes)).await;
            if workflows.services.background.ended().is_cancelled() {
                // The next process resumes it, as after a crash.
                return Err(Failure::interrupted());
            }
            run.finish(&end).await;
            drop(listed);
            end
        }
        Err(end) => {
            store_end(workflows, &record, &end).await;
            end
        }
    };
    let ended = match &end {
        End::Completed(outcome) => failure::ended(Ok(outcome)),
        End::Failed(failure) => Err(failure.clone()),
        End::Cancelled => Err(Failure::new("cancelled", "the run was cancelled")),
    };
    if let (Some(keep), End::Completed(outcome)) = (keep, &end) {
        keep.keep(&record.call_id, Ok(outcome)).await;
    }
    close_call(workflows, &record, history, &end).await;
    ended
}

/// The restored run, or its immediate result.
async fn prepare(
    workflows: &Arc<Workflows>,
    kept: KeptRun,
    history: &Arc<History>,
) -> Result<(Run, RunStopConditions), End> {
    let KeptRun { record, inputs, results, cancelled } = kept;
    let failed = |code: &str, message: &str| End::Failed(Failure::new(code, message));
    if cancelled {
        return Err(End::Cancelled);
    }
    let unreadable = || failed("interrupted", "the stored state of the run cannot be read");
    let inputs = json::parse(&inputs).map_err(|_| unreadable())?;
    let results = results.into_iter().map(|(call, json)| {
        let kept: StoredStepOutcome = serde_json::from_str(&json).map_err(|_| unreadable())?;
        Ok((call, StepOutcome::from(kept)))
    });
    let kept = results.collect::<Result<HashMap<_, _>, End>>()?;
    let snapshot = workflows.snapshots.load();
    let gone = || failed("workflow_changed", "the workflow has changed since the start of the run");
    let entry = snapshot.catalog.by_id(&record.tenant, record.tool_id.as_str());
    let entry = entry.ok_or_else(gone)?;
    let runnable = snapshot.workflows.get(entry).ok_or_else(gone)?;
    let digest = runnable.digest.as_ref().map(ToString::to_string);
    if digest.as_ref() != Some(&record.digest) {
        return Err(gone());
    }
    let principal = Arc::new(Principal {
        id: record.principal.clone(),
        tenant: record.tenant.clone(),
        scopes: ScopeSet::new([]),
        roles: Vec::new(),
        makers: Vec::new(),
        session: None,
        auth: record.key.clone().map_or(AuthMethod::Anonymous, AuthMethod::ApiKey),
    });
    let principal = workflows
        .authenticator
        .renew(&principal)
        .await
        .map_err(|error| failed("unauthenticated", &error.to_string()))?;
    let same = principal.id == record.principal && principal.tenant == record.tenant;
    let decider = snapshot.decider_for(entry.offer.kind(), &principal);
    if !same || decider.authorize(principal.subject(), entry.resource()).is_err() {
        return Err(failed("forbidden", "the caller may not use this tool any more"));
    }
    let cause = history.calls.get(&record.call_id).ok_or_else(unreadable)?.opened.clone();
    let interaction = workflows
        .interactions
        .start(record.run_id.clone(), &principal)
        .map_err(|error| failed("unavailable", &error.to_string()))?;
    let ends = RunStopConditions {
        requested: CancellationToken::new(),
        left: CancellationToken::new(),
        closed: CancellationToken::new(),
        gateway: workflows.services.background.ended().clone(),
        timeout: entry.timeout,
        parent: record.parent.clone(),
    };
    let run = Run {
        workflows: Arc::clone(workflows),
        plan: Arc::clone(&runnable.plan),
        inputs,
        principal,
        call: record.call_id.clone(),
        cause,
        interaction,
        keep: Some(keep_in(&workflows.store, &record.tenant, &record.call_id)),
        past: EarlierCalls { kept, history: Arc::clone(history) },
        progress: None,
        meta: serde_json::Map::new(),
    };
    Ok((run, ends))
}

// === closing ===

async fn store_end(workflows: &Arc<Workflows>, record: &RunRecord, end: &End) {
    let (state, code) = match end {
        End::Completed(_) => (RunState::Completed, None),
        End::Failed(failure) => (RunState::Failed, Some(failure.code.as_str())),
        End::Cancelled => (RunState::Cancelled, None),
    };
    let now = workflows.services.now();
    let ended = workflows.store.end(&record.tenant, &record.call_id, state, code, now).await;
    if let Err(error) = ended {
        tracing::error!(call = %record.call_id, %error, "the result of a run could not be stored");
    }
}

/// Records the result of the call of the workflow, whose task is gone.
async fn close_call(workflows: &Arc<Workflows>, record: &RunRecord, history: &History, end: &End) {
    let failed = "the workflow failed after its process was replaced";
    let error = match end {
        End::Completed(_) => None,
        End::Failed(failure) => Some(EventError::new(failure.code.as_str(), failed)),
        End::Cancelled => Some(EventError::new("cancelled", "the call was cancelled")),
    };
    let status = if error.is_none() { CallStatus::Ok } else { CallStatus::Error };
    let took = (workflows.services.now() - record.started_at).num_milliseconds();
    let (tool, call) = (record.tool_id.as_str(), record.call_id.clone());
    let body = EventBody::ToolReturned(ToolReturned {
        duration_ms: u64::try_from(took).ok(),
        error,
        principal: Some(record.principal.clone()),
        ..ToolReturned::new(AgentId::system(), tool, call, status)
    });
    let cause = history.calls.get(&record.call_id).map(|trace| trace.opened.clone());
    let (tenant, run) = (record.tenant.clone(), record.run_id.clone());
    let event = workflows.audit.event(tenant, run, body, cause);
    workflows.audit.append_with_retry(vec![event]).await;
}

/// Closes the tool sessions of the dead process for the calls that are now closed.
async fn close_sessions(
    workflows: &Arc<Workflows>,
    tenant: &TenantId,
    run: &RunId,
    open: HashMap<(SessionId, ToolId), EventId>,
) {
    if open.is_empty() || workflows.services.background.ended().is_cancelled() {
        return;
    }
    let closing = open.into_iter().map(|((session_id, tool_id), cause)| {
        let outcome = SessionOutcome::Failed;
        let body = EventBody::ToolSessionClosed(ToolSessionClosed { session_id, tool_id, outcome });
        workflows.audit.event(tenant.clone(), run.clone(), body, Some(cause))
    });
    let closing: Vec<_> = closing.collect();
    workflows.audit.append_with_retry(closing).await;
}
