//! Whether the record can account for calls.

use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;

/// The current problem of the record.
#[derive(Debug, Default)]
pub struct Readiness {
    reason: Mutex<Option<String>>,
    /// Calls could not be accounted for, so none may run.
    refuses_calls: AtomicBool,
}

// === impl Readiness ===

impl Readiness {
    /// Sets the problem; `None` when there is none. It is public, so it names no tenant, no tool
    /// and no path.
    pub fn set(&self, reason: Option<String>) {
        *self.reason.lock() = reason;
    }

    /// The current problem.
    pub fn reason(&self) -> Option<String> {
        self.reason.lock().clone()
    }

    pub(crate) fn set_refuses_calls(&self, refuses: bool) {
        self.refuses_calls.store(refuses, Ordering::Release);
    }

    pub(crate) fn refuses_calls(&self) -> bool {
        self.refuses_calls.load(Ordering::Acquire)
    }
}
