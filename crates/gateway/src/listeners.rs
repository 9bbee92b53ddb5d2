//! The number of streams of one kind that are open.
//!
//! Bound: [`MAX_LISTENERS`], and [`SHARE_OF_TENANT`] for each tenant beyond it, so that no tenant
//! uses up the listeners of another.

use std::collections::HashMap;

use parking_lot::Mutex;
use toolcrib_core::{
    id::{PrincipalId, TenantId},
    principal::Principal,
};

/// Listeners at the same time, in addition to those within [`SHARE_OF_TENANT`].
pub const MAX_LISTENERS: usize = 1_000;
/// Listeners of one tenant at the same time.
pub const MAX_LISTENERS_OF_TENANT: usize = 250;
/// Listeners that each tenant may have in any case.
pub const SHARE_OF_TENANT: usize = 32;
/// Listeners of one principal at the same time.
pub const MAX_LISTENERS_OF_ONE: usize = 16;

/// The limit of listeners is reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("too many streams are open; close one and try again")]
pub struct TooManyListeners;

/// The number of listeners by tenant and principal.
#[derive(Debug, Default)]
pub(crate) struct Listeners(Mutex<Counts>);

#[derive(Debug, Default)]
struct Counts {
    all: usize,
    tenants: HashMap<TenantId, HashMap<PrincipalId, usize>>,
}

impl Listeners {
    pub(crate) fn add(&self, who: &Principal) -> Result<(), TooManyListeners> {
        let Counts { all, tenants } = &mut *self.0.lock();
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

    pub(crate) fn remove(&self, who: &Principal) {
        let Counts { all, tenants } = &mut *self.0.lock();
        let Some(tenant) = tenants.get_mut(&who.tenant) else { return };
        let Some(own) = tenant.get_mut(&who.id) else { return };
        *all = all.saturating_sub(1);
        *own = own.saturating_sub(1);
        if *own == 0 {
            tenant.remove(&who.id);
        }
        if tenant.is_empty() {
            tenants.remove(&who.tenant);
        }
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
    fn take(listeners: &Listeners, tenant: usize) -> usize {
        (0..MAX_LISTENERS * 2).filter(|name| listeners.add(&who(tenant, *name)).is_ok()).count()
    }

    // I-34
    #[test]
    fn no_tenant_takes_the_listeners_of_another() {
        let listeners = Listeners::default();
        for tenant in 0..4 {
            assert_eq!(take(&listeners, tenant), MAX_LISTENERS_OF_TENANT);
        }
        for tenant in 4..8 {
            assert_eq!(take(&listeners, tenant), SHARE_OF_TENANT);
        }
        listeners.remove(&who(0, 0));
        listeners.remove(&who(0, 0));
        assert_eq!(
            listeners.add(&who(4, 0)),
            Err(TooManyListeners),
            "others are within their share"
        );
        assert_eq!(take(&listeners, 8), SHARE_OF_TENANT);
        for name in 0..MAX_LISTENERS * 2 {
            for tenant in 0..9 {
                listeners.remove(&who(tenant, name));
            }
        }
        let counts = listeners.0.lock();
        assert_eq!((counts.all, counts.tenants.len()), (0, 0));
        drop(counts);
        for number in 0..20 {
            let admitted = listeners.add(&who(0, 0)).is_ok();
            assert_eq!(admitted, number < MAX_LISTENERS_OF_ONE, "{number}");
        }
    }
}
