//! The faulty upstream over streamable HTTP, on its own thread.

use std::{
    collections::{HashMap, HashSet},
    convert::Infallible,
    io,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicU16, AtomicUsize, Ordering},
    },
};

use axum::{
    Router,
    body::Body,
    extract::State,
    http::{HeaderMap, Method, StatusCode, header},
    response::Response,
    routing::any,
};
use bytes::Bytes;
use futures_util::StreamExt as _;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::{runtime::Runtime, sync::broadcast};
use toolcrib_core::json::parse_strict;

use super::script::{Behaviour, Script, Step};

/// How responses are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answers {
    /// One JSON document, when the response is one message.
    Json,
    /// An event stream.
    Events,
    /// An event stream in pieces of three bytes, with comments, a priming event and `\r\n`.
    Splinters,
}

/// A request as it arrived.
#[derive(Debug, Clone)]
pub struct ReceivedRequest {
    /// `POST`, `GET`, `DELETE`, or `CLOSED` when the client closed a stream before its end.
    pub verb: String,
    /// Header names are lower case.
    pub headers: HashMap<String, String>,
    /// The message, or null.
    pub body: Value,
}

/// A running upstream; dropping it ends the server and all connections.
pub struct FaultyHttp {
    shared: Arc<Shared>,
    address: SocketAddr,
    runtime: Option<Runtime>,
}

/// A fixed answer to every `tools/call`.
#[derive(Debug, Clone)]
pub struct CallAnswer {
    pub status: u16,
    pub headers: Vec<(&'static str, String)>,
    /// `ID` is replaced by the id of the request, unless the body is compressed.
    pub body: Vec<u8>,
}

struct Shared {
    script: Script,
    answers: Answers,
    received: Mutex<Vec<ReceivedRequest>>,
    sessions: Mutex<HashSet<String>>,
    opened: AtomicUsize,
    status: AtomicU16,
    call_answer: Mutex<Option<CallAnswer>>,
    changes: broadcast::Sender<()>,
}

impl FaultyHttp {
    /// Starts on a free port. `words` as in [`super::script`]. With `era=legacy` the server issues
    /// session ids and requires them.
    pub fn start(answers: Answers, words: &[&str]) -> Self {
        Self::start_at(SocketAddr::from(([127, 0, 0, 1], 0)), answers, words)
    }

    /// Starts on a given address, for example the same one again after a stop.
    pub fn start_at(address: SocketAddr, answers: Answers, words: &[&str]) -> Self {
        let listener = std::net::TcpListener::bind(address).expect("the address is free");
        listener.set_nonblocking(true).unwrap();
        let address = listener.local_addr().unwrap();
        let shared = Arc::new(Shared {
            script: Script::new(Behaviour::parse(words)),
            answers,
            received: Mutex::default(),
            sessions: Mutex::default(),
            opened: AtomicUsize::new(0),
            status: AtomicU16::new(0),
            call_answer: Mutex::default(),
            changes: broadcast::channel(16).0,
        });
        let router = Router::new().route("/mcp", any(serve)).with_state(Arc::clone(&shared));
        let runtime = super::good::serve(listener, router);
        Self { shared, address, runtime: Some(runtime) }
    }

    pub fn url(&self) -> String {
        format!("http://{}/mcp", self.address)
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns all requests so far.
    pub fn received(&self) -> Vec<ReceivedRequest> {
        self.shared.received.lock().clone()
    }

    /// Returns and forgets all requests so far.
    pub fn take_received(&self) -> Vec<ReceivedRequest> {
        std::mem::take(&mut *self.shared.received.lock())
    }

    /// Returns the requests with this JSON-RPC method.
    pub fn received_method(&self, method: &str) -> Vec<ReceivedRequest> {
        self.received().into_iter().filter(|r| r.body["method"] == method).collect()
    }

    /// Drops every session: further requests in them get status 404.
    pub fn expire_sessions(&self) {
        self.shared.sessions.lock().clear();
    }

    /// Returns the number of sessions that were opened.
    pub fn sessions_opened(&self) -> usize {
        self.shared.opened.load(Ordering::SeqCst)
    }

    /// Responds to every request with this status; 0 restores the normal responses.
    pub fn refuse_with(&self, status: u16) {
        self.shared.status.store(status, Ordering::SeqCst);
    }

    /// Gives every call this answer.
    pub fn answer_calls(&self, answer: CallAnswer) {
        *self.shared.call_answer.lock() = Some(answer);
    }

    /// Adds the tool `late` and notifies listeners.
    pub fn grow(&self) {
        self.shared.script.grow();
        self.shared.changes.send(()).ok();
    }

    /// Returns the number of streams that wait for changes.
    pub fn listeners(&self) -> usize {
        self.shared.changes.receiver_count()
    }
}

impl CallAnswer {
    fn response(self, id: &Value) -> Response {
        let Self { status, headers, mut body } = self;
        if !body.starts_with(b"\x1f\x8b")
            && let Some(at) = body.windows(2).position(|two| two == b"ID")
        {
            body.splice(at..at + 2, id.to_string().into_bytes());
        }
        let mut response = Response::builder().status(status);
        for (name, value) in headers {
            response = response.header(name, value);
        }
        response.body(Body::from(body)).unwrap()
    }
}

impl Drop for FaultyHttp {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

async fn serve(
    State(shared): State<Arc<Shared>>,
    method: Method,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let message: Value = parse_strict(&body).unwrap_or_default();
    let text = |value: &header::HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
    let headers: HashMap<String, String> =
        headers.iter().map(|(name, value)| (name.to_string(), text(value))).collect();
    shared.received.lock().push(ReceivedRequest {
        verb: method.to_string(),
        headers: headers.clone(),
        body: message.clone(),
    });
    let refuse = shared.status.load(Ordering::SeqCst);
    if refuse != 0 {
        return status(StatusCode::from_u16(refuse).unwrap(), "refused: Bearer hunter22");
    }
    if shared.script.behaviour.more == "forbidden" && message["method"] == "resources/list" {
        return status(StatusCode::FORBIDDEN, "no resources for you");
    }
    if method == Method::POST
        && !headers.get("accept").is_some_and(|accept| {
            accept.contains("application/json") && accept.contains("text/event-stream")
        })
    {
        return status(StatusCode::NOT_ACCEPTABLE, "accept both");
    }
    let modern = headers.get("mcp-protocol-version").is_some_and(|v| v == super::script::MODERN);
    if modern && shared.script.behaviour.era != "legacy" {
        let named = headers.get("mcp-method").map(String::as_str) == message["method"].as_str();
        if !named {
            return json_answer(
                StatusCode::BAD_REQUEST,
                &json!({ "jsonrpc": "2.0", "id": message["id"],
                    "error": { "code": -32020, "message": "header mismatch" } }),
            );
        }
    } else if shared.script.behaviour.list == "lost" && message["method"] == "tools/list" {
        shared.sessions.lock().clear();
        return status(StatusCode::NOT_FOUND, "no such session");
    } else if let Some(refused) = check_session(&shared, &headers, &message) {
        return refused;
    }
    let call_answer = shared.call_answer.lock().clone();
    if let Some(answer) = call_answer.filter(|_| message["method"] == "tools/call") {
        return answer.response(&message["id"]);
    }
    match method.as_str() {
        "GET" => follow(&shared),
        "DELETE" => status(StatusCode::ACCEPTED, ""),
        _ if message["id"].is_null() || message["method"].is_null() => {
            status(StatusCode::ACCEPTED, "")
        }
        _ => answer(&shared, &message, modern),
    }
}

fn sessions(shared: &Shared) -> bool {
    shared.script.behaviour.era == "legacy"
}

/// In the handshake era every request after `initialize` must name its session.
fn check_session(
    shared: &Shared,
    headers: &HashMap<String, String>,
    message: &Value,
) -> Option<Response> {
    if !sessions(shared)
        || matches!(message["method"].as_str(), Some("initialize" | "server/discover"))
    {
        return None;
    }
    match headers.get("mcp-session-id") {
        None => Some(status(StatusCode::BAD_REQUEST, "no session")),
        Some(id) if !shared.sessions.lock().contains(id) => {
            Some(status(StatusCode::NOT_FOUND, "no such session"))
        }
        Some(_) => None,
    }
}

fn status(status: StatusCode, text: &'static str) -> Response {
    Response::builder().status(status).body(Body::from(text)).unwrap()
}

fn json_answer(status: StatusCode, message: &Value) -> Response {
    Response::builder()
        .status(status)
        .header(header::CONTENT_TYPE, "application/json; charset=utf-8")
        .body(Body::from(message.to_string()))
        .unwrap()
}

/// Returns the stream that belongs to no request.
fn follow(shared: &Arc<Shared>) -> Response {
    if shared.script.behaviour.listen == "no" {
        return status(StatusCode::METHOD_NOT_ALLOWED, "");
    }
    events(changes(shared).map(|event| Ok::<_, Infallible>(Bytes::from(event))))
}

fn changes(shared: &Shared) -> impl futures_util::Stream<Item = String> + Send + 'static {
    let receiver = shared.changes.subscribe();
    futures_util::stream::unfold(receiver, |mut receiver| async move {
        receiver.recv().await.ok()?;
        let changed = json!({ "jsonrpc": "2.0", "method": "notifications/tools/list_changed" });
        Some((format!("data: {changed}\n\n"), receiver))
    })
}

fn events<E: Into<axum::BoxError> + 'static>(
    stream: impl futures_util::Stream<Item = Result<Bytes, E>> + Send + 'static,
) -> Response {
    Response::builder()
        .header(header::CONTENT_TYPE, "text/event-stream")
        .body(Body::from_stream(stream))
        .unwrap()
}

fn answer(shared: &Arc<Shared>, request: &Value, modern: bool) -> Response {
    let steps = shared.script.answer(request);
    if request["params"]["arguments"]["losesSession"] == true {
        shared.sessions.lock().clear();
    }
    if request["method"] == "initialize" && sessions(shared) {
        let id = format!("session-{}", shared.opened.fetch_add(1, Ordering::SeqCst));
        shared.sessions.lock().insert(id.clone());
        let mut response = streamed(shared, request, steps);
        response.headers_mut().insert("mcp-session-id", id.parse().unwrap());
        return response;
    }
    match steps.as_slice() {
        [Step::Say(message)] if message["error"]["code"] == -32601 && modern => {
            json_answer(StatusCode::NOT_FOUND, message)
        }
        [Step::Say(message)]
            if matches!(message["error"]["code"].as_i64(), Some(-32022 | -32021)) =>
        {
            json_answer(StatusCode::BAD_REQUEST, message)
        }
        [Step::Say(message)] if shared.answers == Answers::Json => {
            json_answer(StatusCode::OK, message)
        }
        [Step::Raw(text)] => Response::builder()
            .header(header::CONTENT_TYPE, "application/json")
            .body(Body::from(text.clone()))
            .unwrap(),
        _ => streamed(shared, request, steps),
    }
}

/// Records that the client closed the stream before its end.
struct Watch {
    shared: Arc<Shared>,
    request: Value,
    complete: bool,
}

impl Watch {
    fn complete(&mut self) {
        self.complete = true;
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        if !self.complete {
            self.shared.received.lock().push(ReceivedRequest {
                verb: "CLOSED".to_owned(),
                headers: HashMap::new(),
                body: self.request.clone(),
            });
        }
    }
}

fn streamed(shared: &Arc<Shared>, request: &Value, steps: Vec<Step>) -> Response {
    let watch = Watch { shared: Arc::clone(shared), request: request.clone(), complete: false };
    let listening = request["method"] == "subscriptions/listen";
    let prime = if shared.answers == Answers::Splinters {
        vec![Step::Raw(b"id: 0\r\nretry: 3000\r\ndata:\r\n\r\n: comment\r\n\r\n".to_vec())]
    } else {
        Vec::new()
    };
    let steps = prime.into_iter().chain(steps).collect::<Vec<_>>().into_iter();
    let stream = futures_util::stream::unfold(
        (steps, watch),
        move |(mut steps, mut watch)| async move {
            let Some(step) = steps.next() else {
                watch.complete();
                return None;
            };
            let event = match step {
                Step::Say(message) => format!("event: message\ndata: {message}\n\n"),
                Step::Raw(bytes) => return Some((Ok(Bytes::from(bytes)), (steps, watch))),
                Step::Big(id, bytes) => {
                    let text = "x".repeat(bytes);
                    format!(
                        "data: {{\"jsonrpc\":\"2.0\",\"result\":{{\"content\":[{{\"type\":\"text\",\"text\":\"{text}\"}}]}},\"id\":{id}}}\n\n"
                    )
                }
                Step::Wait(duration) => {
                    tokio::time::sleep(duration).await;
                    ": waited\n\n".to_owned()
                }
                Step::Hang if listening => {
                    let changes = Box::pin(changes(&watch.shared));
                    // The same stream continues with the changes, one after the other.
                    let (change, rest) = changes.into_future().await;
                    drop(rest);
                    let again = vec![Step::Hang].into_iter();
                    return Some((Ok(Bytes::from(change?)), (again, watch)));
                }
                Step::Hang => std::future::pending().await,
                Step::Die => {
                    watch.complete();
                    let broken = io::Error::other("breaking the connection as asked");
                    return Some((Err(broken), (steps, watch)));
                }
                Step::ListChanged => {
                    watch.shared.changes.send(()).ok();
                    ": changed\n\n".to_owned()
                }
                Step::Grandchild(_) | Step::Complain(_) => String::new(),
            };
            Some((Ok(Bytes::from(event)), (steps, watch)))
        },
    );
    if shared.answers == Answers::Splinters {
        return events(stream.flat_map(|piece: Result<Bytes, io::Error>| {
            futures_util::stream::iter(splinters(piece))
        }));
    }
    events(stream)
}

fn splinters(piece: Result<Bytes, io::Error>) -> Vec<Result<Bytes, io::Error>> {
    match piece {
        Ok(bytes) => bytes.chunks(3).map(|chunk| Ok(Bytes::copy_from_slice(chunk))).collect(),
        Err(error) => vec![Err(error)],
    }
}
