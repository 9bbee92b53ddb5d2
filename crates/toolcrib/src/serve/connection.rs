//! What is known of one open connection: whether its peer has shown a credential, and which side
//! has to act next.
//!
//! Invariant: only the peer's inactivity closes a connection. While a handler runs, or a stream has
//! nothing to send, it is this side's turn and no time limit applies.

use std::{
    pin::Pin,
    sync::Arc,
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

use super::slots::Place;

/// The largest piece of an answer that is handed to the connection at once. With an answer in
/// pieces it is known whether the peer reads it, and an unread one holds no more than this.
const PIECE: usize = 256 << 10;

tokio::task_local! {
    /// The connection of the request that is handled.
    pub(super) static CURRENT: Arc<Connection>;
}

/// The peer of the current request has shown a valid credential.
pub(crate) fn authenticated() {
    // Routers are also served by embedding programs, whose connections are their own.
    CURRENT.try_with(|connection| connection.authenticate()).ok();
}

/// The peer of the current request has shown no valid credential with it.
pub(crate) fn unauthenticated() {
    CURRENT.try_with(|connection| connection.activity.lock().heard = true).ok();
}

/// How long a connection is new: that of a caller that is about to show its key must not be taken for
/// one of a flood.
const FRESH: Duration = Duration::from_secs(1);

/// How long a peer may take.
#[derive(Debug, Clone, Copy)]
pub(super) struct Patience {
    /// To its next request, when it has shown no valid credential.
    pub(super) unauthenticated: Duration,
    /// To read the next piece of an answer.
    pub(super) reading: Duration,
}

/// One open connection.
#[derive(Debug)]
pub(super) struct Connection {
    activity: Mutex<Activity>,
    place: Place,
    /// Its place is wanted.
    evicted: CancellationToken,
}

#[derive(Debug, Clone, Copy)]
struct Activity {
    /// Whether something reads it.
    started: bool,
    /// Whether it was decided about the credential of a request.
    heard: bool,
    authenticated: bool,
    http2: bool,
    /// Requests whose answer is not handed over.
    requests: usize,
    /// Those of them that wait for this side.
    working: usize,
    /// When `started`, `requests` or `working` last changed.
    since: Instant,
}

/// How readily a connection gives up its place; the smallest goes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Rank {
    /// No credential, and no request.
    Idle,
    /// No credential, but a request.
    Busy,
    /// Too new for its credential to be expected and decided about.
    Fresh,
    /// A credential, and no request. Gives its place to other callers alone.
    Caller,
}

impl Connection {
    pub(super) fn new(place: Place) -> Self {
        Self {
            place,
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
        }
    }

    /// What the peer sends is read from now on.
    pub(super) fn start(&self) {
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
        // Not under the lock of this connection: places are locked before connections.
        if !known {
            self.place.promote();
        }
    }

    /// A request has arrived.
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

    /// When the connection is to be closed if nothing changes; `None` while it may stay.
    pub(super) fn expires(&self, patience: Patience) -> Option<Instant> {
        let activity = *self.activity.lock();
        let limit = match activity {
            Activity { working: 1.., .. } => return None,
            Activity { authenticated: false, .. } => patience.unauthenticated,
            // Of HTTP/1, what is left of the last answer may still wait to be read; a connection
            // that has nothing to send is closed sooner, with the time limit of its next headers.
            Activity { requests: 1.., .. } | Activity { http2: false, .. } => patience.reading,
            // Pings find out whether the peer is there.
            Activity { http2: true, .. } => return None,
        };
        Some(activity.since + limit)
    }

    /// Whether, and before which others, the connection gives up its place: the longest inactive
    /// first. `None`: not at all.
    pub(super) fn rank(&self, now: Instant) -> Option<(Rank, Instant)> {
        let activity = *self.activity.lock();
        let fresh = !activity.heard && now.saturating_duration_since(activity.since) < FRESH;
        let rank = match (activity.authenticated, activity.requests) {
            // On a busy machine a flood would else evict what it keeps from being read.
            _ if !activity.started => return None,
            (false, _) if fresh => Rank::Fresh,
            (false, 0) => Rank::Idle,
            (false, _) => Rank::Busy,
            (true, 0) => Rank::Caller,
            (true, _) => return None,
        };
        Some((rank, activity.since))
    }

    /// Whether a request of a caller runs here, or its answer is not read yet.
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

/// A request and its answer, from arrival until the answer is handed over or given up.
#[derive(Debug)]
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

/// The body of an answer; notes whether the peer reads it.
#[derive(Debug)]
pub(super) struct Answer {
    body: Body,
    /// The rest of a frame that is handed over in pieces.
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
        // The peer has taken what it was given.
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
        let connection = Arc::new(Connection::new(Place::default()));
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
        let patience =
            Patience { unauthenticated: Duration::from_secs(1), reading: Duration::from_secs(2) };
        let connection = Arc::new(Connection::new(Place::default()));
        assert!(connection.expires(patience).is_some(), "no request");
        let now = Instant::now();
        assert_eq!(connection.rank(now), None, "nothing has read it yet");
        connection.start();
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
