//! Progress reports on their way from a source to a client.
//!
//! Invariant (I-28): reports keep their order; when the client is slow, the oldest are dropped,
//! because the newest describes the current state.
//! Invariant (I-27): queued bytes are bounded, per call ([`MAX_WAITING`] reports with messages of
//! [`MAX_MESSAGE`]) and per process ([`MAX_MESSAGES`]).

use std::{collections::VecDeque, sync::LazyLock};

use parking_lot::Mutex;
use tokio::sync::Notify;
use toolcrib_core::{
    budget::{ByteBudget, Reservation},
    call::{Progress, ProgressSink},
};

/// A bounded queue that never blocks the source.
pub(super) struct ProgressQueue {
    reports: Mutex<VecDeque<Report>>,
    news: Notify,
    /// The shared budget for the messages in all queues.
    messages: ByteBudget,
}

/// A queued report, and the reservation for its message.
struct Report {
    progress: Progress,
    _message: Option<Reservation>,
}

/// Maximum number of queued reports: a client that reads at all needs far fewer.
const MAX_WAITING: usize = 128;

/// Maximum bytes of a message; the rest is cut off. Messages are single lines for people.
const MAX_MESSAGE: usize = 4 << 10;

/// Maximum bytes of queued messages in the process. Beyond it, reports lose their message.
const MAX_MESSAGES: usize = 32 << 20;

/// The budget of the process for queued messages.
static MESSAGES: LazyLock<ByteBudget> = LazyLock::new(|| ByteBudget::new(MAX_MESSAGES));

impl Default for ProgressQueue {
    fn default() -> Self {
        Self::within(&MESSAGES)
    }
}

impl ProgressQueue {
    fn within(messages: &ByteBudget) -> Self {
        Self { reports: Mutex::default(), news: Notify::new(), messages: messages.clone() }
    }

    pub(super) fn pop(&self) -> Option<Progress> {
        Some(self.reports.lock().pop_front()?.progress)
    }

    /// Waits until there may be a report; spurious wakeups are possible.
    pub(super) async fn news(&self) {
        self.news.notified().await;
    }
}

impl ProgressSink for ProgressQueue {
    fn report(&self, progress: Progress) {
        let mut reports = self.reports.lock();
        if reports.len() == MAX_WAITING {
            reports.pop_front();
        }
        reports.push_back(Report::new(progress, &self.messages));
        drop(reports);
        self.news.notify_one();
    }
}

// === impl Report ===

impl Report {
    fn new(mut progress: Progress, messages: &ByteBudget) -> Self {
        // Copied, so that the memory of the cut-off part is released.
        let message = progress.message.take().map(|message| {
            let end = message.floor_char_boundary(MAX_MESSAGE);
            message.get(..end).unwrap_or_default().to_owned()
        });
        let reserved = message.as_ref().and_then(|message| messages.reserve(message.len()));
        progress.message = message.filter(|_| reserved.is_some());
        Self { progress, _message: reserved }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(step: usize, message: Option<String>) -> Progress {
        Progress { progress: step.into(), total: None, message }
    }

    /// I-28
    #[tokio::test]
    async fn a_full_queue_loses_the_oldest_and_keeps_the_order() {
        let queue = ProgressQueue::default();
        for step in 0..MAX_WAITING + 3 {
            queue.report(report(step, None));
        }
        queue.news().await;
        let steps: Vec<_> =
            std::iter::from_fn(|| queue.pop()).filter_map(|p| p.progress.as_u64()).collect();
        assert_eq!(steps, (3..MAX_WAITING as u64 + 3).collect::<Vec<_>>());
    }

    // I-27
    #[test]
    fn what_waits_is_bounded_in_bytes() {
        let messages = ByteBudget::new(MAX_MESSAGES);
        let long = "ö".repeat(1 << 20);
        let queues: Vec<_> = (0..100).map(|_| ProgressQueue::within(&messages)).collect();
        for queue in &queues {
            for step in 0..MAX_WAITING * 2 {
                queue.report(report(step, Some(long[..2 * MAX_MESSAGE].to_owned())));
            }
        }
        let held = messages.held();
        assert!(held <= MAX_MESSAGES && held > MAX_MESSAGES - MAX_MESSAGE, "{held}");
        let first = queues[0].pop().unwrap().message.unwrap();
        assert_eq!(first.len(), MAX_MESSAGE);
        assert!(long.starts_with(&first));
        let last = queues[99].pop().unwrap();
        assert_eq!(last, report(MAX_WAITING, None), "without room for its message");
        drop(queues);
        assert_eq!(messages.held(), 0, "what is gone counts no more");
    }
}
