//! TLS handshakes of accepted connections.
//!
//! Invariant: handshakes are bounded in number and time. When there are too many, the longest
//! waiting one gives way, so that slow peers keep no other peer out.

use std::{io, sync::Arc, time::Duration};

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    time::timeout,
};
use tokio_rustls::{TlsAcceptor, server::TlsStream};

use super::{connection::Shutdown, slots::Slots};
use crate::tls::{HandshakeFailure, Tls};

#[derive(Debug, Clone, Copy)]
pub(super) struct HandshakeLimits {
    /// The most time for one handshake.
    pub(super) time: Duration,
    /// The most handshakes in progress.
    pub(super) number: usize,
}

/// A handshake takes two round trips; this is for slow networks.
const TIME: Duration = Duration::from_secs(10);

/// As many as the system queues: if all clients reconnect together, those that wait their turn must
/// not be closed as slow. Each handshake buffers up to 64 KiB, so all of them up to 256 MiB.
const NUMBER: usize = 4_096;

/// How long a refused peer has to read the reason.
const FAREWELL: Duration = Duration::from_millis(250);

/// The answer to unencrypted HTTP.
const PLAIN_HTTP: &[u8] = b"HTTP/1.1 400 Bad Request\r\n\
    connection: close\r\n\
    content-type: text/plain; charset=utf-8\r\n\
    content-length: 43\r\n\r\n\
    This port requires TLS: use an https URL.\r\n";

/// The handshakes of one listener.
pub(super) struct Handshakes {
    tls: Tls,
    places: Arc<Slots>,
    limits: HandshakeLimits,
}

impl HandshakeLimits {
    /// The limits of a listener with at most so many `connections`.
    pub(super) fn of(connections: usize) -> Self {
        Self { time: TIME, number: NUMBER.min(connections / 2) }
    }
}

impl Handshakes {
    pub(super) fn new(tls: Tls, limits: HandshakeLimits) -> Self {
        Self { tls, places: Arc::new(Slots::new(limits.number)), limits }
    }

    /// Completes the handshake of `stream`. A failure is counted.
    pub(super) async fn accept(&self, stream: TcpStream) -> Option<TlsStream<TcpStream>> {
        let peer = stream.peer_addr().ok();
        let handshake = async {
            let place = self.places.take().await;
            place.connection.start(Shutdown::default());
            tokio::select! {
                biased;
                done = self.handshake(stream) => done,
                () = place.connection.evicted() => {
                    Err((HandshakeFailure::Evicted, "too many handshakes".to_owned()))
                }
            }
        };
        let (failure, why) = match timeout(self.limits.time, handshake).await {
            Ok(Ok(stream)) => return Some(stream),
            Ok(Err(failed)) => failed,
            Err(_elapsed) => (HandshakeFailure::Timeout, "the peer took too long".to_owned()),
        };
        self.tls.failed(failure, peer, &why);
        None
    }

    /// Counts a handshake that stopped because its connection had to make room.
    pub(super) fn evicted(&self) {
        self.tls.failed(HandshakeFailure::Evicted, None, "too many connections");
    }

    async fn handshake(
        &self,
        stream: TcpStream,
    ) -> Result<TlsStream<TcpStream>, (HandshakeFailure, String)> {
        let described = |error: io::Error| (HandshakeFailure::of(&error), error.to_string());
        let mut first = [0_u8];
        let length = stream.peek(&mut first).await.map_err(described)?;
        // The first byte of a method is a letter, and that of a TLS record is 22.
        if length > 0 && first[0].is_ascii_uppercase() {
            close_after(stream, PLAIN_HTTP).await;
            return Err((HandshakeFailure::PlainHttp, "the peer sent unencrypted HTTP".to_owned()));
        }
        match TlsAcceptor::from(self.tls.current()).accept(stream).into_fallible().await {
            Ok(stream) => Ok(stream),
            Err((error, stream)) => {
                // The alert has been sent.
                close_after(stream, b"").await;
                Err(described(error))
            }
        }
    }
}

/// Sends `answer`, and closes the connection so that the peer receives it and all earlier data.
async fn close_after(mut stream: TcpStream, answer: &[u8]) {
    let closed = async {
        stream.write_all(answer).await?;
        stream.shutdown().await?;
        // Unread bytes would reset the connection, and a peer still sending would get that error
        // before it reads the reason.
        let mut rest = [0_u8; 1_024];
        while stream.read(&mut rest).await? > 0 {}
        io::Result::Ok(())
    };
    timeout(FAREWELL, closed).await.ok();
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use chrono::Utc;
    use rustls::{
        ClientConfig, RootCertStore,
        pki_types::{CertificateDer, ServerName, pem::PemObject as _},
    };
    use tokio::{net::TcpListener, task::JoinHandle};
    use tokio_rustls::{TlsConnector, client};
    use toolcrib_config::TlsConfig;
    use toolcrib_testkit::certificates::Authority;

    use super::*;
    use crate::tls::TlsIdentity;

    const LONG: Duration = Duration::from_secs(20);

    /// A listener that completes handshakes and keeps the connections.
    struct TestListener {
        address: std::net::SocketAddr,
        authority: Authority,
        failures: Arc<[AtomicUsize; HandshakeFailure::ALL.len()]>,
        _dir: tempfile::TempDir,
        _task: JoinHandle<()>,
    }

    impl TestListener {
        async fn start(limits: HandshakeLimits) -> Self {
            Self::start_with(limits, false).await
        }

        async fn start_with(limits: HandshakeLimits, wants_certificate: bool) -> Self {
            let dir = tempfile::tempdir().unwrap();
            let authority = Authority::new("test");
            let (cert, key) = authority.server().write(dir.path(), "server");
            let ca = dir.path().join("ca.pem");
            std::fs::write(&ca, authority.pem()).unwrap();
            let client_ca = wants_certificate.then_some(ca);
            let config = TlsConfig { cert, key, client_ca, hsts: None };
            let identity = TlsIdentity::load(&config, Utc::now()).unwrap();
            let failures: Arc<[AtomicUsize; HandshakeFailure::ALL.len()]> = Arc::default();
            let counted = Arc::clone(&failures);
            let tls = Tls::new(identity, move |failure| {
                let at = HandshakeFailure::ALL.iter().position(|known| *known == failure).unwrap();
                counted[at].fetch_add(1, Ordering::Relaxed);
            });
            let handshakes = Arc::new(Handshakes::new(tls, limits));
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let address = listener.local_addr().unwrap();
            let task = tokio::spawn(async move {
                loop {
                    let (stream, _) = listener.accept().await.unwrap();
                    let handshakes = Arc::clone(&handshakes);
                    tokio::spawn(async move {
                        if let Some(mut stream) = handshakes.accept(stream).await {
                            stream.read_u8().await.ok();
                        }
                    });
                }
            });
            Self { address, authority, failures, _dir: dir, _task: task }
        }

        /// Waits until so many handshakes have failed like this.
        async fn until_failed(&self, failure: HandshakeFailure, times: usize) {
            let at = HandshakeFailure::ALL.iter().position(|known| *known == failure).unwrap();
            let counted = async {
                while self.failures[at].load(Ordering::Relaxed) < times {
                    tokio::time::sleep(Duration::from_millis(10)).await;
                }
            };
            timeout(LONG, counted).await.unwrap_or_else(|_| panic!("{failure:?} is too rare"));
        }

        async fn connect(&self) -> client::TlsStream<TcpStream> {
            let mut roots = RootCertStore::empty();
            let pem = self.authority.pem().as_bytes();
            roots.add(CertificateDer::from_pem_slice(pem).unwrap()).unwrap();
            let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
            let config = ClientConfig::builder_with_provider(provider)
                .with_safe_default_protocol_versions()
                .unwrap()
                .with_root_certificates(roots)
                .with_no_client_auth();
            let stream = TcpStream::connect(self.address).await.unwrap();
            let name = ServerName::try_from("localhost").unwrap();
            let connected = TlsConnector::from(Arc::new(config)).connect(name, stream);
            timeout(LONG, connected).await.expect("in time").unwrap()
        }

        /// Opens a connection that sends `bytes` and nothing more.
        async fn send(&self, bytes: &[u8]) -> TcpStream {
            let mut stream = TcpStream::connect(self.address).await.unwrap();
            stream.write_all(bytes).await.unwrap();
            stream
        }
    }

    async fn rest(stream: &mut TcpStream) -> Vec<u8> {
        let mut bytes = Vec::new();
        // A reset is an end as well.
        timeout(LONG, stream.read_to_end(&mut bytes)).await.expect("closed in time").ok();
        bytes
    }

    /// The beginning of a record that announces 512 bytes.
    const HALF_HELLO: &[u8] = b"\x16\x03\x01\x02\x00\x01\x00";

    // I-27
    #[tokio::test]
    async fn a_handshake_that_does_not_end_is_closed() {
        let limits = HandshakeLimits { time: Duration::from_millis(50), number: 8 };
        let listening = TestListener::start(limits).await;
        for start in [&b""[..], HALF_HELLO] {
            let mut stream = listening.send(start).await;
            rest(&mut stream).await;
        }
        listening.until_failed(HandshakeFailure::Timeout, 2).await;
    }

    // I-27
    #[tokio::test]
    async fn slow_handshakes_keep_no_other_peer_out() {
        let listening = TestListener::start(HandshakeLimits { time: LONG * 10, number: 4 }).await;
        let mut slow = Vec::new();
        for _ in 0..32 {
            slow.push(listening.send(HALF_HELLO).await);
        }
        listening.connect().await;
        // At most four can still be waiting.
        listening.until_failed(HandshakeFailure::Evicted, 28).await;
        listening.connect().await;
        drop(slow);
    }

    #[tokio::test]
    async fn a_peer_without_tls_is_answered_or_closed() {
        let listening = TestListener::start(HandshakeLimits { time: LONG, number: 4 }).await;
        let mut http = listening.send(b"GET /v1/tools HTTP/1.1\r\nhost: x\r\n\r\n").await;
        // The answer arrives before the server has waited for the rest of the request.
        let mut answer = vec![0; PLAIN_HTTP.len()];
        timeout(LONG, http.read_exact(&mut answer)).await.unwrap().unwrap();
        assert_eq!(answer, PLAIN_HTTP);
        assert_eq!(rest(&mut http).await, b"");
        let mut garbage = listening.send(b"\0\x01\x02garbage garbage garbage").await;
        rest(&mut garbage).await;
        drop(listening.send(HALF_HELLO).await);
        listening.connect().await;
        listening.until_failed(HandshakeFailure::PlainHttp, 1).await;
        listening.until_failed(HandshakeFailure::NotTls, 1).await;
        listening.until_failed(HandshakeFailure::Closed, 1).await;
    }

    #[tokio::test]
    async fn a_peer_without_a_certificate_reads_why_although_it_goes_on_sending() {
        let limits = HandshakeLimits { time: LONG, number: 4 };
        let listening = TestListener::start_with(limits, true).await;
        let mut stream = listening.connect().await;
        // A client that is still sending its request reads the alert later.
        for _ in 0..10 {
            stream.write_all(b"GET / HTTP/1.1\r\n").await.expect("the connection is still open");
            stream.flush().await.expect("the connection is still open");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        let read = timeout(LONG, stream.read_u8()).await.expect("closed in time");
        let error = read.unwrap_err().into_inner().expect("an error of TLS");
        let alert = rustls::Error::AlertReceived(rustls::AlertDescription::CertificateRequired);
        assert_eq!(error.downcast_ref::<rustls::Error>(), Some(&alert));
        listening.until_failed(HandshakeFailure::ClientCertificate, 1).await;
    }

    #[test]
    fn the_answer_to_http_has_the_length_that_it_announces() {
        let text = std::str::from_utf8(PLAIN_HTTP).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        assert!(head.contains(&format!("content-length: {}", body.len())), "{text}");
    }
}
