//! Serves a router until shutdown.
//!
//! Invariants:
//! - an inactive peer holds resources for a bounded time: limits apply to the headers of a request,
//!   to the next request of a peer without a valid credential, and to reading a response;
//! - the number of connections is bounded so that file descriptors are left for everything else;
//!   before it is reached, peers without a valid credential make room ([`slots`]);
//! - every accepted connection passes [`accept`], which sets it up;
//! - the handshake of a connection with TLS happens in its slot and in its own task ([`handshake`]).

pub(crate) mod connection;
mod dealing;
mod handshake;
mod slots;

use std::{
    convert::Infallible, future::Future, io, net::SocketAddr, pin::pin, sync::Arc, time::Duration,
};

use axum::body::Body;
use futures_util::{FutureExt as _, StreamExt as _, future::BoxFuture, stream::FuturesUnordered};
use http::{Request, Response};
use hyper::{body::Incoming, service::service_fn};
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    server::conn::auto::Builder,
};
use rustix::process::{Resource, getrlimit};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, TcpSocket, TcpStream},
    time::Instant,
};
use tokio_rustls::server::TlsStream;
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use toolcrib_tasks::cores::Cores;
use tower::{Service, ServiceExt as _};

use self::{
    connection::{Answer, CURRENT, PeerTimeouts, Shutdown},
    dealing::StreamExecutor,
    handshake::{HandshakeLimits, Handshakes},
    slots::{Slot, Slots},
};
use crate::tls::Tls;

/// The limits on peers and requests.
#[derive(Debug, Clone, Copy)]
struct Limits {
    /// How long requests in flight may take after the shutdown signal. Longer than most calls, and
    /// shorter than the time after which service managers kill a process.
    patience: Duration,
    /// Time for the answers to requests that are cut off.
    parting: Duration,
    /// How long the headers of a request may take, including later requests on the same connection,
    /// and how long a peer without a valid credential may stay without a request.
    headers: Duration,
    /// How long a peer may take to read the next piece of a response.
    reading: Duration,
    /// The most open connections.
    connections: usize,
}

const LIMITS: Limits = Limits {
    patience: Duration::from_secs(9),
    parting: Duration::from_secs(1),
    headers: Duration::from_secs(30),
    reading: Duration::from_secs(60),
    connections: 10_000,
};

/// How often a silent HTTP/2 peer is pinged, and how long it has to respond.
const PING: Duration = Duration::from_secs(30);
const PONG: Duration = Duration::from_secs(20);

/// How long the peer of a closing connection has to receive the notice.
const FAREWELL: Duration = Duration::from_millis(250);

/// Connections that the system queues until they are accepted. It drops connections beyond that,
/// and the peer retries after one second, then two, four and so on. A flood fills the usual 128 at
/// once; systems lower this value to their own limit (4 096 on Linux).
const BACKLOG: u32 = 4_096;

/// The minimum number of file descriptors left for the store, child processes and outgoing
/// requests. With a high limit on open files, a quarter of the limit is left.
const RESERVED: u64 = 256;

/// Pause after an accept that failed for lack of a resource, most likely file descriptors.
const BREATH: Duration = Duration::from_millis(200);

/// Listens on `address`, with a queue long enough for a flood of connections.
///
/// # Errors
/// Fails when the address is in use or invalid.
pub fn bind(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = match address {
        SocketAddr::V4(_) => TcpSocket::new_v4()?,
        SocketAddr::V6(_) => TcpSocket::new_v6()?,
    };
    // As in `TcpListener::bind`: old connections of a stopped server do not block the address. On
    // Windows the option would let two servers share one address.
    #[cfg(not(windows))]
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

/// Serves `service` on `listener` until `shutdown` is ready: the shortest form of [`Server`].
///
/// # Errors
/// Never fails at present: a failed accept is retried.
pub async fn serve<S>(
    listener: TcpListener,
    service: S,
    shutdown: impl Future<Output = ()> + Send + 'static,
) -> io::Result<()>
where
    S: Service<Request<Body>, Response = Response<Body>, Error = Infallible>,
    S: Clone + Send + 'static,
    S::Future: Send,
{
    Server::new(listener).serve(service, shutdown).await
}

/// An HTTP server on one listener. Use [`bind`] for the listener: with a short system queue, callers
/// are dropped before this server sees them.
///
/// A connection is closed when the headers of its next request take longer than thirty seconds, or
/// when its peer does not read a response for a minute. At most ten thousand connections are open
/// at once. A low limit on open files reduces that: a quarter of the limit, and at least 256, is
/// left for other uses. As that number is approached, connections without a valid credential are
/// closed to make room. An authenticated connection is closed only while it is idle, and only for
/// another authenticated one; an authenticated request is never cut off.
#[derive(Debug)]
pub struct Server {
    listener: TcpListener,
    tls: Option<Tls>,
    cores: Option<Cores>,
    limits: Limits,
}

// === impl Server ===

impl Server {
    /// Creates a server without TLS on the current runtime.
    pub fn new(listener: TcpListener) -> Self {
        let limits = Limits { connections: LIMITS.connections.min(affordable()), ..LIMITS };
        Self { listener, tls: None, cores: None, limits }
    }

    /// Requires TLS: HTTP/2 or HTTP/1.1, as the client prefers.
    ///
    /// A handshake has ten seconds. At most 4 096 are in progress at once (half of the connections if
    /// that is less); then the longest waiting ones are closed. A failed handshake affects no other
    /// connection.
    #[must_use]
    pub fn tls(self, tls: Option<Tls>) -> Self {
        Self { tls, ..self }
    }

    /// Serves each connection on one of `cores`, so that the server's steps of its requests wake no
    /// other thread. The streams of a connection with HTTP/2 are dealt out among them.
    #[must_use]
    pub fn cores(self, cores: Cores) -> Self {
        Self { cores: Some(cores), ..self }
    }

    /// Serves `service` (a [`GuardedRouter`](crate::GuardedRouter) or a router) until `shutdown` is
    /// ready; then accepts no new connections and gives requests in flight ten seconds.
    ///
    /// # Errors
    /// Never fails at present: a failed accept is retried.
    pub async fn serve<S>(
        self,
        service: S,
        shutdown: impl Future<Output = ()> + Send + 'static,
    ) -> io::Result<()>
    where
        S: Service<Request<Body>, Response = Response<Body>, Error = Infallible>,
        S: Clone + Send + 'static,
        S::Future: Send,
    {
        let Self { listener, tls, cores, limits } = self;
        let handshakes =
            tls.map(|tls| Arc::new(Handshakes::new(tls, HandshakeLimits::of(limits.connections))));
        let slots = Arc::new(Slots::new(limits.connections));
        let (shutting_down, cut) = (Shutdown::default(), CancellationToken::new());
        // Closes every connection, even if this future is dropped.
        let _cut_when_dropped = cut.clone().drop_guard();
        let connections = TaskTracker::new();
        let mut shutdown = pin!(shutdown);
        loop {
            let next = async {
                let stream = accept(&listener, &slots).await;
                (stream, slots.take().await)
            };
            let (stream, slot) = tokio::select! {
                () = &mut shutdown => break,
                next = next => next,
            };
            let ends = CloseSignals { shutdown: shutting_down.clone(), cut: cut.clone() };
            let Some((stream, runtime)) = dealing::deal(stream, cores.as_ref()) else { continue };
            let streams = StreamExecutor(cores.as_ref().map(Cores::downgrade));
            let service = service.clone();
            match handshakes.clone() {
                None => {
                    let served = async move {
                        let Some((stream, _place)) = stream.arrive() else { return };
                        connection(stream, service, (slot, ends), streams, limits).await;
                    };
                    connections.spawn_on(served, &runtime)
                }
                Some(handshakes) => {
                    let served = async move {
                        let Some((stream, _place)) = stream.arrive() else { return };
                        let accepted = secured(stream, &handshakes, &slot, &ends);
                        // In a box, so that the connection itself takes no more memory than without
                        // TLS.
                        if let Some(stream) = Box::pin(accepted).await {
                            connection(stream, service, (slot, ends), streams, limits).await;
                        }
                    };
                    connections.spawn_on(served, &runtime)
                }
            };
        }
        drop(listener);
        shutting_down.stopping.cancel();
        connections.close();
        let mut ended = pin!(connections.wait());
        if tokio::time::timeout(limits.patience, &mut ended).await.is_ok() {
            return Ok(());
        }
        tracing::warn!("some requests did not finish in time and were cut off");
        shutting_down.closing.cancel();
        tokio::time::timeout(limits.parting, ended).await.ok();
        Ok(())
    }
}

/// The number of connections that the limit on open files allows.
fn affordable() -> usize {
    let Some(files) = getrlimit(Resource::Nofile).current else { return usize::MAX };
    // With a very low limit, connections get half.
    let reserved = (files / 4).max(RESERVED).min(files / 2);
    usize::try_from(files - reserved).unwrap_or(usize::MAX)
}

/// Accepts and sets up the next connection. A failure of one connection does not affect others;
/// other failures are logged and retried.
async fn accept(listener: &TcpListener, slots: &Slots) -> TcpStream {
    loop {
        match listener.accept().await {
            Ok((stream, _peer)) => {
                // Without it, a response of two segments waits for a delayed acknowledgement, 40
                // ms.
                if let Err(error) = stream.set_nodelay(true) {
                    tracing::debug!(%error, "TCP_NODELAY could not be set");
                }
                return stream;
            }
            Err(error) => match error.kind() {
                io::ErrorKind::ConnectionRefused
                | io::ErrorKind::ConnectionAborted
                | io::ErrorKind::ConnectionReset => {}
                _ => {
                    tracing::error!(%error, "a connection could not be accepted");
                    // Whatever resource is exhausted, a closed connection releases some of it.
                    slots.make_room();
                    tokio::time::sleep(BREATH).await;
                }
            },
        }
    }
}

/// The signals that close every connection.
struct CloseSignals {
    /// After its requests.
    shutdown: Shutdown,
    /// Immediately.
    cut: CancellationToken,
}

/// Something outside of a connection's requests that it has to react to.
enum Signal {
    Evicted,
    /// It is time to look whether the connection has expired.
    Look,
    Stopping,
    Cut,
}

/// Completes the handshake of a connection, unless the connection must close first.
async fn secured(
    stream: TcpStream,
    handshakes: &Handshakes,
    slot: &Slot,
    CloseSignals { shutdown, cut }: &CloseSignals,
) -> Option<TlsStream<TcpStream>> {
    // From here on, it can be evicted.
    slot.connection.start(shutdown.clone());
    tokio::select! {
        biased;
        accepted = handshakes.accept(stream) => accepted,
        () = slot.connection.evicted() => {
            handshakes.evicted();
            None
        }
        // No request has started.
        () = shutdown.stopping.cancelled() => None,
        () = cut.cancelled() => None,
    }
}

/// Serves one connection until it closes.
async fn connection<I, S>(
    stream: I,
    inner: S,
    (slot, CloseSignals { shutdown, cut }): (Slot, CloseSignals),
    streams: StreamExecutor,
    limits: Limits,
) where
    I: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    S: Service<Request<Body>, Response = Response<Body>, Error = Infallible>,
    S: Clone + Send + 'static,
    S::Future: Send,
{
    let state = Arc::clone(&slot.connection);
    state.start(shutdown.clone());
    let current = Arc::clone(&state);
    let service = service_fn(move |request: Request<Incoming>| {
        let exchange = current.begin(request.version());
        let answer = inner.clone().oneshot(request.map(Body::new));
        let answer = CURRENT.scope(Arc::clone(&current), answer);
        async move {
            let answer = match answer.await {
                Ok(answer) => answer,
                Err(never) => match never {},
            };
            Ok::<_, Infallible>(answer.map(|body| Answer::new(body, exchange)))
        }
    });
    let mut builder = Builder::new(streams);
    builder.http1().timer(TokioTimer::new()).header_read_timeout(limits.headers);
    builder.http2().timer(TokioTimer::new()).keep_alive_interval(PING).keep_alive_timeout(PONG);
    let mut served = pin!(builder.serve_connection(TokioIo::new(stream), service));
    let patience = PeerTimeouts { unauthenticated: limits.headers, reading: limits.reading };
    // Polled only on a signal: every step of a request wakes this task, and polling the shared
    // signals each time would lock them for all connections.
    let mut signals = FuturesUnordered::<BoxFuture<'_, Signal>>::new();
    signals.push(Box::pin(state.evicted().map(|()| Signal::Evicted)));
    signals.push(Box::pin(shutdown.stopping.cancelled().map(|()| Signal::Stopping)));
    signals.push(Box::pin(cut.cancelled().map(|()| Signal::Cut)));
    // The header timeout of HTTP/1 starts when the protocol is known, and HTTP/2 has no such
    // timeout. This one covers both.
    let look = |at| Box::pin(tokio::time::sleep_until(at).map(|()| Signal::Look));
    signals.push(look(Instant::now() + limits.headers));
    loop {
        let signal = tokio::select! {
            biased;
            ended = served.as_mut() => {
                if let Err(error) = ended {
                    tracing::trace!(%error, "a connection failed");
                }
                return;
            }
            Some(signal) = signals.next() => signal,
        };
        match signal {
            Signal::Cut => return,
            // The slot is needed at once. Only a caller gets a graceful close: it may be about to send
            // its next request, and must learn that the request was not accepted.
            Signal::Evicted if !state.is_authenticated() => return,
            Signal::Evicted => break,
            Signal::Look => {
                let now = Instant::now();
                match state.expires(patience) {
                    Some(moment) if moment <= now => break,
                    next => signals.push(look(next.unwrap_or(now + limits.headers))),
                }
            }
            Signal::Stopping => served.as_mut().graceful_shutdown(),
        }
    }
    served.as_mut().graceful_shutdown();
    loop {
        tokio::select! {
            _ = served.as_mut() => return,
            () = cut.cancelled() => return,
            () = tokio::time::sleep(FAREWELL) => {
                // A newly authenticated caller is not cut off, unless it does not read.
                let expired = state.expires(patience).is_some_and(|moment| moment <= Instant::now());
                if expired || !state.is_calling() {
                    return;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use axum::{Router, routing::get};
    use tokio::{
        io::{AsyncReadExt as _, AsyncWriteExt as _},
        task::JoinHandle,
        time::timeout,
    };

    use super::*;

    /// Upper limit of every wait in these tests.
    const LONG: Duration = Duration::from_secs(20);
    const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nhost: x\r\n\r\n";
    /// The preface of HTTP/2, with empty settings.
    const HTTP2: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
    /// `GET /` on stream 1: three fields of the static table, and `:authority`.
    const HTTP2_GET: &[u8] = b"\0\0\x06\x01\x05\0\0\0\x01\x82\x86\x84\x41\x01x";

    struct TestServer {
        address: std::net::SocketAddr,
        stop: CancellationToken,
        task: JoinHandle<io::Result<()>>,
    }

    async fn start(router: Router, limits: Limits) -> TestServer {
        let listener = bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let address = listener.local_addr().unwrap();
        let stop = CancellationToken::new();
        let shutdown = stop.clone().cancelled_owned();
        let task = tokio::spawn(Server { limits, ..Server::new(listener) }.serve(router, shutdown));
        TestServer { address, stop, task }
    }

    fn hello() -> Router {
        Router::new().route("/", get(|| async { "hello" }))
    }

    /// Reads everything until the server closes.
    async fn rest(stream: &mut TcpStream) -> String {
        let mut bytes = Vec::new();
        // A reset is an end as well: the server may not have read everything.
        let _end = timeout(LONG, stream.read_to_end(&mut bytes)).await.expect("closed in time");
        String::from_utf8_lossy(&bytes).into_owned()
    }

    async fn answer(stream: &mut TcpStream) -> String {
        stream.write_all(REQUEST).await.unwrap();
        let mut bytes = Vec::new();
        while !bytes.ends_with(b"hello") {
            let read = timeout(LONG, stream.read_buf(&mut bytes)).await.unwrap().unwrap();
            assert_ne!(read, 0, "{bytes:?}");
        }
        String::from_utf8(bytes).unwrap()
    }

    // I-27
    #[tokio::test]
    async fn a_request_whose_headers_do_not_end_is_closed() {
        let served = start(hello(), Limits { headers: Duration::from_millis(50), ..LIMITS }).await;
        let preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
        let starts: [&[u8]; 6] = [
            b"",
            b"G",
            b"GET / HTTP/1.1\r\nhost: x\r\nx-half: ",
            b"PRI * HTTP/2",
            preface,
            b"\r\n",
        ];
        for start in starts {
            let mut stream = TcpStream::connect(served.address).await.unwrap();
            stream.write_all(start).await.unwrap();
            let rest = rest(&mut stream).await;
            assert!(!rest.contains("hello"), "{rest}");
        }
        let mut kept = TcpStream::connect(served.address).await.unwrap();
        answer(&mut kept).await;
        kept.write_all(b"GET / HTTP/1.1\r\nho").await.unwrap();
        rest(&mut kept).await;
    }

    #[tokio::test]
    async fn an_answer_may_take_longer_than_the_headers() {
        let slow = || async {
            tokio::time::sleep(Duration::from_millis(300)).await;
            "hello"
        };
        let router = Router::new().route("/", get(slow));
        let served = start(router, Limits { headers: Duration::from_millis(100), ..LIMITS }).await;
        let mut stream = TcpStream::connect(served.address).await.unwrap();
        assert!(answer(&mut stream).await.starts_with("HTTP/1.1 200"));
    }

    /// A router with an authenticated route `/slow`, which responds after the returned token is
    /// cancelled.
    fn slow() -> (Router, tokio::sync::mpsc::Receiver<()>, CancellationToken) {
        let (entered, inside) = tokio::sync::mpsc::channel(8);
        let release = CancellationToken::new();
        let released = release.clone();
        let slow = move || async move {
            connection::authenticated();
            entered.send(()).await.unwrap();
            released.cancelled().await;
            "hello"
        };
        (hello().route("/slow", get(slow)), inside, release)
    }

    // I-27
    #[tokio::test]
    async fn connections_beyond_the_cap_wait_for_a_callers_request_to_end() {
        let (router, mut inside, release) = slow();
        let served = start(router, Limits { connections: 1, ..LIMITS }).await;
        let mut first = TcpStream::connect(served.address).await.unwrap();
        first.write_all(b"GET /slow HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
        inside.recv().await.unwrap();
        let mut second = TcpStream::connect(served.address).await.unwrap();
        second.write_all(REQUEST).await.unwrap();
        let early = timeout(Duration::from_millis(100), second.readable()).await;
        assert!(early.is_err(), "the second one is not served yet");
        release.cancel();
        answer(&mut second).await;
        assert!(rest(&mut first).await.ends_with("hello"));
    }

    // I-27
    #[tokio::test]
    async fn a_peer_without_a_credential_gives_up_its_place() {
        let served = start(hello(), Limits { connections: 1, ..LIMITS }).await;
        for start in [&b""[..], b"GET / HTTP/1.1\r\nx-half: ", HTTP2, REQUEST] {
            let mut first = TcpStream::connect(served.address).await.unwrap();
            first.write_all(start).await.unwrap();
            let mut second = TcpStream::connect(served.address).await.unwrap();
            answer(&mut second).await;
            rest(&mut first).await;
        }
    }

    // I-27
    #[tokio::test]
    async fn an_idle_http2_connection_stays_only_with_a_credential() {
        let known = Router::new().route("/", get(|| async { connection::authenticated() }));
        for (router, stays) in [(hello(), false), (known, true)] {
            let limits = Limits { headers: Duration::from_millis(50), ..LIMITS };
            let served = start(router, limits).await;
            let mut stream = TcpStream::connect(served.address).await.unwrap();
            stream.write_all(HTTP2).await.unwrap();
            stream.write_all(HTTP2_GET).await.unwrap();
            let end = rest(&mut stream);
            match stays {
                false => drop(end.await),
                true => {
                    let early = timeout(Duration::from_millis(500), end).await;
                    assert!(early.is_err(), "an idle caller may stay");
                }
            }
        }
    }

    // I-27
    #[tokio::test]
    async fn a_peer_that_does_not_read_its_answer_is_closed() {
        for request in [REQUEST.to_vec(), [HTTP2, HTTP2_GET].concat()] {
            let given_up = CancellationToken::new();
            let dropped = given_up.clone();
            let endless = move || async move {
                connection::authenticated();
                let guard = dropped.drop_guard();
                let chunks = futures_util::stream::repeat_with(move || {
                    let _guard = &guard;
                    Ok::<_, Infallible>(bytes::Bytes::from_static(&[b'x'; 1 << 16]))
                });
                axum::body::Body::from_stream(chunks)
            };
            let limits = Limits {
                reading: Duration::from_millis(50),
                headers: LIMITS.headers / 600,
                ..LIMITS
            };
            let served = start(Router::new().route("/", get(endless)), limits).await;
            let mut stream = TcpStream::connect(served.address).await.unwrap();
            stream.write_all(&request).await.unwrap();
            // The body never ends by itself.
            timeout(LONG, given_up.cancelled()).await.unwrap();
        }
    }

    #[tokio::test]
    async fn accepted_connections_do_not_wait_to_fill_a_segment() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let _peer = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        assert!(accept(&listener, &Slots::new(1)).await.nodelay().unwrap());
    }

    #[tokio::test]
    async fn stopping_ends_the_idle_at_once_and_waits_for_answers() {
        let (router, mut inside, release) = slow();
        let served = start(router, LIMITS).await;
        let mut idle = TcpStream::connect(served.address).await.unwrap();
        answer(&mut idle).await;
        let mut busy = TcpStream::connect(served.address).await.unwrap();
        busy.write_all(b"GET /slow HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
        inside.recv().await.unwrap();
        served.stop.cancel();
        assert_eq!(rest(&mut idle).await, "");
        assert!(!served.task.is_finished(), "an answer is still owed");
        release.cancel();
        assert!(rest(&mut busy).await.ends_with("hello"));
        timeout(LONG, served.task).await.unwrap().unwrap().unwrap();
        TcpStream::connect(served.address).await.unwrap_err();
    }

    #[tokio::test]
    async fn what_is_cut_off_can_be_answered_before() {
        let began = CancellationToken::new();
        let begin = began.clone();
        let closing = get(move || async move {
            begin.cancel();
            connection::closing().cancelled().await;
            "cut off"
        });
        let limits = Limits { patience: Duration::from_millis(50), ..LIMITS };
        let served = start(Router::new().route("/", closing), limits).await;
        let mut stream = TcpStream::connect(served.address).await.unwrap();
        stream.write_all(REQUEST).await.unwrap();
        timeout(LONG, began.cancelled()).await.unwrap();
        served.stop.cancel();
        assert!(rest(&mut stream).await.ends_with("cut off"));
        timeout(LONG, served.task).await.unwrap().unwrap().unwrap();
    }

    #[tokio::test]
    async fn answers_that_do_not_end_are_cut_off() {
        let router = Router::new().route("/", get(std::future::pending::<()>));
        let short = Duration::from_millis(50);
        let limits = Limits { patience: short, parting: short, ..LIMITS };
        let served = start(router, limits).await;
        let mut stream = TcpStream::connect(served.address).await.unwrap();
        stream.write_all(REQUEST).await.unwrap();
        served.stop.cancel();
        timeout(LONG, served.task).await.unwrap().unwrap().unwrap();
        assert_eq!(rest(&mut stream).await, "");
    }
}
