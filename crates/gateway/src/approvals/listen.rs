//! Hearing of approvals as they change.
//!
//! Bound: [`MAX_LISTENERS`], and [`SHARE_OF_TENANT`] for each tenant beyond it, so that no tenant
//! takes the listeners of another.
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

/// Listeners at once, besides those within [`SHARE_OF_TENANT`].
pub const MAX_LISTENERS: usize = 1_000;
/// Listeners of one tenant at once.
pub const MAX_LISTENERS_OF_TENANT: usize = 250;
/// Listeners that each tenant may have however many the others have.
pub const SHARE_OF_TENANT: usize = 32;
/// Listeners of one principal at once.
pub const MAX_LISTENERS_OF_ONE: usize = 16;

/// There are too many listeners already.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("too many listen to approvals; close one and try again")]
pub struct TooManyListeners;

/// How many listen, by tenant and principal.
#[derive(Debug, Default)]
pub(super) struct Listeners(Mutex<Counts>);

#[derive(Debug, Default)]
struct Counts {
    all: usize,
    tenants: HashMap<TenantId, HashMap<PrincipalId, usize>>,
}

impl Counts {
    fn add(&mut self, who: &Principal) -> Result<(), TooManyListeners> {
        let Self { all, tenants } = self;
        let tenant = tenants.get(&who.tenant);
        let of_tenant: usize = tenant.map_or(0, |tenant| tenant.values().sum());
        let own = tenant.and_then(|tenant| tenant.get(&who.id)).copied().unwrap_or_default();
        let has_room = of_tenant < SHARE_OF_TENANT || *all < MAX_LISTENERS;
        if !has_room || of_tenant >= MAX_LISTENERS_OF_TENANT || own >= MAX_LISTENERS_OF_ONE {
            return Err(TooManyListeners);
        }
        *all += 1;
        let tenant = tenants.entry(who.tenant.clone()).or_default();
        *tenant.entry(who.id.clone()).or_default() += 1;
        Ok(())
    }

    fn remove(&mut self, who: &Principal) {
        let Some(tenant) = self.tenants.get_mut(&who.tenant) else { return };
        let Some(own) = tenant.get_mut(&who.id) else { return };
        self.all = self.all.saturating_sub(1);
        *own = own.saturating_sub(1);
        if *own == 0 {
            tenant.remove(&who.id);
        }
        if tenant.is_empty() {
            self.tenants.remove(&who.tenant);
        }
    }
}

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
        self.approval_gate().listeners.0.lock().add(who)?;
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
        self.gateway.approval_gate().listeners.0.lock().remove(&self.who);
    }
}

#[cfg(test)]
mod tests {
    use toolcrib_core::{principal::AuthMethod, scope::ScopeSet};

    use super::*;

    fn who(tenant: usize, name: usize) -> Principal {
        Principal {
            id: format!("p{name}").parse().unwrap(),
            tenant: format!("t{tenant}").parse().unwrap(),
            scopes: ScopeSet::default(),
            roles: Vec::new(),
            makers: Vec::new(),
            auth: AuthMethod::Operator,
        }
    }

    /// How many listeners `tenant` gets with as many principals as it likes.
    fn take(counts: &mut Counts, tenant: usize) -> usize {
        (0..MAX_LISTENERS * 2).filter(|name| counts.add(&who(tenant, *name)).is_ok()).count()
    }

    // I-34
    #[test]
    fn no_tenant_takes_the_listeners_of_another() {
        let mut counts = Counts::default();
        for tenant in 0..4 {
            assert_eq!(take(&mut counts, tenant), MAX_LISTENERS_OF_TENANT);
        }
        for tenant in 4..8 {
            assert_eq!(take(&mut counts, tenant), SHARE_OF_TENANT);
        }
        counts.remove(&who(0, 0));
        counts.remove(&who(0, 0));
        assert_eq!(counts.add(&who(4, 0)), Err(TooManyListeners), "others are within their share");
        assert_eq!(take(&mut counts, 8), SHARE_OF_TENANT);
        for name in 0..MAX_LISTENERS * 2 {
            for tenant in 0..9 {
                counts.remove(&who(tenant, name));
            }
        }
        assert_eq!((counts.all, counts.tenants.len()), (0, 0));
        for number in 0..20 {
            let admitted = counts.add(&who(0, 0)).is_ok();
            assert_eq!(admitted, number < MAX_LISTENERS_OF_ONE, "{number}");
        }
    }
}
