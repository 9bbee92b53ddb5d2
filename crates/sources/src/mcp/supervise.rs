//! Keeps one source connected: starts it, watches it, starts it again.
//!
//! Invariant: a source is connected by at most one task, which alone moves its state.
//! Invariant: between two attempts there is a pause that doubles up to a cap and is shortened again
//! only by a connection that held.
//! Invariant (I-90): a run that panics leaves no connection behind, and is followed by another one.

use std::{sync::Arc, time::Duration};

use parking_lot::RwLock;
use tokio::{sync::Notify, time::Instant};
use toolcrib_core::{
    redact::Echoes,
    source::{SourceState, StderrMode, StdioSpec},
};
use toolcrib_tasks::Backoff;

use super::{
    connection::Connection,
    era::Era,
    http::{Http, HttpTarget},
    negotiation::{Approach, negotiate},
    peer::Peer,
    stdio::{self, StdioDriver},
    watch,
    wire::Wire,
};
use crate::{
    calls::Calls,
    context::SourceContext,
    credential::SourceCredential,
    egress::Endpoint,
    process::{launch::Launcher, stderr::Lines},
    status::StatusBoard,
};

const FIRST_PAUSE: Duration = Duration::from_millis(250);
/// A program that ends all the time costs a start every time.
const LONGEST_PAUSE_STDIO: Duration = Duration::from_secs(60);
/// A request to an endpoint is cheap, and callers may be waiting for it to come back.
const LONGEST_PAUSE_HTTP: Duration = Duration::from_secs(15);
/// A connection that held for this long was a good one.
const STABLE: Duration = Duration::from_secs(60);

/// Where a source's upstream is.
pub(crate) enum Target {
    /// A program to start, and what starts it.
    Stdio(StdioSpec, Option<Launcher>),
    Http(HttpTarget),
}

/// A source and the task behind it.
pub(crate) struct Supervisor {
    pub(crate) context: SourceContext,
    pub(crate) target: Target,
    pub(crate) status: StatusBoard,
    /// What its children say.
    pub(crate) stderr: Arc<Lines>,
    pub(crate) connection: RwLock<Option<Arc<Connection>>>,
    pub(crate) calls: Calls,
    list_changed: Arc<Notify>,
}

/// What keeps a wire alive, and knows when it ends.
enum Driver {
    Stdio(Box<StdioDriver>),
    Http(Arc<Http>),
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
    pub(crate) fn new(context: SourceContext, target: Target) -> Self {
        let mode = match &target {
            Target::Stdio(spec, _) => spec.stderr,
            Target::Http(_) => StderrMode::Keep,
        };
        Self {
            target,
            status: StatusBoard::new(Arc::clone(&context.clock)),
            stderr: Arc::new(Lines::new(context.id.clone(), mode, Arc::clone(&context.clock))),
            connection: RwLock::new(None),
            calls: Calls::new(&context.limits),
            list_changed: Arc::new(Notify::new()),
            context,
        }
    }

    /// Runs until the source is closed. Called again when an earlier run panicked.
    pub(crate) async fn run(&self) {
        let changed = || {
            // Without a connection there is nothing to read, and the next one is announced itself.
            if self.connection.read().is_some() {
                self.context.changed();
            }
        };
        let _lost = ClearOnDrop(self);
        tokio::select! {
            () = self.keep_connected() => {}
            () = watch::debounce(&self.list_changed, changed) => {}
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
                    // Some old servers end when the first message is not the handshake.
                    approach = Approach::Handshake;
                    self.status.count_restart();
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
                () = closed.cancelled() => return,
                () = tokio::time::sleep(backoff.jittered(failures)) => self.status.count_restart(),
            }
        }
    }

    fn degrade(&self, reason: &str) {
        // The upstream may quote a credential that it refuses.
        let echoes = self.echoes();
        let reason = &*echoes.text(reason);
        tracing::warn!(source = %self.context.id, reason, "source is not connected");
        self.status.set(SourceState::Degraded, reason);
    }

    /// Returns the endpoint and its credential, if there is one.
    pub(crate) fn credential(&self) -> Option<(&Endpoint, &Arc<SourceCredential>)> {
        match &self.target {
            Target::Http(target) => Some((&target.endpoint, target.credential.as_ref()?)),
            Target::Stdio(..) => None,
        }
    }

    /// Returns the filter for echoes of the credential.
    pub(crate) fn echoes(&self) -> Echoes {
        self.credential().map(|(_, credential)| credential.echoes()).unwrap_or_default()
    }

    /// Starts and negotiates, within the time that connecting may take.
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
            Some(Ok(session)) => {
                let list_changed = Arc::clone(&self.list_changed);
                Attempt::Connected(Box::new(Connection::new(wire, session, list_changed)), driver)
            }
            Some(Err(reason)) => driver.failed(reason).await,
        }
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

    /// Offers the connection until it ends, and says why it did; `None` when the source is closed.
    async fn hold(&self, connection: Connection, mut driver: Driver) -> Option<String> {
        let era = connection.session.era.clone();
        let connection = Arc::new(connection);
        *self.connection.write() = Some(Arc::clone(&connection));
        let detail = format!("connected, MCP {}", era.version());
        self.status.set(SourceState::Ready, &detail);
        tracing::info!(source = %self.context.id, protocol = era.version(), "source is ready");
        self.context.changed();
        let watching = async {
            watch::watch(connection).await;
            // The upstream has no stream of changes; the connection works without one.
            std::future::pending::<()>().await;
        };
        let reason = tokio::select! {
            biased;
            () = self.calls.closed.cancelled() => None,
            reason = driver.ended() => Some(reason),
            () = watching => None,
        };
        *self.connection.write() = None;
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
            Self::Http(http) => http.end.wait().await.clone(),
        }
    }

    /// Ends it in order.
    async fn close(&mut self, era: &Era) {
        match self {
            Self::Stdio(driver) => driver.close().await,
            Self::Http(http) => http.close(era).await,
        }
    }

    /// Cleans up after a negotiation that failed for `reason`, unless the driver knows better.
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

/// Leaves no connection behind when a run ends, however it ends.
struct ClearOnDrop<'a>(&'a Supervisor);

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
