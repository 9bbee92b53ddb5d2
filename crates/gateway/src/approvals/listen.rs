//! Hearing of approvals as they change.
//!
//! Invariant (I-34): who may not see an approval, or may not any more, is told nothing of it.

use std::{collections::HashMap, sync::Arc};

use parking_lot::Mutex;
use serde_json::Value;
use tokio::sync::watch;
use toolcrib_core::{
    approval::ApprovalQuery,
    id::{PrincipalId, TenantId},
    principal::Principal,
};

use super::told;
use crate::Gateway;

/// Who listens at once, in all and of one principal.
pub const MAX_LISTENERS: usize = 1_000;
/// See [`MAX_LISTENERS`].
pub const MAX_LISTENERS_OF_ONE: usize = 16;

/// There are too many listeners already.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("too many listen to approvals; close one and try again")]
pub struct TooManyListeners;

/// How many listen, by whom.
#[derive(Debug, Default)]
pub(super) struct Listeners(Mutex<HashMap<(TenantId, PrincipalId), usize>>);

/// Somebody who is told of approvals that are new or have changed.
pub struct ApprovalListener {
    gateway: Gateway,
    who: Arc<Principal>,
    changes: watch::Receiver<u64>,
    after: u64,
}

impl Gateway {
    /// Tells `who` of every approval that it may see and that changes from now on.
    ///
    /// # Errors
    /// [`TooManyListeners`].
    pub async fn listen_to_approvals(
        &self,
        who: &Arc<Principal>,
    ) -> Result<ApprovalListener, TooManyListeners> {
        let changes = self.approval_changes();
        {
            let mut listeners = self.approval_gate().listeners.0.lock();
            let all: usize = listeners.values().sum();
            let mine = listeners.entry((who.tenant.clone(), who.id.clone())).or_default();
            if all >= MAX_LISTENERS || *mine >= MAX_LISTENERS_OF_ONE {
                return Err(TooManyListeners);
            }
            *mine += 1;
        }
        let mut listener =
            ApprovalListener { gateway: self.clone(), who: Arc::clone(who), changes, after: 0 };
        // A store that does not answer now tells everything later, which is more than was asked for.
        listener.after = self.approval_epoch().await.unwrap_or_default();
        Ok(listener)
    }
}

impl ApprovalListener {
    /// The approvals that have changed since the last time, at least one; `None` when there will be no
    /// more: the gateway closes, or whoever listens is nobody any more.
    pub async fn next(&mut self) -> Option<Vec<Value>> {
        loop {
            self.who = self.gateway.authenticator().renew(&self.who).ok()?;
            self.changes.mark_unchanged();
            let query =
                ApprovalQuery { changed_after: Some(self.after), ..ApprovalQuery::default() };
            // One that cannot be read now is read with the next change.
            if let Ok((found, seen)) = self.gateway.changed_approvals(&self.who, query).await {
                self.after = self.after.max(seen);
                if !found.is_empty() {
                    let now = self.gateway.clock().now();
                    return Some(found.iter().map(|it| told(it, None, &self.who, now)).collect());
                }
            }
            tokio::select! {
                changed = self.changes.changed() => changed.ok()?,
                () = self.gateway.until_closed() => return None,
            }
        }
    }
}

impl Drop for ApprovalListener {
    fn drop(&mut self) {
        let mut listeners = self.gateway.approval_gate().listeners.0.lock();
        let place = (self.who.tenant.clone(), self.who.id.clone());
        if let Some(mine) = listeners.get_mut(&place) {
            *mine = mine.saturating_sub(1);
            if *mine == 0 {
                listeners.remove(&place);
            }
        }
    }
}
