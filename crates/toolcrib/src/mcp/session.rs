//! Sessions of handshake clients.
//!
//! Invariant: a session is found only by its principal and id together. To other callers it looks
//! like an unknown session. Invariant: while a request runs in it or its stream is open, a session
//! neither expires nor is closed for a new one.
//!
//! The state of a session is small and in memory. Its id contains all that a server needs to
//! continue it. So a session outlives a restart, a change of server and a lack of memory.

mod table;

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
};

use parking_lot::Mutex;
use serde_json::{Map, Value};
use tokio_util::sync::CancellationToken;
use toolcrib_core::{
    canonical::Digest, event::SessionOutcome, id::SourceId, principal::Principal,
    store::ClientSession,
};
use toolcrib_gateway::{
    CallReport, CallRequest, CatalogScope, Gateway, Interaction, client_sessions::IssuedSession,
};
use toolcrib_mcp::revision::{self, LATEST_LEGACY};

use super::{consent, era, protocol::Id};

pub(super) use self::table::Sessions;

/// The list that a client saw last or was notified of.
#[derive(Default)]
pub(super) struct LastList(Mutex<Option<Digest>>);

impl LastList {
    /// Stores `digest`; returns whether it replaced another digest.
    pub(super) fn put(&self, digest: Digest) -> bool {
        let before = self.0.lock().replace(digest);
        before.is_some_and(|before| before != digest)
    }

    /// Marks the list that the client saw as outdated.
    fn make_unknown(&self) {
        *self.0.lock() = Some(Digest([0; 32]));
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.lock().is_none()
    }
}

/// The most prompts to connect an account whose completion a session is notified of.
const MAX_CONNECTING: usize = 16;

/// Marks the content of an id: the client can open a URL for its user.
const OPENS: &str = "+url";

/// The declarations of a client in its handshake.
#[derive(Debug, Clone, Copy)]
pub(super) struct Handshake {
    /// The negotiated revision.
    revision: &'static str,
    /// Whether it can open a URL for its user; before 2025-11-25 it cannot.
    pub(super) opens: bool,
}

/// The session of one client, from its handshake on.
pub(super) struct Session {
    pub(super) id: Box<str>,
    /// Its identity for every server; `None` over stdio, where a session ends with its process.
    pub(super) shared: Option<ClientSession>,
    gateway: Gateway,
    /// The part of the catalog that its client is connected to.
    pub(super) within: CatalogScope,
    /// The list that the client saw last or was notified of.
    pub(super) known: Arc<LastList>,
    state: Mutex<State>,
    pub(super) handshake: Handshake,
    ended: CancellationToken,
}

struct State {
    /// Monotonic nanoseconds.
    used_at: u64,
    /// Number of running requests and open streams.
    holds: usize,
    running: HashMap<Id, (u64, CancellationToken)>,
    /// Numbers requests, because a client can reuse an id.
    serial: u64,
    stream: Option<CancellationToken>,
    /// Whether the session has room in a table, so that it can expire.
    has_room: bool,
    /// The sources whose accounts its client was prompted to connect, with the ids of the prompts.
    connecting: VecDeque<(SourceId, String)>,
    /// Groups the calls in the record; `None` before the first call.
    interaction: Option<Arc<Interaction>>,
}

/// Keeps a session alive.
pub(super) struct SessionHold(Arc<Session>);

/// One request that runs in a session.
pub(super) struct ActiveRequest {
    hold: SessionHold,
    id: Id,
    serial: u64,
    cancelled: CancellationToken,
}

/// The standalone stream of a session, until another replaces it.
pub(super) struct Stream {
    _hold: SessionHold,
    /// Cancelled when the stream must end.
    pub(super) over: CancellationToken,
}

// === impl Handshake ===

impl Handshake {
    /// Reads the parameters of `initialize`.
    pub(super) fn read(params: &Map<String, Value>) -> Self {
        let requested = params.get("protocolVersion").and_then(Value::as_str);
        let capabilities = params.get("capabilities").and_then(Value::as_object);
        let opens = requested == Some(LATEST_LEGACY) && capabilities.is_some_and(consent::opens);
        Self { revision: revision::negotiate(era::SERVED, requested), opens }
    }

    fn content(self) -> String {
        let opens = if self.opens { OPENS } else { "" };
        format!("{}{opens}", self.revision)
    }

    /// Reads the content of an id; `None` if this server does not speak the revision.
    fn of_content(content: &str) -> Option<Self> {
        let revision = content.strip_suffix(OPENS);
        let opens = revision.is_some();
        let revision = revision.unwrap_or(content);
        let revision = era::SERVED.iter().find(|served| **served == revision)?;
        Some(Self { revision, opens })
    }

    pub(super) fn reads_structured(&self) -> bool {
        era::reads_structured(Some(self.revision))
    }
}

// === impl Session ===

impl Session {
    /// Creates a session outside of the table. Without `issued`, only this process can continue it.
    pub(super) fn new(
        issued: Option<IssuedSession>,
        gateway: Gateway,
        within: CatalogScope,
        handshake: Handshake,
    ) -> Arc<Self> {
        let state = State {
            used_at: gateway.clock().monotonic_nanos(),
            holds: 0,
            running: HashMap::new(),
            serial: 0,
            stream: None,
            has_room: true,
            connecting: VecDeque::new(),
            interaction: None,
        };
        let shared = issued.as_ref().map(|issued| issued.session);
        let id = issued.map_or_else(|| "".into(), |issued| issued.id);
        let ended = CancellationToken::new();
        let known = Arc::default();
        let state = Mutex::new(state);
        Arc::new(Self { id, shared, gateway, within, known, state, handshake, ended })
    }

    /// A token, cancelled when the session is closed.
    pub(super) fn over(&self) -> CancellationToken {
        self.ended.child_token()
    }

    /// Keeps the session for one request, because the table has no room for it.
    fn hold_without_room(self: &Arc<Self>) -> SessionHold {
        self.state.lock().has_room = false;
        self.hold()
    }

    /// Whether it lasts longer than one request.
    pub(super) fn has_room(&self) -> bool {
        self.state.lock().has_room
    }

    /// Keeps the session alive until the hold is dropped.
    pub(super) fn hold(self: &Arc<Self>) -> SessionHold {
        self.state.lock().holds += 1;
        SessionHold(Arc::clone(self))
    }

    /// Registers a running request with the client's `id`.
    pub(super) fn begin(self: &Arc<Self>, id: Id) -> ActiveRequest {
        let hold = self.hold();
        let cancelled = self.ended.child_token();
        let mut state = self.state.lock();
        state.serial += 1;
        let serial = state.serial;
        // If two requests share an id, the later one can be cancelled.
        state.running.insert(id.clone(), (serial, cancelled.clone()));
        drop(state);
        ActiveRequest { hold, id, serial, cancelled }
    }

    /// Cancels the request `id`, on whichever server it runs.
    pub(super) fn cancel(&self, id: &Id) {
        if !self.cancel_here(id)
            && let Some(shared) = self.shared
        {
            self.gateway.client_sessions().cancel(shared, id.as_json());
        }
    }

    /// Cancels the request `id` if it runs here. Returns whether it does.
    fn cancel_here(&self, id: &Id) -> bool {
        let state = self.state.lock();
        let running = state.running.get(id).map(|(_, running)| running);
        running.inspect(|running| running.cancel()).is_some()
    }

    /// Opens the standalone stream. Closes the previous one, because its connection may be long
    /// dead when the client opens another.
    pub(super) fn stream(self: &Arc<Self>) -> Stream {
        let hold = self.hold();
        let over = self.ended.child_token();
        if let Some(old) = self.state.lock().stream.replace(over.clone()) {
            old.cancel();
        }
        Stream { _hold: hold, over }
    }

    /// Notes that its client was prompted by `id` to connect an account of `source`.
    fn note_connecting(&self, source: SourceId, id: String) {
        let mut state = self.state.lock();
        if state.connecting.len() >= MAX_CONNECTING {
            state.connecting.pop_front();
        }
        state.connecting.push_back((source, id));
    }

    /// Removes and returns the ids of the prompts to connect an account of `source`.
    pub(super) fn connected(&self, source: &SourceId) -> Vec<String> {
        let connecting = &mut self.state.lock().connecting;
        let (done, left) = connecting.drain(..).partition::<VecDeque<_>, _>(|it| it.0 == *source);
        *connecting = left;
        done.into_iter().map(|(_, id)| id).collect()
    }

    /// Closes the session: its stream, its calls, and its tool sessions in the record.
    pub(super) async fn end(&self, outcome: SessionOutcome) {
        self.ended.cancel();
        let interaction = self.state.lock().interaction.take();
        if let Some(interaction) = interaction {
            interaction.close(outcome).await;
        }
    }

    /// The time since which the session is unused, in monotonic nanoseconds; `None` while it is in
    /// use.
    fn idle_since(&self) -> Option<u64> {
        let state = self.state.lock();
        (state.holds == 0).then_some(state.used_at)
    }

    /// Runs a call in this session, without an interaction if no more interactions can be recorded.
    async fn call(&self, principal: &Principal, request: CallRequest<'_>) -> CallReport {
        let interaction = {
            let mut state = self.state.lock();
            // A late call must not open an interaction, because it would never be closed.
            if state.interaction.is_none() && state.has_room && !self.ended.is_cancelled() {
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

// === impl SessionHold ===

impl SessionHold {
    pub(super) fn session(&self) -> &Arc<Session> {
        &self.0
    }
}

impl Drop for SessionHold {
    fn drop(&mut self) {
        let now = self.0.gateway.clock().monotonic_nanos();
        let mut state = self.0.state.lock();
        state.holds = state.holds.saturating_sub(1);
        state.used_at = now;
    }
}

// === impl ActiveRequest ===

impl ActiveRequest {
    /// Runs a call in the session.
    pub(super) async fn call(&self, principal: &Principal, request: CallRequest<'_>) -> CallReport {
        self.hold.0.call(principal, request).await
    }

    /// Notes that its answer prompts the client by `id` to connect an account of `source`.
    pub(super) fn note_connecting(&self, source: SourceId, id: String) {
        self.hold.0.note_connecting(source, id);
    }

    pub(super) fn is_over(&self) -> bool {
        self.hold.0.ended.is_cancelled()
    }

    /// Waits until the client cancels the request or the session is closed.
    pub(super) async fn cancelled(&self) {
        self.cancelled.cancelled().await;
    }
}

impl Drop for ActiveRequest {
    fn drop(&mut self) {
        let mut state = self.hold.0.state.lock();
        if state.running.get(&self.id).is_some_and(|(serial, _)| *serial == self.serial) {
            state.running.remove(&self.id);
        }
    }
}
