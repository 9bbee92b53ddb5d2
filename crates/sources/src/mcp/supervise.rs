//! Keeps one source connected: starts it, watches it, restarts it.
//!
//! Invariant: a source is connected by at most one task, which alone moves its state.
//! Invariant (I-104): a connection counts as connected only after its list was read, so that the
//! list comes before the first call.
//! Invariant: the pause between two attempts doubles up to a cap; only a stable connection shortens
//! it again.
//! Invariant (I-90): a run that panics leaves no connection behind, and is followed by another one.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use tokio::{sync::watch as watch_channel, time::Instant};
use toolcrib_core::{
    call::UpstreamError,
    redact::Echoes,
    source::{Discovered, SourceState, StderrMode, StdioSpec},
};
use toolcrib_tasks::Backoff;

use super::{
    connection::Connection,
    discover,
    era::Era,
    failure::Failure,
    http::{Http, HttpTarget, LegacySession},
    list_changes::ListChanges,
    negotiation::{Approach, Session, initialize, negotiate},
    peer::Peer,
    remainder::Remainder,
    sessions::GrantSessions,
    stdio::{self, StdioDriver},
    watch,
    wire::Wire,
};
use crate::{
    calls::Calls,
    context::SourceContext,
    credential::SourceCredential,
    egress::Endpoint,
    error::{timeout, unavailable},
    forms::Forms,
    process::{launch::Launcher, stderr::Lines},
    status::StatusBoard,
};

const FIRST_PAUSE: Duration = Duration::from_millis(250);
/// Consecutive failures of the list after which a connection over HTTP is closed.
const MAX_FAILED_LISTS: u32 = 2;
/// A program that keeps exiting costs a start every time.
const LONGEST_PAUSE_STDIO: Duration = Duration::from_secs(60);
/// A request to an endpoint is cheap, and callers may be waiting for it to come back.
const LONGEST_PAUSE_HTTP: Duration = Duration::from_secs(15);
/// Calls wait for the first attempt after a pause of at most this length.
const SOON: Duration = Duration::from_secs(2);
/// A connection that lasted this long counts as stable.
const STABLE: Duration = Duration::from_secs(60);

/// Where a source's upstream is.
pub(crate) enum Target {
    /// A program to start, and its launcher.
    Stdio(StdioSpec, Option<Launcher>),
    Http(HttpTarget),
}

/// The tools that are called on a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Listing {
    /// Those of the upstream's own list; it is read before the first call.
    Upstream,
    /// Those of a manifest that names tools of the upstream. They are never listed.
    Manifest,
}

/// A source and the task behind it.
pub(crate) struct Supervisor {
    pub(crate) context: SourceContext,
    pub(crate) target: Target,
    pub(crate) listing: Listing,
    pub(crate) status: StatusBoard,
    /// The parts of the upstream that are not offered.
    pub(crate) remainder: Remainder,
    /// The stderr output of its children.
    pub(crate) stderr: Arc<Lines>,
    link: watch_channel::Sender<Link>,
    /// Sessions of accounts, beside the connection.
    pub(crate) sessions: GrantSessions,
    pub(crate) calls: Calls,
    list_changed: Arc<ListChanges>,
    /// Whether a change was announced while the first list of a connection was read.
    missed_change: AtomicBool,
}

/// The state of the connection.
#[derive(Debug, Clone)]
pub(crate) enum Link {
    /// No attempt has failed since the start or the last connection, and one runs or starts within
    /// [`SOON`]. Calls wait for its outcome.
    Connecting,
    Up(Arc<Connection>),
    /// Calls fail at once.
    Down,
}

/// Keeps a wire alive, and knows when it closes.
enum Driver {
    Stdio(Box<StdioDriver>),
    Http(Arc<Http>),
}

struct LostConnection {
    reason: String,
    /// Whether requests were under way.
    is_interrupted: bool,
}

enum Attempt {
    Connected(Box<Connection>, Driver),
    Failed {
        reason: String,
        /// The child exited before its first answer.
        ended: bool,
    },
    Stopped,
}

// === impl Supervisor ===

impl Supervisor {
    pub(crate) fn new(context: SourceContext, target: Target, listing: Listing) -> Self {
        let mode = match &target {
            Target::Stdio(spec, _) => spec.stderr,
            Target::Http(_) => StderrMode::Keep,
        };
        Self {
            target,
            listing,
            status: StatusBoard::new(Arc::clone(&context.clock)),
            remainder: Remainder::default(),
            stderr: Arc::new(Lines::new(context.id.clone(), mode, Arc::clone(&context.clock))),
            link: watch_channel::Sender::new(Link::Connecting),
            sessions: GrantSessions::default(),
            calls: Calls::new(&context.limits),
            list_changed: Arc::default(),
            missed_change: AtomicBool::new(false),
            context,
        }
    }

    /// Runs until the source is closed. Called again when an earlier run panicked.
    pub(crate) async fn run(&self) {
        let changed = || match &*self.link.borrow() {
            Link::Up(connection) => {
                // The list may be older than the change.
                connection.take_first_list();
                self.context.changed();
            }
            Link::Connecting | Link::Down => self.missed_change.store(true, Ordering::Release),
        };
        let _lost = ConnectionGuard(self);
        tokio::select! {
            () = self.keep_connected() => {}
            () = watch::debounce(&self.list_changed, changed) => {}
            () = self.sessions.keep_tidy(self.credential().map(|(_, it)| it.removals())) => {}
        }
    }

    async fn keep_connected(&self) {
        let closed = &self.calls.closed;
        let mut approach = Approach::Probe;
        let longest = match self.target {
            Target::Stdio(..) => LONGEST_PAUSE_STDIO,
            Target::Http(_) => LONGEST_PAUSE_HTTP,
        };
        let (backoff, mut failures) = (Backoff::new(FIRST_PAUSE, longest), 0);
        loop {
            match self.connect(approach).await {
                Attempt::Stopped => return,
                Attempt::Failed { ended: true, .. } if approach == Approach::Probe => {
                    // Some old servers exit when the first message is not the handshake.
                    approach = Approach::Handshake;
                    self.status.count_restart();
                    continue;
                }
                Attempt::Failed { reason, .. } => {
                    approach = Approach::Probe;
                    self.degrade(&reason);
                    self.link.send_replace(Link::Down);
                }
                Attempt::Connected(connection, driver) => {
                    let since = Instant::now();
                    let Some(LostConnection { reason, is_interrupted }) =
                        self.hold(*connection, driver).await
                    else {
                        return;
                    };
                    self.degrade(&reason);
                    // If a call makes the child exit, the breaker blocks only the caller of that
                    // call. A longer pause would block all callers.
                    if is_interrupted || since.elapsed() >= STABLE {
                        failures = 0;
                    }
                }
            }
            failures += 1;
            let pause = backoff.jittered(failures);
            if pause > SOON {
                self.link.send_replace(Link::Down);
            }
            tokio::select! {
                () = closed.cancelled() => return,
                () = tokio::time::sleep(pause) => self.status.count_restart(),
            }
        }
    }

    /// Fails at once if there is neither a connection nor a first attempt to connect.
    pub(crate) fn check_link(&self) -> Result<(), UpstreamError> {
        match &*self.link.borrow() {
            Link::Down => Err(self.not_connected()),
            Link::Up(_) | Link::Connecting => Ok(()),
        }
    }

    /// The connection. While a first attempt to connect runs, calls `waits` and waits for the
    /// outcome, at most as long as connecting may take.
    pub(crate) async fn connected_now(
        &self,
        waits: impl FnOnce(),
    ) -> Result<Arc<Connection>, UpstreamError> {
        let mut link = self.link.subscribe();
        let mut waits = Some(waits);
        let outcome = async {
            loop {
                match &*link.borrow_and_update() {
                    // A closed connection is about to be replaced.
                    Link::Up(connection) if !connection.wire.has_ended() => return,
                    Link::Down => return,
                    Link::Up(_) | Link::Connecting => {}
                }
                if let Some(waits) = waits.take() {
                    waits();
                }
                if link.changed().await.is_err() {
                    return;
                }
            }
        };
        // Without an outcome there is no connection, and the next line fails.
        tokio::time::timeout(self.context.limits.connect_timeout, outcome).await.ok();
        self.connection()
    }

    /// Returns the current connection. Fails if there is no connection now.
    pub(crate) fn connection(&self) -> Result<Arc<Connection>, UpstreamError> {
        match &*self.link.borrow() {
            Link::Up(connection) => Ok(Arc::clone(connection)),
            Link::Connecting | Link::Down => Err(self.not_connected()),
        }
    }

    fn not_connected(&self) -> UpstreamError {
        let detail = self.status.get().detail.unwrap_or_default();
        unavailable(format!("not connected: {detail}"))
    }

    fn degrade(&self, reason: &str) {
        // The upstream may quote a credential that it refuses.
        let echoes = self.echoes();
        let reason = &*echoes.seen(reason);
        tracing::warn!(source = %self.context.id, reason, "source is not connected");
        self.status.set(SourceState::Degraded, reason);
    }

    pub(crate) fn credential(&self) -> Option<(&Endpoint, &Arc<SourceCredential>)> {
        match &self.target {
            Target::Http(target) => Some((&target.endpoint, target.credential.as_ref()?)),
            Target::Stdio(..) => None,
        }
    }

    /// The filter for echoes of the credential.
    pub(crate) fn echoes(&self) -> Echoes {
        self.credential().map(|(_, credential)| credential.echoes()).unwrap_or_default()
    }

    /// Starts, negotiates and reads the list, each within the time that connecting may take.
    async fn connect(&self, approach: Approach) -> Attempt {
        let closed = &self.calls.closed;
        let started = tokio::select! {
            biased;
            () = closed.cancelled() => return Attempt::Stopped,
            started = self.start() => started,
        };
        let (wire, mut driver) = match started {
            Ok(started) => started,
            Err(reason) => return Attempt::Failed { reason, ended: false },
        };
        let negotiation = negotiate(&wire, approach);
        let negotiation = tokio::time::timeout(self.context.limits.connect_timeout, negotiation);
        let negotiated = tokio::select! {
            biased;
            () = closed.cancelled() => None,
            negotiated = negotiation => Some(negotiated.unwrap_or_else(|_| {
                Err("the upstream did not answer in time".to_owned())
            })),
            reason = driver.ended() => Some(Err(reason)),
        };
        match negotiated {
            None => {
                driver.close(&Era::Handshake).await;
                Attempt::Stopped
            }
            Some(Ok(session)) => self.connected(wire, driver, session).await,
            Some(Err(reason)) => driver.failed(reason).await,
        }
    }

    /// Reads the list of a negotiated connection.
    async fn connected(&self, wire: Wire, mut driver: Driver, session: Session) -> Attempt {
        let era = session.era.clone();
        let connection = Connection::new(wire, session, Arc::clone(&self.list_changed));
        let listed = tokio::select! {
            biased;
            () = self.calls.closed.cancelled() => None,
            listed = self.list_first(&connection) => Some(listed.map_err(|error| {
                format!("its tools could not be listed: {}", error.detail)
            })),
            reason = driver.ended() => Some(Err(reason)),
        };
        match listed {
            Some(Ok(())) => Attempt::Connected(Box::new(connection), driver),
            Some(Err(reason)) => {
                driver.close(&era).await;
                Attempt::Failed { reason, ended: false }
            }
            None => {
                driver.close(&era).await;
                Attempt::Stopped
            }
        }
    }

    /// Reads the list of a session without one, and keeps it for the next discovery.
    async fn list_first(&self, connection: &Connection) -> Result<(), UpstreamError> {
        if self.listing == Listing::Upstream {
            let list = self.read_list(connection).await?;
            connection.put_first_list(list);
        }
        Ok(())
    }

    /// Returns the list of a connection: the one read before its first call if it is unused, else a
    /// new one.
    pub(crate) async fn list(&self, connection: &Connection) -> Result<Discovered, UpstreamError> {
        if let Some(first) = connection.take_first_list() {
            return Ok(first);
        }
        let session = connection.legacy_session();
        let listed = match self.read_list(connection).await {
            Err(Failure::SessionExpired) => {
                self.renew(connection, session).await?;
                match connection.take_first_list() {
                    Some(first) => return Ok(first),
                    None => self.read_list(connection).await,
                }
            }
            listed => listed,
        };
        let failed = connection.count_list(listed.is_ok());
        let listed = listed.map_err(UpstreamError::from);
        if let (Err(error), Wire::Http(http)) = (&listed, &connection.wire)
            && failed >= MAX_FAILED_LISTS
        {
            // Perhaps the upstream has forgotten the session, and does not say so.
            let reason = format!("its tools could not be listed: {}", error.detail);
            http.end.set(reason).ok();
        }
        listed
    }

    /// Waits until the tools of the session have been listed. They must be listed again after
    /// [`renew`](Self::renew), and after an announced change.
    pub(crate) async fn listed(&self, connection: &Connection) -> Result<(), UpstreamError> {
        match (&connection.wire, connection.is_listed()) {
            (_, true) => Ok(()),
            (Wire::Http(_), false) => self.renew(connection, None).await.map(drop),
            (Wire::Stdio(_), false) => {
                let _one_at_a_time = connection.renewing.lock().await;
                if connection.is_listed() { Ok(()) } else { self.list_first(connection).await }
            }
        }
    }

    /// Opens a new session in place of `expired`, reads its list and returns true; false if another
    /// caller did so meanwhile. A failure closes the connection, so that the next one comes after a
    /// pause. When it is dropped early, the next call completes it.
    pub(crate) async fn renew(
        &self,
        connection: &Connection,
        expired: Option<LegacySession>,
    ) -> Result<bool, UpstreamError> {
        let Wire::Http(http) = &connection.wire else {
            return Err(unavailable("the session expired"));
        };
        let _one_at_a_time = connection.renewing.lock().await;
        let is_expired = Some(http.session()) == expired;
        if !is_expired && connection.is_listed() {
            return Ok(false);
        }
        let renewed = async {
            if is_expired {
                connection.set_forms(None, connection.list_changed.announced());
                initialize(&connection.wire).await?;
            }
            self.list_first(connection).await.map_err(|error| error.detail)
        };
        renewed.await.map_err(|reason| {
            http.end.set(reason.clone()).ok();
            unavailable(match is_expired {
                true => format!("the session expired and no new one could be had: {reason}"),
                false => format!("its tools could not be listed: {reason}"),
            })
        })?;
        Ok(true)
    }

    /// Has the gateway read the list, which an upstream that lost its session may have changed.
    pub(crate) fn announce_list(&self) {
        self.context.changed();
    }

    /// Reads the whole list and stores its forms.
    async fn read_list(&self, connection: &Connection) -> Result<Discovered, Failure> {
        let limits = &self.context.limits;
        let announced = connection.list_changed.announced();
        let discovery = discover::discover(connection, limits);
        let list = tokio::time::timeout(limits.connect_timeout, discovery)
            .await
            .map_err(|_| timeout("the tool list was not complete in time"))??;
        let list = self.echoes().discovered(list);
        // Hashing thousands of tools is slow, so it runs on a blocking thread.
        let hashed = tokio::task::spawn_blocking(move || (Forms::of(&list.offers), list)).await;
        let (forms, list) = hashed.map_err(|_| unavailable("reading the list was interrupted"))?;
        connection.set_forms(Some(forms), announced);
        self.remainder.set_tools(&list.offers);
        Ok(list)
    }

    async fn start(&self) -> Result<(Wire, Driver), String> {
        let peer = Peer::new(Arc::clone(&self.list_changed));
        match &self.target {
            Target::Stdio(spec, launcher) => {
                let (launcher, stderr) = (launcher.as_ref(), &self.stderr);
                let (stdio, driver) =
                    stdio::start(&self.context, spec, launcher, peer, stderr).await?;
                Ok((Wire::Stdio(stdio), Driver::Stdio(Box::new(driver))))
            }
            Target::Http(target) => {
                let http = Http::new(target.clone(), &self.context, peer);
                Ok((Wire::Http(Arc::clone(&http)), Driver::Http(http)))
            }
        }
    }

    /// Offers the connection until it closes; `None` when the source is closed.
    async fn hold(&self, connection: Connection, mut driver: Driver) -> Option<LostConnection> {
        let era = connection.session.era.clone();
        let connection = Arc::new(connection);
        if self.missed_change.swap(false, Ordering::AcqRel) {
            connection.take_first_list();
        }
        self.link.send_replace(Link::Up(Arc::clone(&connection)));
        let detail = format!("connected, MCP {}", era.version());
        self.status.set(SourceState::Ready, &detail);
        tracing::info!(source = %self.context.id, protocol = era.version(), "source is ready");
        self.context.changed();
        let aside = async {
            let counting = async {
                if self.listing == Listing::Upstream {
                    self.remainder.count(&connection).await;
                }
            };
            tokio::join!(watch::watch(Arc::clone(&connection)), counting);
            // The upstream has no stream of changes; the connection works without one.
            std::future::pending::<()>().await;
        };
        let reason = tokio::select! {
            biased;
            () = self.calls.closed.cancelled() => None,
            reason = driver.ended() => Some(reason),
            () = aside => None,
        };
        let is_lost = reason.is_some();
        self.link.send_replace(if is_lost { Link::Connecting } else { Link::Down });
        if reason.is_none() {
            driver.close(&era).await;
        }
        Some(LostConnection { reason: reason?, is_interrupted: connection.wire.was_interrupted() })
    }
}

// === impl Driver ===

impl Driver {
    /// Waits until the connection closes, cleans up, and describes the cause. May be called again.
    async fn ended(&mut self) -> String {
        match self {
            Self::Stdio(driver) => driver.ended().await,
            Self::Http(http) => http.end.wait().await.clone(),
        }
    }

    /// Closes it in order.
    async fn close(&mut self, era: &Era) {
        match self {
            Self::Stdio(driver) => driver.close().await,
            Self::Http(http) => http.close(era).await,
        }
    }

    /// Cleans up after a negotiation that failed for `reason`, unless the driver knows the cause.
    async fn failed(mut self, reason: String) -> Attempt {
        match &mut self {
            Self::Http(_) => Attempt::Failed { reason, ended: false },
            Self::Stdio(driver) if driver.has_ended() => {
                Attempt::Failed { reason: driver.ended().await, ended: true }
            }
            Self::Stdio(driver) => {
                driver.close().await;
                Attempt::Failed { reason, ended: false }
            }
        }
    }
}

/// Removes the connection when a run finishes, in any way.
struct ConnectionGuard<'a>(&'a Supervisor);

impl Drop for ConnectionGuard<'_> {
    fn drop(&mut self) {
        self.0.link.send_replace(Link::Down);
        if std::thread::panicking() {
            let detail = "an internal error interrupted it; it is started again";
            self.0.status.set(SourceState::Degraded, detail);
            self.0.status.count_restart();
        }
    }
}
