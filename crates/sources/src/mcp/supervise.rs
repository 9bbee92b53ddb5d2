//! Keeps one source connected: starts it, watches it, starts it again.
//!
//! Invariant: a source is connected by at most one task, which alone moves its state.
//! Invariant: between two attempts there is a pause that doubles up to a cap and is shortened again
//! only by a connection that held.
//! Invariant (I-90): a run that panics leaves no connection behind, and is followed by another one.

use std::{sync::Arc, time::Duration};

use parking_lot::RwLock;
use tokio::{
    runtime::Handle,
    sync::{Notify, Semaphore},
    time::Instant,
};
use tokio_util::sync::CancellationToken;
use toolcrib_core::{
    id::SourceId,
    redact::Echoes,
    source::{SourceLimits, SourceListener, SourceState},
};
use toolcrib_tasks::Backoff;

use super::{
    Target,
    connection::{Connection, Wire},
    ending::Ending,
    era::{self, Approach, Era, Session},
    http::Http,
    peer::Peer,
    stdio::{self, StdioDriver},
    watch,
};
use crate::{process::stderr::Lines, status::StatusBoard};

const FIRST_PAUSE: Duration = Duration::from_millis(250);
/// A program that ends all the time costs a start every time.
const LONGEST_PAUSE_STDIO: Duration = Duration::from_secs(60);
/// A request to an endpoint is cheap, and callers may be waiting for it to come back.
const LONGEST_PAUSE_HTTP: Duration = Duration::from_secs(15);
/// A connection that held for this long was a good one.
const STABLE: Duration = Duration::from_secs(60);

/// What a source and its supervisor share.
pub(crate) struct Shared {
    pub(crate) id: SourceId,
    pub(crate) limits: SourceLimits,
    pub(crate) status: StatusBoard,
    /// What its children say.
    pub(crate) stderr: Arc<Lines>,
    pub(crate) connection: RwLock<Option<Arc<Connection>>>,
    /// Calls that may be in flight at once.
    pub(crate) slots: Semaphore,
    pub(crate) stop: CancellationToken,
    pub(crate) list_changed: Arc<Notify>,
}

/// The task behind a source.
pub(crate) struct Supervisor {
    pub(crate) shared: Arc<Shared>,
    pub(crate) target: Target,
    pub(crate) listener: Arc<dyn SourceListener>,
    pub(crate) runtime: Handle,
}

/// What keeps a wire alive, and knows when it ends.
enum Driver {
    Stdio(Box<StdioDriver>),
    Http { http: Arc<Http>, ending: Arc<Ending> },
}

enum Attempt {
    Connected(Box<Connection>, Driver),
    Failed {
        reason: String,
        /// The child ended before it answered anything.
        ended: bool,
    },
    Stopped,
}

// === impl Supervisor ===

impl Supervisor {
    /// Runs until the source is closed. Called again when an earlier run panicked.
    pub(crate) async fn run(&self) {
        let shared = &self.shared;
        let changed = || {
            // Without a connection there is nothing to read, and the next one is announced itself.
            if shared.connection.read().is_some() {
                self.listener.changed(&shared.id);
            }
        };
        let _lost = ClearOnDrop(shared);
        tokio::select! {
            () = self.keep_connected() => {}
            () = watch::debounce(&shared.list_changed, changed) => {}
        }
    }

    async fn keep_connected(&self) {
        let stop = &self.shared.stop;
        let mut approach = Approach::Probe;
        let longest = match self.target {
            Target::Stdio(..) => LONGEST_PAUSE_STDIO,
            Target::Http { .. } => LONGEST_PAUSE_HTTP,
        };
        let (backoff, mut failures) = (Backoff::new(FIRST_PAUSE, longest), 0);
        loop {
            match self.connect(approach).await {
                Attempt::Stopped => return,
                Attempt::Failed { ended: true, .. } if approach == Approach::Probe => {
                    // Some old servers end when the first message is not the handshake.
                    approach = Approach::Handshake;
                    self.shared.status.count_restart();
                    continue;
                }
                Attempt::Failed { reason, .. } => {
                    approach = Approach::Probe;
                    self.degrade(&reason);
                }
                Attempt::Connected(connection, driver) => {
                    let since = Instant::now();
                    match self.hold(*connection, driver).await {
                        Some(reason) => self.degrade(&reason),
                        None => return,
                    }
                    if since.elapsed() >= STABLE {
                        failures = 0;
                    }
                }
            }
            failures += 1;
            tokio::select! {
                () = stop.cancelled() => return,
                () = tokio::time::sleep(backoff.jittered(failures)) => self.shared.status.count_restart(),
            }
        }
    }

    fn degrade(&self, reason: &str) {
        // Whoever refuses a credential may say which.
        let echoes = match &self.target {
            Target::Http { credential: Some(credential), .. } => credential.echoes(),
            Target::Http { .. } | Target::Stdio(..) => Echoes::default(),
        };
        let reason = &*echoes.text(reason);
        tracing::warn!(source = %self.shared.id, reason, "source is not connected");
        self.shared.status.set(SourceState::Degraded, reason);
    }

    /// Starts and negotiates, within the time that connecting may take.
    async fn connect(&self, approach: Approach) -> Attempt {
        let shared = &self.shared;
        let started = tokio::select! {
            biased;
            () = shared.stop.cancelled() => return Attempt::Stopped,
            started = self.start() => started,
        };
        let (wire, mut driver) = match started {
            Ok(started) => started,
            Err(reason) => return Attempt::Failed { reason, ended: false },
        };
        let negotiation = era::negotiate(&wire, approach);
        let negotiation = tokio::time::timeout(shared.limits.connect_timeout, negotiation);
        let negotiated = tokio::select! {
            biased;
            () = shared.stop.cancelled() => None,
            negotiated = negotiation => Some(match negotiated {
                Ok(Ok(session)) => Ok(session),
                Ok(Err(error)) => Err(error.reason),
                Err(_) => Err("the upstream did not answer in time".to_owned()),
            }),
            reason = driver.ended() => Some(Err(reason)),
        };
        match negotiated {
            None => {
                driver.close(&Era::Handshake).await;
                Attempt::Stopped
            }
            Some(Ok(session)) => {
                Attempt::Connected(Box::new(self.connection(wire, session)), driver)
            }
            Some(Err(reason)) => driver.failed(reason).await,
        }
    }

    async fn start(&self) -> Result<(Wire, Driver), String> {
        let shared = &self.shared;
        let peer = Peer::new(Arc::clone(&shared.list_changed));
        match &self.target {
            Target::Stdio(spec, launcher) => {
                let (launcher, limits, stderr) =
                    (launcher.as_ref(), &shared.limits, &shared.stderr);
                let (stdio, driver) =
                    stdio::start(spec, launcher, &shared.id, limits, peer, stderr).await?;
                Ok((Wire::Stdio(stdio), Driver::Stdio(Box::new(driver))))
            }
            Target::Http { endpoint, egress, credential } => {
                let ending = Arc::new(Ending::default());
                let http = Http::new(
                    egress.clone(),
                    endpoint.clone(),
                    credential.clone(),
                    peer,
                    shared.limits.max_message_bytes,
                    Arc::clone(&ending),
                    self.runtime.clone(),
                );
                Ok((Wire::Http(Arc::clone(&http)), Driver::Http { http, ending }))
            }
        }
    }

    fn connection(&self, wire: Wire, session: Session) -> Connection {
        Connection::new(wire, session, Arc::clone(&self.shared.list_changed))
    }

    /// Offers the connection until it ends, and says why it did; `None` when the source is closed.
    async fn hold(&self, connection: Connection, mut driver: Driver) -> Option<String> {
        let shared = &self.shared;
        let era = connection.session.era.clone();
        let connection = Arc::new(connection);
        *shared.connection.write() = Some(Arc::clone(&connection));
        let detail = format!("connected, MCP {}", era.version());
        shared.status.set(SourceState::Ready, &detail);
        tracing::info!(source = %shared.id, protocol = era.version(), "source is ready");
        self.listener.changed(&shared.id);
        let watching = async {
            watch::watch(connection).await;
            // The upstream has no stream of changes; the connection works without one.
            std::future::pending::<()>().await;
        };
        let reason = tokio::select! {
            biased;
            () = shared.stop.cancelled() => None,
            reason = driver.ended() => Some(reason),
            () = watching => None,
        };
        *shared.connection.write() = None;
        if reason.is_none() {
            driver.close(&era).await;
        }
        reason
    }
}

// === impl Driver ===

impl Driver {
    /// Waits until the connection ends, cleans up, and returns what happened. May be called again.
    async fn ended(&mut self) -> String {
        match self {
            Self::Stdio(driver) => driver.ended().await,
            Self::Http { ending, .. } => ending.ended().await,
        }
    }

    /// Ends it in order.
    async fn close(&mut self, era: &Era) {
        match self {
            Self::Stdio(driver) => driver.close().await,
            Self::Http { http, .. } => http.close(era).await,
        }
    }

    /// Cleans up after a negotiation that failed for `reason`, unless the driver knows better.
    async fn failed(mut self, reason: String) -> Attempt {
        match &mut self {
            Self::Http { .. } => Attempt::Failed { reason, ended: false },
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

/// Leaves no connection behind when a run ends, however it ends.
struct ClearOnDrop<'a>(&'a Shared);

impl Drop for ClearOnDrop<'_> {
    fn drop(&mut self) {
        *self.0.connection.write() = None;
        if std::thread::panicking() {
            let detail = "an internal error interrupted it; it is started again";
            self.0.status.set(SourceState::Degraded, detail);
            self.0.status.count_restart();
        }
    }
}
