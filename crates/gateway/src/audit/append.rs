//! Appends to the event log.
//!
//! Invariant (I-18): a call starts only after its opening event was stored. Invariant (I-19): a
//! closing event that cannot be stored does not fail its call. Invariant (I-20): no type here has a
//! field for arguments or results.

use std::{
    collections::BTreeSet,
    sync::{Arc, OnceLock},
    time::Duration,
};

use tokio::sync::Semaphore;
use toolcrib_core::{
    authorize::DenialReason,
    call::{CallError, Outcome},
    canonical,
    egress::EgressDecided,
    event::{CallStatus, EventBody, EventError, EventQuery, LoggedEvent, NewEvent, ToolReturned},
    id::{AgentId, CallId, EventId, RunId, TenantId},
    record::RecordStore,
    store::{Storage, StoreError},
};

use super::{
    denials::Denials,
    events::Events,
    readiness::Readiness,
    recorded::{CallIdentity, RecordedEnd, StartedCall},
    search::EventSearch,
    space::Space,
    writer::Writer,
};
use crate::{
    background::{BackgroundTasks, Services},
    ids::new_id,
    listeners::Listeners,
};

/// The event log of a gateway and the state of its store.
pub struct Audit {
    writer: Arc<Writer>,
    denials: Denials,
    late: Arc<Semaphore>,
    space: Arc<Space>,
    background: BackgroundTasks,
    /// The streams of events of runs.
    pub(super) streams: Listeners,
    search: Arc<EventSearch>,
    /// The store of checkpoints and cursors, after the start of an
    /// [`AuditTasks`](super::AuditTasks).
    store: OnceLock<Arc<dyn RecordStore>>,
}

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
/// The pause before each of the latter.
const LATE_PAUSE: Duration = Duration::from_secs(5);

impl Audit {
    pub(crate) fn new(services: &Services) -> Self {
        let Services { storage, clock, metrics, background, .. } = services.clone();
        let log = storage.events();
        let (readiness, events) = (Arc::default(), Events { clock });
        let writer = Arc::new(Writer { log, metrics, readiness, events });
        let space = Arc::<Space>::default();
        let denials = Denials::new(Arc::clone(&writer), Arc::clone(&space), &background);
        let resuming = Arc::clone(&writer);
        background.every("record resumption", RESUME_INTERVAL, move || {
            let writer = Arc::clone(&resuming);
            async move { writer.readiness.resume(&*writer.log, writer.clock().now()).await }
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
            denials,
            late: Arc::new(Semaphore::new(MAX_LATE)),
            space,
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
        self.denials.settle().await;
        self.writer.log.read(query).await
    }

    /// The search of the record, after waiting for earlier denials.
    pub async fn search(&self) -> &EventSearch {
        self.denials.settle().await;
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

    /// The part that records denials.
    pub fn denials(&self) -> &Denials {
        &self.denials
    }

    /// Whether calls can be accounted for.
    pub fn readiness(&self) -> &Arc<Readiness> {
        &self.writer.readiness
    }

    /// Whether disk space of the store is so low that only calls that run are recorded.
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
    pub(crate) async fn started(&self, call: CallIdentity) -> Result<StartedCall, CallError> {
        self.require_sound_store()?;
        let event = self.writer.events.called(&call);
        let id = event.event_id.clone();
        match self.writer.append(&[event]).await {
            Ok(_) => Ok(StartedCall { call, event: id }),
            Err(error) => Err(self.refused_to_store(&error)),
        }
    }

    /// Makes the closing event durable, with the destinations of the call. Retries a few times
    /// immediately and then in the background. The caller gets its result in any case, because the
    /// call has run. The exception: if another server has closed the call, its caller gets the
    /// recorded outcome.
    pub(crate) async fn finished(
        &self,
        started: StartedCall,
        result: Result<&Outcome, &CallError>,
        duration: Option<Duration>,
        egress: Vec<EgressDecided>,
    ) -> RecordedEnd {
        let StartedCall { call, event: cause } = started;
        let mut events: Vec<_> = egress
            .into_iter()
            .map(|decided| {
                let body = EventBody::EgressDecided(decided);
                self.event(call.tenant.clone(), call.run.clone(), body, Some(cause.clone()))
            })
            .collect();
        events.push(self.writer.events.returned(&call, cause, result, duration));
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

    /// Stores `events` as soon as the store can, with a last attempt when the gateway closes.
    fn finish_later(&self, events: Vec<NewEvent>) {
        let Ok(place) = Arc::clone(&self.late).try_acquire_owned() else {
            return self.writer.metrics.unrecorded();
        };
        let (writer, closing) = (Arc::clone(&self.writer), self.background.ended().clone());
        self.background.spawn(async move {
            for _ in 0..LATE_TRIES {
                let pause = tokio::time::timeout(LATE_PAUSE, closing.cancelled());
                let is_last = pause.await.is_ok();
                match writer.append(&events).await {
                    Ok(_) => return,
                    Err(StoreError::TakenOver) => break,
                    Err(_) if is_last => break,
                    Err(_) => {}
                }
            }
            writer.metrics.unrecorded();
            drop(place);
        });
    }

    /// Records a call refused before its start: a pair of events without a duration, for a denial
    /// the decision, and the decisions about its destination. The call is refused whether or not this succeeds.
    pub(crate) async fn refused(
        &self,
        call: &CallIdentity,
        error: &CallError,
        denied: Option<&DenialReason>,
        egress: Vec<EgressDecided>,
    ) {
        let events = self.writer.events.refused(call, error, denied, egress);
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
        self.writer.events.event(tenant, run, body, cause)
    }
}
