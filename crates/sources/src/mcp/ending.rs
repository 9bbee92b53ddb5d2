//! The first reason why something is over.

use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

/// Set once; any number of tasks can wait for it.
#[derive(Default)]
pub(crate) struct Ending {
    token: CancellationToken,
    reason: Mutex<Option<String>>,
}

impl Ending {
    /// Sets the reason; the first one stays.
    pub(crate) fn end(&self, reason: &str) {
        self.reason.lock().get_or_insert_with(|| reason.to_owned());
        self.token.cancel();
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.token.is_cancelled()
    }

    /// Waits for the reason.
    pub(crate) async fn ended(&self) -> String {
        self.token.cancelled().await;
        self.reason.lock().clone().unwrap_or_default()
    }
}
