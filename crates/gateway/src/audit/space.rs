//! The free disk space of the store.
//!
//! Invariant (I-18): while space is low, only calls that run are recorded: their two events,
//! destinations, sessions, approvals and pins. This leaves space for them. Denials, refused calls
//! (rate, quota, scopes, arguments, breakers) and requests without credentials are counted instead.

use std::sync::atomic::{AtomicBool, Ordering};

use toolcrib_core::store::Storage;

use crate::metrics::Metrics;

/// Additional free bytes before space counts as sufficient again, so that the state does not flap.
const MARGIN: u64 = 16 << 20;

/// Whether space is low.
#[derive(Debug, Default)]
pub(crate) struct Space {
    low: AtomicBool,
}

impl Space {
    pub(crate) fn is_low(&self) -> bool {
        self.low.load(Ordering::Relaxed)
    }

    pub(super) fn read(&self, storage: &dyn Storage, keep_free: u64, metrics: &Metrics) {
        let free = match storage.free_space() {
            Ok(Some(free)) => free,
            Ok(None) => return,
            // The last state stays in effect.
            Err(error) => {
                tracing::warn!(%error, "the free space of the store cannot be read");
                return;
            }
        };
        let was_low = self.is_low();
        let wanted = if was_low { keep_free.saturating_add(MARGIN) } else { keep_free };
        let low = free < wanted;
        self.low.store(low, Ordering::Relaxed);
        metrics.space(free, low);
        match (was_low, low) {
            (false, true) => tracing::error!(
                free,
                keep_free,
                "the store is low on disk space: denials and refused calls are not recorded until \
                 there is more; calls continue"
            ),
            (true, false) => {
                tracing::warn!(
                    free,
                    "the store has enough disk space again; everything is recorded"
                );
            }
            _ => {}
        }
    }
}
