//! What happens to approvals without anybody doing anything: their time ends, other processes change
//! them, and old ones are forgotten.

use std::time::Duration;

use tokio_util::sync::CancellationToken;
use toolcrib_core::approval::{ApprovalQuery, ApprovalStore};

use crate::{Gateway, gateway::WeakGateway};

/// How often the store is asked whether another process has changed something.
const POLL: Duration = Duration::from_millis(250);
/// How often it is asked what has ended, in polls, and how many are ended at a time.
const SWEEP: u64 = 8;
const SWEPT: usize = 100;
/// How often old ones are forgotten, in polls, and how old they are then.
const PRUNE: u64 = 4 * 60 * 15;
const KEPT_DAYS: i64 = 30;

/// Follows the store of approvals as long as `gateway` is there.
pub(crate) fn follow(gateway: &Gateway) {
    if gateway.approval_gate().store().is_none() {
        return;
    }
    let ended = gateway.ended().clone();
    gateway.spawn_forever("approvals", move |weak| poll(weak, ended.clone()));
}

async fn poll(weak: WeakGateway, ended: CancellationToken) {
    let (mut seen, mut polls) = (None, 0_u64);
    loop {
        tokio::select! {
            () = tokio::time::sleep(POLL) => {}
            () = ended.cancelled() => return,
        }
        let Some(gateway) = weak.upgrade() else { return };
        let Some(store) = gateway.approval_gate().store() else { return };
        if gateway.approval_gate().changed.receiver_count() > 0 {
            notice(&gateway, store.as_ref(), &mut seen).await;
        }
        if polls.is_multiple_of(SWEEP) {
            sweep(&gateway, store.as_ref()).await;
        }
        if polls.is_multiple_of(PRUNE) {
            let before = gateway.clock().now() - chrono::Duration::days(KEPT_DAYS);
            if let Err(error) = store.prune(before).await {
                tracing::warn!(%error, "old approvals could not be forgotten");
            }
        }
        polls = polls.wrapping_add(1);
    }
}

async fn notice(gateway: &Gateway, store: &dyn ApprovalStore, seen: &mut Option<u64>) {
    match store.epoch().await {
        Ok(epoch) => {
            if seen.replace(epoch) != Some(epoch) {
                gateway.approval_gate().announce();
            }
        }
        Err(error) => tracing::warn!(%error, "approvals cannot be read"),
    }
}

async fn sweep(gateway: &Gateway, store: &dyn ApprovalStore) {
    let now = gateway.clock().now();
    let query = ApprovalQuery { overdue: Some(now), limit: SWEPT, ..ApprovalQuery::default() };
    let overdue = match store.list(query).await {
        Ok(overdue) => overdue,
        Err(error) => return tracing::warn!(%error, "approvals cannot be read"),
    };
    for approval in overdue {
        // Whoever was faster has ended it as well.
        if let Err(error) = gateway.expire(store, approval).await {
            tracing::warn!(%error, "an approval could not be ended");
        }
    }
}
