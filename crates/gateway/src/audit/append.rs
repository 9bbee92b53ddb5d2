//! Appends to the event log.
//!
//! Invariant (I-18): a call starts only after its opening event was stored. Invariant (I-19): a
//! closing event that cannot be stored does not fail its call. Invariant (I-20): no type here has a
//! field for arguments or results.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, OnceLock},
    time::Duration,
};

use tokio::{
    sync::{Semaphore, mpsc, oneshot},
    time::Instant,
};
use toolcrib_core::{
    authorize::Denied,
    call::{CallError, Outcome, UpstreamError, UpstreamErrorKind},
    canonical,
    catalog::Entry,
    clock::Clock,
    egress::EgressDecided,
    event::{
        AuthorizationDecided, CallStatus, EventBody, EventError, EventLog, EventQuery, LoggedEvent,
        NewEvent, ToolCalled, ToolReturned,
    },
    id::{AgentId, CallId, EventId, PrincipalId, RunId, TenantId},
    principal::Principal,
    record::RecordStore,
    store::{Storage, StoreError},
};

use super::{
    decision::{Decision, UNKNOWN, names},
    readiness::Readiness,
    recorded::{CallIdentity, RecordedEnd, Started},
    refusals::{MissedCall, Refusal, RefusalSubject, Refusals, Row},
    search::EventSearch,
    space::Space,
};
use crate::{
    background::{Background, Services},
    ids::new_id,
    listeners::Listeners,
    metrics::Metrics,
    miss,
    snapshot::Miss,
};

/// The event log of a gateway and the state of its store.
pub struct Audit {
    writer: Arc<Writer>,
    queue: mpsc::Sender<DenialQueueItem>,
    late: Arc<Semaphore>,
    space: Arc<Space>,
    background: Background,
    /// The streams of events of runs.
    pub(super) streams: Listeners,
    search: Arc<EventSearch>,
    /// The store of checkpoints and cursors, after the start of an
    /// [`AuditTasks`](super::AuditTasks).
    store: OnceLock<Arc<dyn RecordStore>>,
}

/// The state that the log and the task behind its queue share.
struct Writer {
    log: Arc<dyn EventLog>,
    clock: Arc<dyn Clock>,
    metrics: Arc<Metrics>,
    refusals: Refusals,
    readiness: Arc<Readiness>,
}

/// One item of the queue of denials.
enum DenialQueueItem {
    /// Records one refusal.
    Refused(Box<Refusal>),
    /// Records the counts of repeated refusals.
    Repeated(Vec<Row>),
    /// Reports that everything before it was stored or has failed.
    Settle(oneshot::Sender<()>),
}

/// Refusals that may wait for the writer, of about 1 KiB each; further ones are counted.
const MAX_QUEUED: usize = 1024;
/// Duration of a batch of denials, whatever its content. A reader of events waits for the batch
/// after a denial, and its size must not be visible in the waiting time.
const BATCH_TIME: Duration = Duration::from_millis(25);
/// Closing events that may wait for an unavailable store. About 1 KiB each and 300 bytes for every
/// host that the call reached (at most 64): 10 MiB, at worst 200 MiB.
const MAX_LATE: usize = 10_000;
/// How often the index of the record is extended.
const INDEX_INTERVAL: Duration = Duration::from_secs(5);
/// Interval of attempts to store an event after a failure.
const RESUME_INTERVAL: Duration = Duration::from_secs(1);
/// How often the free space of the store is read.
const SPACE_INTERVAL: Duration = Duration::from_secs(1);
/// Attempts to store a closing event before the caller gets its response, and after.
const PROMPT_TRIES: u32 = 3;
const LATE_TRIES: u32 = 60;

impl Audit {
    pub(crate) fn new(services: &Services) -> Self {
        let Services { storage, clock, metrics, background, .. } = services.clone();
        let log = storage.events();
        let (queue, queued) = mpsc::channel(MAX_QUEUED);
        let (refusals, readiness) = (Refusals::default(), Arc::default());
        let writer = Arc::new(Writer { log, clock, metrics, refusals, readiness });
        let (queued, writes) = (Arc::new(Queue::new(queued)), Arc::clone(&writer));
        background
            .until_done("denials", move || write_denials(Arc::clone(&queued), Arc::clone(&writes)));
        let resuming = Arc::clone(&writer);
        background.every("record resumption", RESUME_INTERVAL, move || {
            let writer = Arc::clone(&resuming);
            async move { writer.readiness.resume(&*writer.log, writer.clock.now()).await }
        });
        let search = Arc::new(EventSearch::new(&*storage));
        let index = Arc::clone(&search);
        background.every("event index", INDEX_INTERVAL, move || {
            let index = Arc::clone(&index);
            async move {
                if let Err(error) = index.maintain().await {
                    tracing::warn!(%error, "the index of the record was not extended");
                }
            }
        });
        Self {
            writer,
            queue,
            late: Arc::new(Semaphore::new(MAX_LATE)),
            space: Arc::default(),
            background,
            streams: Listeners::default(),
            search,
            store: OnceLock::new(),
        }
    }

    /// Reads the event log. Denials are written in the background; this waits for the earlier ones.
    ///
    /// # Errors
    /// [`StoreError`].
    pub async fn read(&self, query: EventQuery) -> Result<Vec<LoggedEvent>, StoreError> {
        self.settle().await;
        self.writer.log.read(query).await
    }

    /// The search of the record, after waiting for earlier denials.
    pub async fn search(&self) -> &EventSearch {
        self.settle().await;
        &self.search
    }

    /// Reads the stored events, without waiting for denials.
    pub(super) async fn read_stored(
        &self,
        query: EventQuery,
    ) -> Result<Vec<LoggedEvent>, StoreError> {
        self.writer.log.read(query).await
    }

    /// Waits until the gateway stops.
    pub(super) async fn ended(&self) {
        self.background.ended().cancelled().await;
    }

    /// The store of checkpoints and cursors, if an [`AuditTasks`](super::AuditTasks) was started.
    pub fn store(&self) -> Option<&Arc<dyn RecordStore>> {
        self.store.get()
    }

    /// Sets the store of the first audit; a gateway has one.
    pub(super) fn set_store(&self, store: Arc<dyn RecordStore>) {
        self.store.get_or_init(|| store);
    }

    /// Whether calls can be accounted for.
    pub fn readiness(&self) -> &Arc<Readiness> {
        &self.writer.readiness
    }

    /// Whether disk space of the store is so low that only running calls are recorded.
    pub fn is_low_on_space(&self) -> bool {
        self.space.is_low()
    }

    /// Reads the free space of `storage` now and every second until the gateway stops; less than
    /// `keep_free` bytes count as low.
    pub async fn watch_space(&self, storage: Arc<dyn Storage>, keep_free: u64) {
        let (space, metrics) = (Arc::clone(&self.space), Arc::clone(&self.writer.metrics));
        let read = move || {
            let (space, metrics) = (Arc::clone(&space), Arc::clone(&metrics));
            let storage = Arc::clone(&storage);
            // This may take long on a network file system.
            let read =
                tokio::task::spawn_blocking(move || space.read(&*storage, keep_free, &metrics));
            async move {
                if read.await.is_err() {
                    tracing::error!("the free space of the store could not be read");
                }
            }
        };
        read().await;
        self.background.every("space", SPACE_INTERVAL, read);
    }

    /// Makes the opening event durable. On an error the call must not run.
    pub(crate) async fn started(&self, call: CallIdentity) -> Result<Started, CallError> {
        self.require_sound_store()?;
        let event = self.writer.called(&call);
        let id = event.event_id.clone();
        match self.writer.append(&[event]).await {
            Ok(_) => Ok(Started { call, event: id }),
            Err(error) => Err(self.refused_to_store(&error)),
        }
    }

    /// Makes the closing event durable, with the destinations of the call. Retries a few times
    /// immediately and then in the background. The caller gets its result in any case, because the
    /// call has run. The exception: if another server has closed the call, its caller gets the
    /// recorded outcome.
    pub(crate) async fn finished(
        &self,
        started: Started,
        result: Result<&Outcome, &CallError>,
        duration: Option<Duration>,
        egress: Vec<EgressDecided>,
    ) -> RecordedEnd {
        let Started { call, event: cause } = started;
        let mut events: Vec<_> = egress
            .into_iter()
            .map(|decided| {
                let body = EventBody::EgressDecided(decided);
                self.event(call.tenant.clone(), call.run.clone(), body, Some(cause.clone()))
            })
            .collect();
        events.push(self.writer.returned(&call, cause, result, duration));
        self.append_with_retry(events).await
    }

    /// Makes an event durable before the action that it records.
    pub(crate) async fn append_or_refuse(&self, event: NewEvent) -> Result<(), CallError> {
        self.require_sound_store()?;
        let stored = self.writer.append(&[event]).await;
        stored.map(drop).map_err(|error| self.refused_to_store(&error))
    }

    /// Stores events of completed actions, with persistent retries.
    pub(crate) async fn append_with_retry(&self, events: Vec<NewEvent>) -> RecordedEnd {
        for attempt in 0..PROMPT_TRIES {
            match self.writer.append(&events).await {
                Ok(_) => return RecordedEnd::Own,
                Err(StoreError::TakenOver) => {
                    tracing::error!(
                        "a call finished after another server had closed it as interrupted"
                    );
                    return RecordedEnd::ClosedByAnother;
                }
                Err(error) => {
                    tracing::error!(%error, attempt, "a closing event could not be stored")
                }
            }
            tokio::time::sleep(Duration::from_millis(100 << attempt)).await;
        }
        self.finish_later(events);
        RecordedEnd::Own
    }

    fn finish_later(&self, events: Vec<NewEvent>) {
        let Ok(place) = Arc::clone(&self.late).try_acquire_owned() else {
            return self.writer.metrics.unrecorded();
        };
        let writer = Arc::clone(&self.writer);
        tokio::spawn(async move {
            for _ in 0..LATE_TRIES {
                tokio::time::sleep(Duration::from_secs(5)).await;
                match writer.append(&events).await {
                    Ok(_) => return,
                    Err(StoreError::TakenOver) => break,
                    Err(_) => {}
                }
            }
            writer.metrics.unrecorded();
            drop(place);
        });
    }

    /// Whether a call refused with `code` gets separate events. If not, it has been counted.
    pub(crate) fn admits(&self, call: &CallIdentity, code: &str) -> bool {
        if self.admits_of(&call.tenant, &call.principal) {
            return true;
        }
        let subject = RefusalSubject::of(call.entry.id.as_str(), code);
        self.count(Refusal {
            tenant: call.tenant.clone(),
            principal: call.principal.clone(),
            action: CALL.into(),
            subject,
            at: self.writer.clock.now(),
        });
        false
    }

    /// Records a call refused before its start: a pair of events without a duration, and for a
    /// denial the decision. The call is refused whether or not this succeeds.
    pub(crate) async fn refused(
        &self,
        call: &CallIdentity,
        error: &CallError,
        denied: Option<&Denied>,
    ) {
        let events = self.writer.refused(call, error, denied);
        if let Err(error) = self.writer.append(&events).await {
            self.writer.metrics.unrecorded();
            tracing::error!(%error, "a refused call could not be recorded");
        }
    }

    /// Records, in one run, that `references` of an allow-list resolve to no tool that `agent` may
    /// use: for each, one return event without a call (RFC 0064, forbidden at load). The call id is
    /// derived from the reference, so that repeated loading records the same id.
    ///
    /// # Errors
    /// [`StoreError`]; in that case all of them are unrecorded.
    pub async fn forbidden_at_load<'a>(
        &self,
        tenant: &TenantId,
        agent: &AgentId,
        references: impl IntoIterator<Item = &'a str>,
    ) -> Result<RunId, StoreError> {
        let run: RunId = new_id();
        let row = |reference: &str| {
            let call_id = format!("forbidden:{}", canonical::Digest::of(reference.as_bytes()));
            let call = CallId::parse(call_id).unwrap_or_else(|_| new_id());
            let message = "the reference resolves to no tool that may be used";
            let end = ToolReturned {
                error: Some(EventError::new("forbidden", message)),
                ..ToolReturned::new(agent.clone(), reference, call, CallStatus::Forbidden)
            };
            self.event(tenant.clone(), run.clone(), EventBody::ToolReturned(end), None)
        };
        let references: BTreeSet<&str> = references.into_iter().collect();
        let rows: Vec<_> =
            references.into_iter().filter(|text| !text.is_empty()).map(row).collect();
        self.writer.append(&rows).await.map(|_| run)
    }

    /// Records a denial without making its caller wait. The cost is the same for every tool and
    /// reason.
    pub(crate) fn deny(&self, refusal: Refusal) {
        match self.admits_of(&refusal.tenant, &refusal.principal) {
            true => self.enqueue(refusal),
            false => self.count(refusal),
        }
    }

    /// Whether a refusal of `principal` gets separate events; never while space is low.
    fn admits_of(&self, tenant: &TenantId, principal: &PrincipalId) -> bool {
        let now = self.writer.clock.monotonic_nanos();
        !self.space.is_low() && self.writer.refusals.admit(tenant, principal, now)
    }

    /// Records a denial of an action other than a tool call.
    pub fn denied(&self, principal: &Principal, action: &str, resource: &str, reason: &str) {
        self.deny(Refusal {
            tenant: principal.tenant.clone(),
            principal: principal.id.clone(),
            action: action.into(),
            subject: RefusalSubject::of(resource, reason),
            at: self.writer.clock.now(),
        });
    }

    /// Records the denial of a request to `route`, a template; the principal does not have `scope`.
    pub fn denied_without(&self, principal: &Principal, scope: &str, route: &str) {
        self.deny(Refusal {
            tenant: principal.tenant.clone(),
            principal: principal.id.clone(),
            action: scope.into(),
            subject: RefusalSubject::Known {
                resource: route.into(),
                reason: "scope".into(),
                missing: Some(scope.into()),
            },
            at: self.writer.clock.now(),
        });
    }

    /// Records that a name matched no tool that the caller may use.
    pub(crate) fn missed(
        &self,
        principal: &Principal,
        action: &str,
        miss: Miss,
        call: Option<MissedCall>,
    ) {
        miss::note();
        self.deny(Refusal {
            tenant: principal.tenant.clone(),
            principal: principal.id.clone(),
            action: action.into(),
            subject: RefusalSubject::Miss(Box::new((miss, call))),
            at: self.writer.clock.now(),
        });
    }

    /// Records a request for an unknown name. The name is the caller's text, so it is left out.
    pub(crate) fn unknown(&self, principal: &Principal, action: &str) {
        miss::note();
        self.denied(principal, action, UNKNOWN, UNKNOWN);
    }

    /// Records a request to `route` (a template) without valid credentials. Such requests belong to
    /// no tenant: one event for each second and route, and a count of the others.
    pub fn unauthenticated(&self, route: &str) {
        let (Ok(tenant), Ok(principal)) =
            (TenantId::parse(TenantId::OPERATOR), PrincipalId::parse("anonymous"))
        else {
            return;
        };
        let subject = RefusalSubject::of(route, "unauthenticated");
        let at = self.writer.clock.now();
        let refusal = Refusal { tenant, principal, action: "http:request".into(), subject, at };
        let now = self.writer.clock.monotonic_nanos();
        match !self.space.is_low() && self.writer.refusals.admit_stranger(route, now) {
            true => self.enqueue(refusal),
            false => self.count(refusal),
        }
    }

    fn enqueue(&self, refusal: Refusal) {
        let item = DenialQueueItem::Refused(Box::new(refusal));
        if let Err(error) = self.queue.try_send(item)
            && let DenialQueueItem::Refused(refusal) = error.into_inner()
        {
            self.count(*refusal);
        }
    }

    fn count(&self, refusal: Refusal) {
        self.writer.metrics.refusal_counted();
        if self.space.is_low() {
            self.writer.metrics.unrecorded();
        }
        self.writer.refusals.count(refusal, 1, self.writer.clock.monotonic_nanos());
    }

    /// Records the counts of refusals after their counting window. While space is low they wait.
    pub(crate) fn flush_counted_refusals(&self) {
        if self.space.is_low() {
            return;
        }
        let Ok(place) = self.queue.try_reserve() else { return };
        let rows = self.writer.refusals.take(self.writer.clock.monotonic_nanos(), false);
        if !rows.is_empty() {
            place.send(DenialQueueItem::Repeated(rows));
        }
    }

    /// Refills the buckets of `tenant`, so that its next refusals get separate events.
    pub(crate) fn reset_refusals(&self, tenant: &TenantId) {
        self.writer.refusals.reset(tenant);
    }

    /// Waits until the queued denials have been stored or have failed, so that a denied caller that
    /// then reads events finds its denial.
    pub(crate) async fn settle(&self) {
        let (done, settled) = oneshot::channel();
        if self.queue.send(DenialQueueItem::Settle(done)).await.is_ok() && settled.await.is_err() {
            tracing::error!("the queue of denials stopped early");
        }
    }

    /// Stores everything queued or counted, at shutdown.
    pub(crate) async fn flush(&self) {
        let rows = self.writer.refusals.take(self.writer.clock.monotonic_nanos(), true);
        // The queue closes with the record, so it takes them.
        self.queue.send(DenialQueueItem::Repeated(rows)).await.ok();
        self.settle().await;
    }

    /// Rejects calls if the store is gone, or is not the signed one: events in it would prove
    /// little.
    fn require_sound_store(&self) -> Result<(), CallError> {
        match self.writer.readiness.refuses_calls() {
            true => Err(CallError::NotAccountable("recorded")),
            false => Ok(()),
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
        self.writer.event(tenant, run, body, cause)
    }
}

impl Writer {
    /// Stores `events`, and measures how long that takes.
    async fn append(&self, events: &[NewEvent]) -> Result<Vec<u64>, StoreError> {
        let began = self.clock.monotonic_nanos();
        let stored = self.log.append(events).await;
        let time = self.clock.monotonic_nanos().saturating_sub(began);
        self.metrics.appended(Duration::from_nanos(time), stored.is_ok());
        match &stored {
            Ok(_) => self.readiness.stored(),
            // The event is already stored.
            Err(StoreError::Conflict(_)) => {}
            Err(_) => self.readiness.failed(self.clock.now()),
        }
        stored
    }

    fn event(
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
        // Every failure has an error (RFC 0064 §F).
        let described = |error: &CallError| EventError {
            code: error.code().to_owned(),
            message: error.to_string(),
        };
        let (status, error) = match result {
            Ok(outcome) if !outcome.is_error => (CallStatus::Ok, None),
            Ok(_) => (CallStatus::Error, Some(tool_failed())),
            // A connection was never made: a gate of this host (RFC 0076 §B).
            Err(error @ CallError::Upstream(UpstreamError { kind, .. }))
                if *kind == UpstreamErrorKind::EgressRefused =>
            {
                (CallStatus::Forbidden, Some(described(error)))
            }
            Err(error @ CallError::Forbidden { .. }) => {
                (CallStatus::Forbidden, Some(described(error)))
            }
            Err(error @ CallError::RateLimited { .. }) => {
                (CallStatus::RateLimited, Some(described(error)))
            }
            Err(error) => (CallStatus::Error, Some(described(error))),
        };
        let (agent, tool) = (call.agent.clone(), call.entry.id.as_str());
        let end = ToolReturned {
            duration_ms: duration.map(|d| u64::try_from(d.as_millis()).unwrap_or(u64::MAX)),
            error,
            principal: Some(call.principal.clone()),
            ..ToolReturned::new(agent, tool, call.call.clone(), status)
        };
        let body = EventBody::ToolReturned(end);
        self.event(call.tenant.clone(), call.run.clone(), body, Some(cause))
    }

    /// The events of a call refused before its start.
    fn refused(
        &self,
        call: &CallIdentity,
        error: &CallError,
        denied: Option<&Denied>,
    ) -> Vec<NewEvent> {
        let opening = self.called(call);
        let closing = self.returned(call, opening.event_id.clone(), Err(error), None);
        let cause = opening.event_id.clone();
        let mut events = vec![opening];
        if let Some(denied) = denied {
            let decision = Decision {
                tenant: call.tenant.clone(),
                principal: call.principal.clone(),
                action: CALL.into(),
                resource: call.entry.id.as_str().into(),
                reason: denied.reason().into(),
                missing: names(denied.missing()),
            };
            let decided = self.decided(decision, call.run.clone(), 1);
            events.push(NewEvent { causation_id: Some(cause), ..decided });
        }
        events.push(closing);
        events
    }

    /// An event for `count` denials of one kind.
    fn decided(&self, decision: Decision, run: RunId, count: u64) -> NewEvent {
        let Decision { tenant, principal, action, resource, reason, missing } = decision;
        let body = EventBody::AuthorizationDecided(AuthorizationDecided {
            principal,
            action: action.into(),
            resource: resource.into(),
            allowed: false,
            reason: Some(reason.into()),
            missing: missing.into_iter().map(Into::into).collect(),
            repeated: count.checked_sub(1).filter(|others| *others > 0),
        });
        self.event(tenant, run, body, None)
    }

    /// The events of one refusal.
    fn events_of(&self, refusal: &Refusal) -> Vec<NewEvent> {
        let (decisions, denied) = refusal.decisions();
        let call = match &refusal.subject {
            RefusalSubject::Miss(missed) => missed.1.as_ref().zip(missed.0.entry.as_ref()),
            RefusalSubject::Known { .. } => None,
        };
        let mut events = match (call, denied) {
            // For its tenant a denied call is also a pair (RFC 0064).
            (Some((missed, entry)), Some(denied)) => {
                let call = CallIdentity {
                    tenant: refusal.tenant.clone(),
                    principal: refusal.principal.clone(),
                    agent: AgentId::system(),
                    run: missed.run.clone(),
                    call: missed.call.clone(),
                    args_hash: None,
                    entry: Arc::clone(entry),
                    cause: missed.cause.clone(),
                };
                self.refused(&call, &forbidden(entry, &denied), Some(&denied))
            }
            _ => decisions.into_iter().map(|it| self.decided(it, new_id(), 1)).collect(),
        };
        for event in &mut events {
            event.timestamp = refusal.at;
        }
        events
    }

    /// The events of counted refusals. Refusals that the tenant must not distinguish are one event.
    fn events_of_rows(&self, rows: &[Row]) -> Vec<NewEvent> {
        let mut counts: BTreeMap<Decision, u64> = BTreeMap::new();
        for row in rows {
            for decision in row.first.decisions().0 {
                let count = counts.entry(decision).or_default();
                *count = count.saturating_add(row.count);
            }
        }
        let event = |(decision, count)| self.decided(decision, new_id(), count);
        counts.into_iter().map(event).collect()
    }

    /// Records `refused` and `rows`. Refusals that cannot be stored are counted and retried later.
    async fn write(&self, refused: Vec<Refusal>, rows: Vec<Row>) {
        let mut events: Vec<NewEvent> =
            refused.iter().flat_map(|refusal| self.events_of(refusal)).collect();
        events.extend(self.events_of_rows(&rows));
        let Err(error) = self.append(&events).await else { return };
        tracing::error!(%error, "denials could not be recorded one by one; they are counted");
        let now = self.clock.monotonic_nanos();
        for refusal in refused {
            self.metrics.unrecorded();
            self.refusals.count(refusal, 1, now);
        }
        for Row { first, count, .. } in rows {
            self.refusals.count(first, count, now);
        }
    }
}

/// The error for a caller without access to `entry`.
pub(crate) fn forbidden(entry: &Entry, denied: &Denied) -> CallError {
    let required = match denied {
        // A scope would not help.
        Denied::Policy | Denied::Arguments => None,
        _ => entry.tool.required_scopes(),
    };
    let required = required.unwrap_or_default().to_vec();
    CallError::Forbidden { tool: entry.id.clone(), required }
}

/// The pending denials, for the one task that writes them.
type Queue = tokio::sync::Mutex<mpsc::Receiver<DenialQueueItem>>;

async fn write_denials(queued: Arc<Queue>, writer: Arc<Writer>) {
    let mut queued = queued.lock().await;
    let mut batch = Vec::new();
    while queued.recv_many(&mut batch, MAX_QUEUED).await > 0 {
        let end = Instant::now() + BATCH_TIME;
        let (mut refused, mut rows, mut waiting) = (Vec::new(), Vec::new(), Vec::new());
        for item in batch.drain(..) {
            match item {
                DenialQueueItem::Refused(refusal) => refused.push(*refusal),
                DenialQueueItem::Repeated(counted) => rows.extend(counted),
                DenialQueueItem::Settle(done) => waiting.push(done),
            }
        }
        if !refused.is_empty() || !rows.is_empty() {
            writer.write(refused, rows).await;
            tokio::time::sleep_until(end).await;
        }
        for done in waiting {
            // A reader that has left needs no reply.
            done.send(()).ok();
        }
    }
}

/// The action of a call.
pub(crate) const CALL: &str = "tools:call";
/// The action of reading about a tool.
pub(crate) const READ: &str = "tools:read";

/// The tool's message is content, so the record has this text instead.
fn tool_failed() -> EventError {
    EventError {
        code: "tool_execution_failed".to_owned(),
        message: "the tool reported a failure".to_owned(),
    }
}
