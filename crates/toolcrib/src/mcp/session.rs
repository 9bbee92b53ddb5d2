//! Sessions of handshake clients.
//!
//! Invariant: a session is found by its principal and its id together, so to everybody else it is
//! as unknown as one that never was. Invariant: as long as a request runs in it or its stream is
//! open, a session neither expires nor makes room.
//!
//! The state of a session is small and in memory; after a restart its client hears 404, the
//! revisions' word for "begin again".

mod table;

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;
use toolcrib_core::{event::SessionOutcome, principal::Principal};
use toolcrib_gateway::{CallReport, CallRequest, CatalogScope, Gateway, Interaction};

use super::{changes::Known, protocol::Id};

pub(super) use self::table::Sessions;

/// One client between its handshake and its end.
pub(super) struct Session {
    id: Box<str>,
    gateway: Gateway,
    /// Which part of the catalog its client is connected to.
    pub(super) within: CatalogScope,
    /// The list that the client has seen or has been told of.
    pub(super) known: Arc<Known>,
    state: Mutex<State>,
    /// Whether the client said in its handshake that it can send somebody to an address.
    opens: AtomicBool,
    ended: CancellationToken,
}

struct State {
    /// Monotonic nanoseconds.
    used_at: u64,
    /// Requests that run and streams that are open.
    holds: usize,
    running: HashMap<Id, (u64, CancellationToken)>,
    /// Counts requests, because an id can be used again.
    serial: u64,
    stream: Option<CancellationToken>,
    /// Brackets the calls in the record; there is none before the first call.
    interaction: Option<Arc<Interaction>>,
}

/// Keeps a session alive.
pub(super) struct Hold(Arc<Session>);

/// One request that runs in a session.
pub(super) struct Turn {
    hold: Hold,
    id: Id,
    serial: u64,
    cancelled: CancellationToken,
}

/// The standalone stream of a session, as long as no other takes its place.
pub(super) struct Stream {
    _hold: Hold,
    /// Told when it is to end.
    pub(super) over: CancellationToken,
}

// === impl Session ===

impl Session {
    /// A session that only its holder knows.
    pub(super) fn new(id: Box<str>, gateway: Gateway, within: CatalogScope) -> Arc<Self> {
        let state = State {
            used_at: gateway.clock().monotonic_nanos(),
            holds: 0,
            running: HashMap::new(),
            serial: 0,
            stream: None,
            interaction: None,
        };
        let ended = CancellationToken::new();
        let (known, opens) = (Arc::default(), AtomicBool::new(false));
        Arc::new(Self { id, gateway, within, known, state: Mutex::new(state), opens, ended })
    }

    /// Notes whether the client said that it can send somebody to an address.
    pub(super) fn set_opens(&self, opens: bool) {
        self.opens.store(opens, Ordering::Relaxed);
    }

    /// What [`set_opens`](Self::set_opens) noted.
    pub(super) fn opens(&self) -> bool {
        self.opens.load(Ordering::Relaxed)
    }

    /// What the client calls it.
    pub(super) fn id(&self) -> &str {
        &self.id
    }

    /// Told when it has ended.
    pub(super) fn over(&self) -> CancellationToken {
        self.ended.child_token()
    }

    /// Keeps it alive until the hold is dropped.
    pub(super) fn hold(self: &Arc<Self>) -> Hold {
        self.state.lock().holds += 1;
        Hold(Arc::clone(self))
    }

    /// Begins the request `id` of the client.
    pub(super) fn begin(self: &Arc<Self>, id: Id) -> Turn {
        let hold = self.hold();
        let cancelled = self.ended.child_token();
        let mut state = self.state.lock();
        state.serial += 1;
        let serial = state.serial;
        // Of two requests that share an id, the later one is the one that can be cancelled.
        state.running.insert(id.clone(), (serial, cancelled.clone()));
        drop(state);
        Turn { hold, id, serial, cancelled }
    }

    /// The client does not want the answer to `id` any more.
    pub(super) fn cancel(&self, id: &Id) {
        if let Some((_, running)) = self.state.lock().running.get(id) {
            running.cancel();
        }
    }

    /// Opens the standalone stream. One that is open ends: its client has come back for another,
    /// and the connection of the old one may be long dead.
    pub(super) fn stream(self: &Arc<Self>) -> Stream {
        let hold = self.hold();
        let over = self.ended.child_token();
        if let Some(old) = self.state.lock().stream.replace(over.clone()) {
            old.cancel();
        }
        Stream { _hold: hold, over }
    }

    /// Ends it: its stream, its calls, and in the record its tool sessions.
    pub(super) async fn end(&self, outcome: SessionOutcome) {
        self.ended.cancel();
        let interaction = self.state.lock().interaction.take();
        if let Some(interaction) = interaction {
            interaction.close(outcome).await;
        }
    }

    /// Since when nobody has used it, in monotonic nanoseconds; `None` while somebody does.
    fn idle_since(&self) -> Option<u64> {
        let state = self.state.lock();
        (state.holds == 0).then_some(state.used_at)
    }

    /// A call in this session. When no more interactions can be recorded it is one by itself.
    async fn call(&self, principal: &Principal, request: CallRequest<'_>) -> CallReport {
        let interaction = {
            let mut state = self.state.lock();
            // One that comes too late must not open what nobody would close.
            if state.interaction.is_none() && !self.ended.is_cancelled() {
                state.interaction = self.gateway.interaction(principal).ok().map(Arc::new);
            }
            state.interaction.clone()
        };
        match interaction {
            Some(interaction) => interaction.call(principal, request).await,
            None => self.gateway.call(principal, request).await,
        }
    }
}

// === impl Hold ===

impl Hold {
    /// The session.
    pub(super) fn session(&self) -> &Arc<Session> {
        &self.0
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        let now = self.0.gateway.clock().monotonic_nanos();
        let mut state = self.0.state.lock();
        state.holds = state.holds.saturating_sub(1);
        state.used_at = now;
    }
}

// === impl Turn ===

impl Turn {
    /// Runs a call in the session.
    pub(super) async fn call(&self, principal: &Principal, request: CallRequest<'_>) -> CallReport {
        self.hold.0.call(principal, request).await
    }

    /// Ready when the client has cancelled the request, or the session has ended.
    pub(super) async fn cancelled(&self) {
        self.cancelled.cancelled().await;
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let mut state = self.hold.0.state.lock();
        if state.running.get(&self.id).is_some_and(|(serial, _)| *serial == self.serial) {
            state.running.remove(&self.id);
        }
    }
}
