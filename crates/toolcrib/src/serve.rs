//! Serving a router until told to stop.
//!
//! Invariants:
//! - what a peer can hold by not going on is bounded: the time to a request's end of headers, and
//!   the number of connections; those beyond it wait in the kernel's queue;
//! - every accepted connection passes [`accept`], which sets it up.

use std::{
    future::Future,
    io,
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use axum::Router;
use http::Request;
use hyper_util::{
    rt::{TokioExecutor, TokioIo, TokioTimer},
    server::conn::auto::Builder,
    service::TowerToHyperService,
};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::Semaphore,
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tower::ServiceExt as _;

/// What peers and requests may take.
#[derive(Debug, Clone, Copy)]
struct Limits {
    /// How long requests in flight may take to end after the signal to stop. Longer than most
    /// calls, shorter than what service managers wait before they kill.
    patience: Duration,
    /// How long the headers of a request may take, also those of the next on a kept connection.
    headers: Duration,
    /// Connections open at once.
    connections: usize,
}

const LIMITS: Limits = Limits {
    patience: Duration::from_secs(10),
    headers: Duration::from_secs(30),
    connections: 10_000,
};

/// How often an HTTP/2 peer that says nothing is asked whether it is still there.
const PING: Duration = Duration::from_secs(30);

/// Pause after an accept that failed for want of something, most likely of file descriptors.
const BREATH: Duration = Duration::from_millis(200);

/// With every request: told when the server takes no new ones, for answers that would otherwise
/// never end.
#[derive(Clone)]
pub(crate) struct Stopping(pub(crate) CancellationToken);

/// Serves `router` on `listener` until `shutdown` is ready; then takes no new connections and gives
/// requests in flight ten seconds.
///
/// A connection whose next request does not have its headers within thirty seconds is closed, and
/// at most ten thousand are open at once.
///
/// # Errors
/// None at present: an accept that fails is tried again.
pub async fn serve(
    listener: TcpListener,
    router: Router,
    shutdown: impl Future<Output = ()> + Send + 'static,
) -> io::Result<()> {
    serve_within(listener, router, shutdown, LIMITS).await;
    Ok(())
}

async fn serve_within(
    listener: TcpListener,
    router: Router,
    shutdown: impl Future<Output = ()> + Send + 'static,
    limits: Limits,
) {
    // Makes its routes once instead of with every connection.
    let router = router.with_state::<()>(());
    let room = Arc::new(Semaphore::new(limits.connections));
    let (stopping, cut) = (CancellationToken::new(), CancellationToken::new());
    // Also when this future is dropped, no connection outlives it.
    let _cut_when_dropped = cut.clone().drop_guard();
    let connections = TaskTracker::new();
    let mut shutdown = pin!(shutdown);
    loop {
        let next = async {
            let place = Arc::clone(&room).acquire_owned().await;
            (accept(&listener).await, place)
        };
        let (stream, place) = tokio::select! {
            () = &mut shutdown => break,
            next = next => next,
        };
        let connection = connection(stream, router.clone(), stopping.clone(), limits.headers);
        let cut = cut.clone();
        connections.spawn(async move {
            let _place = place;
            tokio::select! {
                () = connection => {}
                () = cut.cancelled() => {}
            }
        });
    }
    drop(listener);
    stopping.cancel();
    connections.close();
    if tokio::time::timeout(limits.patience, connections.wait()).await.is_err() {
        tracing::warn!("some requests did not end in time and were cut off");
    }
}

/// The next connection, set up. Failures of one connection are nobody else's; others are told and
/// tried again.
async fn accept(listener: &TcpListener) -> TcpStream {
    loop {
        match listener.accept().await {
            Ok((stream, _peer)) => {
                // Without it an answer of two segments waits for a delayed acknowledgement, 40 ms.
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
                    tokio::time::sleep(BREATH).await;
                }
            },
        }
    }
}

/// Serves one connection to its end.
async fn connection(
    stream: TcpStream,
    router: Router,
    stopping: CancellationToken,
    headers: Duration,
) {
    let asked = Arc::new(AtomicBool::new(false));
    let seen = Arc::clone(&asked);
    let stop = Stopping(stopping.clone());
    let service = router.map_request(move |mut request: Request<hyper::body::Incoming>| {
        seen.store(true, Ordering::Relaxed);
        request.extensions_mut().insert(stop.clone());
        request.map(axum::body::Body::new)
    });
    let mut builder = Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new()).header_read_timeout(headers);
    builder.http2().timer(TokioTimer::new()).keep_alive_interval(PING);
    let served = builder.serve_connection(TokioIo::new(stream), TowerToHyperService::new(service));
    let mut served = pin!(served);
    // The timeout of the headers starts when it is known that they are HTTP/1's, and there is none
    // for HTTP/2. This one covers everything before the first request.
    let mut first = pin!(tokio::time::sleep(headers));
    let (mut waiting, mut told) = (true, false);
    loop {
        tokio::select! {
            ended = served.as_mut() => {
                if let Err(error) = ended {
                    tracing::trace!(%error, "a connection ended early");
                }
                return;
            }
            () = &mut first, if waiting => {
                waiting = false;
                if !asked.load(Ordering::Relaxed) {
                    return;
                }
            }
            () = stopping.cancelled(), if !told => {
                told = true;
                served.as_mut().graceful_shutdown();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use axum::routing::get;
    use tokio::{
        io::{AsyncReadExt as _, AsyncWriteExt as _},
        task::JoinHandle,
        time::timeout,
    };

    use super::*;

    /// Longest that anything here is waited for.
    const LONG: Duration = Duration::from_secs(20);
    const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nhost: x\r\n\r\n";

    struct Served {
        address: std::net::SocketAddr,
        stop: CancellationToken,
        task: JoinHandle<()>,
    }

    async fn start(router: Router, limits: Limits) -> Served {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let stop = CancellationToken::new();
        let shutdown = stop.clone().cancelled_owned();
        let task = tokio::spawn(serve_within(listener, router, shutdown, limits));
        Served { address, stop, task }
    }

    fn hello() -> Router {
        Router::new().route("/", get(|| async { "hello" }))
    }

    /// Everything that comes until the server closes.
    async fn rest(stream: &mut TcpStream) -> String {
        let mut bytes = Vec::new();
        // A reset is an end as well: what was sent may not have been read.
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

    #[tokio::test]
    async fn connections_beyond_the_cap_wait_for_one_to_end() {
        let served = start(hello(), Limits { connections: 1, ..LIMITS }).await;
        let mut first = TcpStream::connect(served.address).await.unwrap();
        answer(&mut first).await;
        let mut second = TcpStream::connect(served.address).await.unwrap();
        second.write_all(REQUEST).await.unwrap();
        let early = timeout(Duration::from_millis(100), second.readable()).await;
        assert!(early.is_err(), "the second one is not served yet");
        drop(first);
        answer(&mut second).await;
    }

    #[tokio::test]
    async fn accepted_connections_do_not_wait_to_fill_a_segment() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let _peer = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        assert!(accept(&listener).await.nodelay().unwrap());
    }

    #[tokio::test]
    async fn stopping_ends_the_idle_at_once_and_waits_for_answers() {
        let (entered, mut inside) = tokio::sync::mpsc::channel(1);
        let release = CancellationToken::new();
        let released = release.clone();
        let slow = move || async move {
            entered.send(()).await.unwrap();
            released.cancelled().await;
            "hello"
        };
        let router = hello().route("/slow", get(slow));
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
        timeout(LONG, served.task).await.unwrap().unwrap();
        TcpStream::connect(served.address).await.unwrap_err();
    }

    #[tokio::test]
    async fn answers_that_do_not_end_are_cut_off() {
        let router = Router::new().route("/", get(std::future::pending::<()>));
        let limits = Limits { patience: Duration::from_millis(50), ..LIMITS };
        let served = start(router, limits).await;
        let mut stream = TcpStream::connect(served.address).await.unwrap();
        stream.write_all(REQUEST).await.unwrap();
        served.stop.cancel();
        timeout(LONG, served.task).await.unwrap().unwrap();
        assert_eq!(rest(&mut stream).await, "");
    }
}
