//! The first reason why something is over.

use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

/// Set once; any number of tasks can wait for it.
#[derive(Default)]
pub(crate) struct EndReason {
    token: CancellationToken,
    reason: Mutex<Option<String>>,
}

impl EndReason {
    /// Sets the reason; the first one stays.
    pub(crate) fn set(&self, reason: &str) {
        self.reason.lock().get_or_insert_with(|| reason.to_owned());
        self.token.cancel();
    }

    pub(crate) fn is_set(&self) -> bool {
        self.token.is_cancelled()
    }

    /// Waits for the reason.
    pub(crate) async fn wait(&self) -> String {
        self.token.cancelled().await;
        self.reason.lock().clone().unwrap_or_default()
    }
}
