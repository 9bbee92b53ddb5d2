//! Notifications about approvals.
//!
//! Invariant (I-34): a listener receives only approvals that are visible to its principal at that
//! time.

use std::{sync::Arc, time::Duration};

use serde_json::Value;
use tokio::sync::watch;
use toolcrib_core::{approval::ApprovalQuery, principal::Principal};

use super::{Approvals, render::to_json};
use crate::listeners::{ListenerPermit, TooManyListeners};

/// How often the credentials of a listener are checked.
const RENEW: Duration = Duration::from_secs(1);
/// How often approvals are read without a change.
const RECHECK: Duration = Duration::from_secs(10);

/// Receives new and changed approvals.
pub struct ApprovalListener {
    approvals: Arc<Approvals>,
    principal: Arc<Principal>,
    changes: watch::Receiver<u64>,
    after: u64,
    _permit: ListenerPermit,
}

impl Approvals {
    /// Subscribes `principal` to changes of its visible approvals.
    ///
    /// # Errors
    /// [`TooManyListeners`].
    pub async fn listen(
        self: &Arc<Self>,
        principal: &Arc<Principal>,
    ) -> Result<ApprovalListener, TooManyListeners> {
        let changes = self.changes();
        let _permit = self.listeners.add(principal)?;
        let (approvals, principal) = (Arc::clone(self), Arc::clone(principal));
        let mut listener = ApprovalListener { approvals, principal, changes, after: 0, _permit };
        // If the store fails now, the first notification includes older approvals.
        listener.after = self.epoch().await.unwrap_or_default();
        Ok(listener)
    }
}

impl ApprovalListener {
    /// Waits for the next changed approvals, at least one. Returns `None` if the gateway closes or
    /// the credentials of the principal have become invalid.
    pub async fn next(&mut self) -> Option<Vec<Value>> {
        loop {
            self.principal = self.approvals.authenticator.renew(&self.principal).await.ok()?;
            self.changes.mark_unchanged();
            let query =
                ApprovalQuery { changed_after: Some(self.after), ..ApprovalQuery::default() };
            // After an error, the approvals are read at the next change.
            if let Ok((found, seen)) = self.approvals.changed(&self.principal, query).await {
                let is_last = seen <= self.after;
                self.after = self.after.max(seen);
                if !found.is_empty() {
                    let services = &self.approvals.services;
                    let (config, now) = (services.config(), services.now());
                    let (reader, people) = (&self.principal, &config.people);
                    let json = |approval| to_json(approval, None, reader, people, now);
                    return Some(found.iter().map(json).collect());
                }
                // A page of approvals that are invisible to the principal may not be the last page.
                if !is_last {
                    continue;
                }
            }
            let (authenticator, principal) = (&self.approvals.authenticator, &self.principal);
            // A stream closes after a sign-out or the revocation of its key.
            let lost = async {
                loop {
                    tokio::time::sleep(RENEW).await;
                    if authenticator.renew(principal).await.is_err() {
                        break;
                    }
                }
            };
            tokio::select! {
                changed = self.changes.changed() => changed.ok()?,
                () = tokio::time::sleep(RECHECK) => {}
                () = lost => return None,
                () = self.approvals.services.background.ended().cancelled() => return None,
            }
        }
    }
}
