//! MCP over a pair of byte streams: one message per line, both eras beside each other.
//!
//! Invariant: messages never mix; one task writes them, each in one piece.
//! Invariant (I-27): a line has a largest size and so many calls run at once; beyond that, reading
//! waits.

mod lines;

use std::{collections::HashMap, io, sync::Arc, time::Duration};

use bytes::Bytes;
use futures_util::{
    Stream, StreamExt as _,
    stream::{self, AbortHandle, Abortable, BoxStream, SelectAll},
};
use tokio::{
    io::{AsyncRead, AsyncWrite, AsyncWriteExt as _},
    sync::mpsc,
};
use toolcrib_core::principal::Principal;
use toolcrib_gateway::Gateway;

use self::lines::{Line, Lines};
use super::{
    answer,
    call::{CallMessage, ToolCall},
    era,
    error::RpcError,
    method::{self, Step},
    protocol::{self, Id, Message, Notification, Rejected, Request},
};

/// Longest line, in bytes; as much as a default HTTP body and some more for escapes.
const MAX_LINE: usize = 4 << 20;
/// Calls that run at once; one model asks for a handful.
const MAX_CALLS: usize = 256;
/// Messages that may wait for the peer to read.
const MAX_WAITING: usize = 64;
/// How long calls may go on after the input has ended.
const FAREWELL: Duration = Duration::from_secs(5);

/// Serves `principal` until `input` ends or `output` breaks. Calls that run when the input ends have
/// 5 seconds to finish; then they are cancelled.
///
/// # Errors
/// Reading or writing fails.
pub async fn serve_stdio(
    gateway: Gateway,
    principal: Arc<Principal>,
    input: impl AsyncRead,
    output: impl AsyncWrite,
) -> io::Result<()> {
    let (messages, waiting) = mpsc::channel(MAX_WAITING);
    let peer = Peer {
        gateway,
        principal,
        outbox: Outbox(messages),
        calls: SelectAll::new(),
        running: HashMap::new(),
    };
    // Beside each other, so that a peer that is slow to read can still be heard.
    let (read, written) = tokio::join!(peer.serve(input), write(waiting, output));
    written.and(read)
}

struct Peer {
    gateway: Gateway,
    principal: Arc<Principal>,
    outbox: Outbox,
    calls: SelectAll<BoxStream<'static, Said>>,
    running: HashMap<Id, AbortHandle>,
}

/// Where messages wait to be written.
#[derive(Clone)]
struct Outbox(mpsc::Sender<Bytes>);

/// What a call says.
enum Said {
    /// A notification.
    Progress(Bytes),
    /// The answer to this id.
    Answer(Id, Bytes),
}

/// Nobody reads the output any more.
struct Gone;

impl Peer {
    async fn serve(mut self, input: impl AsyncRead) -> io::Result<()> {
        let mut lines = Lines::new(input, MAX_LINE);
        let outbox = self.outbox.clone();
        let ended = loop {
            // Not biased: a call that floods progress must not keep its own cancellation unread.
            let went_on = tokio::select! {
                () = outbox.0.closed() => break Ok(()),
                Some(said) = self.calls.next() => self.pass_on(said).await,
                line = lines.next(), if self.running.len() < MAX_CALLS => match line {
                    Ok(Some(line)) => self.receive(line).await,
                    Ok(None) => break Ok(()),
                    Err(error) => break Err(error),
                },
            };
            if went_on.is_err() {
                break Ok(());
            }
        };
        let rest = async {
            while let Some(said) = self.calls.next().await {
                if self.pass_on(said).await.is_err() {
                    return;
                }
            }
        };
        if outbox.0.is_closed() {
            return ended;
        }
        if tokio::time::timeout(FAREWELL, rest).await.is_err() {
            tracing::warn!(
                "calls were still running after the input had ended; they are cancelled"
            );
        }
        ended
    }

    async fn receive(&mut self, line: Line) -> Result<(), Gone> {
        let line = match line {
            Line::Whole(line) if line.trim_ascii().is_empty() => return Ok(()),
            Line::Whole(line) => line,
            Line::TooLong => {
                return self
                    .outbox
                    .reject(None, &RpcError::invalid_request("the message is too long"))
                    .await;
            }
        };
        match protocol::parse(&line) {
            Ok(Message::Request(request)) => self.answer(request).await,
            Ok(Message::Notification(notification)) => {
                self.notice(&notification);
                Ok(())
            }
            Ok(Message::Response) => Ok(()),
            Err(Rejected { id, error }) => self.outbox.reject(id.as_ref(), &error).await,
        }
    }

    async fn answer(&mut self, request: Request) -> Result<(), Gone> {
        let id = request.id.clone();
        let era = match era::detect(&request, None) {
            Ok(era) => era,
            Err(Rejected { id, error }) => return self.outbox.reject(id.as_ref(), &error).await,
        };
        match method::start(&self.gateway, &self.principal, era, request) {
            Ok(Step::Answer(message)) => self.outbox.send(message).await,
            Ok(Step::Call(_)) if self.running.contains_key(&id) => {
                let error = RpcError::invalid_request("a request with this id is still running");
                self.outbox.reject(Some(&id), &error).await
            }
            Ok(Step::Call(call)) => {
                let (handle, registration) = AbortHandle::new_pair();
                self.calls.push(Abortable::new(messages(call), registration).boxed());
                self.running.insert(id, handle);
                Ok(())
            }
            Err(error) => self.outbox.reject(Some(&id), &error).await,
        }
    }

    /// The only notification that means something here is the one that cancels a call. What was
    /// cancelled is not answered.
    fn notice(&mut self, notification: &Notification) {
        if notification.method == "notifications/cancelled"
            && let Some(id) = notification.params.get("requestId").and_then(Id::of)
            && let Some(call) = self.running.remove(&id)
        {
            call.abort();
        }
    }

    async fn pass_on(&mut self, said: Said) -> Result<(), Gone> {
        match said {
            Said::Progress(message) => self.outbox.send(message).await,
            Said::Answer(id, message) => {
                self.running.remove(&id);
                self.outbox.send(message).await
            }
        }
    }
}

impl Outbox {
    async fn reject(&self, id: Option<&Id>, error: &RpcError) -> Result<(), Gone> {
        self.send(answer::error(id, error).into()).await
    }

    async fn send(&self, message: Bytes) -> Result<(), Gone> {
        self.0.send(message).await.map_err(|_| Gone)
    }
}

/// Runs `call` while its messages are awaited.
fn messages(call: ToolCall) -> impl Stream<Item = Said> + Send + 'static {
    let id = call.id().clone();
    stream::unfold((id, call.run()), async |(id, mut running)| {
        let said = match running.next().await? {
            CallMessage::Progress(message) => Said::Progress(message),
            CallMessage::Answer(answer) => Said::Answer(id.clone(), answer.bytes),
        };
        Some((said, (id, running)))
    })
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
