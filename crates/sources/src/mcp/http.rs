//! MCP over streamable HTTP: every request is a POST, its answer one JSON document or a stream of
//! events that belongs to the request.
//!
//! Invariant: dropping a request closes its stream (which cancels in the 2026-07-28 era) and, in
//! the handshake era, also posts a cancellation.
//! Invariant: an answer or event over the size limit stops its stream.
//! Invariant: a call answered with 2xx ran, so the readable part of its answer is passed on.

use std::{sync::Arc, time::Duration};

use ::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use futures_util::FutureExt as _;
use parking_lot::Mutex;
use serde_json::json;
use tokio::{
    runtime::Handle,
    sync::{Semaphore, SetOnce},
};
use toolcrib_core::{
    call::{UpstreamError, UpstreamErrorKind},
    clock::Clock,
    credential::ResolvedCredential,
    egress::EgressTrail,
};
use toolcrib_mcp::{
    header as mcp_header,
    message::{self, IncomingMessage, RpcError},
    method,
    revision::MODERN,
    scan,
    sse::SseParser,
};

use super::{
    call::Call,
    era::Era,
    failure::{Failure, MalformedAnswer, credentials_refused},
    message::{Reply, decode, read_malformed},
    peer::{CancelHook, Peer, ReplyHandle},
};
use crate::{
    context::SourceContext,
    credential::{SourceCredential, TokenDenial},
    egress::{Answer, Body, Egress, EgressError, Endpoint, Flaw},
    error::{died, refused, too_large},
    refusal::{MAX_WORDS, Refusal, words},
    text::{fit_for_callers, tidy, tidy_lines},
};

/// How long a message that expects no answer (a notification, the end of a session) may take.
const ASIDE_TIMEOUT: Duration = Duration::from_secs(5);
/// How long the rest of a stream is read after its answer came, to keep the connection in the pool.
const REST_TIMEOUT: Duration = Duration::from_secs(1);
/// Answers to an upstream that may be in flight at once; its further requests are not answered.
const MAX_REPLIES: usize = 8;
/// Longest redirect address to show, in characters.
const MAX_ADDRESS: usize = 200;
/// Cancellations that may be in flight at once. If the upstream is slow to accept them, further
/// ones are dropped.
const MAX_CANCELLATIONS: usize = 64;

/// A URL to post to.
#[derive(Clone)]
pub(crate) struct HttpTarget {
    pub(crate) endpoint: Endpoint,
    pub(crate) egress: Egress,
    /// The credential of every request that belongs to no call.
    pub(crate) credential: Option<Arc<SourceCredential>>,
}

/// One upstream endpoint.
pub(crate) struct Http {
    target: HttpTarget,
    /// The account of a session that belongs to one grant. Without it, requests that belong to no
    /// call are sent with the credential of the source.
    account: Option<Mutex<Arc<ResolvedCredential>>>,
    peer: Arc<Peer>,
    max_message_bytes: usize,
    clock: Arc<dyn Clock>,
    session: Mutex<LegacySession>,
    /// Why the connection closed; the supervisor then opens another.
    pub(crate) end: SetOnce<String>,
    runtime: Handle,
    /// Permits for answers to the upstream's own requests.
    replies: Arc<Semaphore>,
    /// Permits for cancellations.
    cancellations: Arc<Semaphore>,
}

/// Headers that every request of the handshake era repeats.
#[derive(Default, Clone, PartialEq)]
pub(crate) struct LegacySession {
    id: Option<HeaderValue>,
    version: Option<HeaderValue>,
}

/// Whether an upstream's error text says that it does not know the session, and thus ran no
/// request.
fn names_lost_session(words: &str) -> bool {
    const LOST: [&str; 15] = [
        "closed",
        "ended",
        "expired",
        "gone",
        "invalid",
        "lost",
        "missing",
        "no such",
        "no valid",
        "no session",
        "not exist",
        "not found",
        "required",
        "terminated",
        "unknown",
    ];
    let words = words.to_ascii_lowercase();
    let names = words.contains("session") && LOST.iter().any(|lost| words.contains(lost));
    names || words.contains("not initialized") || words.contains("not been initialized")
}

fn is_about_credentials(status: StatusCode) -> bool {
    matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN)
}

/// Adds the problem of an answer's body to its result.
fn noting(reply: Result<Reply, Failure>, flaw: Option<Flaw>) -> Result<Reply, Failure> {
    reply.map(|mut reply| {
        if let (Reply::Result(result), Some(flaw)) = (&mut reply, flaw) {
            result.problem.get_or_insert_with(|| about_answer(flaw));
        }
        reply
    })
}

fn about_answer(flaw: Flaw) -> String {
    format!("there is a problem with its answer: {flaw}")
}

// === impl LegacySession ===

impl LegacySession {
    /// Whether `status` says that the upstream does not know this session.
    fn is_unknown(&self, status: StatusCode) -> bool {
        status == StatusCode::NOT_FOUND && self.id.is_some()
    }
}

// === impl Http ===

impl Http {
    pub(crate) fn new(target: HttpTarget, context: &SourceContext, peer: Arc<Peer>) -> Arc<Self> {
        Self::of(target, None, context, peer)
    }

    /// Creates the endpoint for the requests of one account.
    pub(crate) fn of_account(
        target: HttpTarget,
        account: Arc<ResolvedCredential>,
        context: &SourceContext,
        peer: Arc<Peer>,
    ) -> Arc<Self> {
        Self::of(target, Some(Mutex::new(account)), context, peer)
    }

    fn of(
        target: HttpTarget,
        account: Option<Mutex<Arc<ResolvedCredential>>>,
        context: &SourceContext,
        peer: Arc<Peer>,
    ) -> Arc<Self> {
        Arc::new(Self {
            target,
            account,
            peer,
            max_message_bytes: context.limits.max_message_bytes,
            clock: Arc::clone(&context.clock),
            session: Mutex::default(),
            end: SetOnce::new(),
            runtime: context.runtime.clone(),
            replies: Arc::new(Semaphore::new(MAX_REPLIES)),
            cancellations: Arc::new(Semaphore::new(MAX_CANCELLATIONS)),
        })
    }

    /// Replaces the token of the account. A session belongs to the same account for its whole life.
    pub(crate) fn set_account(&self, account: &Arc<ResolvedCredential>) {
        if let Some(current) = &self.account {
            *current.lock() = Arc::clone(account);
        }
    }

    pub(crate) fn session(&self) -> LegacySession {
        self.session.lock().clone()
    }

    /// Sets the version in later requests of the handshake era.
    pub(crate) fn set_version(&self, version: &str) {
        self.session.lock().version = HeaderValue::from_str(version).ok();
    }

    pub(crate) async fn request(self: &Arc<Self>, call: &Call<'_>) -> Result<Reply, Failure> {
        let on_cancel =
            (call.cancellable && !call.era.is_modern()).then(|| self.post_cancellation());
        let mut waiter = self.peer.register(call.interest.clone(), on_cancel)?;
        let reply = self.exchange(call, &mut waiter).await;
        // The request is over: only a drop before this point is a cancellation.
        waiter.disarm();
        reply
    }

    async fn exchange(
        self: &Arc<Self>,
        call: &Call<'_>,
        waiter: &mut ReplyHandle,
    ) -> Result<Reply, Failure> {
        // A handshake starts without the session of an earlier one.
        let handshake = *call.era == Era::Handshake;
        let session = if handshake { LegacySession::default() } else { self.session() };
        let mut headers = self.headers(call.era, &session);
        if call.era.is_modern() {
            headers.insert(mcp_header::METHOD, HeaderValue::from_static(call.method));
            if let Some(name) = call.name.and_then(mcp_header::encode) {
                headers.insert(mcp_header::NAME, name);
            }
            headers.extend(call.headers.clone());
        }
        let body = (call.encode)(waiter.id());
        self.peer.mark_sent(waiter.id());
        let answer = self
            .send_for(call.credential.as_deref(), Method::POST, headers, Some(body), &call.egress)
            .await?;
        let status = answer.status();
        let is_call = call.method == method::CALL_TOOL;
        let is_of_caller = is_call || call.credential.is_some();
        if is_of_caller
            && self.target.credential.as_ref().is_some_and(|it| it.is_account())
            && let Some(denial) = TokenDenial::read(status, answer.headers())
        {
            // The account of one caller; calls of others continue.
            return Err(Failure::Denied(denial));
        }
        if call.optional && is_about_credentials(status) {
            return Err(Failure::Credentials(status));
        }
        if !is_of_caller {
            self.check_credentials(status)?;
        }
        if status.is_redirection() {
            return Err(self.redirected(&answer).into());
        }
        let reads_session = !handshake && !call.era.is_modern();
        if handshake && status.is_success() {
            self.session.lock().id = answer.headers().get(mcp_header::SESSION_ID).cloned();
        }
        let reply = match status.is_success() {
            true if answer.media_type() == "text/event-stream" => {
                self.read_stream(answer, waiter).await
            }
            true => self.read_document(answer, waiter).await,
            false => self.read_refusal(answer, waiter).await,
        };
        // A 403 to a call concerns this tool; calls of others continue.
        if is_call && status == StatusCode::UNAUTHORIZED {
            self.check_credentials(status).ok();
        }
        // Many servers report a lost session with an error instead of 404.
        let may_be_lost = match &reply {
            _ if session.is_unknown(status) => true,
            Ok(Reply::Error(error)) => reads_session && names_lost_session(&error.message),
            Err(Failure::Refused(refusal)) => reads_session && names_lost_session(&refusal.words),
            _ => false,
        };
        if !(may_be_lost && (!is_call || self.is_lost(call, &session).await)) {
            return reply;
        }
        match reply {
            // An upstream that refuses a session does not start the call. This one may have started it.
            Ok(Reply::Error(error)) if is_call && status.is_success() => {
                Err(Failure::SessionLost(Box::new(error)))
            }
            _ => Err(Failure::SessionExpired),
        }
    }

    /// Whether the upstream has lost `session`. A tool can report a similar error after it ran, and
    /// must not run again.
    async fn is_lost(self: &Arc<Self>, call: &Call<'_>, session: &LegacySession) -> bool {
        if self.session() != *session {
            // Another request has found the loss, and has opened a new session.
            return true;
        }
        // Not a `ping`, which a server can answer before it looks for the session.
        let encode = |id| message::request(id, method::LIST_TOOLS, &json!({}));
        let list = Call::plain(method::LIST_TOOLS, call.era, &encode);
        let answer = tokio::time::timeout(ASIDE_TIMEOUT, Box::pin(self.request(&list))).await;
        matches!(answer, Ok(Err(Failure::SessionExpired)))
    }

    /// Posts a message that expects no answer.
    pub(crate) async fn notify(&self, era: &Era, message: Vec<u8>) -> Result<(), Failure> {
        let session = self.session();
        let headers = self.headers(era, &session);
        let unrecorded = EgressTrail::default();
        let answer = self.send(Method::POST, headers, Some(message), &unrecorded).await?;
        self.check_status(answer.status(), &session)?;
        self.body(answer).await.map(drop)
    }

    /// Opens the stream for notifications of the handshake era that belong to no request.
    pub(crate) async fn open_stream(&self, era: &Era) -> Result<Answer, Failure> {
        let session = self.session();
        let mut headers = self.headers(era, &session);
        headers.insert(header::ACCEPT, HeaderValue::from_static("text/event-stream"));
        headers.remove(header::CONTENT_TYPE);
        let answer = self.send(Method::GET, headers, None, &EgressTrail::default()).await?;
        self.check_status(answer.status(), &session)?;
        if answer.status().is_success() && answer.media_type() == "text/event-stream" {
            return Ok(answer);
        }
        Err(refused("no event stream").into())
    }

    /// Routes the messages of a stream until it closes.
    pub(crate) async fn follow(self: &Arc<Self>, mut stream: Answer) -> Result<(), Failure> {
        let mut parser = SseParser::new(self.max_message_bytes);
        while self.route_next(&mut stream, &mut parser).await? {}
        Ok(())
    }

    /// Closes the session, if there is one.
    pub(crate) async fn close(&self, era: &Era) {
        self.peer.fail_all(UpstreamErrorKind::Died, "the source was closed");
        let session = self.session();
        if session.id.is_none() {
            return;
        }
        self.send_aside(Method::DELETE, self.headers(era, &session), None).await;
    }

    /// Sends a message whose answer does not matter.
    async fn send_aside(&self, method: Method, headers: HeaderMap, body: Option<Vec<u8>>) {
        let unrecorded = EgressTrail::default();
        let send = self.send(method, headers, body, &unrecorded);
        if !matches!(tokio::time::timeout(ASIDE_TIMEOUT, send).await, Ok(Ok(_))) {
            tracing::debug!("a cancellation, an answer or the end of a session was not delivered");
        }
    }

    async fn send(
        &self,
        method: Method,
        headers: HeaderMap,
        body: Option<Vec<u8>>,
        trail: &EgressTrail,
    ) -> Result<Answer, Failure> {
        self.send_for(None, method, headers, body, trail).await
    }

    /// Sends a request with the credential `resolved` for its call, or with that of the connection.
    async fn send_for(
        &self,
        resolved: Option<&ResolvedCredential>,
        method: Method,
        headers: HeaderMap,
        body: Option<Vec<u8>>,
        trail: &EgressTrail,
    ) -> Result<Answer, Failure> {
        let HttpTarget { endpoint, egress, credential } = &self.target;
        let account = self.account.as_ref().map(|account| Arc::clone(&account.lock()));
        let resolved = resolved.or(account.as_deref());
        // The end of its session is the last request with an account that was removed.
        let ends_session = method == Method::DELETE;
        let mut request = endpoint.request(method, headers, body);
        match (credential, resolved) {
            (Some(credential), Some(_)) if ends_session => {
                request.credential = Some(credential.present(resolved)?);
            }
            (Some(credential), Some(_)) => {
                request.credential = Some(credential.present_now(resolved).await?);
            }
            (Some(credential), None) => credential.connect(&mut request, trail).await?,
            (None, _) => {}
        }
        let answer = egress.send(request, trail).await.map_err(|error| self.failed(error))?;
        if let (Some(credential), None) = (credential, resolved)
            && let Some(TokenDenial::MissingScopes(asked)) =
                TokenDenial::read(answer.status(), answer.headers())
        {
            let lacks = credential.tenant_lacks(&asked, endpoint.url()).await;
            return lacks.map_or(Ok(answer), |error| Err(error.into()));
        }
        Ok(answer)
    }

    async fn body(&self, answer: Answer) -> Result<Vec<u8>, Failure> {
        answer.collect(self.max_message_bytes).await.map_err(|error| self.failed(error))
    }

    fn headers(&self, era: &Era, session: &LegacySession) -> HeaderMap {
        let mut headers = HeaderMap::with_capacity(12);
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(header::ACCEPT, mcp_header::ACCEPT_BOTH);
        if era.is_modern() {
            headers.insert(mcp_header::PROTOCOL_VERSION, HeaderValue::from_static(MODERN));
            return headers;
        }
        if let Some(version) = &session.version {
            headers.insert(mcp_header::PROTOCOL_VERSION, version.clone());
        }
        if let Some(id) = &session.id {
            headers.insert(mcp_header::SESSION_ID, id.clone());
        }
        headers
    }

    /// Reports the address of the redirect. The operator decides whether it is right.
    fn redirected(&self, answer: &Answer) -> UpstreamError {
        let to = answer.headers().get(header::LOCATION).and_then(|to| to.to_str().ok());
        let to = to.and_then(|to| self.target.endpoint.url().join(to).ok());
        let status = answer.status().as_u16();
        refused(match to {
            Some(mut to) => {
                // These parts may be secret, and do not belong in the configured address.
                to.set_query(None);
                to.set_fragment(None);
                to.set_username("").ok();
                to.set_password(None).ok();
                let to = tidy(to.as_str(), MAX_ADDRESS);
                format!(
                    "HTTP status {status}: it redirects to {to}; redirects are not followed: if this \
                     address is right, set `url` to it"
                )
            }
            None => format!("HTTP status {status}: it redirects without an address"),
        })
    }

    fn check_status(&self, status: StatusCode, session: &LegacySession) -> Result<(), Failure> {
        self.check_credentials(status)?;
        match session.is_unknown(status) {
            true => Err(Failure::SessionExpired),
            false => Ok(()),
        }
    }

    fn check_credentials(&self, status: StatusCode) -> Result<(), Failure> {
        if is_about_credentials(status) {
            self.end.set(credentials_refused(status)).ok();
            return Err(Failure::Credentials(status));
        }
        Ok(())
    }

    /// Routes the messages of a document; yields the answer among them.
    fn accept(
        self: &Arc<Self>,
        document: &[u8],
        waiter: &mut ReplyHandle,
    ) -> Option<Result<Reply, Failure>> {
        self.peer.accept(document, &mut |message| self.reply(message));
        waiter.take()
    }

    /// Reads a document with status 2xx. It counts as the answer even if it is invalid.
    async fn read_document(
        self: &Arc<Self>,
        answer: Answer,
        waiter: &mut ReplyHandle,
    ) -> Result<Reply, Failure> {
        let body = answer.read(self.max_message_bytes).await;
        let Body { bytes, flaw } = body.map_err(|error| self.failed(error))?;
        if let Some(reply) = self.accept(&bytes, waiter) {
            return noting(reply, flaw);
        }
        let (text, _) = decode(&bytes);
        // An error has no id if the server could not read the id of the request.
        if let Ok(IncomingMessage { error: Some(error), .. }) = serde_json::from_str(&text) {
            return Ok(Reply::Error(RpcError::read(error)));
        }
        if bytes.is_empty() && flaw == Some(Flaw::Incomplete) {
            return Err(died("the connection broke before the answer").into());
        }
        let is_blank = text.trim().is_empty();
        let problem = match flaw {
            Some(flaw) => about_answer(flaw),
            None if is_blank => "its answer is empty".to_owned(),
            None => "its answer is not JSON-RPC".to_owned(),
        };
        if is_blank || flaw == Some(Flaw::UnknownCoding) {
            let (text, is_error) = (String::new(), false);
            return Err(Failure::Malformed(MalformedAnswer { text, is_error, problem }));
        }
        read_malformed(&text, &problem)
    }

    /// Reads an answer with an unsuccessful status: a message of JSON-RPC, or the text of the
    /// service.
    async fn read_refusal(
        self: &Arc<Self>,
        answer: Answer,
        waiter: &mut ReplyHandle,
    ) -> Result<Reply, Failure> {
        let (status, media_type) = (answer.status(), answer.media_type());
        let retry_after = answer.retry_after(self.clock.now());
        let body = answer.beginning(self.max_message_bytes).await;
        let without_id = || {
            let incoming: IncomingMessage<'_> = serde_json::from_slice(&body).ok()?;
            // Many services use `error` with another meaning in their JSON.
            Some(Ok(Reply::Error(serde_json::from_str(incoming.error?.get()).ok()?)))
        };
        let said = match self.accept(&body, waiter).or_else(without_id) {
            Some(Ok(Reply::Error(error))) if retry_after.is_none() => {
                return Ok(Reply::Error(error));
            }
            Some(Ok(Reply::Error(error))) => error.message,
            Some(Ok(Reply::Result(result))) if result.get() != "null" => {
                return Ok(Reply::Result(result));
            }
            Some(Err(Failure::Upstream(error))) => return Err(error.into()),
            _ => words(&media_type, &body),
        };
        let words = fit_for_callers(&tidy_lines(&said, MAX_WORDS));
        Err(Failure::Refused(Refusal { status, retry_after, words }))
    }

    async fn read_stream(
        self: &Arc<Self>,
        mut answer: Answer,
        waiter: &mut ReplyHandle,
    ) -> Result<Reply, Failure> {
        let mut parser = SseParser::new(self.max_message_bytes);
        let end = loop {
            match self.route_next(&mut answer, &mut parser).await {
                Ok(true) => {}
                Ok(false) => break died("the event stream closed without the answer").into(),
                Err(Failure::Upstream(error)) if error.kind == UpstreamErrorKind::TooLarge => {
                    return Err(error.into());
                }
                Err(end) => break end,
            }
            if let Some(reply) = waiter.take() {
                let flaw = answer.flaw();
                self.read_rest(answer);
                return noting(reply, flaw);
            }
        };
        // The last event may have the answer, even if it is not complete.
        let event = parser.rest();
        if let Some(reply) = self.accept(&event, waiter) {
            return noting(reply, answer.flaw());
        }
        let (text, _) = decode(&event);
        let has = |name| scan::member(&text, name).is_some();
        match !has("method") && (has("result") || has("error")) {
            true => read_malformed(&text, "its answer is cut off"),
            false => Err(end),
        }
    }

    /// Routes the messages of the next chunk of `stream`; false at its end.
    async fn route_next(
        self: &Arc<Self>,
        stream: &mut Answer,
        parser: &mut SseParser,
    ) -> Result<bool, Failure> {
        let chunk = stream.chunk().await.map_err(|error| self.failed(error))?;
        let Some(chunk) = chunk else { return Ok(false) };
        let routed = parser.push(&chunk, &mut |event| {
            self.peer.accept(event, &mut |message| self.reply(message));
        });
        routed.map_err(|_| too_large("it is longer than a message can be"))?;
        stream.keep(parser.kept()).map_err(|error| self.failed(error))?;
        Ok(true)
    }

    /// Reads the rest of an answer, so that its connection can be used again. Usually the end has
    /// arrived already; if not, a task reads it.
    fn read_rest(&self, mut answer: Answer) {
        loop {
            match answer.chunk().now_or_never() {
                Some(Ok(Some(_))) => {}
                Some(Ok(None) | Err(_)) => return,
                None => break,
            }
        }
        self.runtime.spawn(tokio::time::timeout(REST_TIMEOUT, async move {
            while let Ok(Some(_)) = answer.chunk().await {}
        }));
    }

    /// Answers a request of the upstream. The 2026-07-28 era has no such requests.
    fn reply(self: &Arc<Self>, message: Vec<u8>) {
        self.post_aside(message, &self.replies);
    }

    fn post_cancellation(self: &Arc<Self>) -> CancelHook {
        let http = Arc::clone(self);
        Box::new(move |id| http.post_aside(message::cancelled(id), &http.cancellations))
    }

    /// Posts a message in the background, unless all of `permits` are in use.
    fn post_aside(self: &Arc<Self>, message: Vec<u8>, permits: &Arc<Semaphore>) {
        let Ok(permit) = Arc::clone(permits).try_acquire_owned() else { return };
        let session = self.session();
        if session.version.is_none() {
            return;
        }
        let headers = self.headers(&Era::Handshake, &session);
        let http = Arc::clone(self);
        self.runtime.spawn(async move {
            http.send_aside(Method::POST, headers, Some(message)).await;
            drop(permit);
        });
    }

    fn failed(&self, error: EgressError) -> Failure {
        if matches!(error, EgressError::Connect(_) | EgressError::Refused { .. }) {
            self.end.set(error.to_string()).ok();
        }
        UpstreamError::from(error).into()
    }
}
