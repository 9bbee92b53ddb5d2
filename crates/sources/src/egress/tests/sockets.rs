//! The guard with real sockets and a scripted resolver.

use std::{
    io,
    net::IpAddr,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use async_trait::async_trait;
use http::{HeaderValue, Method, header};
use parking_lot::Mutex;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpListener,
};
use toolcrib_core::{
    budget::ByteBudget,
    credential::CredentialKind,
    egress::{EgressDecided, EgressDecision, EgressReason, EgressTrail},
};
use url::Url;

use crate::{
    credential::sendable,
    egress::{Answer, Egress, EgressError, Guard, Network, OutgoingRequest, Resolver},
};

/// Returns `answers[n]` for query number `n`, and the last entry for all further ones.
struct ScriptedResolver {
    answers: Vec<&'static [&'static str]>,
    queries: AtomicUsize,
}

#[async_trait]
impl Resolver for ScriptedResolver {
    async fn resolve(&self, _: &str) -> io::Result<Vec<IpAddr>> {
        let n = self.queries.fetch_add(1, Ordering::SeqCst).min(self.answers.len() - 1);
        Ok(self.answers[n].iter().map(|address| address.parse().unwrap()).collect())
    }
}

/// A loopback server that sends one response per connection and records the requests.
struct Server {
    port: u16,
    heard: Arc<Mutex<Vec<String>>>,
}

impl Server {
    /// Starts a server; `answer` maps the path of a request to its response.
    async fn start(answer: impl Fn(&str) -> String + Send + 'static) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let heard = Arc::new(Mutex::new(Vec::new()));
        let hears = Arc::clone(&heard);
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let mut request = Vec::new();
                while !request.windows(4).any(|window| window == b"\r\n\r\n") {
                    if stream.read_buf(&mut request).await.unwrap_or(0) == 0 {
                        break;
                    }
                }
                let request = String::from_utf8_lossy(&request).into_owned();
                let path = request.split(' ').nth(1).unwrap_or_default().to_owned();
                hears.lock().push(request);
                stream.write_all(answer(&path).as_bytes()).await.ok();
            }
        });
        Self { port, heard }
    }
}

fn ok() -> String {
    "HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\nok".to_owned()
}

fn redirect(status: u16, to: &str) -> String {
    format!(
        "HTTP/1.1 {status} Moved\r\nlocation: {to}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
    )
}

fn egress(answers: &[&'static [&'static str]], allow: &[&str], url: Option<&str>) -> Egress {
    let resolver =
        Arc::new(ScriptedResolver { answers: answers.to_vec(), queries: AtomicUsize::new(0) });
    let url = url.map(|url| Url::parse(url).unwrap());
    let guard = Guard::new(allow.iter().map(|a| a.parse().unwrap()).collect(), url.as_ref());
    Network::new(resolver).egress(guard).unwrap()
}

fn get(url: &str) -> OutgoingRequest {
    OutgoingRequest { hops: 5, ..OutgoingRequest::new(Method::GET, Url::parse(url).unwrap()) }
}

async fn send(egress: &Egress, url: &str) -> (Result<Answer, EgressError>, Vec<EgressDecided>) {
    let trail = EgressTrail::default();
    let answer = egress.send(get(url), &trail).await;
    (answer, trail.take())
}

#[tokio::test]
async fn a_name_is_connected_to_at_the_address_that_was_checked() {
    let server = Server::start(|_| ok()).await;
    let url = format!("http://api.example:{}/x?secret=1", server.port);
    let allowed = egress(&[&["127.0.0.1"]], &["127.0.0.0/8"], None);
    let (answer, noted) = send(&allowed, &url).await;
    assert_eq!(answer.unwrap().collect(10).await.unwrap(), b"ok");
    assert_eq!(noted, [EgressDecided::allowed("api.example")], "the host and nothing else");
    let heard = server.heard.lock().join("");
    assert!(heard.contains(&format!("host: api.example:{}", server.port)), "{heard}");
}

// I-27
#[tokio::test]
async fn answers_that_are_being_read_share_the_budget_of_their_source() {
    let server = Server::start(|_| ok()).await;
    let url = format!("http://api.example:{}/", server.port);
    let source = || {
        let egress = egress(&[&["127.0.0.1"]], &["127.0.0.0/8"], None);
        Egress { reading: ByteBudget::new(3), ..egress }
    };
    let (crowded, other) = (source(), source());
    let mut first = send(&crowded, &url).await.0.unwrap();
    first.keep(2).unwrap();
    let second = send(&crowded, &url).await.0.unwrap();
    assert_eq!(second.collect(10).await, Err(EgressError::Crowded(3)));
    let answer = send(&other, &url).await.0.unwrap();
    assert_eq!(answer.collect(10).await.unwrap(), b"ok", "another source has its own budget");
    first.keep(1).unwrap();
    let third = send(&crowded, &url).await.0.unwrap();
    assert_eq!(third.collect(10).await.unwrap(), b"ok");
    drop(first);
    assert_eq!(crowded.reading.held(), 0);
}

#[tokio::test]
async fn names_that_lead_inside_are_refused_and_noted() {
    let server = Server::start(|_| ok()).await;
    for addresses in [
        &["127.0.0.1"] as &[_],
        &["10.0.0.1"],
        &["169.254.169.254"],
        &["::1"],
        &["::ffff:127.0.0.1"],
        &["64:ff9b::7f00:1"],
        &["fd00:ec2::254"],
        &["1.1.1.1", "127.0.0.1"],
        &["127.0.0.1", "1.1.1.1"],
    ] {
        let (answer, noted) = send(
            &egress(&[addresses], &[], None),
            &format!("http://evil.example:{}/", server.port),
        )
        .await;
        let Err(error) = answer else { panic!("{addresses:?} was reached") };
        assert_eq!(error, EgressError::Refused { sent: false }, "{addresses:?}");
        assert!(!error.to_string().contains("127.0"), "{error}");
        assert_eq!(noted, [EgressDecided::denied("evil.example", EgressReason::SsrfBlocked)]);
    }
    assert!(server.heard.lock().is_empty(), "no request arrived");
}

#[tokio::test]
async fn a_name_that_changes_its_address_is_refused_when_it_does() {
    let server = Server::start(|_| ok()).await;
    // The first address is listed, the second is this machine.
    let rebinding = egress(&[&["127.0.0.1"], &["127.0.0.2"]], &["127.0.0.1"], None);
    let url = format!("http://evil.example:{}/", server.port);
    assert!(send(&rebinding, &url).await.0.is_ok());
    let (answer, noted) = send(&rebinding, &url).await;
    assert_eq!(answer.err(), Some(EgressError::Refused { sent: false }));
    assert_eq!(noted, [EgressDecided::denied("evil.example", EgressReason::SsrfBlocked)]);
    assert_eq!(server.heard.lock().len(), 1);
}

#[tokio::test]
async fn the_configured_name_may_be_private_but_not_link_local() {
    let server = Server::start(|_| ok()).await;
    let url = format!("http://files:{}/mcp", server.port);
    let own = egress(&[&["127.0.0.1"], &["169.254.169.254"]], &[], Some(&url));
    assert!(send(&own, &url).await.0.is_ok());
    assert_eq!(send(&own, &url).await.0.err(), Some(EgressError::Refused { sent: false }));
}

#[tokio::test]
async fn a_redirect_is_a_destination_like_any_other() {
    for to in [
        "http://169.254.169.254/latest/meta-data/",
        "http://0xa9fea9fe/",
        "http://[::ffff:169.254.169.254]/",
        "http://127.0.0.2/",
        "http://metadata.google.internal/",
        "http://localhost/",
    ] {
        let server = Server::start(move |_| redirect(307, to)).await;
        let url = format!("http://127.0.0.1:{}/", server.port);
        let (answer, noted) = send(&egress(&[&["169.254.169.254"]], &[], Some(&url)), &url).await;
        assert_eq!(answer.err(), Some(EgressError::Refused { sent: true }), "{to}");
        let host = Url::parse(to).unwrap().host_str().unwrap().to_owned();
        assert_eq!(noted[0], EgressDecided::allowed("127.0.0.1"));
        assert_eq!(noted[1], EgressDecided::denied(host, EgressReason::SsrfBlocked), "{to}");
    }
    let server = Server::start(|_| redirect(302, "http://user:pass@127.0.0.1/")).await;
    let url = format!("http://127.0.0.1:{}/", server.port);
    let (answer, noted) = send(&egress(&[&["127.0.0.1"]], &[], Some(&url)), &url).await;
    assert_eq!(answer.err(), Some(EgressError::Refused { sent: true }));
    assert_eq!(noted[1], EgressDecided::denied("127.0.0.1", EgressReason::PolicyDenied));
}

// I-31
/// The first request had its effect, so the call must not look like one that was not sent.
#[tokio::test]
async fn a_redirect_to_nowhere_is_not_a_request_that_was_not_sent() {
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    for to in [format!("http://{closed}/"), "http://no.such.name.example/".to_owned()] {
        let server = Server::start(move |_| redirect(307, &to)).await;
        let url = format!("http://127.0.0.1:{}/", server.port);
        let (answer, _) = send(&egress(&[&["127.0.0.1"]], &["127.0.0.1"], Some(&url)), &url).await;
        let error = answer.err().unwrap();
        let kind = toolcrib_core::call::UpstreamError::from(error.clone()).kind;
        assert_ne!(kind, toolcrib_core::call::UpstreamErrorKind::Unavailable, "{error}");
    }
}

#[tokio::test]
async fn secrets_stay_with_the_origin_they_are_for() {
    let other = Server::start(|_| ok()).await;
    let to = format!("http://127.0.0.1:{}/b", other.port);
    let server = Server::start(move |path| match path {
        "/" => redirect(307, "/a"),
        _ => redirect(307, &to),
    })
    .await;
    let client = egress(&[&["127.0.0.1"]], &["127.0.0.1"], None);
    let mut request = get(&format!("http://127.0.0.1:{}/", server.port));
    request.bound.insert(header::AUTHORIZATION, HeaderValue::from_static("Bearer s3cret"));
    request.headers.insert(header::ACCEPT, HeaderValue::from_static("text/plain"));
    client.send(request, &EgressTrail::default()).await.unwrap();
    assert!(server.heard.lock().iter().all(|heard| heard.contains("s3cret")));
    let heard = other.heard.lock().join("");
    assert!(heard.contains("accept: text/plain") && !heard.contains("s3cret"), "{heard}");
}

// I-36
#[tokio::test]
async fn a_credential_is_not_taken_along_to_another_origin() {
    let other = Server::start(|_| ok()).await;
    let elsewhere = [
        (format!("http://127.0.0.1:{}/b?x=1", other.port), EgressReason::PolicyDenied),
        (format!("http://files.example:{}/b?x=1", other.port), EgressReason::OutOfAudience),
    ];
    let header = CredentialKind::Header { name: "x-key".to_owned(), prefix: String::new() };
    let query = CredentialKind::Query { parameter: "key".to_owned() };
    for (to, reason) in elsewhere {
        for kind in [header.clone(), query.clone()] {
            // Like a server that keeps the query.
            let there = match kind {
                CredentialKind::Query { .. } => format!("{to}&key=canary-of-8"),
                _ => to.clone(),
            };
            let server = Server::start(move |path| match path.starts_with("/a") {
                false => redirect(307, "/a"),
                true => redirect(307, &there),
            })
            .await;
            let client = egress(&[&["127.0.0.1"]], &["127.0.0.1"], None);
            let mut request = get(&format!("http://127.0.0.1:{}/", server.port));
            request.credential = Some(Arc::new(sendable(kind, &["127.0.0.1"], "canary-of-8")));
            let trail = EgressTrail::default();
            client.send(request, &trail).await.unwrap();
            let heard = server.heard.lock();
            assert!(heard.len() == 2 && heard.iter().all(|heard| heard.contains("canary")));
            let heard = std::mem::take(&mut *other.heard.lock()).join("");
            assert!(heard.contains("/b?x=1 ") && !heard.contains("canary"), "{heard}");
            let [sent, dropped] = trail.take().try_into().unwrap();
            assert_eq!(sent.decision, EgressDecision::Allowed);
            assert_eq!(dropped.decision, EgressDecision::Downgraded);
            assert_eq!(dropped.reason, Some(reason));
            for decided in [sent, dropped] {
                assert_eq!(decided.credential_id.as_deref(), Some("cred-1"));
            }
        }
    }
}

#[tokio::test]
async fn a_ring_of_redirects_ends() {
    let server = Server::start(|_| redirect(302, "/again")).await;
    let url = format!("http://127.0.0.1:{}/", server.port);
    let (answer, _) = send(&egress(&[&["127.0.0.1"]], &[], Some(&url)), &url).await;
    assert!(matches!(answer, Err(EgressError::Broken(_))));
    assert_eq!(server.heard.lock().len(), 6, "one request and five redirects");
}

#[tokio::test]
async fn a_server_that_switches_protocols_is_left() {
    let upgrade = "HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n";
    let server = Server::start(move |_| upgrade.to_owned()).await;
    let url = format!("http://127.0.0.1:{}/", server.port);
    let (answer, _) = send(&egress(&[&["127.0.0.1"]], &[], Some(&url)), &url).await;
    assert!(matches!(answer, Err(EgressError::Broken(_))));
}
