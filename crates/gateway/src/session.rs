//! Calls that belong together: one caller's interaction, and the tool sessions that bracket its
//! calls in the record (RFC 0078 §D).
//!
//! An [`Interaction`] is what a stateful MCP session or a workflow holds. Its calls are in one run.
//! The first call of each tool that its caller may use is preceded by `tool.session.opened`, and the
//! end of the interaction writes one `tool.session.closed` for each tool; all of them share one
//! `sessionId`. A call that is denied opens nothing.
//!
//! Invariant: `opened` is durable before the first call event of its tool that is not a denial, and
//! `closed` is appended after the last call event of the interaction, once. Invariant: every call
//! is decided with the caller of that call; an interaction proves nothing.
//!
//! How an interaction ends decides the outcome: [`Interaction::close`] as its holder says; dropped
//! without that, `cancelled`; idle for an hour, older than a session may get or closed with the
//! gateway, `failed`; and what a dead process left open is closed as `failed` by the next one.
//!
//! Retention keeps the events of open sessions. No session stays open for longer than events are kept,
//! so that an interaction in use for months does not hold back the retention of its tenant's log.

use std::{
    collections::HashMap,
    sync::{
        Arc, Weak,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use parking_lot::Mutex;
use tokio::{
    sync::{Notify, OnceCell},
    time::Instant,
};
use tokio_util::sync::CancellationToken;
use toolcrib_core::{
    call::CallError,
    event::{EventBody, NewEvent, SessionOutcome, ToolSessionClosed, ToolSessionOpened},
    id::{PrincipalId, RunId, SessionId, TenantId, ToolId},
    principal::Principal,
};

use crate::{
    Gateway,
    call::{CallReport, CallRequest},
    gateway::CLOSING_TIME,
    record,
    workflow::StepContext,
};

/// Interactions at once.
pub const MAX_INTERACTIONS: usize = 10_000;

/// Tools with a session of their own in one interaction. Calls of further ones are recorded in the
/// same run, without a bracket. Each takes about 500 bytes, and a call to get there.
pub const MAX_TOOLS: usize = 256;

/// Time without a call after which an interaction's tool sessions are closed as `failed`. A later
/// call opens new ones, under a new `sessionId`.
pub const IDLE: Duration = Duration::from_secs(3_600);

/// Longest time between two looks at the age of a session: a shorter `keep` of a new configuration
/// takes effect after this time.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// There are [`MAX_INTERACTIONS`] already, or the gateway is closing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("too many interactions at once; end some and try again")]
pub struct TooManyInteractions;

/// Several calls of one caller that belong together.
///
/// End it with [`close`](Self::close). Dropping it instead closes its tool sessions as `cancelled`,
/// in the background.
pub struct Interaction {
    shared: Arc<Shared>,
}

struct Shared {
    gateway: Gateway,
    tenant: TenantId,
    principal: PrincipalId,
    run: RunId,
    /// Its place among [`Interactions`]: several can be in one run.
    place: u64,
    /// Cancels the calls in flight.
    hang_up: CancellationToken,
    state: Mutex<State>,
    /// Changed only while `state` is locked.
    in_flight: InFlight,
}

struct State {
    sessions: Arc<ToolSessions>,
    used: Instant,
    over: bool,
    watched: bool,
}

/// The tool sessions of one `sessionId`, one for each tool.
struct ToolSessions {
    id: SessionId,
    state: Mutex<SessionsState>,
    in_flight: InFlight,
}

#[derive(Default)]
struct SessionsState {
    tools: HashMap<ToolId, Arc<Opening>>,
    /// When the first of them was opened.
    opened: Option<Instant>,
}

/// The number of calls in flight.
#[derive(Default)]
struct InFlight {
    calls: AtomicUsize,
    /// Notified when there is none any more.
    none: Notify,
}

/// The start of one tool's session.
struct Opening {
    event: NewEvent,
    stored: OnceCell<()>,
}

/// Every interaction that is not over.
#[derive(Default)]
pub(crate) struct Interactions {
    all: Mutex<HashMap<u64, Weak<Shared>>>,
    made: AtomicU64,
}

/// A call's part in its interaction: as long as there is one, the interaction is not closed.
pub(crate) struct InteractionGuard {
    shared: Arc<Shared>,
    sessions: Arc<ToolSessions>,
}

// === impl Gateway ===

impl Gateway {
    /// An interaction of `principal`. Nothing is recorded of it before its first call.
    ///
    /// # Errors
    /// [`TooManyInteractions`].
    pub fn interaction(&self, principal: &Principal) -> Result<Interaction, TooManyInteractions> {
        self.interaction_in(record::new_id(), principal)
    }

    pub(crate) fn interaction_in(
        &self,
        run: RunId,
        principal: &Principal,
    ) -> Result<Interaction, TooManyInteractions> {
        let place = self.interactions().made.fetch_add(1, Ordering::Relaxed);
        let shared = Arc::new(Shared {
            gateway: self.clone(),
            tenant: principal.tenant.clone(),
            principal: principal.id.clone(),
            run,
            place,
            hang_up: CancellationToken::new(),
            state: Mutex::new(State {
                sessions: ToolSessions::new(),
                used: Instant::now(),
                over: false,
                watched: false,
            }),
            in_flight: InFlight::default(),
        });
        let mut all = self.interactions().all.lock();
        if all.len() >= MAX_INTERACTIONS || self.ended().is_cancelled() {
            return Err(TooManyInteractions);
        }
        all.insert(place, Arc::downgrade(&shared));
        drop(all);
        Ok(Interaction { shared })
    }
}

// === impl Interaction ===

impl Interaction {
    /// The run that holds its events.
    pub fn run_id(&self) -> &RunId {
        &self.shared.run
    }

    /// The `sessionId` of the tools that are open now, or of the next that are opened.
    pub fn session_id(&self) -> SessionId {
        self.shared.state.lock().sessions.id.clone()
    }

    /// Whether `principal` is whose interaction this is.
    pub fn belongs_to(&self, principal: &Principal) -> bool {
        self.shared.tenant == principal.tenant && self.shared.principal == principal.id
    }

    /// One call in this interaction, through the gate with what `principal` holds now. The call of
    /// anybody else is answered as one of an unknown tool, and one after the end as cancelled.
    pub async fn call(&self, principal: &Principal, request: CallRequest<'_>) -> CallReport {
        self.call_as(principal, request, None).await
    }

    /// One call in this interaction, as a step of a workflow or by itself.
    pub(crate) async fn call_as(
        &self,
        principal: &Principal,
        request: CallRequest<'_>,
        part: Option<StepContext>,
    ) -> CallReport {
        let gateway = &self.shared.gateway;
        let refused = |error| CallReport {
            run_id: self.shared.run.clone(),
            call_id: record::new_id(),
            entry: None,
            result: Err(error),
            duration: None,
        };
        if !self.belongs_to(principal) {
            gateway.record().unknown(principal, record::CALL);
            return refused(CallError::NoSuchTool);
        }
        match Shared::begin(&self.shared) {
            Some(bracket) => {
                let run = self.shared.run.clone();
                gateway.call_in(run, Some(bracket), principal, request, part).await
            }
            None => refused(CallError::Cancelled),
        }
    }

    /// Ends it: cancels the calls in flight, waits (for seconds at most) until they are recorded,
    /// and closes every tool session with `outcome`. Only the first of several counts.
    pub async fn close(&self, outcome: SessionOutcome) {
        self.shared.close(outcome).await;
    }
}

impl Drop for Interaction {
    fn drop(&mut self) {
        let shared = Arc::clone(&self.shared);
        if shared.state.lock().over {
            return;
        }
        if shared.end_when_unused() {
            return;
        }
        // Without a runtime nothing can be written; the next process does it.
        if tokio::runtime::Handle::try_current().is_ok() {
            let tasks = self.shared.gateway.running().clone();
            tasks.spawn(async move { shared.close(SessionOutcome::Cancelled).await });
        }
    }
}

// === impl Shared ===

impl Shared {
    /// A part in the sessions that are open now.
    fn begin(shared: &Arc<Self>) -> Option<InteractionGuard> {
        Self::enter(shared, |state| Arc::clone(&state.sessions))
    }

    /// A part in the sessions that `choose` returns; `None` when the interaction is over.
    fn enter(
        shared: &Arc<Self>,
        choose: impl FnOnce(&State) -> Arc<ToolSessions>,
    ) -> Option<InteractionGuard> {
        let mut state = shared.state.lock();
        if state.over {
            return None;
        }
        state.used = Instant::now();
        let sessions = choose(&state);
        shared.in_flight.enter();
        sessions.in_flight.enter();
        Some(InteractionGuard { shared: Arc::clone(shared), sessions })
    }

    /// The session of `tool` among `sessions`, new or not; `None` when there are too many.
    fn opening(self: &Arc<Self>, sessions: &ToolSessions, tool: &ToolId) -> Option<Arc<Opening>> {
        let opening = {
            let mut state = sessions.state.lock();
            if let Some(opening) = state.tools.get(tool) {
                return Some(Arc::clone(opening));
            }
            if state.tools.len() >= MAX_TOOLS {
                return None;
            }
            let body = EventBody::ToolSessionOpened(ToolSessionOpened {
                session_id: sessions.id.clone(),
                tool_id: tool.clone(),
            });
            let event = self.event(body, None);
            let opening = Arc::new(Opening { event, stored: OnceCell::new() });
            state.tools.insert(tool.clone(), Arc::clone(&opening));
            state.opened.get_or_insert_with(Instant::now);
            opening
        };
        if !std::mem::replace(&mut self.state.lock().watched, true) {
            let ended = self.gateway.ended().clone();
            self.gateway.running().spawn(watch(Arc::downgrade(self), ended));
        }
        Some(opening)
    }

    fn event(&self, body: EventBody, cause: Option<&NewEvent>) -> NewEvent {
        let cause = cause.map(|event| event.event_id.clone());
        self.gateway.record().event(self.tenant.clone(), self.run.clone(), body, cause)
    }

    /// Ends an interaction of which nothing is recorded.
    fn end_when_unused(&self) -> bool {
        let mut state = self.state.lock();
        let unused = self.in_flight.is_none() && state.sessions.state.lock().tools.is_empty();
        if unused {
            state.over = true;
            drop(state);
            self.gateway.interactions().all.lock().remove(&self.place);
        }
        unused
    }

    async fn close(&self, outcome: SessionOutcome) {
        if std::mem::replace(&mut self.state.lock().over, true) {
            return;
        }
        self.hang_up.cancel();
        if tokio::time::timeout(CLOSING_TIME, self.in_flight.wait_until_none()).await.is_err() {
            tracing::warn!(run = %self.run, "a tool session was closed before the last of its calls");
        }
        let sessions = Arc::clone(&self.state.lock().sessions);
        self.record_closed(&sessions, outcome).await;
        self.gateway.interactions().all.lock().remove(&self.place);
    }

    /// Closes the open sessions when they are idle for [`IDLE`] or too old, the latter once the last
    /// of their calls has ended; calls that begin after this open new ones. Returns when to look again;
    /// `None` when the interaction is over.
    fn expire(self: &Arc<Self>) -> Option<Instant> {
        let max_age = self.gateway.config().record.session_age();
        let now = Instant::now();
        let mut state = self.state.lock();
        if state.over {
            return None;
        }
        let pause = LONGEST_PAUSE.min(max_age);
        let Some(opened) = state.sessions.state.lock().opened else { return Some(now + pause) };
        let mut due = opened + max_age;
        if self.in_flight.is_none() {
            due = due.min(state.used + IDLE);
        }
        if due > now {
            return Some(due.min(now + pause));
        }
        let sessions = std::mem::replace(&mut state.sessions, ToolSessions::new());
        drop(state);
        let shared = Arc::clone(self);
        self.gateway.running().spawn(async move {
            sessions.in_flight.wait_until_none().await;
            shared.record_closed(&sessions, SessionOutcome::Failed).await;
        });
        Some(now + pause)
    }

    async fn record_closed(&self, sessions: &ToolSessions, outcome: SessionOutcome) {
        let opened = std::mem::take(&mut sessions.state.lock().tools);
        let mut closing: Vec<NewEvent> = Vec::new();
        for (tool_id, opening) in opened {
            // One that could not be stored has had no calls.
            if !opening.stored.initialized() {
                continue;
            }
            if let EventBody::ToolSessionOpened(opened) = &opening.event.body {
                let session_id = opened.session_id.clone();
                let body = ToolSessionClosed { session_id, tool_id, outcome };
                closing.push(self.event(EventBody::ToolSessionClosed(body), Some(&opening.event)));
            }
        }
        if !closing.is_empty() {
            // In the order in which they were opened: ids of events rise.
            closing.sort_by(|a, b| a.causation_id.cmp(&b.causation_id));
            // Denied calls of the interaction may still wait to be written.
            self.gateway.record().settle().await;
            self.gateway.record().append_with_retry(closing).await;
        }
    }
}

async fn watch(shared: Weak<Shared>, ended: CancellationToken) {
    loop {
        let Some(next) = shared.upgrade().and_then(|shared| shared.expire()) else { return };
        tokio::select! {
            () = tokio::time::sleep_until(next) => {}
            () = ended.cancelled() => return,
        }
    }
}

// === impl ToolSessions ===

impl ToolSessions {
    fn new() -> Arc<Self> {
        let (id, state) = (record::new_id(), Mutex::default());
        Arc::new(Self { id, state, in_flight: InFlight::default() })
    }
}

// === impl InFlight ===

impl InFlight {
    fn enter(&self) {
        self.calls.fetch_add(1, Ordering::SeqCst);
    }

    fn leave(&self) {
        if self.calls.fetch_sub(1, Ordering::SeqCst) == 1 {
            self.none.notify_waiters();
        }
    }

    fn is_none(&self) -> bool {
        self.calls.load(Ordering::SeqCst) == 0
    }

    async fn wait_until_none(&self) {
        loop {
            let none = self.none.notified();
            if self.is_none() {
                return;
            }
            none.await;
        }
    }
}

// === impl InteractionGuard ===

impl InteractionGuard {
    /// Makes sure that the session of `tool` is open. Callers that come at once wait for the same
    /// event; a caller that goes away does not take it back.
    pub(crate) async fn open(&self, tool: &ToolId) -> Result<(), CallError> {
        let Some(opening) = self.shared.opening(&self.sessions, tool) else {
            tracing::debug!(run = %self.shared.run, "more tools than one interaction brackets");
            return Ok(());
        };
        if opening.stored.initialized() {
            return Ok(());
        }
        let part = Shared::enter(&self.shared, |_| Arc::clone(&self.sessions));
        let part = part.ok_or(CallError::Cancelled)?;
        let stored = self.shared.gateway.running().spawn(async move {
            let record = part.shared.gateway.record();
            opening
                .stored
                .get_or_try_init(|| record.append_or_refuse(opening.event.clone()))
                .await
                .map(drop)
        });
        stored.await.unwrap_or(Err(CallError::Internal))
    }

    /// Cancelled when the interaction ends.
    pub(crate) fn hang_up(&self) -> CancellationToken {
        self.shared.hang_up.child_token()
    }
}

impl Drop for InteractionGuard {
    fn drop(&mut self) {
        let mut state = self.shared.state.lock();
        state.used = Instant::now();
        self.sessions.in_flight.leave();
        self.shared.in_flight.leave();
    }
}

// === impl Interactions ===

impl Interactions {
    /// Closes every one as failed.
    pub(crate) async fn close_all(&self) {
        let all: Vec<Weak<Shared>> = self.all.lock().values().cloned().collect();
        let closing = all.iter().filter_map(Weak::upgrade).map(|shared| async move {
            shared.close(SessionOutcome::Failed).await;
        });
        futures_util::future::join_all(closing).await;
    }
}
