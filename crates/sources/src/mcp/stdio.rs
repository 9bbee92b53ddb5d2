//! MCP over the pipes of a child process.
//!
//! Invariant: one task writes and one reads; a dropped request is not written, and a written one is
//! cancelled when its caller goes away.
//! Invariant: when the child exits or a pipe closes, the connection closes; every call in flight
//! fails at once.

use std::{sync::Arc, time::Duration};

use tokio::{
    io::{AsyncWriteExt as _, BufReader},
    process::{ChildStdin, ChildStdout},
    sync::{SetOnce, mpsc},
};
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};
use toolcrib_core::{
    call::{UpstreamError, UpstreamErrorKind},
    id::SourceId,
    source::StdioSpec,
};
use toolcrib_mcp::{
    line::{Line, Lines},
    message,
};

use super::{
    call::Call,
    failure::Failure,
    message::Reply,
    peer::{CancelHook, Peer},
};
use crate::{
    context::SourceContext,
    error::{too_large, unavailable},
    process::{
        self, Child, Pipes,
        launch::Launcher,
        stderr::{self, ProbeEnd, ProbeOutcome},
    },
};

/// Messages waiting for a child that is slow to read; further callers wait their turn. Requests are
/// as large as their arguments (`[server] max_body`), and calls in flight hold those in any case;
/// answers to the child are at most 1 KiB.
const QUEUE: usize = 64;
/// A child that does not read for this long is lost.
const WRITE_TIMEOUT: Duration = Duration::from_secs(30);
/// How long the driver waits for the other pipes after one closes or the child exits. Answers that
/// are already in the pipe are then delivered, and the exit status is known.
const SETTLE: Duration = Duration::from_millis(500);
const READ_BUFFER: usize = 64 << 10;
/// The connection is closed when a line is longer than this many messages of the largest size.
const HOPELESS: usize = 8;

/// Sends requests to a child.
pub(crate) struct Stdio {
    peer: Arc<Peer>,
    outgoing: mpsc::Sender<OutgoingMessage>,
    cancels: mpsc::UnboundedSender<u64>,
    probe_end: ProbeEnd,
}

/// The child itself and the two tasks at its pipes.
pub(crate) struct StdioDriver {
    child: Child,
    reader: AbortOnDropHandle<()>,
    writer: AbortOnDropHandle<()>,
    /// Which pipe closed first.
    pipes: Arc<SetOnce<&'static str>>,
    stop_writing: CancellationToken,
    peer: Arc<Peer>,
    /// Why it closed, if already known. The cause is determined once and can be read repeatedly.
    end: Option<String>,
}

enum OutgoingMessage {
    Request { id: u64, line: Vec<u8> },
    Message(Vec<u8>),
}

/// Starts the child.
pub(crate) async fn start(
    context: &SourceContext,
    spec: &StdioSpec,
    launcher: Option<&Launcher>,
    peer: Arc<Peer>,
    stderr: &Arc<stderr::Lines>,
) -> Result<(Stdio, StdioDriver), String> {
    let (child, Pipes { stdin, stdout, probe_end }) =
        process::spawn(spec, launcher, stderr).await?;
    let (outgoing, queue) = mpsc::channel(QUEUE);
    // Eight bytes for each call in flight that was written: a child that does not read is
    // abandoned.
    let (cancels, cancelled) = mpsc::unbounded_channel();
    let stop_writing = CancellationToken::new();
    let pipes = Arc::new(SetOnce::new());
    let writer = Writer { stdin, queue, cancelled, peer: Arc::clone(&peer) };
    let writer = ending(&pipes, writer.run(stop_writing.clone()));
    let max = context.limits.max_message_bytes;
    let reader = Reader {
        lines: Lines::new(BufReader::with_capacity(READ_BUFFER, stdout), max)
            .give_up_after(max.saturating_mul(HOPELESS)),
        source: context.id.clone(),
        peer: Arc::clone(&peer),
        replies: outgoing.clone(),
        noise: 0,
    };
    let reader = ending(&pipes, reader.run());
    let driver = StdioDriver {
        child,
        reader,
        writer,
        pipes,
        stop_writing,
        peer: Arc::clone(&peer),
        end: None,
    };
    Ok((Stdio { peer, outgoing, cancels, probe_end }, driver))
}

// === impl Stdio ===

impl Stdio {
    pub(crate) fn has_ended(&self) -> bool {
        self.peer.is_closed()
    }

    pub(crate) fn was_interrupted(&self) -> bool {
        self.peer.was_interrupted()
    }

    pub(crate) async fn request(&self, call: &Call<'_>) -> Result<Reply, Failure> {
        let cancels = self.cancels.clone();
        let on_cancel: CancelHook = Box::new(move |id| {
            cancels.send(id).ok();
        });
        let on_cancel = call.cancellable.then_some(on_cancel);
        let mut waiter = self.peer.register(call.interest.clone(), on_cancel)?;
        let id = waiter.id();
        self.send(OutgoingMessage::Request { id, line: line((call.encode)(id)) }).await?;
        waiter.answer().await
    }

    pub(crate) async fn notify(&self, message: Vec<u8>) -> Result<(), UpstreamError> {
        self.send(OutgoingMessage::Message(line(message))).await
    }

    /// Completes the probe: the lines that the child wrote to stderr since are kept or dropped.
    /// Only the first call counts.
    pub(crate) fn probe_ended(&self, end: ProbeOutcome) {
        // The reader is gone when stderr is closed; then no lines are left.
        self.probe_end.send(end).ok();
    }

    async fn send(&self, outgoing: OutgoingMessage) -> Result<(), UpstreamError> {
        let sent = self.outgoing.send(outgoing).await;
        sent.map_err(|_| unavailable("the child's input is closed"))
    }
}

fn line(mut message: Vec<u8>) -> Vec<u8> {
    message.push(b'\n');
    message
}

// === impl StdioDriver ===

impl StdioDriver {
    /// Waits until the child exits or one of its pipes closes, cleans up, and describes the cause.
    /// The future may be dropped, and this may be called again, also after it has returned.
    pub(crate) async fn ended(&mut self) -> String {
        if let Some(end) = &self.end {
            return end.clone();
        }
        let end = self.find_end().await;
        self.end.insert(end).clone()
    }

    async fn find_end(&mut self) -> String {
        tokio::select! {
            exit = self.child.exited() => {
                // The output before the child's exit is still read.
                if !self.reader.is_finished()
                    && tokio::time::timeout(SETTLE, self.pipes.wait()).await.is_err()
                {
                    tracing::debug!("stdout was still open after its process group was gone");
                }
                self.finish(&exit).await
            }
            pipe = self.pipes.wait() => {
                // A pipe usually closes because the child exits; its exit status says more.
                let exit = tokio::time::timeout(SETTLE, self.child.exited()).await;
                self.finish(exit.as_deref().unwrap_or(*pipe)).await
            }
        }
    }

    /// Whether [`Self::ended`] completes without waiting for the child.
    pub(crate) fn has_ended(&self) -> bool {
        self.end.is_some() || self.pipes.initialized()
    }

    async fn finish(&mut self, reason: &str) -> String {
        self.child.kill().await;
        self.peer.fail_all(UpstreamErrorKind::Died, reason);
        self.reader.abort();
        self.writer.abort();
        self.child.stderr_read().await;
        format!("the child {reason}")
    }

    /// Shuts the child down in order.
    pub(crate) async fn close(&mut self) {
        self.peer.fail_all(UpstreamErrorKind::Died, "the source was closed");
        // The writer owns stdin and closes it; a child that reads to the end exits by itself.
        self.stop_writing.cancel();
        self.child.close().await;
        self.child.stderr_read().await;
        self.reader.abort();
        self.writer.abort();
    }
}

impl Drop for StdioDriver {
    /// After the driver is dropped, no call waits for an answer.
    fn drop(&mut self) {
        self.peer.fail_all(UpstreamErrorKind::Died, "the connection was lost");
    }
}

// === The two tasks ===

/// Spawns a task; when it finishes or is lost, the connection closes.
fn ending(
    end: &Arc<SetOnce<&'static str>>,
    task: impl Future<Output = &'static str> + Send + 'static,
) -> AbortOnDropHandle<()> {
    let end = Arc::clone(end);
    AbortOnDropHandle::new(tokio::spawn(async move {
        let _lost = CloseGuard(&end);
        end.set(task.await).ok();
    }))
}

/// Closes the connection when the task with this value is gone, however that happened.
struct CloseGuard<'a>(&'a SetOnce<&'static str>);

impl Drop for CloseGuard<'_> {
    fn drop(&mut self) {
        // The first reason counts, so this one applies only without another.
        self.0.set("lost its connection").ok();
    }
}

struct Writer {
    stdin: ChildStdin,
    queue: mpsc::Receiver<OutgoingMessage>,
    cancelled: mpsc::UnboundedReceiver<u64>,
    peer: Arc<Peer>,
}

impl Writer {
    async fn run(mut self, stop: CancellationToken) -> &'static str {
        loop {
            let line = tokio::select! {
                biased;
                () = stop.cancelled() => return "was closed",
                Some(id) = self.cancelled.recv() => line(message::cancelled(id)),
                Some(outgoing) = self.queue.recv() => match outgoing {
                    OutgoingMessage::Message(line) => line,
                    OutgoingMessage::Request { id, line } if self.peer.mark_sent(id) => line,
                    OutgoingMessage::Request { .. } => continue,
                },
                else => return "was closed",
            };
            let written = tokio::select! {
                () = stop.cancelled() => return "was closed",
                written = tokio::time::timeout(WRITE_TIMEOUT, self.write(&line)) => written,
            };
            match written {
                Ok(Ok(())) => {}
                Ok(Err(_)) => return "closed its input",
                Err(_) => return "stopped reading its input",
            }
        }
    }

    async fn write(&mut self, line: &[u8]) -> std::io::Result<()> {
        self.stdin.write_all(line).await?;
        self.stdin.flush().await
    }
}

struct Reader {
    lines: Lines<BufReader<ChildStdout>>,
    source: SourceId,
    peer: Arc<Peer>,
    replies: mpsc::Sender<OutgoingMessage>,
    noise: u64,
}

impl Reader {
    async fn run(mut self) -> &'static str {
        let end = self.read().await;
        // At once: calls in flight do not wait for the child to be reaped.
        self.peer.fail_all(UpstreamErrorKind::Died, end);
        end
    }

    async fn read(&mut self) -> &'static str {
        let (peer, replies) = (Arc::clone(&self.peer), self.replies.clone());
        loop {
            match self.lines.next().await {
                Ok(Some(Line::Whole(text))) => {
                    // A child that requests faster than it reads gets fewer answers.
                    let mut reply =
                        |message| drop(replies.try_send(OutgoingMessage::Message(line(message))));
                    let blank = text.trim_ascii().is_empty();
                    if !blank && !peer.accept(text, &mut reply) {
                        self.count_noise();
                    }
                }
                Ok(Some(Line::TooLong(found))) => {
                    tracing::warn!(source = %self.source, "an upstream message over the size limit was skipped");
                    match (found.number(), found.has_method) {
                        (Some(id), false) => {
                            let error = too_large("it is longer than a message can be");
                            peer.settle(id, Err(error.into()));
                        }
                        // A notification or request: no caller waits for it.
                        (_, true) => {}
                        (None, false) => return "sent a message over the size limit",
                    }
                }
                Ok(None) => return "closed its output",
                Err(_) => return "sent a line without an end",
            }
        }
    }

    /// Warns of noise at growing intervals, without its content.
    fn count_noise(&mut self) {
        self.noise += 1;
        if self.noise.is_power_of_two() {
            tracing::warn!(source = %self.source, lines = self.noise, "stdout lines that are not JSON-RPC were skipped");
        }
    }
}
