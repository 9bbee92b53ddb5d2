//! Progress on its way from a source to a client.
//!
//! Invariant (I-28): what comes out has the order of what went in; when the client is slow, the
//! oldest reports are lost, because the newest one says how things stand.

use std::collections::VecDeque;

use parking_lot::Mutex;
use tokio::sync::Notify;
use toolcrib_core::call::{Progress, ProgressSink};

/// A bounded queue that never makes the source wait.
#[derive(Default)]
pub(super) struct ProgressQueue {
    reports: Mutex<VecDeque<Progress>>,
    news: Notify,
}

/// Reports that may wait: a client that reads at all needs far fewer.
const MAX_WAITING: usize = 128;

impl ProgressQueue {
    /// The oldest report that waits.
    pub(super) fn pop(&self) -> Option<Progress> {
        self.reports.lock().pop_front()
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
        reports.push_back(progress);
        drop(reports);
        self.news.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// I-28
    #[tokio::test]
    async fn a_full_queue_loses_the_oldest_and_keeps_the_order() {
        let queue = ProgressQueue::default();
        for step in 0..MAX_WAITING + 3 {
            queue.report(Progress { progress: step.into(), total: None, message: None });
        }
        queue.news().await;
        let steps: Vec<_> =
            std::iter::from_fn(|| queue.pop()).filter_map(|p| p.progress.as_u64()).collect();
        assert_eq!(steps, (3..MAX_WAITING as u64 + 3).collect::<Vec<_>>());
    }
}
