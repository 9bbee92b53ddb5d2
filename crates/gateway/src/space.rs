//! The space that is left for the store.
//!
//! Invariant: while there is little, what did not run is not recorded, so that there is space for the
//! events of what runs. Not recorded are denials, refused calls (rate, quota, scopes, arguments,
//! breakers) and requests without credentials; they are counted. Always recorded are the two events
//! of a call that runs, where it went, its session, approvals and pins.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use toolcrib_core::store::FreeSpace;

use crate::{Gateway, metrics::Metrics};

/// How often the space is read.
const LOOK: Duration = Duration::from_secs(1);

/// Bytes beyond what has to be free that have to be free again, so that a limit that is just reached
/// does not come and go.
const MARGIN: u64 = 16 << 20;

/// Whether there is little.
#[derive(Debug, Default)]
pub(crate) struct Space {
    low: AtomicBool,
}

impl Space {
    pub(crate) fn is_low(&self) -> bool {
        self.low.load(Ordering::Relaxed)
    }

    fn look(&self, place: &dyn FreeSpace, keep_free: u64, metrics: &Metrics) {
        let free = match place.free_space() {
            Ok(free) => free,
            // What could be said before still holds.
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
                 there is more; calls go on"
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

impl Gateway {
    /// Whether the store is so low on disk space that only what runs is recorded.
    pub fn is_low_on_space(&self) -> bool {
        self.record().space().is_low()
    }

    /// Reads the free space of `place` now and every second, as long as the gateway is there; less
    /// than `keep_free` bytes are little.
    pub async fn watch_space(&self, place: Arc<dyn FreeSpace>, keep_free: u64) {
        let (space, metrics) = (Arc::clone(self.record().space()), self.metrics_handle());
        let gateway = self.downgrade();
        let look = move || {
            let (space, metrics) = (Arc::clone(&space), Arc::clone(&metrics));
            let place = Arc::clone(&place);
            // It may take long where the file system is on a network.
            tokio::task::spawn_blocking(move || space.look(&*place, keep_free, &metrics))
        };
        look().await.ok();
        tokio::spawn(async move {
            loop {
                tokio::time::sleep(LOOK).await;
                if gateway.upgrade().is_none() {
                    return;
                }
                if look().await.is_err() {
                    tracing::error!("the free space of the store could not be read");
                }
            }
        });
    }
}
