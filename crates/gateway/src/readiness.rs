//! Why the record cannot account for calls as it should.

use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;

/// What is wrong with the record now.
#[derive(Debug, Default)]
pub struct Readiness {
    reason: Mutex<Option<String>>,
    /// Calls could not be accounted for, so none may run.
    refuses_calls: AtomicBool,
}

// === impl Readiness ===

impl Readiness {
    /// Sets what is wrong; `None` when nothing is. Everybody may read it, so it names no tenant, no
    /// tool and no path.
    pub fn set(&self, reason: Option<String>) {
        *self.reason.lock() = reason;
    }

    /// What is wrong, if anything is.
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
