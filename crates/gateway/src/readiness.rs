//! Why callers cannot be served as they should be.

use std::{
    collections::BTreeMap,
    sync::atomic::{AtomicBool, Ordering},
};

use parking_lot::Mutex;

/// The reasons that hold now, by the part of the program that found them. Everybody may read them, so
/// they name no tenant, no tool and no path.
#[derive(Debug, Default)]
pub struct Readiness {
    reasons: Mutex<BTreeMap<&'static str, String>>,
    /// Calls could not be accounted for, so none may run.
    refuses_calls: AtomicBool,
}

// === impl Readiness ===

impl Readiness {
    /// Sets what is wrong with `part`; `None` when nothing is.
    pub fn set(&self, part: &'static str, reason: Option<String>) {
        let mut reasons = self.reasons.lock();
        match reason {
            Some(reason) => reasons.insert(part, reason),
            None => reasons.remove(part),
        };
    }

    /// What is wrong, by part.
    pub fn reasons(&self) -> Vec<(&'static str, String)> {
        self.reasons.lock().iter().map(|(part, reason)| (*part, reason.clone())).collect()
    }

    pub(crate) fn set_refuses_calls(&self, refuses: bool) {
        self.refuses_calls.store(refuses, Ordering::Release);
    }

    pub(crate) fn refuses_calls(&self) -> bool {
        self.refuses_calls.load(Ordering::Acquire)
    }
}
