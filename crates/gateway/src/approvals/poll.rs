//! The background work on approvals: changes by other processes, expiry, and removal of old ones.

use std::{
    sync::{Arc, atomic::AtomicU64, atomic::Ordering},
    time::Duration,
};

use toolcrib_core::{
    approval::{ApprovalQuery, ApprovalStore},
    store::{Changes, StoreError},
};

use super::Approvals;

/// How often expired approvals are closed, and how many at a time.
const EXPIRY: Duration = Duration::from_secs(2);
const EXPIRED_AT_ONCE: usize = 100;
/// How often old approvals are removed, and their age in days.
const REMOVAL: Duration = Duration::from_secs(15 * 60);
const KEPT_DAYS: i64 = 30;

impl Approvals {
    /// Starts the background work, until the gateway stops.
    pub(crate) fn start(self: &Arc<Self>) {
        let Some(store) = self.store.clone() else { return };
        let background = &self.services.background;
        let seen = Arc::new(AtomicU64::new(u64::MAX));
        let approvals = Arc::clone(self);
        self.services.follow("approvals", move |_, changes| {
            approvals.notice_changes(changes, &seen);
            std::future::ready(())
        });
        let (approvals, expired) = (Arc::clone(self), Arc::clone(&store));
        background.every("approvals/expiry", EXPIRY, move || {
            let (approvals, store) = (Arc::clone(&approvals), Arc::clone(&expired));
            async move { approvals.end_expired(store.as_ref()).await }
        });
        let approvals = Arc::clone(self);
        background.every("approvals/removal", REMOVAL, move || {
            let (approvals, store) = (Arc::clone(&approvals), Arc::clone(&store));
            async move {
                let before = approvals.services.now() - chrono::Duration::days(KEPT_DAYS);
                if let Err(error) = store.prune(before).await {
                    tracing::warn!(%error, "old approvals could not be removed");
                }
            }
        });
    }

    fn notice_changes(&self, changes: Result<Changes, StoreError>, seen: &AtomicU64) {
        if self.changed.receiver_count() == 0 {
            return;
        }
        match changes {
            Ok(changes) => {
                if seen.swap(changes.approvals, Ordering::Relaxed) != changes.approvals {
                    self.announce();
                }
            }
            Err(error) => tracing::warn!(%error, "approvals cannot be read"),
        }
    }

    async fn end_expired(&self, store: &dyn ApprovalStore) {
        let query = ApprovalQuery {
            overdue: Some(self.services.now()),
            limit: EXPIRED_AT_ONCE,
            ..ApprovalQuery::default()
        };
        let overdue = match store.list(query).await {
            Ok(overdue) => overdue,
            Err(error) => return tracing::warn!(%error, "approvals cannot be read"),
        };
        for approval in overdue {
            // An approval that was changed meanwhile is already closed.
            if let Err(error) = self.expire(store, approval).await {
                tracing::warn!(%error, "an expired approval could not be closed");
            }
        }
    }
}
