//! Progress on its way from a source to a client.
//!
//! Invariant (I-28): what comes out has the order of what went in; when the client is slow, the
//! oldest reports are lost, because the newest one says how things stand.
//! Invariant (I-27): what waits is bounded in bytes, for one call ([`MAX_WAITING`] reports with
//! messages of [`MAX_MESSAGE`]) and for the process ([`MAX_MESSAGES`]).

use std::{
    collections::VecDeque,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use parking_lot::Mutex;
use tokio::sync::Notify;
use toolcrib_core::call::{Progress, ProgressSink};

/// A bounded queue that never makes the source wait.
pub(super) struct ProgressQueue {
    reports: Mutex<VecDeque<Report>>,
    news: Notify,
    /// Bytes of the messages that wait in all queues.
    total: Arc<AtomicUsize>,
}

/// A report that waits, and what it counts for.
struct Report {
    progress: Progress,
    bytes: usize,
    total: Arc<AtomicUsize>,
}

/// Reports that may wait: a client that reads at all needs far fewer.
const MAX_WAITING: usize = 128;

/// Bytes of a message; the rest is cut off. They are for people, in one line.
const MAX_MESSAGE: usize = 4 << 10;

/// Bytes of messages that may wait in the process. Beyond it reports lose their message.
const MAX_MESSAGES: usize = 32 << 20;

/// What waits in the process.
static TOTAL: std::sync::LazyLock<Arc<AtomicUsize>> = std::sync::LazyLock::new(Arc::default);

impl Default for ProgressQueue {
    fn default() -> Self {
        Self::counting(&TOTAL)
    }
}

impl ProgressQueue {
    fn counting(total: &Arc<AtomicUsize>) -> Self {
        Self { reports: Mutex::default(), news: Notify::new(), total: Arc::clone(total) }
    }

    /// The oldest report that waits.
    pub(super) fn pop(&self) -> Option<Progress> {
        let mut report = self.reports.lock().pop_front()?;
        Some(Progress { message: report.progress.message.take(), ..report.progress.clone() })
    }

    /// Ends when there may be a report; also sometimes when there is none.
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
        reports.push_back(Report::new(progress, &self.total));
        drop(reports);
        self.news.notify_one();
    }
}

// === impl Report ===

impl Report {
    fn new(mut progress: Progress, total: &Arc<AtomicUsize>) -> Self {
        // Copied, so that nothing of what is cut off is kept.
        let message = progress.message.take().map(|message| {
            let end = message.floor_char_boundary(MAX_MESSAGE);
            message.get(..end).unwrap_or_default().to_owned()
        });
        let wanted = message.as_ref().map_or(0, String::len);
        let more = |held: usize| held.checked_add(wanted).filter(|sum| *sum <= MAX_MESSAGES);
        let has_room = total.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_ok();
        progress.message = message.filter(|_| has_room);
        let bytes = if has_room { wanted } else { 0 };
        Self { progress, bytes, total: Arc::clone(total) }
    }
}

impl Drop for Report {
    fn drop(&mut self) {
        self.total.fetch_sub(self.bytes, Ordering::Relaxed);
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
        let total = Arc::new(AtomicUsize::new(0));
        let long = "ö".repeat(1 << 20);
        let queues: Vec<_> = (0..100).map(|_| ProgressQueue::counting(&total)).collect();
        for queue in &queues {
            for step in 0..MAX_WAITING * 2 {
                queue.report(report(step, Some(long[..2 * MAX_MESSAGE].to_owned())));
            }
        }
        let held = total.load(Ordering::Relaxed);
        assert!(held <= MAX_MESSAGES && held > MAX_MESSAGES - MAX_MESSAGE, "{held}");
        let first = queues[0].pop().unwrap().message.unwrap();
        assert_eq!(first.len(), MAX_MESSAGE);
        assert!(long.starts_with(&first));
        let last = queues[99].pop().unwrap();
        assert_eq!(last, report(MAX_WAITING, None), "without room for its message");
        drop(queues);
        assert_eq!(total.load(Ordering::Relaxed), 0, "what is gone counts no more");
    }
}
