//! MCP over a pair of byte streams: one message per line, for both eras at the same time.
//!
//! Invariant: messages never mix; one task writes them, each in one piece.
//! Invariant (I-27): line length, the number of running calls, and the bytes of their requests are
//! limited; at the limit, reading pauses.
//!
//! A handshake opens the single session of the streams; without one, requests are independent.

use std::{collections::HashMap, io, pin::pin, sync::Arc, time::Duration};

use bytes::Bytes;
use futures_util::{
    Stream, StreamExt as _,
    stream::{AbortHandle, Abortable, BoxStream, SelectAll},
};
use tokio::{
    io::{AsyncRead, AsyncWrite, AsyncWriteExt as _, BufReader},
    sync::mpsc,
};
use tokio_util::sync::CancellationToken;
use toolcrib_config::McpConfig;
use toolcrib_core::{
    budget::{ByteBudget, Reservation},
    event::SessionOutcome,
    principal::Principal,
};
use toolcrib_gateway::{CatalogScope, Gateway};
use toolcrib_mcp::{
    line::{Line, Lines},
    message::RpcError,
    method::{INITIALIZE, INITIALIZED},
    revision::Era,
};

use super::{
    answer,
    call::{RunningCall, SURFACE},
    changes::ListWatch,
    connected::ConnectedPrompts,
    era::{self, VersionHeader},
    error,
    host::{Client, Host, RequestContext},
    listen::Subscription,
    method::{self, Step},
    observe,
    outgoing::OutgoingMessage,
    protocol::{self, Id, InvalidMessage, Message, Notification, Request},
    session::{Handshake, Session},
};

/// Longest line, in bytes: a default HTTP body plus room for escapes.
const MAX_LINE: usize = 4 << 20;
/// Maximum number of running calls; a model rarely needs more than a handful.
const MAX_CALLS: usize = 256;
/// Maximum number of bytes in the requests of running calls.
const MAX_HELD: usize = 64 << 20;
/// Maximum number of messages waiting to be written, each at most a result of `[gate] max_result`.
const MAX_WAITING: usize = 16;
/// How long running calls may take after the end of the input.
const FAREWELL: Duration = Duration::from_secs(5);

/// Serves `principal` until the end of `input`, until `shutdown` is ready, or until `output` fails.
/// Subscriptions are then closed with their final message. Running calls have 5 seconds to finish
/// before they are cancelled.
///
/// # Errors
/// Fails when reading or writing fails.
pub async fn serve_stdio(
    gateway: Gateway,
    config: &McpConfig,
    principal: Arc<Principal>,
    streams: (impl AsyncRead, impl AsyncWrite),
    shutdown: impl Future<Output = ()>,
) -> io::Result<()> {
    serve_stdio_within(gateway, config, (principal, CatalogScope::default()), streams, shutdown)
        .await
}

/// Like [`serve_stdio`], for a part of the catalog.
///
/// # Errors
/// Fails like [`serve_stdio`].
pub async fn serve_stdio_within(
    gateway: Gateway,
    config: &McpConfig,
    (principal, within): (Arc<Principal>, CatalogScope),
    (input, output): (impl AsyncRead, impl AsyncWrite),
    shutdown: impl Future<Output = ()>,
) -> io::Result<()> {
    let (messages, waiting) = mpsc::channel(MAX_WAITING);
    let peer = Peer {
        client: Client { host: Host::new(gateway, config.clone()), principal, within },
        outbox: Outbox(messages),
        streams: SelectAll::new(),
        running: HashMap::new(),
        held: ByteBudget::new(MAX_HELD),
        session: None,
        stop: CancellationToken::new(),
    };
    // Both run at the same time, so that requests are still read while the peer is slow to read.
    let (read, written) = tokio::join!(peer.serve(input, shutdown), write(waiting, output));
    written.and(read)
}

struct Peer {
    client: Client,
    outbox: Outbox,
    streams: SelectAll<BoxStream<'static, OutgoingMessage<(Id, Bytes)>>>,
    running: HashMap<Id, RunningRequest>,
    /// Counts the bytes of the requests in `running`.
    held: ByteBudget,
    session: Option<StdioSession>,
    /// Cancelled when reading has stopped.
    stop: CancellationToken,
}

struct RunningRequest {
    handle: AbortHandle,
    _held: Reservation,
}

/// The session of the last handshake.
struct StdioSession {
    session: Arc<Session>,
    /// Whether the client has sent `notifications/initialized`, and so is notified of changes.
    ready: bool,
}

/// The queue of messages to write.
#[derive(Clone)]
struct Outbox(mpsc::Sender<Bytes>);

/// The first step of a request; a call belongs to its request.
enum RequestStart {
    Answer(Bytes),
    Call(Box<RunningCall>),
    Listen(Box<Subscription>),
}

/// Fails when the output is closed.
type SendResult = Result<(), mpsc::error::SendError<Bytes>>;

impl Peer {
    async fn serve(
        mut self,
        input: impl AsyncRead,
        shutdown: impl Future<Output = ()>,
    ) -> io::Result<()> {
        let input = pin!(BufReader::new(input));
        let mut lines = Lines::new(input, MAX_LINE);
        let mut shutdown = pin!(shutdown);
        let outbox = self.outbox.clone();
        let ended = loop {
            // Not biased: a call with much progress must not block its own cancellation.
            let result = tokio::select! {
                () = outbox.0.closed() => break Ok(()),
                () = &mut shutdown => break Ok(()),
                Some(message) = self.streams.next() => self.pass_on(message).await,
                line = lines.next(), if self.has_room() => match line {
                    Ok(Some(line)) => self.receive(line).await,
                    Ok(None) => break Ok(()),
                    Err(error) => break Err(error),
                },
            };
            if result.is_err() {
                break Ok(());
            }
        };
        self.stop.cancel();
        let session = self.session.take();
        self.finish().await;
        // After its calls, because their events come first.
        if let Some(StdioSession { session, .. }) = session {
            session
                .end(match outbox.0.is_closed() {
                    true => SessionOutcome::Cancelled,
                    false => SessionOutcome::Completed,
                })
                .await;
        }
        ended
    }

    /// Whether one more request of any size may run.
    fn has_room(&self) -> bool {
        self.running.len() < MAX_CALLS && self.held.held() + MAX_LINE <= MAX_HELD
    }

    /// Waits for all running requests, up to a time limit.
    async fn finish(mut self) {
        let outbox = self.outbox.clone();
        let rest = async {
            while let Some(message) = self.streams.next().await {
                if self.pass_on(message).await.is_err() {
                    return;
                }
            }
        };
        if outbox.0.is_closed() {
            return;
        }
        if tokio::time::timeout(FAREWELL, rest).await.is_err() {
            tracing::warn!(
                "calls were still running after the end of the input; they are cancelled"
            );
        }
    }

    async fn receive(&mut self, line: Line<'_>) -> SendResult {
        let line = match line {
            Line::Whole(line) if line.trim_ascii().is_empty() => return Ok(()),
            Line::Whole(line) => line,
            Line::TooLong(scanned) => {
                let error = RpcError::invalid_request("the message is too long");
                return self.outbox.reject(Id::scanned(&scanned).as_ref(), &error).await;
            }
        };
        match protocol::parse(line) {
            Ok(Message::Request(request)) => self.answer(request, line.len()).await,
            Ok(Message::Notification(notification)) => {
                self.notice(&notification);
                Ok(())
            }
            Ok(Message::Response) => Ok(()),
            Err(InvalidMessage { id, error }) => self.outbox.reject(id.as_ref(), &error).await,
        }
    }

    async fn answer(&mut self, request: Request, bytes: usize) -> SendResult {
        let id = request.id.clone();
        let era = match era::detect(&request, VersionHeader::Never) {
            Ok(detected) => detected.era,
            Err(InvalidMessage { id, error }) => {
                return self.outbox.reject(id.as_ref(), &error).await;
            }
        };
        // Keys can be revoked, and roles can change, while the streams are open.
        let Client { host, principal, .. } = &mut self.client;
        match host.gateway.authenticator().renew(principal).await {
            Ok(renewed) => *principal = renewed,
            Err(_) => return self.outbox.reject(Some(&id), &error::unauthenticated()).await,
        }
        if host.gateway.confirm().await.is_err() {
            return self.outbox.reject(Some(&id), &error::unauthenticated()).await;
        }
        if self.running.contains_key(&id) {
            let error = RpcError::invalid_request("a request with this id is still running");
            return self.outbox.reject(Some(&id), &error).await;
        }
        if era == Era::Legacy && request.method == INITIALIZE {
            self.open(Handshake::read(&request.params)).await;
        }
        let context = RequestContext {
            client: &self.client,
            session: self.session.as_ref().map(|opened| &opened.session),
            notifies_changes: true,
            reads_structured: era == Era::Modern
                || self
                    .session
                    .as_ref()
                    .is_some_and(|opened| opened.session.handshake.reads_structured()),
        };
        let task = context.client.host.gateway.tracer().request(None, None);
        let started = task.run(|| {
            observe::pipe(SURFACE);
            Ok::<_, RpcError>(match method::start(context, era, request)? {
                Step::Answer(message) => RequestStart::Answer(message),
                Step::Call(call) => RequestStart::Call(Box::new(call.run())),
                Step::Listen(listen) => RequestStart::Listen(listen),
            })
        });
        match started {
            Ok(RequestStart::Answer(message)) => self.outbox.send(message).await,
            Ok(RequestStart::Call(running)) => {
                let messages = running.messages();
                self.run(id, bytes, messages.map(|message| message.map(|answer| answer.bytes)));
                Ok(())
            }
            Ok(RequestStart::Listen(listen)) => {
                self.run(id, bytes, listen.messages(self.stop.clone()));
                Ok(())
            }
            Err(error) => self.outbox.reject(Some(&id), &error).await,
        }
    }

    fn run(
        &mut self,
        id: Id,
        bytes: usize,
        messages: impl Stream<Item = OutgoingMessage<Bytes>> + Send + 'static,
    ) {
        let (handle, registration) = AbortHandle::new_pair();
        let answered = id.clone();
        let messages = messages.map(move |message| message.map(|bytes| (answered.clone(), bytes)));
        self.streams.push(Abortable::new(messages, registration).boxed());
        let mut held = self.held.reservation();
        held.add(bytes);
        self.running.insert(id, RunningRequest { handle, _held: held });
    }

    /// Opens a session, replacing the previous one.
    async fn open(&mut self, handshake: Handshake) {
        let Client { host, within, .. } = &self.client;
        let session = Session::new(None, host.gateway.clone(), within.clone(), handshake);
        if let Some(StdioSession { session, .. }) =
            self.session.replace(StdioSession { session, ready: false })
        {
            session.end(SessionOutcome::Completed).await;
        }
    }

    fn notice(&mut self, notification: &Notification) {
        // A cancelled request gets no response.
        if let Some(running) = notification.cancels().and_then(|id| self.running.remove(&id)) {
            running.handle.abort();
        }
        if notification.method == INITIALIZED
            && let Some(opened) = &mut self.session
            && !std::mem::replace(&mut opened.ready, true)
        {
            let known = Arc::clone(&opened.session.known);
            let watch = ListWatch::new(&self.client, Era::Legacy, known);
            let connected = ConnectedPrompts::new(&self.client, &opened.session);
            let over = opened.session.over();
            let changes = watch.notifications(connected, over, self.stop.clone());
            self.streams.push(changes.map(OutgoingMessage::Notification).boxed());
        }
    }

    async fn pass_on(&mut self, message: OutgoingMessage<(Id, Bytes)>) -> SendResult {
        match message {
            OutgoingMessage::Notification(message) => self.outbox.send(message).await,
            OutgoingMessage::Answer((id, message)) => {
                self.running.remove(&id);
                self.outbox.send(message).await
            }
        }
    }
}

impl Outbox {
    async fn reject(&self, id: Option<&Id>, error: &RpcError) -> SendResult {
        self.send(answer::error(id, error).into()).await
    }

    async fn send(&self, message: Bytes) -> SendResult {
        self.0.send(message).await
    }
}

async fn write(mut messages: mpsc::Receiver<Bytes>, output: impl AsyncWrite) -> io::Result<()> {
    let mut output = std::pin::pin!(output);
    while let Some(message) = messages.recv().await {
        let mut line = Vec::with_capacity(message.len() + 1);
        line.extend_from_slice(&message);
        line.push(b'\n');
        output.write_all(&line).await?;
        if messages.is_empty() {
            output.flush().await?;
        }
    }
    output.flush().await
}
