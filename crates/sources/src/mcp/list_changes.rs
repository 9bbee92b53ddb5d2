//! The changes of an upstream's tool list.

use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::Notify;

/// Counts the changes, and notifies the waiting task.
#[derive(Debug, Default)]
pub(crate) struct ListChanges {
    news: Notify,
    announced: AtomicU64,
}

impl ListChanges {
    /// The upstream has announced a change.
    pub(crate) fn announce(&self) {
        self.announced.fetch_add(1, Ordering::AcqRel);
        self.news.notify_one();
    }

    /// The list may have changed while its changes were not received.
    pub(crate) fn suspect(&self) {
        self.news.notify_one();
    }

    /// Waits until the list has changed, or may have.
    pub(crate) async fn changed(&self) {
        self.news.notified().await;
    }

    pub(crate) fn announced(&self) -> u64 {
        self.announced.load(Ordering::Acquire)
    }
}
