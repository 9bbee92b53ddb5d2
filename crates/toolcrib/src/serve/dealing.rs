//! Deals connections, and the streams of those with HTTP/2, out among the cores.

use std::future::Future;

use hyper::rt::Executor;
use tokio::{net::TcpStream, runtime::Handle};
use toolcrib_tasks::cores::{CorePlace, Cores, WeakCores};

/// An accepted connection on its way to the runtime that serves it.
pub(super) enum DealtStream {
    Here(TcpStream),
    Moving(std::net::TcpStream, CorePlace),
}

/// Runs the streams of HTTP/2: on the cores in turn, if there are any.
#[derive(Debug, Clone)]
pub(super) struct StreamExecutor(pub(super) Option<WeakCores>);

/// The runtime that serves `stream`: one of `cores`, or the current one. `None` if the system refuses
/// to move it.
pub(super) fn deal(stream: TcpStream, cores: Option<&Cores>) -> Option<(DealtStream, Handle)> {
    let Some(cores) = cores else { return Some((DealtStream::Here(stream), Handle::current())) };
    let place = cores.place();
    let runtime = place.runtime().clone();
    let stream = stream.into_std();
    let stream =
        stream.inspect_err(|error| tracing::debug!(%error, "a connection was lost")).ok()?;
    Some((DealtStream::Moving(stream, place), runtime))
}

// === impl DealtStream ===

impl DealtStream {
    /// The connection on the current runtime, and its place there. `None` if the system refuses.
    pub(super) fn arrive(self) -> Option<(TcpStream, Option<CorePlace>)> {
        match self {
            Self::Here(stream) => Some((stream, None)),
            Self::Moving(stream, place) => TcpStream::from_std(stream)
                .inspect_err(|error| tracing::debug!(%error, "a connection was lost"))
                .ok()
                .map(|stream| (stream, Some(place))),
        }
    }
}

// === impl StreamExecutor ===

impl<F> Executor<F> for StreamExecutor
where
    F: Future<Output = ()> + Send + 'static,
{
    fn execute(&self, stream: F) {
        match self.0.as_ref().and_then(WeakCores::place_in_turn) {
            Some(place) => {
                let runtime = place.runtime().clone();
                runtime.spawn(async move {
                    let _place = place;
                    stream.await;
                })
            }
            None => tokio::spawn(stream),
        };
    }
}

#[cfg(test)]
mod tests {
    use std::{thread, time::Duration};

    use axum::Router;
    use tokio::{
        io::{AsyncReadExt as _, AsyncWriteExt as _},
        time::timeout,
    };
    use tokio_util::sync::CancellationToken;

    use super::super::{Server, bind};
    use super::*;

    const LONG: Duration = Duration::from_secs(20);
    /// The preface of HTTP/2, and `GET /` on the streams 1 and 3.
    const HTTP2: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0\
        \0\0\x06\x01\x05\0\0\0\x01\x82\x86\x84\x41\x01x\
        \0\0\x06\x01\x05\0\0\0\x03\x82\x86\x84\x41\x01x";

    /// Sends `bytes`, and reads the answer until `ends` says that it is whole.
    async fn answer(stream: &mut TcpStream, bytes: &[u8], ends: impl Fn(&str) -> bool) -> String {
        stream.write_all(bytes).await.unwrap();
        let (mut all, mut piece) = (Vec::new(), [0; 1024]);
        loop {
            let length = timeout(LONG, stream.read(&mut piece)).await.expect("an answer").unwrap();
            assert_ne!(length, 0, "closed early");
            all.extend_from_slice(&piece[..length]);
            let text = String::from_utf8_lossy(&all).into_owned();
            if ends(&text) {
                return text;
            }
        }
    }

    /// The numbers of the threads in an answer.
    fn threads(answer: &str) -> Vec<char> {
        let named = answer.split("toolcrib-core-").skip(1);
        named.filter_map(|rest| rest.chars().next()).collect()
    }

    #[tokio::test]
    async fn connections_and_streams_are_dealt_out_among_the_threads() {
        let listener = bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let address = listener.local_addr().unwrap();
        let name = || async { thread::current().name().unwrap_or_default().to_owned() };
        let (router, stop) = (Router::new().fallback(name), CancellationToken::new());
        let (cores, stopped) = (Cores::start(2).unwrap(), stop.clone().cancelled_owned());
        let serving = tokio::spawn(Server::new(listener).cores(cores).serve(router, stopped));

        let mut used = Vec::new();
        let mut open = Vec::new();
        for _ in 0..2 {
            let mut stream = TcpStream::connect(address).await.unwrap();
            let request = b"GET / HTTP/1.1\r\nhost: x\r\n\r\n";
            let whole = |text: &str| threads(text).len() == 1;
            let first = threads(&answer(&mut stream, request, whole).await);
            let second = threads(&answer(&mut stream, request, whole).await);
            assert_eq!(first, second, "a connection stays on its thread");
            used.extend(first);
            open.push(stream);
        }
        assert_eq!(used, ['0', '1']);

        let mut stream = TcpStream::connect(address).await.unwrap();
        let both = answer(&mut stream, HTTP2, |text| threads(text).len() == 2).await;
        let mut used = threads(&both);
        used.sort_unstable();
        assert_eq!(used, ['0', '1']);

        drop((open, stream));
        stop.cancel();
        timeout(LONG, serving).await.expect("ended").unwrap().unwrap();
    }
}
