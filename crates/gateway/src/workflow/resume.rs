//! Going on with the runs of a dead process, and hearing of runs that somebody wants to end.
//!
//! Invariant: a call that was made once is not made again, unless it is known to have been turned
//! away, or its tool is one that may be repeated.

use std::{collections::HashMap, sync::Arc, time::Duration};

use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;
use toolcrib_core::{
    authorize::Authorizer as _,
    event::{
        CallStatus, EventBody, EventError, EventQuery, SessionOutcome, ToolReturned,
        ToolSessionClosed, ToolSessionOpened,
    },
    id::{AgentId, CallId, EventId, RunId, SessionId, TenantId, ToolId},
    principal::{AuthMethod, Principal},
    scope::ScopeSet,
    store::{KeptRun, RunRecord, RunState, RunStore, StoreError},
};
use toolcrib_tasks::Policy;

use super::{
    failure::{self, Ended, Failure, Kept},
    live::{Keep, LiveRuns},
    run::{End, Run, RunStopConditions, keep_in},
};
use crate::Gateway;

/// How often this process looks whether somebody wants one of its runs to end.
const LOOK: Duration = Duration::from_millis(500);
/// How long sources have to show up before runs go on without them.
const PATIENCE: Duration = Duration::from_secs(60);
/// Events of one run that are read, in pages of what a store gives at once.
const PAGE: usize = 1_000;
const MAX_PAGES: usize = 200;

/// What is known of the calls of a run from before this process.
#[derive(Default)]
pub(super) struct Past {
    kept: HashMap<CallId, Ended>,
    pub(super) history: Arc<History>,
}

/// What became of a call.
pub(super) enum Seen {
    /// It ended.
    Kept(Ended),
    /// It is of a workflow whose run is to go on.
    Child(Box<KeptRun>),
    /// It was turned away.
    Refused,
    /// It began, and nobody knows more.
    Interrupted,
}

/// What the log says about the calls of a run, and the runs inside it that have not gone on yet.
#[derive(Default)]
pub(super) struct History {
    calls: HashMap<CallId, Trace>,
    open_sessions: HashMap<(SessionId, ToolId), EventId>,
    children: Mutex<HashMap<CallId, KeptRun>>,
}

struct Trace {
    opened: EventId,
    refused: bool,
}

// === following ===

/// Goes on with what this process took over, and ends what others want it to end.
pub(crate) fn follow(gateway: &Gateway) {
    let Some(store) = gateway.run_store().map(Arc::clone) else { return };
    let ended = gateway.ended().clone();
    gateway.running().spawn(resume_all(gateway.clone(), Arc::clone(&store)));
    let runs = Arc::clone(gateway.runs());
    let stop = ended.clone();
    let following = gateway.tasks().supervise("workflows", Policy::Forever, ended, move || {
        follow_requests(stop.clone(), Arc::clone(&runs), Arc::clone(&store))
    });
    gateway.running().spawn(following);
}

/// Ends the runs here that other processes want to end.
async fn follow_requests(ended: CancellationToken, runs: Arc<LiveRuns>, store: Arc<dyn RunStore>) {
    loop {
        tokio::select! {
            () = ended.cancelled() => return,
            () = tokio::time::sleep(LOOK) => {}
        }
        if runs.is_idle() {
            continue;
        }
        match store.asked().await {
            Ok(calls) => calls.iter().for_each(|call| runs.cancel_call(call)),
            Err(error) => tracing::warn!(%error, "which runs are to end cannot be read"),
        }
    }
}

async fn resume_all(gateway: Gateway, store: Arc<dyn RunStore>) {
    let adopted = match store.adopted().await {
        Ok(adopted) if adopted.is_empty() => return,
        Ok(adopted) => adopted,
        Err(error) => return tracing::error!(%error, "runs of a dead process cannot be read"),
    };
    tracing::info!(runs = adopted.len(), "runs of a dead process go on");
    tokio::select! {
        // What is not resumed now is taken over by the next process.
        () = gateway.until_closed() => return,
        () = gateway.settle(PATIENCE) => {}
    }
    let mut groups: HashMap<(TenantId, RunId), Vec<KeptRun>> = HashMap::new();
    for kept in adopted {
        let key = (kept.record.tenant.clone(), kept.record.run_id.clone());
        groups.entry(key).or_default().push(kept);
    }
    let groups = groups.into_iter().map(|((tenant, run), kept)| {
        let gateway = &gateway;
        async move {
            if let Err(error) = resume_group(gateway, &tenant, &run, kept).await {
                tracing::error!(%run, %error, "a run cannot go on: its record cannot be read");
            }
        }
    });
    let groups: Vec<_> = groups.collect();
    futures_util::future::join_all(groups).await;
}

/// Goes on with the workflows of one run; those inside others go on when these come to them.
async fn resume_group(
    gateway: &Gateway,
    tenant: &TenantId,
    run: &RunId,
    kept: Vec<KeptRun>,
) -> Result<(), StoreError> {
    let mut history = History::read(gateway, tenant, run).await?;
    let calls: Vec<CallId> = kept.iter().map(|kept| kept.record.call_id.clone()).collect();
    let (roots, others): (Vec<_>, Vec<_>) =
        kept.into_iter().partition(|kept| kept.record.parent.is_none());
    let (children, orphans): (Vec<_>, Vec<_>) = others
        .into_iter()
        .partition(|kept| kept.record.parent.as_ref().is_some_and(|it| calls.contains(it)));
    let open_sessions = std::mem::take(&mut history.open_sessions);
    *history.children.lock() =
        children.into_iter().map(|kept| (kept.record.call_id.clone(), kept)).collect();
    let history = Arc::new(history);
    let roots: Vec<_> =
        roots.into_iter().map(|root| go_on(gateway, root, &history, None)).collect();
    futures_util::future::join_all(roots).await;
    // Whoever called these has ended without them.
    let rest: Vec<KeptRun> = history.children.lock().drain().map(|(_, kept)| kept).collect();
    for left in orphans.into_iter().chain(rest) {
        let end = End::Failed(Failure::interrupted());
        store_end(gateway, &left.record, &end).await;
        close_call(gateway, &left.record, &history, &end).await;
    }
    close_sessions(gateway, tenant, run, open_sessions).await;
    Ok(())
}

/// Goes on with one run until it ends, and closes its call.
pub(super) async fn go_on(
    gateway: &Gateway,
    kept: KeptRun,
    history: &Arc<History>,
    keep: Option<Arc<dyn Keep>>,
) -> Ended {
    let record = kept.record.clone();
    let end = match prepare(gateway, kept, history) {
        Ok((run, ends)) => {
            let listed = gateway.runs().list(
                &record.call_id,
                record.tenant.clone(),
                record.run_id.clone(),
                ends.asked.clone(),
            );
            let max_bytes = gateway.snapshot().gate.max_result_bytes;
            let end = Box::pin(run.until(ends, max_bytes)).await;
            if gateway.ended().is_cancelled() {
                // The next process goes on with it, as it would have after a crash.
                return Err(Failure::interrupted());
            }
            run.finish(&end).await;
            drop(listed);
            end
        }
        Err(end) => {
            store_end(gateway, &record, &end).await;
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
    close_call(gateway, &record, history, &end).await;
    ended
}

/// The run as it was, or how it ends at once.
fn prepare(
    gateway: &Gateway,
    kept: KeptRun,
    history: &Arc<History>,
) -> Result<(Run, RunStopConditions), End> {
    let KeptRun { record, inputs, results, cancelled } = kept;
    let failed = |code: &str, message: &str| End::Failed(Failure::new(code, message));
    if cancelled {
        return Err(End::Cancelled);
    }
    let unreadable = || failed("interrupted", "what was kept of the run cannot be read");
    let inputs = serde_json::from_str(&inputs).map_err(|_| unreadable())?;
    let results = results.into_iter().map(|(call, json)| {
        let kept: Kept = serde_json::from_str(&json).map_err(|_| unreadable())?;
        Ok((call, Ended::from(kept)))
    });
    let kept = results.collect::<Result<HashMap<_, _>, End>>()?;
    let snapshot = gateway.snapshot();
    let gone = || failed("workflow_changed", "the workflow is not what it was when the run began");
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
        auth: record.key.clone().map_or(AuthMethod::Anonymous, AuthMethod::ApiKey),
    });
    let principal = gateway
        .authenticator()
        .renew(&principal)
        .map_err(|error| failed("unauthenticated", &error.to_string()))?;
    let same = principal.id == record.principal && principal.tenant == record.tenant;
    if !same || snapshot.decider.authorize(principal.subject(), entry).is_err() {
        return Err(failed("forbidden", "the caller may not use this tool any more"));
    }
    let cause = history.calls.get(&record.call_id).ok_or_else(unreadable)?.opened.clone();
    let interaction = gateway
        .interaction_in(record.run_id.clone(), &principal)
        .map_err(|error| failed("unavailable", &error.to_string()))?;
    let store = gateway.run_store();
    let ends = RunStopConditions {
        asked: CancellationToken::new(),
        left: CancellationToken::new(),
        closed: CancellationToken::new(),
        gateway: gateway.ended().clone(),
        timeout: entry.timeout,
        parent: record.parent.clone(),
    };
    let run = Run {
        gateway: gateway.clone(),
        plan: Arc::clone(&runnable.plan),
        inputs,
        principal,
        call: record.call_id.clone(),
        cause,
        interaction,
        keep: store.map(|store| keep_in(store, &record.tenant, &record.call_id)),
        past: Past { kept, history: Arc::clone(history) },
        progress: None,
        meta: serde_json::Map::new(),
    };
    Ok((run, ends))
}

// === closing ===

async fn store_end(gateway: &Gateway, record: &RunRecord, end: &End) {
    let Some(store) = gateway.run_store() else { return };
    let (state, code) = match end {
        End::Completed(_) => (RunState::Completed, None),
        End::Failed(failure) => (RunState::Failed, Some(failure.code.as_str())),
        End::Cancelled => (RunState::Cancelled, None),
    };
    let now = gateway.clock().now();
    if let Err(error) = store.end(&record.tenant, &record.call_id, state, code, now).await {
        tracing::error!(call = %record.call_id, %error, "the end of a run could not be stored");
    }
}

/// Writes the end of the workflow's own call, which nobody else does any more.
async fn close_call(gateway: &Gateway, record: &RunRecord, history: &History, end: &End) {
    let (status, error) = match end {
        End::Completed(_) => (CallStatus::Ok, None),
        End::Failed(failure) => (
            CallStatus::Error,
            Some(EventError {
                code: failure.code.clone(),
                message: "the workflow failed after its process was replaced".to_owned(),
            }),
        ),
        End::Cancelled => (
            CallStatus::Error,
            Some(EventError {
                code: "cancelled".to_owned(),
                message: "the call was cancelled".to_owned(),
            }),
        ),
    };
    let took = (gateway.clock().now() - record.started_at).num_milliseconds();
    let body = EventBody::ToolReturned(ToolReturned {
        agent_id: AgentId::system(),
        tool_name: record.tool_id.to_string(),
        call_id: record.call_id.clone(),
        status,
        duration_ms: u64::try_from(took).ok(),
        error,
        principal: Some(record.principal.clone()),
    });
    let cause = history.calls.get(&record.call_id).map(|trace| trace.opened.clone());
    let (tenant, run) = (record.tenant.clone(), record.run_id.clone());
    let event = gateway.record().event(tenant, run, body, cause);
    gateway.record().append_with_retry(vec![event]).await;
}

/// Closes the tool sessions that the dead process opened for the calls that have ended now.
async fn close_sessions(
    gateway: &Gateway,
    tenant: &TenantId,
    run: &RunId,
    open: HashMap<(SessionId, ToolId), EventId>,
) {
    if open.is_empty() || gateway.ended().is_cancelled() {
        return;
    }
    let closing = open.into_iter().map(|((session_id, tool_id), cause)| {
        let outcome = SessionOutcome::Failed;
        let body = EventBody::ToolSessionClosed(ToolSessionClosed { session_id, tool_id, outcome });
        gateway.record().event(tenant.clone(), run.clone(), body, Some(cause))
    });
    let closing: Vec<_> = closing.collect();
    gateway.record().append_with_retry(closing).await;
}

// === impl Past ===

impl Past {
    /// What became of `call` before this process.
    pub(super) fn of(&self, call: &CallId) -> Option<Seen> {
        if let Some(ended) = self.kept.get(call) {
            return Some(Seen::Kept(ended.clone()));
        }
        let trace = self.history.calls.get(call)?;
        let child = self.history.children.lock().remove(call);
        Some(match child {
            Some(child) => Seen::Child(Box::new(child)),
            None if trace.refused => Seen::Refused,
            None => Seen::Interrupted,
        })
    }
}

// === impl History ===

impl History {
    async fn read(gateway: &Gateway, tenant: &TenantId, run: &RunId) -> Result<Self, StoreError> {
        let mut query = EventQuery {
            tenant: Some(tenant.clone()),
            run: Some(run.clone()),
            limit: PAGE,
            ..EventQuery::default()
        };
        let mut history = Self::default();
        for _ in 0..MAX_PAGES {
            let page = gateway.read_events(query.clone()).await?;
            query.after = page.last().map(|last| last.position);
            let full = page.len() >= PAGE;
            for logged in page {
                history.add(logged.event.event_id, logged.event.body);
            }
            if !full {
                return Ok(history);
            }
        }
        Err(StoreError::Unavailable("the run has more events than are read".to_owned()))
    }

    fn add(&mut self, id: EventId, body: EventBody) {
        match body {
            EventBody::ToolCalled(called) => {
                self.calls.insert(called.call_id, Trace { opened: id, refused: false });
            }
            EventBody::ToolReturned(returned) => {
                let interrupted =
                    returned.error.as_ref().is_some_and(|error| error.code == "interrupted");
                if let Some(trace) = self.calls.get_mut(&returned.call_id) {
                    trace.refused = returned.duration_ms.is_none() && !interrupted;
                }
            }
            EventBody::ToolSessionOpened(ToolSessionOpened { session_id, tool_id }) => {
                self.open_sessions.insert((session_id, tool_id), id);
            }
            EventBody::ToolSessionClosed(closed) => {
                self.open_sessions.remove(&(closed.session_id, closed.tool_id));
            }
            EventBody::AuthorizationDecided(_)
            | EventBody::EgressDecided(_)
            | EventBody::ToolPinDrifted(_)
            | EventBody::ToolPinApproved(_)
            | EventBody::InterruptRequested(_)
            | EventBody::ApprovalGranted(_)
            | EventBody::ApprovalRejected(_)
            | EventBody::ApprovalOverridden(_)
            | EventBody::RecordAccepted(_) => {}
        }
    }
}
