//! Keeps one source connected: starts it, watches it, starts it again.
//!
//! Invariant: a source is connected by at most one task, which alone moves its state.
//! Invariant: between two attempts there is a pause that doubles up to a cap and is shortened again
//! only by a connection that held.

use std::{sync::Arc, time::Duration};

use parking_lot::RwLock;
use tokio::{
    runtime::Handle,
    sync::{Notify, Semaphore},
    time::Instant,
};
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};
use toolcrib_core::{
    id::SourceId,
    redact::Echoes,
    source::{SourceLimits, SourceListener, SourceState},
};

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
use crate::status::StatusBoard;

const FIRST_PAUSE: Duration = Duration::from_millis(250);
/// A program that ends all the time costs a start every time.
const LONGEST_PAUSE_STDIO: Duration = Duration::from_secs(60);
/// Asking an endpoint is cheap, and somebody may be waiting for it to come back.
const LONGEST_PAUSE_HTTP: Duration = Duration::from_secs(15);
/// A connection that held for this long was a good one.
const STABLE: Duration = Duration::from_secs(60);

/// What a source and its supervisor share.
pub(crate) struct Shared {
    pub(crate) id: SourceId,
    pub(crate) limits: SourceLimits,
    pub(crate) status: StatusBoard,
    pub(crate) connection: RwLock<Option<Arc<Connection>>>,
    /// Calls that may be in flight at once.
    pub(crate) slots: Semaphore,
    pub(crate) stop: CancellationToken,
    /// Set when everything is gone.
    pub(crate) stopped: Ending,
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
    /// Runs until the source is closed.
    pub(crate) async fn run(self) {
        let tell = {
            let (shared, listener) = (Arc::clone(&self.shared), Arc::clone(&self.listener));
            async move {
                let tell = || {
                    // While there is no connection there is nothing to read; when there is one
                    // again, that is told on its own.
                    if shared.connection.read().is_some() {
                        listener.changed(&shared.id);
                    }
                };
                watch::debounce(&shared.list_changed, tell).await;
            }
        };
        let telling = AbortOnDropHandle::new(tokio::spawn(tell));
        self.keep_connected().await;
        drop(telling);
        self.shared.status.set(SourceState::Stopped, "closed");
        self.shared.stopped.end("closed");
    }

    async fn keep_connected(&self) {
        let stop = &self.shared.stop;
        let mut approach = Approach::Probe;
        let mut pause = Pause::new(match self.target {
            Target::Stdio(..) => LONGEST_PAUSE_STDIO,
            Target::Http { .. } => LONGEST_PAUSE_HTTP,
        });
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
                        pause.reset();
                    }
                }
            }
            tokio::select! {
                () = stop.cancelled() => return,
                () = tokio::time::sleep(pause.next()) => self.shared.status.count_restart(),
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
                let (launcher, limits) = (launcher.as_ref(), &shared.limits);
                let (stdio, driver) =
                    stdio::start(spec, launcher, &shared.id, limits, peer).await?;
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
        let watching = AbortOnDropHandle::new(tokio::spawn(watch::watch(connection)));
        let reason = tokio::select! {
            biased;
            () = shared.stop.cancelled() => None,
            reason = driver.ended() => Some(reason),
        };
        *shared.connection.write() = None;
        drop(watching);
        if reason.is_none() {
            driver.close(&era).await;
        }
        reason
    }
}

// === impl Driver ===

impl Driver {
    /// Waits until the connection ends, cleans up, and says what happened.
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
                let reason = driver.with_last_words(&reason).await;
                Attempt::Failed { reason, ended: false }
            }
        }
    }
}

/// The pause before the next attempt.
struct Pause {
    next: Duration,
    longest: Duration,
}

impl Pause {
    fn new(longest: Duration) -> Self {
        Self { next: FIRST_PAUSE, longest }
    }

    fn reset(&mut self) {
        self.next = FIRST_PAUSE;
    }

    /// Between three quarters and five quarters of a duration that doubles every time: sources that
    /// fell together should not rise together.
    fn next(&mut self) -> Duration {
        let base = self.next;
        self.next = (base * 2).min(self.longest);
        let random = f64::from(getrandom::u32().unwrap_or_default()) / f64::from(u32::MAX);
        base.mul_f64(0.75 + random / 2.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_a_cap_and_start_small_after_a_reset() {
        // I-27
        let mut pause = Pause::new(Duration::from_secs(2));
        let mut base = FIRST_PAUSE;
        for _ in 0..8 {
            let next = pause.next();
            assert!(
                next >= base.mul_f64(0.75) && next <= base.mul_f64(1.25),
                "{next:?} of {base:?}"
            );
            base = (base * 2).min(Duration::from_secs(2));
        }
        pause.reset();
        assert!(pause.next() <= FIRST_PAUSE.mul_f64(1.25));
    }
}
