//! A bridge from MCP over stdin and stdout to a running server.
//!
//! Invariant: each line of the output is a message of the server, or an error that answers a request.
//! Invariant: an unreachable server fails only the requests of that time.
//! Invariant (I-27): line length and the number of running requests are limited; at the limit,
//! reading pauses.

mod exchange;
mod link;
mod message;
mod outbox;
mod session;

use std::{collections::HashMap, io, pin::pin, sync::Arc, time::Duration};

use tokio::{
    io::{AsyncRead, AsyncWrite, BufReader},
    sync::mpsc,
    task::{AbortHandle, JoinSet},
};
use toolcrib_mcp::{
    line::{Line, Lines},
    message::RpcError,
    method,
    revision::Era,
};

use self::{
    link::Link,
    message::{InvalidLine, Message, Notification, Request},
    outbox::{Outbox, write},
};
use super::endpoint::Endpoint;

/// Longest line, in bytes, as of `toolcrib mcp` without a server.
const MAX_LINE: usize = 4 << 20;
/// Maximum number of running requests.
const MAX_RUNNING: usize = 256;
/// Maximum number of messages waiting to be written.
const MAX_WAITING: usize = 16;
/// Time limit of running requests after the end of the input.
const FAREWELL: Duration = Duration::from_secs(5);

/// Forwards messages until `input` is closed, `shutdown` is ready or `output` fails. Running
/// requests then have 5 seconds before they are cancelled, and the session is closed.
pub(crate) async fn run(
    endpoint: Endpoint,
    (input, output): (impl AsyncRead, impl AsyncWrite),
    shutdown: impl Future<Output = ()>,
) -> io::Result<()> {
    let (messages, waiting) = mpsc::channel(MAX_WAITING);
    let link = Arc::new(Link::new(endpoint, Outbox(messages)));
    let bridge = Bridge { link, tasks: JoinSet::new(), running: HashMap::new(), follower: None };
    let (read, written) = tokio::join!(bridge.serve(input, shutdown), write(waiting, output));
    written.and(read)
}

struct Bridge {
    link: Arc<Link>,
    /// Each task returns the id of its request.
    tasks: JoinSet<Box<str>>,
    running: HashMap<Box<str>, RunningRequest>,
    /// Relays the notifications of the session.
    follower: Option<Follower>,
}

struct RunningRequest {
    handle: AbortHandle,
    /// Whether the request runs until it is cancelled.
    is_subscription: bool,
    era: Era,
}

/// A task that is aborted when this is dropped.
struct Follower(AbortHandle);

impl Drop for Follower {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Bridge {
    async fn serve(
        mut self,
        input: impl AsyncRead,
        shutdown: impl Future<Output = ()>,
    ) -> io::Result<()> {
        let input = pin!(BufReader::new(input));
        let mut lines = Lines::new(input, MAX_LINE);
        let mut shutdown = pin!(shutdown);
        let outbox = self.link.outbox.clone();
        let ended = loop {
            tokio::select! {
                () = outbox.0.closed() => break Ok(()),
                () = &mut shutdown => break Ok(()),
                Some(done) = self.tasks.join_next() => self.done(done.ok()),
                line = lines.next(), if self.running.len() < MAX_RUNNING => match line {
                    Ok(Some(line)) => self.receive(line).await,
                    Ok(None) => break Ok(()),
                    Err(error) => break Err(error),
                },
            }
        };
        self.finish().await;
        ended
    }

    /// Removes the request `id`; `None` means that its task was aborted and removed already.
    fn done(&mut self, id: Option<Box<str>>) {
        if let Some(id) = id {
            self.running.remove(&id);
        }
    }

    async fn receive(&mut self, line: Line<'_>) {
        let line = match line {
            Line::Whole(line) if line.trim_ascii().is_empty() => return,
            Line::Whole(line) => line,
            Line::TooLong(scanned) => {
                let error = RpcError::invalid_request("the message is too long");
                return self.link.outbox.reject(scanned.id.as_deref(), &error).await;
            }
        };
        match Message::read(line) {
            Ok(Message::Request(request)) => self.start(request).await,
            Ok(Message::Notification(notification)) => self.notice(notification).await,
            Ok(Message::Response(body)) => self.link.notify(body).await,
            Err(InvalidLine { id, error }) => self.link.outbox.reject(id.as_deref(), &error).await,
        }
    }

    async fn start(&mut self, request: Request) {
        if self.running.contains_key(&request.id) {
            let error = RpcError::invalid_request("a request with this id is still running");
            return self.link.outbox.reject(Some(&request.id), &error).await;
        }
        if request.era == Era::Legacy && *request.method == *method::INITIALIZE {
            // The next messages belong to its session.
            return self.link.answer(&request).await;
        }
        let (link, id, era) = (Arc::clone(&self.link), request.id.clone(), request.era);
        let is_subscription = *request.method == *method::LISTEN;
        let handle = self.tasks.spawn(async move {
            link.answer(&request).await;
            request.id
        });
        self.running.insert(id, RunningRequest { handle, is_subscription, era });
    }

    async fn notice(&mut self, notification: Notification) {
        let Notification { method, cancels, body } = notification;
        if let Some(running) = cancels.and_then(|id| self.running.remove(&*id)) {
            // Closes the POST, which cancels the request.
            running.handle.abort();
            if running.era == Era::Modern {
                return;
            }
        }
        // Notifications are in the order of the requests around them.
        self.link.notify(body).await;
        if *method == *method::INITIALIZED {
            let link = Arc::clone(&self.link);
            let followed = tokio::spawn(async move { link.follow().await });
            self.follower = Some(Follower(followed.abort_handle()));
        }
    }

    /// Waits for the running requests, up to a time limit, and closes the session.
    async fn finish(mut self) {
        self.follower = None;
        for running in self.running.values().filter(|running| running.is_subscription) {
            running.handle.abort();
        }
        let rest = async { while self.tasks.join_next().await.is_some() {} };
        if tokio::time::timeout(FAREWELL, rest).await.is_err() {
            tracing::warn!(
                "requests were still running after the input was closed; they are cancelled"
            );
            self.tasks.shutdown().await;
        }
        let session = self.link.session.lock().await.clone();
        self.link.end_session(&session).await;
    }
}
