//! Shared by the parts in memory: the lock, and the numbers of changes.

use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;
use toolcrib_core::store::Changes;

/// The numbers of changes, which are announced at once.
#[derive(Debug)]
pub(super) struct ChangeCounter(watch::Sender<Changes>);

impl Default for ChangeCounter {
    fn default() -> Self {
        Self(watch::Sender::new(Changes::default()))
    }
}

impl ChangeCounter {
    /// Counts a change of one part, and returns its new number.
    pub(super) fn count(&self, part: impl Fn(&mut Changes) -> &mut u64) -> u64 {
        self.0.send_modify(|changes| *part(changes) += 1);
        *part(&mut self.now())
    }

    pub(super) fn now(&self) -> Changes {
        *self.0.borrow()
    }

    /// Waits until the numbers differ from `seen`.
    pub(super) async fn differ_from(&self, seen: Changes) {
        // The sender lives as long as this.
        self.0.subscribe().wait_for(|changes| *changes != seen).await.ok();
    }
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
