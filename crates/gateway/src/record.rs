//! What is written about a call, and when.
//!
//! Invariant (I-18): the opening event is a gate. Invariant (I-19): the closing event is not.
//! Invariant (I-20): nothing here has a place for arguments or results.

use std::{
    collections::{BTreeSet, HashMap},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use parking_lot::Mutex;
use serde_json::Value;
use tokio::sync::{Semaphore, mpsc, oneshot};
use toolcrib_core::{
    call::{CallError, Outcome, UpstreamError, UpstreamErrorKind},
    canonical,
    catalog::Entry,
    clock::Clock,
    egress::EgressDecided,
    event::{
        AuthorizationDecided, CallStatus, EventBody, EventError, EventLog, NewEvent, ToolCalled,
        ToolReturned,
    },
    id::{AgentId, CallId, EventId, PrincipalId, RunId, TenantId},
    principal::Principal,
    redact::Redactor,
    store::StoreError,
};
use uuid::Uuid;

use crate::{metrics::Metrics, space::Space};

/// Writes events.
pub(crate) struct Record {
    log: Arc<dyn EventLog>,
    clock: Arc<dyn Clock>,
    metrics: Arc<Metrics>,
    quiet: mpsc::Sender<Quiet>,
    dropped: Arc<AtomicU64>,
    /// By route template, of which there are few.
    knocks: Mutex<HashMap<String, Knock>>,
    late: Arc<Semaphore>,
    space: Arc<Space>,
}

/// Requests without credentials on one route.
struct Knock {
    told_at: u64,
    untold: u64,
}

/// Nanoseconds between two events about the same route.
const KNOCK_PAUSE: u64 = 1_000_000_000;

/// What the task behind the queue of denials does next.
enum Quiet {
    Store(Box<NewEvent>),
    Flushed(oneshot::Sender<()>),
}

/// Who a call belongs to, what it is of, and how it is identified.
#[derive(Clone)]
pub(crate) struct CallIdentity {
    pub(crate) tenant: TenantId,
    pub(crate) principal: PrincipalId,
    pub(crate) agent: AgentId,
    pub(crate) run: RunId,
    pub(crate) call: CallId,
    pub(crate) args_hash: Option<String>,
    pub(crate) entry: Arc<Entry>,
    /// The event of the call that this one is a step of.
    pub(crate) cause: Option<EventId>,
}

/// Proof that the opening event is durable.
pub(crate) struct Started {
    call: CallIdentity,
    event: EventId,
}

impl Started {
    /// The opening event.
    pub(crate) fn event(&self) -> &EventId {
        &self.event
    }
}

/// Denials of reads and of unauthenticated requests that wait to be written. They come at the rate
/// at which strangers knock, so they are queued here and dropped (and counted) beyond it. Names of
/// all kinds are short: about 1 KiB each, 1 MiB in all.
const MAX_QUIET: usize = 1024;
/// Closing events that may wait for a store that does not answer. About 1 KiB each and 300 bytes for
/// every host that the call reached (at most 64): 10 MiB, at worst 200 MiB.
const MAX_LATE: usize = 10_000;
/// How often a closing event is tried before the caller is answered without it, and after.
const PROMPT_TRIES: u32 = 3;
const LATE_TRIES: u32 = 60;

impl Record {
    pub(crate) fn new(
        log: Arc<dyn EventLog>,
        clock: Arc<dyn Clock>,
        metrics: Arc<Metrics>,
    ) -> Self {
        let (quiet, queued) = mpsc::channel(MAX_QUIET);
        tokio::spawn(store_quietly(queued, Arc::clone(&log), Arc::clone(&metrics)));
        let dropped = Arc::new(AtomicU64::new(0));
        let late = Arc::new(Semaphore::new(MAX_LATE));
        let (knocks, space) = (Mutex::default(), Arc::default());
        Self { log, clock, metrics, quiet, dropped, knocks, late, space }
    }

    /// What is left for it.
    pub(crate) fn space(&self) -> &Arc<Space> {
        &self.space
    }

    /// Makes the opening event durable; without that nothing may run.
    pub(crate) async fn started(&self, call: CallIdentity) -> Result<Started, CallError> {
        let event = self.called(&call);
        let id = event.event_id.clone();
        match self.log.append(vec![event]).await {
            Ok(_) => Ok(Started { call, event: id }),
            Err(error) => Err(self.refused_to_store(&error)),
        }
    }

    /// Makes the closing event durable, together with where the call went. A store that does not answer is tried a few times now, then
    /// in the background: what was done is done, and the caller is told so.
    pub(crate) async fn finished(
        &self,
        started: Started,
        result: Result<&Outcome, &CallError>,
        duration: Option<Duration>,
        egress: Vec<EgressDecided>,
    ) {
        let Started { call, event: cause } = started;
        let mut events: Vec<_> = egress
            .into_iter()
            .map(|decided| {
                let body = EventBody::EgressDecided(decided);
                self.event(call.tenant.clone(), call.run.clone(), body, Some(cause.clone()))
            })
            .collect();
        events.push(self.returned(&call, cause, result, duration));
        self.insist(events).await;
    }

    /// Makes an event durable before what it tells of may happen.
    pub(crate) async fn ahead(&self, event: NewEvent) -> Result<(), CallError> {
        let stored = self.log.append(vec![event]).await;
        stored.map(drop).map_err(|error| self.refused_to_store(&error))
    }

    /// Stores closing events, which tell of what is done and so are not given up easily.
    pub(crate) async fn insist(&self, events: Vec<NewEvent>) {
        for attempt in 0..PROMPT_TRIES {
            match self.log.append(events.clone()).await {
                Ok(_) => return,
                Err(error) => {
                    tracing::error!(%error, attempt, "a closing event could not be stored")
                }
            }
            tokio::time::sleep(Duration::from_millis(100 << attempt)).await;
        }
        self.finish_later(events);
    }

    fn finish_later(&self, events: Vec<NewEvent>) {
        let Ok(place) = Arc::clone(&self.late).try_acquire_owned() else {
            return self.metrics.unrecorded();
        };
        let (log, metrics) = (Arc::clone(&self.log), Arc::clone(&self.metrics));
        tokio::spawn(async move {
            for _ in 0..LATE_TRIES {
                tokio::time::sleep(Duration::from_secs(5)).await;
                if log.append(events.clone()).await.is_ok() {
                    return;
                }
            }
            metrics.unrecorded();
            drop(place);
        });
    }

    /// Records a call that was refused before it started: a pair without a duration, and for a denial
    /// the decision. The refusal stands whether or not it could be stored; with little space it is not.
    pub(crate) async fn refused(
        &self,
        call: &CallIdentity,
        error: &CallError,
        reason: Option<&str>,
    ) {
        let opening = self.called(call);
        let closing = self.returned(call, opening.event_id.clone(), Err(error), None);
        let cause = opening.event_id.clone();
        let mut events = vec![opening, closing];
        if let Some(reason) = reason {
            events.push(NewEvent {
                causation_id: Some(cause),
                ..self.decided(
                    call.tenant.clone(),
                    call.principal.clone(),
                    call.run.clone(),
                    "tools:call",
                    call.entry.id.as_str(),
                    reason,
                )
            });
        }
        if self.space.is_low() {
            return events.iter().for_each(|_| self.metrics.unrecorded());
        }
        if let Err(error) = self.log.append(events).await {
            self.metrics.unrecorded();
            tracing::error!(%error, "a refused call could not be recorded");
        }
    }

    /// Records, in one run, that `references` of an allow-list resolve to no tool that `agent` may
    /// use: for each a return without a call, because nobody called (RFC 0064, forbidden at load).
    /// Its call id follows from the reference, so that loading again tells the same.
    ///
    /// # Errors
    /// [`StoreError`]: none of them was stored.
    pub(crate) async fn forbidden_at_load(
        &self,
        tenant: &TenantId,
        agent: &AgentId,
        references: BTreeSet<&str>,
    ) -> Result<RunId, StoreError> {
        let run: RunId = new_id();
        let row = |reference: &str| {
            let call_id = format!("forbidden:{}", canonical::Digest::of(reference.as_bytes()));
            let body = EventBody::ToolReturned(ToolReturned {
                agent_id: agent.clone(),
                tool_name: reference.to_owned(),
                call_id: CallId::parse(call_id).unwrap_or_else(|_| new_id()),
                status: CallStatus::Forbidden,
                duration_ms: None,
                error: Some(EventError {
                    code: "forbidden".to_owned(),
                    message: "the reference resolves to no tool that may be used".to_owned(),
                }),
            });
            self.event(tenant.clone(), run.clone(), body, None)
        };
        let rows = references.into_iter().filter(|text| !text.is_empty()).map(row).collect();
        self.log.append(rows).await.map(|_| run)
    }

    /// Records the denial of something that is not a call, without making anyone wait.
    pub(crate) fn denied(&self, principal: &Principal, action: &str, resource: &str, reason: &str) {
        let (tenant, id) = (principal.tenant.clone(), principal.id.clone());
        self.queue(self.decided(tenant, id, new_id(), action, resource, reason));
    }

    /// Records that a name was asked for that does not exist. The name itself is the caller's text.
    pub(crate) fn unknown(&self, principal: &Principal, action: &str) {
        self.denied(principal, action, "unknown", "unknown");
    }

    /// Records that a foreign tenant's tool was asked for. To the caller's tenant, its auditors
    /// included, that is a name that does not exist (I-9); which tool it was is told to the operator.
    pub(crate) fn foreign(&self, principal: &Principal, action: &str, entry: &Entry) {
        self.unknown(principal, action);
        let who = PrincipalId::parse(format!("{}/{}", principal.tenant, principal.id));
        if let (Ok(tenant), Ok(who)) = (TenantId::parse(TenantId::OPERATOR), who) {
            let resource = entry.id.as_str();
            self.queue(self.decided(tenant, who, new_id(), action, resource, "tenant"));
        }
    }

    /// Records that somebody without valid credentials was turned away from `route` (a template).
    /// Such requests belong to no tenant, and come at the rate at which strangers knock: one event a
    /// second and route, the next of which says how many there were beside it.
    pub(crate) fn unauthenticated(&self, route: &str) {
        let now = self.clock.monotonic_nanos();
        let mut knocks = self.knocks.lock();
        match knocks.get_mut(route) {
            Some(knock) if now.saturating_sub(knock.told_at) < KNOCK_PAUSE => knock.untold += 1,
            Some(knock) => {
                knock.told_at = now;
                let untold = std::mem::take(&mut knock.untold);
                self.tell_knock(route, untold);
            }
            None => {
                knocks.insert(route.to_owned(), Knock { told_at: now, untold: 0 });
                self.tell_knock(route, 0);
            }
        }
    }

    /// Records what was counted but not told yet and is not followed by anything that would tell it.
    pub(crate) fn tell_repeated(&self) {
        let now = self.clock.monotonic_nanos();
        for (route, knock) in self.knocks.lock().iter_mut() {
            if knock.untold > 0 && now.saturating_sub(knock.told_at) >= KNOCK_PAUSE {
                knock.told_at = now;
                let untold = std::mem::take(&mut knock.untold);
                self.tell_knock(route, untold - 1);
            }
        }
    }

    fn tell_knock(&self, route: &str, repeated: u64) {
        if let (Ok(tenant), Ok(who)) =
            (TenantId::parse(TenantId::OPERATOR), PrincipalId::parse("anonymous"))
        {
            let reason = "unauthenticated";
            let mut event = self.decided(tenant, who, new_id(), "http:request", route, reason);
            if let EventBody::AuthorizationDecided(decided) = &mut event.body {
                decided.repeated = (repeated > 0).then_some(repeated);
            }
            self.queue(event);
        }
    }

    fn queue(&self, event: NewEvent) {
        if self.space.is_low() {
            return self.metrics.unrecorded();
        }
        if self.quiet.try_send(Quiet::Store(Box::new(event))).is_err() {
            self.metrics.unrecorded();
            let dropped = self.dropped.fetch_add(1, Ordering::Relaxed) + 1;
            if dropped.is_power_of_two() {
                tracing::warn!(dropped, "denials come faster than they can be recorded");
            }
        }
    }

    /// Waits until the denials that are queued now have been stored (or could not be).
    pub(crate) async fn flush(&self) {
        for (route, knock) in self.knocks.lock().drain() {
            if let Some(more) = knock.untold.checked_sub(1) {
                self.tell_knock(&route, more);
            }
        }
        let (done, flushed) = oneshot::channel();
        if self.quiet.send(Quiet::Flushed(done)).await.is_ok() && flushed.await.is_err() {
            tracing::error!("the queue of denials ended early");
        }
    }

    fn refused_to_store(&self, error: &StoreError) -> CallError {
        tracing::error!(%error, "a call was refused because it could not be recorded");
        CallError::NotAccountable("recorded")
    }

    pub(crate) fn event(
        &self,
        tenant: TenantId,
        run: RunId,
        body: EventBody,
        cause: Option<EventId>,
    ) -> NewEvent {
        NewEvent {
            event_id: new_id(),
            tenant,
            run_id: run,
            body,
            timestamp: self.clock.now(),
            causation_id: cause,
        }
    }

    fn called(&self, call: &CallIdentity) -> NewEvent {
        let body = EventBody::ToolCalled(ToolCalled {
            agent_id: call.agent.clone(),
            tool_name: call.entry.id.to_string(),
            call_id: call.call.clone(),
            args_hash: call.args_hash.clone(),
            principal: call.principal.clone(),
            transport: call.entry.transport,
        });
        self.event(call.tenant.clone(), call.run.clone(), body, call.cause.clone())
    }

    fn returned(
        &self,
        call: &CallIdentity,
        cause: EventId,
        result: Result<&Outcome, &CallError>,
        duration: Option<Duration>,
    ) -> NewEvent {
        // Whatever is not a success says so in words of its own (RFC 0064 §F).
        let told = |error: &CallError| EventError {
            code: error.code().to_owned(),
            message: error.to_string(),
        };
        let (status, error) = match result {
            Ok(outcome) if !outcome.is_error => (CallStatus::Ok, None),
            Ok(_) => (CallStatus::Error, Some(tool_failed())),
            // Not even a connection was made: a gate of this host (RFC 0076 §B).
            Err(error @ CallError::Upstream(UpstreamError { kind, .. }))
                if *kind == UpstreamErrorKind::EgressRefused =>
            {
                (CallStatus::Forbidden, Some(told(error)))
            }
            Err(error @ CallError::Forbidden { .. }) => (CallStatus::Forbidden, Some(told(error))),
            Err(error @ CallError::RateLimited { .. }) => {
                (CallStatus::RateLimited, Some(told(error)))
            }
            Err(error) => (CallStatus::Error, Some(told(error))),
        };
        let body = EventBody::ToolReturned(ToolReturned {
            agent_id: call.agent.clone(),
            tool_name: call.entry.id.to_string(),
            call_id: call.call.clone(),
            status,
            duration_ms: duration.map(|d| u64::try_from(d.as_millis()).unwrap_or(u64::MAX)),
            error,
        });
        self.event(call.tenant.clone(), call.run.clone(), body, Some(cause))
    }

    fn decided(
        &self,
        tenant: TenantId,
        principal: PrincipalId,
        run: RunId,
        action: &str,
        resource: &str,
        reason: &str,
    ) -> NewEvent {
        let body = EventBody::AuthorizationDecided(AuthorizationDecided {
            principal,
            action: action.to_owned(),
            resource: resource.to_owned(),
            allowed: false,
            reason: Some(reason.to_owned()),
            repeated: None,
        });
        self.event(tenant, run, body, None)
    }
}

async fn store_quietly(
    mut queued: mpsc::Receiver<Quiet>,
    log: Arc<dyn EventLog>,
    metrics: Arc<Metrics>,
) {
    let mut batch = Vec::new();
    while queued.recv_many(&mut batch, MAX_QUIET).await > 0 {
        let (mut events, mut waiting) = (Vec::new(), Vec::new());
        for item in batch.drain(..) {
            match item {
                Quiet::Store(event) => events.push(*event),
                Quiet::Flushed(done) => waiting.push(done),
            }
        }
        let lost = events.len();
        if lost > 0
            && let Err(error) = log.append(events).await
        {
            (0..lost).for_each(|_| metrics.unrecorded());
            tracing::error!(%error, lost, "denials could not be recorded");
        }
        for done in waiting {
            // Nobody waits any more: then nobody needs to hear it.
            done.send(()).ok();
        }
    }
}

/// The tool's own words are content, so the record has these instead.
fn tool_failed() -> EventError {
    EventError {
        code: "tool_execution_failed".to_owned(),
        message: "the tool reported a failure".to_owned(),
    }
}

/// `argsHash` (RFC 0064 §B): redact, then RFC 8785, then SHA-256, lower hex.
pub(crate) fn args_hash(arguments: &Value) -> Result<String, canonical::CanonicalError> {
    let redacted = Redactor::default().value(arguments);
    canonical::digest(&redacted).map(|digest| digest.to_string())
}

/// A fresh UUIDv7 as any identifier.
pub(crate) fn new_id<T: TryFrom<String>>() -> T {
    // 36 characters of [0-9a-f-] fit every identifier's grammar, so the loop ends at once.
    loop {
        if let Ok(id) = T::try_from(Uuid::now_v7().to_string()) {
            return id;
        }
    }
}
