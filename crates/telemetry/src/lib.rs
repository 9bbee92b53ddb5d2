//! Sends spans to a receiver of OpenTelemetry, by OTLP over HTTP or gRPC.
//!
//! Invariant (I-94): [`SpanSink::record`] puts a span into a bounded queue or drops it; one task
//! empties the queue.
//! Invariant: the text of the receiver's answers is neither logged nor returned; only its kind is.
#![warn(missing_docs)]

mod convert;
mod exporter;

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use parking_lot::Mutex;
use tokio::{
    sync::mpsc::{self, Receiver, Sender},
    task::JoinHandle,
    time::Instant,
};
use tokio_util::sync::CancellationToken;
use toolcrib_core::trace::{Span, SpanCounts, SpanSink};

use self::exporter::Exporter;
pub use self::exporter::{InvalidReceiver, Protocol, Receiver as ReceiverSettings};

/// The most waiting spans: some seconds of a busy server, in about ten megabytes.
const QUEUE: usize = 16_384;
/// The most spans in one request: the usual size of other exporters.
const BATCH: usize = 512;
/// How long a span waits for others.
const LINGER: Duration = Duration::from_secs(2);
/// The time limit for the last spans at shutdown, far less than a shutdown may take.
const FAREWELL: Duration = Duration::from_secs(5);

/// Sends spans in the background. Clones share the queue.
#[derive(Clone)]
pub struct Telemetry(Arc<Shared>);

struct Shared {
    queue: Sender<Span>,
    counts: Arc<Counts>,
    closing: CancellationToken,
    task: Mutex<Option<JoinHandle<()>>>,
}

#[derive(Default)]
struct Counts {
    exported: AtomicU64,
    dropped: AtomicU64,
}

/// The task that empties the queue.
struct ExportTask {
    queue: Receiver<Span>,
    exporter: Exporter,
    counts: Arc<Counts>,
    closing: CancellationToken,
    /// Whether the last request failed.
    is_failing: bool,
}

// === impl Telemetry ===

impl Telemetry {
    /// Starts to send spans to `receiver`. Connects when the first span is sent.
    ///
    /// # Errors
    /// Fails if the settings can never work.
    pub fn start(receiver: ReceiverSettings) -> Result<Self, InvalidReceiver> {
        let (sender, queue) = mpsc::channel(QUEUE);
        let (counts, closing) = (Arc::new(Counts::default()), CancellationToken::new());
        let courier = ExportTask {
            queue,
            exporter: Exporter::new(receiver)?,
            counts: Arc::clone(&counts),
            closing: closing.clone(),
            is_failing: false,
        };
        let task = Mutex::new(Some(tokio::spawn(courier.run())));
        Ok(Self(Arc::new(Shared { queue: sender, counts, closing, task })))
    }

    /// Sends the waiting spans, for at most five seconds. Later ones are dropped.
    pub async fn close(&self) {
        self.0.closing.cancel();
        let Some(mut task) = self.0.task.lock().take() else { return };
        if tokio::time::timeout(FAREWELL, &mut task).await.is_err() {
            task.abort();
            tracing::warn!("the last spans could not be sent in time");
        }
    }
}

impl SpanSink for Telemetry {
    fn record(&self, span: Span) {
        if self.0.queue.try_send(span).is_err() {
            self.0.counts.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn counts(&self) -> SpanCounts {
        let Counts { exported, dropped } = &*self.0.counts;
        SpanCounts {
            exported: exported.load(Ordering::Relaxed),
            dropped: dropped.load(Ordering::Relaxed),
        }
    }
}

// === impl ExportTask ===

impl ExportTask {
    async fn run(mut self) {
        let closing = self.closing.clone();
        let mut batch = Vec::with_capacity(BATCH);
        while let Some(first) = closing.run_until_cancelled(self.queue.recv()).await.flatten() {
            batch.push(first);
            let until = Instant::now() + LINGER;
            let fill = async {
                while batch.len() < BATCH {
                    let Some(span) = self.queue.recv().await else { return };
                    batch.push(span);
                }
            };
            closing.run_until_cancelled(tokio::time::timeout_at(until, fill)).await;
            self.send(&mut batch).await;
        }
        self.queue.close();
        while let Some(span) = self.queue.recv().await {
            batch.push(span);
            if batch.len() == BATCH || self.queue.is_empty() {
                self.send(&mut batch).await;
            }
        }
    }

    async fn send(&mut self, batch: &mut Vec<Span>) {
        let spans = std::mem::replace(batch, Vec::with_capacity(BATCH));
        let number = spans.len() as u64;
        match self.exporter.send(spans).await {
            Ok(()) => {
                self.counts.exported.fetch_add(number, Ordering::Relaxed);
                if std::mem::take(&mut self.is_failing) {
                    tracing::info!("the receiver of spans accepts them again");
                }
            }
            Err(problem) => {
                self.counts.dropped.fetch_add(number, Ordering::Relaxed);
                if !std::mem::replace(&mut self.is_failing, true) {
                    tracing::warn!(%problem, "spans are lost: the receiver does not accept them");
                }
            }
        }
    }
}
