//! The tool sessions of an interaction (RFC 0078 §D).
//!
//! The calls of an interaction are in one run. `tool.session.opened` precedes the first call of
//! each tool that its caller may use, and closing the interaction writes one `tool.session.closed`
//! for each tool; all of them have one `sessionId`. A denied call opens no session.
//!
//! Invariant (I-32): `opened` is durable before the first call event of its tool other than a
//! denial, and `closed` is appended once, after the last call event of the interaction.
//!
//! The outcome of the sessions is the one given by the holder, `cancelled` if the interaction is
//! dropped, or `failed` if it is idle, too old or closed with the gateway. Sessions that a dead
//! process left open are closed as `failed` by the next process.
//!
//! Retention removes events by age. So sessions are closed before the retention period is over.

use std::{
    collections::HashMap,
    sync::{
        Arc, Weak,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use parking_lot::Mutex;
use tokio::{sync::OnceCell, time::Instant};
use tokio_util::{
    sync::CancellationToken,
    task::{TaskTracker, task_tracker::TaskTrackerToken},
};
use toolcrib_core::{
    call::CallError,
    event::{EventBody, NewEvent, SessionOutcome, ToolSessionClosed, ToolSessionOpened},
    id::{PrincipalId, RunId, SessionId, TenantId, ToolId},
    principal::{Principal, PrincipalKey},
    share::Shares,
};

use crate::{
    audit::Audit,
    background::{CLOSING_TIME, Services},
    ids::new_id,
};

/// Interactions at once, in addition to those within `FLOOR`.
pub const MAX_INTERACTIONS: usize = 10_000;

/// Interactions that each tenant may always have.
const FLOOR: usize = 32;

/// Tools with a separate session in one interaction. Calls of further tools are recorded in the
/// same run, without a session. Each takes about 500 bytes, and costs its caller a call.
pub const MAX_TOOLS: usize = 256;

/// Time without a call after which an interaction's tool sessions are closed as `failed`. A later
/// call opens new ones, under a new `sessionId`.
pub const IDLE: Duration = Duration::from_secs(3_600);

/// Longest time between two checks of the age of a session: a shorter `keep` of a new configuration
/// takes effect after this time.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// There are [`MAX_INTERACTIONS`] already, or the gateway is closing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("too many interactions at once; end some and try again")]
pub struct TooManyInteractions;

/// One interaction of a caller: its run, its open sessions and its calls in flight.
pub(crate) struct InteractionState {
    interactions: Arc<Interactions>,
    tenant: TenantId,
    principal: PrincipalId,
    run: RunId,
    /// Its place among [`Interactions`]: several can be in one run.
    place: u64,
    /// Cancels the calls in flight.
    cancellation: CancellationToken,
    state: Mutex<State>,
    /// Its calls in flight.
    in_flight: TaskTracker,
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
    in_flight: TaskTracker,
}

#[derive(Default)]
struct SessionsState {
    tools: HashMap<ToolId, Arc<Opening>>,
    /// When the first of them was opened.
    opened: Option<Instant>,
}

/// The start of one tool's session.
struct Opening {
    event: NewEvent,
    /// Tried once: a failed attempt may have been stored after all, so the next attempt is another
    /// event.
    stored: OnceCell<Result<(), CallError>>,
}

impl Opening {
    fn is_stored(&self) -> bool {
        matches!(self.stored.get(), Some(Ok(())))
    }
}

/// All open interactions.
pub(crate) struct Interactions {
    services: Services,
    audit: Arc<Audit>,
    all: Mutex<Places>,
    made: AtomicU64,
}

/// The places of interactions, divided among callers (I-105).
struct Places {
    all: HashMap<u64, Weak<InteractionState>>,
    shares: Shares,
}

/// A call in its interaction; the interaction stays open as long as one exists.
pub(crate) struct InteractionGuard {
    interaction: Arc<InteractionState>,
    sessions: Arc<ToolSessions>,
    _in_flight: [TaskTrackerToken; 2],
}

// === impl Interactions ===

impl Interactions {
    pub(crate) fn new(services: Services, audit: Arc<Audit>) -> Arc<Self> {
        let shares = Shares::new(MAX_INTERACTIONS).with_floor(FLOOR);
        let all = Mutex::new(Places { all: HashMap::new(), shares });
        Arc::new(Self { services, audit, all, made: AtomicU64::new(0) })
    }

    /// Starts an interaction of `principal` in `run`. Its first call is its first record.
    ///
    /// # Errors
    /// [`TooManyInteractions`].
    pub(crate) fn start(
        self: &Arc<Self>,
        run: RunId,
        principal: &Principal,
    ) -> Result<Arc<InteractionState>, TooManyInteractions> {
        let place = self.made.fetch_add(1, Ordering::Relaxed);
        let interaction = Arc::new(InteractionState {
            interactions: Arc::clone(self),
            tenant: principal.tenant.clone(),
            principal: principal.id.clone(),
            run,
            place,
            cancellation: CancellationToken::new(),
            state: Mutex::new(State {
                sessions: ToolSessions::new(),
                used: Instant::now(),
                over: false,
                watched: false,
            }),
            in_flight: TaskTracker::new(),
        });
        let mut places = self.all.lock();
        if self.services.background.ended().is_cancelled()
            || !places.shares.take(&PrincipalKey::of(principal), 1)
        {
            return Err(TooManyInteractions);
        }
        places.all.insert(place, Arc::downgrade(&interaction));
        drop(places);
        Ok(interaction)
    }

    /// Closes every interaction as failed.
    pub(crate) async fn close_all(&self) {
        let all: Vec<Weak<InteractionState>> = self.all.lock().all.values().cloned().collect();
        let closing = all.iter().filter_map(Weak::upgrade).map(|interaction| async move {
            interaction.close(SessionOutcome::Failed).await;
        });
        futures_util::future::join_all(closing).await;
    }
}

// === impl InteractionState ===

impl InteractionState {
    pub(crate) fn run_id(&self) -> &RunId {
        &self.run
    }

    /// The `sessionId` of the open sessions, or of the next ones.
    pub(crate) fn session_id(&self) -> SessionId {
        self.state.lock().sessions.id.clone()
    }

    /// Whether this is an interaction of `principal`.
    pub(crate) fn belongs_to(&self, principal: &Principal) -> bool {
        self.tenant == principal.tenant && self.principal == principal.id
    }

    /// Closes the interaction in the background after its holder was dropped: its sessions are
    /// closed as `cancelled`.
    pub(crate) fn abandon(self: &Arc<Self>) {
        if self.state.lock().over || self.end_when_unused() {
            return;
        }
        // Without a runtime, writing is impossible; the next process closes the sessions.
        if tokio::runtime::Handle::try_current().is_ok() {
            let interaction = Arc::clone(self);
            self.interactions
                .services
                .background
                .spawn(async move { interaction.close(SessionOutcome::Cancelled).await });
        }
    }

    /// Starts a call in the open sessions; `None` if the interaction is closed.
    pub(crate) fn begin(self: &Arc<Self>) -> Option<InteractionGuard> {
        self.enter(|state| Arc::clone(&state.sessions))
    }

    /// Starts a call in the sessions that `choose` selects; `None` if the interaction is closed.
    fn enter(
        self: &Arc<Self>,
        choose: impl FnOnce(&State) -> Arc<ToolSessions>,
    ) -> Option<InteractionGuard> {
        let mut state = self.state.lock();
        if state.over {
            return None;
        }
        state.used = Instant::now();
        let sessions = choose(&state);
        let in_flight = [self.in_flight.token(), sessions.in_flight.token()];
        Some(InteractionGuard { interaction: Arc::clone(self), sessions, _in_flight: in_flight })
    }

    /// The session of `tool` among `sessions`, new or not; `None` if there are too many.
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
            let ended = self.interactions.services.background.ended().clone();
            self.interactions.services.background.spawn(watch(Arc::downgrade(self), ended));
        }
        Some(opening)
    }

    fn event(&self, body: EventBody, cause: Option<&NewEvent>) -> NewEvent {
        let cause = cause.map(|event| event.event_id.clone());
        self.interactions.audit.event(self.tenant.clone(), self.run.clone(), body, cause)
    }

    /// Releases the place of a closed interaction.
    fn leave(&self) {
        let mut places = self.interactions.all.lock();
        if places.all.remove(&self.place).is_some() {
            let (tenant, principal) = (self.tenant.clone(), self.principal.clone());
            places.shares.give_back(&PrincipalKey { tenant, principal }, 1);
        }
    }

    /// Closes the interaction if it has neither records nor calls in flight. Returns whether it
    /// closed it.
    fn end_when_unused(&self) -> bool {
        let mut state = self.state.lock();
        let unused = self.in_flight.is_empty() && state.sessions.state.lock().tools.is_empty();
        if unused {
            state.over = true;
            drop(state);
            self.leave();
        }
        unused
    }

    /// Cancels the calls in flight, waits (for seconds at most) until they are recorded, and closes every
    /// session with `outcome`. Only the first call counts.
    pub(crate) async fn close(&self, outcome: SessionOutcome) {
        if std::mem::replace(&mut self.state.lock().over, true) {
            return;
        }
        self.cancellation.cancel();
        if tokio::time::timeout(CLOSING_TIME, wait_until_idle(&self.in_flight)).await.is_err() {
            tracing::warn!(run = %self.run, "a tool session was closed before the last of its calls");
        }
        let sessions = Arc::clone(&self.state.lock().sessions);
        self.record_closed(&sessions, outcome).await;
        self.leave();
    }

    /// Closes the open sessions if they are idle for [`IDLE`], or too old and without a running
    /// call; later calls open new ones. Returns the time of the next check; `None` if the
    /// interaction is closed.
    fn expire(self: &Arc<Self>) -> Option<Instant> {
        let max_age = self.interactions.services.config().record.session_age();
        let now = Instant::now();
        let mut state = self.state.lock();
        if state.over {
            return None;
        }
        let pause = LONGEST_PAUSE.min(max_age);
        let Some(opened) = state.sessions.state.lock().opened else { return Some(now + pause) };
        let mut due = opened + max_age;
        if self.in_flight.is_empty() {
            due = due.min(state.used + IDLE);
        }
        if due > now {
            return Some(due.min(now + pause));
        }
        let sessions = std::mem::replace(&mut state.sessions, ToolSessions::new());
        drop(state);
        let this = Arc::clone(self);
        self.interactions.services.background.spawn(async move {
            wait_until_idle(&sessions.in_flight).await;
            this.record_closed(&sessions, SessionOutcome::Failed).await;
        });
        Some(now + pause)
    }

    async fn record_closed(&self, sessions: &ToolSessions, outcome: SessionOutcome) {
        let opened = std::mem::take(&mut sessions.state.lock().tools);
        let mut closing: Vec<NewEvent> = Vec::new();
        for (tool_id, opening) in opened {
            // An unstored session has had no calls.
            if !opening.is_stored() {
                continue;
            }
            if let EventBody::ToolSessionOpened(opened) = &opening.event.body {
                let session_id = opened.session_id.clone();
                let body = ToolSessionClosed { session_id, tool_id, outcome };
                closing.push(self.event(EventBody::ToolSessionClosed(body), Some(&opening.event)));
            }
        }
        if !closing.is_empty() {
            // In opening order: ids of events rise.
            closing.sort_by(|a, b| a.causation_id.cmp(&b.causation_id));
            // Denied calls of the interaction may still wait to be written.
            self.interactions.audit.denials().settle().await;
            self.interactions.audit.append_with_retry(closing).await;
        }
    }
}

async fn watch(this: Weak<InteractionState>, ended: CancellationToken) {
    loop {
        let Some(next) = this.upgrade().and_then(|this| this.expire()) else { return };
        tokio::select! {
            () = tokio::time::sleep_until(next) => {}
            () = ended.cancelled() => return,
        }
    }
}

// === impl ToolSessions ===

impl ToolSessions {
    fn new() -> Arc<Self> {
        let (id, state) = (new_id(), Mutex::default());
        Arc::new(Self { id, state, in_flight: TaskTracker::new() })
    }

    /// Forgets the start of a tool's session, if it is still `opening`.
    fn forget(&self, tool: &ToolId, opening: &Arc<Opening>) {
        let tools = &mut self.state.lock().tools;
        if tools.get(tool).is_some_and(|current| Arc::ptr_eq(current, opening)) {
            tools.remove(tool);
        }
    }
}

/// Waits until no call of `calls` is in flight.
async fn wait_until_idle(calls: &TaskTracker) {
    calls.close();
    calls.wait().await;
}

// === impl InteractionGuard ===

impl InteractionGuard {
    /// Opens the session of `tool` if necessary. Concurrent callers wait for the same event, and a
    /// disconnecting caller does not revert it.
    pub(crate) async fn open(&self, tool: &ToolId) -> Result<(), CallError> {
        let Some(opening) = self.interaction.opening(&self.sessions, tool) else {
            tracing::debug!(run = %self.interaction.run, "too many tools in one interaction; no session opened");
            return Ok(());
        };
        if opening.is_stored() {
            return Ok(());
        }
        let part = self.interaction.enter(|_| Arc::clone(&self.sessions));
        let part = part.ok_or(CallError::Cancelled)?;
        let tool = tool.clone();
        let stored = self.interaction.interactions.services.background.spawn(async move {
            let audit = &part.interaction.interactions.audit;
            let store = || audit.append_or_refuse(opening.event.clone());
            let stored = opening.stored.get_or_init(store).await.clone();
            if stored.is_err() {
                part.sessions.forget(&tool, &opening);
            }
            stored
        });
        stored.await.unwrap_or(Err(CallError::Internal))
    }

    /// Cancelled when the interaction is closed.
    pub(crate) fn cancellation(&self) -> CancellationToken {
        self.interaction.cancellation.child_token()
    }
}

impl Drop for InteractionGuard {
    fn drop(&mut self) {
        self.interaction.state.lock().used = Instant::now();
    }
}
