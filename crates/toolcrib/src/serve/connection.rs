//! The state of one open connection: whether its peer has authenticated, and which side has to act
//! next.
//!
//! Invariant: only the peer's inactivity closes a connection. No time limit applies while a handler
//! runs, or while a stream is idle.

use std::{
    pin::Pin,
    sync::{Arc, OnceLock},
    task::{Context, Poll, ready},
    time::Duration,
};

use axum::body::Body;
use bytes::Bytes;
use http::Version;
use http_body::{Frame, SizeHint};
use parking_lot::Mutex;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// The largest piece of a response to pass to the connection at once. Passing pieces shows whether
/// the peer reads, and limits the memory of an unread response to this size.
const PIECE: usize = 256 << 10;

tokio::task_local! {
    /// The connection of the current request.
    pub(super) static CURRENT: Arc<Connection>;
}

/// Marks the peer of the current request as authenticated.
pub(crate) fn authenticated() {
    // Embedding programs also serve these routers, on other connections.
    CURRENT.try_with(|connection| connection.authenticate()).ok();
}

/// Notes that the current request had no valid credential.
pub(crate) fn unauthenticated() {
    CURRENT.try_with(|connection| connection.activity.lock().heard = true).ok();
}

/// A token, cancelled at shutdown, to end responses that would otherwise never end.
pub(crate) fn stopping() -> CancellationToken {
    shutdown().stopping
}

/// A token, cancelled shortly before requests are cut off at shutdown, so that they can still be
/// answered.
pub(crate) fn closing() -> CancellationToken {
    shutdown().closing
}

fn shutdown() -> Shutdown {
    let known = CURRENT.try_with(|connection| connection.shutdown.get().cloned());
    known.ok().flatten().unwrap_or_default()
}

/// The signals of a shutdown to a connection.
#[derive(Debug, Clone, Default)]
pub(super) struct Shutdown {
    /// Cancelled at its start.
    pub(super) stopping: CancellationToken,
    /// Cancelled shortly before its end.
    pub(super) closing: CancellationToken,
}

/// How long a connection counts as new. A caller about to send its key must not be treated as part
/// of a flood.
const FRESH: Duration = Duration::from_secs(1);

/// The time limits of a peer.
#[derive(Debug, Clone, Copy)]
pub(super) struct PeerTimeouts {
    /// Until its next request, when it has not authenticated.
    pub(super) unauthenticated: Duration,
    /// Until it reads the next piece of a response.
    pub(super) reading: Duration,
}

/// One open connection.
pub(super) struct Connection {
    activity: Mutex<Activity>,
    /// Runs when the peer has authenticated for the first time.
    on_authenticated: Box<dyn Fn() + Send + Sync>,
    /// Cancelled when another connection needs this slot.
    evicted: CancellationToken,
    /// Set when the connection is served.
    shutdown: OnceLock<Shutdown>,
}

#[derive(Debug, Clone, Copy)]
struct Activity {
    /// Whether the connection is being served.
    started: bool,
    /// Whether the credential of a request has been checked.
    heard: bool,
    authenticated: bool,
    http2: bool,
    /// Requests whose response is not yet completely passed to the connection.
    requests: usize,
    /// The number of these that wait for this side.
    working: usize,
    /// When `started`, `requests` or `working` last changed.
    since: Instant,
}

/// The order in which connections give up their slots; the smallest goes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Rank {
    /// Not authenticated, and without a request.
    Idle,
    /// Not authenticated, but with a request.
    Busy,
    /// Too new for its credential to have been checked.
    Fresh,
    /// Authenticated, and without a request. Gives up its slot only to other callers.
    Caller,
}

impl Connection {
    pub(super) fn new(on_authenticated: impl Fn() + Send + Sync + 'static) -> Self {
        Self {
            on_authenticated: Box::new(on_authenticated),
            activity: Mutex::new(Activity {
                started: false,
                heard: false,
                authenticated: false,
                http2: false,
                requests: 0,
                working: 0,
                since: Instant::now(),
            }),
            evicted: CancellationToken::new(),
            shutdown: OnceLock::new(),
        }
    }

    /// Marks the connection as being served, until `shutdown`.
    pub(super) fn start(&self, shutdown: Shutdown) {
        self.shutdown.get_or_init(|| shutdown);
        let mut activity = self.activity.lock();
        activity.started = true;
        activity.since = Instant::now();
    }

    fn authenticate(&self) {
        let known = {
            let mut activity = self.activity.lock();
            activity.heard = true;
            std::mem::replace(&mut activity.authenticated, true)
        };
        // After releasing the lock of this connection: slots are locked before connections.
        if !known {
            (self.on_authenticated)();
        }
    }

    /// Notes the arrival of a request.
    pub(super) fn begin(self: &Arc<Self>, version: Version) -> Exchange {
        let mut activity = self.activity.lock();
        activity.http2 = version == Version::HTTP_2;
        activity.requests += 1;
        activity.working += 1;
        activity.since = Instant::now();
        Exchange { connection: Arc::clone(self), working: true }
    }

    pub(super) fn is_authenticated(&self) -> bool {
        self.activity.lock().authenticated
    }

    /// The time at which the connection must be closed if its state does not change; `None` while
    /// it may stay.
    pub(super) fn expires(&self, patience: PeerTimeouts) -> Option<Instant> {
        let activity = *self.activity.lock();
        let limit = match activity {
            Activity { working: 1.., .. } => return None,
            Activity { authenticated: false, .. } => patience.unauthenticated,
            // With HTTP/1, the end of the last response may still be unread. An idle connection is
            // closed sooner, by the time limit of its next headers.
            Activity { requests: 1.., .. } | Activity { http2: false, .. } => patience.reading,
            // Pings detect a lost peer.
            Activity { http2: true, .. } => return None,
        };
        Some(activity.since + limit)
    }

    /// The order in which connections give up their slots: by rank, then the longest inactive
    /// first. `None` if the connection keeps its slot.
    pub(super) fn rank(&self, now: Instant) -> Option<(Rank, Instant)> {
        let activity = *self.activity.lock();
        let fresh = !activity.heard && now.saturating_duration_since(activity.since) < FRESH;
        let rank = match (activity.authenticated, activity.requests) {
            // On a busy machine a flood would otherwise evict connections that could not be read
            // yet.
            _ if !activity.started => return None,
            (false, _) if fresh => Rank::Fresh,
            (false, 0) => Rank::Idle,
            (false, _) => Rank::Busy,
            (true, 0) => Rank::Caller,
            (true, _) => return None,
        };
        Some((rank, activity.since))
    }

    /// Whether an authenticated request is running, or its response is not read yet.
    pub(super) fn is_calling(&self) -> bool {
        let activity = self.activity.lock();
        activity.authenticated && activity.requests > 0
    }

    pub(super) fn evict(&self) {
        self.evicted.cancel();
    }

    #[cfg(test)]
    pub(super) fn is_evicted(&self) -> bool {
        self.evicted.is_cancelled()
    }

    pub(super) async fn evicted(&self) {
        self.evicted.cancelled().await;
    }
}

/// A request and its response, until the response is completely passed on or dropped.
pub(super) struct Exchange {
    connection: Arc<Connection>,
    /// Whether this side has to act next.
    working: bool,
}

impl Exchange {
    fn turn(&mut self, working: bool) {
        if self.working == working {
            return;
        }
        self.working = working;
        let mut activity = self.connection.activity.lock();
        match working {
            true => activity.working += 1,
            false => activity.working -= 1,
        }
        activity.since = Instant::now();
    }
}

impl Drop for Exchange {
    fn drop(&mut self) {
        self.turn(false);
        let mut activity = self.connection.activity.lock();
        activity.requests -= 1;
        activity.since = Instant::now();
    }
}

/// The body of a response; tracks whether the peer reads it.
pub(super) struct Answer {
    body: Body,
    /// The rest of a frame to pass on in pieces.
    rest: Bytes,
    exchange: Exchange,
}

impl Answer {
    pub(super) fn new(body: Body, exchange: Exchange) -> Self {
        Self { body, rest: Bytes::new(), exchange }
    }

    fn hand_over(&mut self, mut data: Bytes) -> Frame<Bytes> {
        self.rest = data.split_off(data.len().min(PIECE));
        self.exchange.turn(false);
        Frame::data(data)
    }
}

impl http_body::Body for Answer {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let this = &mut *self;
        // The peer has read the previous piece.
        this.exchange.turn(true);
        if !this.rest.is_empty() {
            let rest = std::mem::take(&mut this.rest);
            return Poll::Ready(Some(Ok(this.hand_over(rest))));
        }
        let next = ready!(Pin::new(&mut this.body).poll_frame(context));
        Poll::Ready(match next {
            Some(Ok(frame)) => Some(Ok(match frame.into_data() {
                Ok(data) => this.hand_over(data),
                Err(trailers) => trailers,
            })),
            other => other,
        })
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let left = u64::try_from(self.rest.len()).unwrap_or(u64::MAX);
        let inner = self.body.size_hint();
        let mut hint = SizeHint::new();
        hint.set_lower(inner.lower().saturating_add(left));
        if let Some(upper) = inner.upper() {
            hint.set_upper(upper.saturating_add(left));
        }
        hint
    }
}

#[cfg(test)]
mod tests {
    use http_body::Body as _;
    use http_body_util::BodyExt as _;

    use super::*;

    #[tokio::test]
    async fn a_large_answer_is_handed_over_in_pieces_and_whole() {
        let data: Vec<u8> = (0..PIECE * 2 + 7).map(|i| u8::try_from(i % 251).unwrap()).collect();
        let connection = Arc::new(Connection::new(|| {}));
        let mut answer = Answer::new(Body::from(data.clone()), connection.begin(Version::HTTP_11));
        let mut seen = Vec::new();
        while !answer.is_end_stream() {
            assert_eq!(answer.size_hint().exact(), Some((data.len() - seen.len()) as u64));
            let piece = answer.frame().await.unwrap().unwrap().into_data().unwrap();
            assert!(piece.len() <= PIECE);
            seen.extend_from_slice(&piece);
        }
        assert_eq!(seen, data);
    }

    #[tokio::test]
    async fn only_the_turn_of_the_peer_is_limited() {
        let patience = PeerTimeouts {
            unauthenticated: Duration::from_secs(1),
            reading: Duration::from_secs(2),
        };
        let connection = Arc::new(Connection::new(|| {}));
        assert!(connection.expires(patience).is_some(), "no request");
        let now = Instant::now();
        assert_eq!(connection.rank(now), None, "nothing has read it yet");
        connection.start(Shutdown::default());
        let now = Instant::now();
        assert_eq!(connection.rank(now).unwrap().0, Rank::Fresh);
        assert_eq!(connection.rank(now + FRESH).unwrap().0, Rank::Idle);

        let exchange = connection.begin(Version::HTTP_2);
        assert_eq!(connection.expires(patience), None, "a handler runs");
        assert_eq!(connection.rank(now).unwrap().0, Rank::Fresh, "not decided about yet");
        assert_eq!(connection.rank(now + FRESH * 2).unwrap().0, Rank::Busy);
        CURRENT.scope(Arc::clone(&connection), async { unauthenticated() }).await;
        assert_eq!(connection.rank(now).unwrap().0, Rank::Busy);
        CURRENT.scope(Arc::clone(&connection), async { authenticated() }).await;
        assert_eq!(connection.rank(now), None, "a caller's request is not cut off");

        let mut answer = Answer::new(Body::from(vec![0; PIECE + 1]), exchange);
        answer.frame().await.unwrap().unwrap();
        assert!(connection.expires(patience).is_some(), "the peer has to read");
        answer.frame().await.unwrap().unwrap();
        drop(answer);
        assert_eq!(connection.expires(patience), None, "an idle caller may stay");
        assert_eq!(connection.rank(now).unwrap().0, Rank::Caller);
    }
}
