//! The current status of a source.

use std::sync::Arc;

use parking_lot::Mutex;
use toolcrib_core::{
    clock::Clock,
    source::{SourceState, SourceStatus},
};

/// Longest detail, in bytes.
const MAX_DETAIL: usize = 512;

/// Holds the current status.
pub(crate) struct StatusBoard {
    clock: Arc<dyn Clock>,
    status: Mutex<SourceStatus>,
}

impl StatusBoard {
    pub(crate) fn new(clock: Arc<dyn Clock>) -> Self {
        let since = clock.now();
        let status =
            SourceStatus { state: SourceState::Starting, detail: None, since, restarts: 0 };
        Self { clock, status: Mutex::new(status) }
    }

    pub(crate) fn get(&self) -> SourceStatus {
        self.status.lock().clone()
    }

    /// Sets state and reason; `since` changes only when the state does.
    pub(crate) fn set(&self, state: SourceState, detail: &str) {
        let now = self.clock.now();
        let mut status = self.status.lock();
        if status.state != state {
            status.since = now;
        }
        status.state = state;
        status.detail = Some(crate::text::tidy(detail, MAX_DETAIL)).filter(|d| !d.is_empty());
    }

    pub(crate) fn count_restart(&self) {
        let mut status = self.status.lock();
        status.restarts = status.restarts.saturating_add(1);
    }
}
