//! The open streams of one kind, divided among callers.

use std::sync::Arc;

use parking_lot::Mutex;
use toolcrib_core::{
    principal::{Principal, PrincipalKey},
    share::Shares,
};

/// Listeners at the same time, in addition to those within [`SHARE_OF_TENANT`].
pub const MAX_LISTENERS: usize = 1_000;
/// Listeners that each tenant may always have.
pub const SHARE_OF_TENANT: usize = 32;
/// Listeners of one principal at the same time.
pub const MAX_LISTENERS_OF_ONE: usize = 16;

/// The limit of listeners is reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("too many streams are open; close one and try again")]
pub struct TooManyListeners;

/// The listeners of one kind.
///
/// Invariant (I-105): a tenant never uses up the listeners of another.
#[derive(Debug, Clone)]
pub struct Listeners {
    shares: Arc<Mutex<Shares>>,
    of_one: usize,
}

/// Permission for one open stream, released when it is dropped.
#[derive(Debug)]
pub struct ListenerPermit {
    shares: Arc<Mutex<Shares>>,
    owner: PrincipalKey,
}

impl Default for Listeners {
    fn default() -> Self {
        Self::new(MAX_LISTENERS, MAX_LISTENERS_OF_ONE)
    }
}

impl Listeners {
    /// Allows `max` listeners in total, and `of_one` of each principal.
    pub fn new(max: usize, of_one: usize) -> Self {
        let shares = Shares::new(max).with_floor(SHARE_OF_TENANT.min(max));
        Self { shares: Arc::new(Mutex::new(shares)), of_one }
    }

    /// Permits one more stream of `principal`.
    ///
    /// # Errors
    /// [`TooManyListeners`].
    pub fn add(&self, principal: &Principal) -> Result<ListenerPermit, TooManyListeners> {
        let owner = PrincipalKey::of(principal);
        let mut shares = self.shares.lock();
        if shares.used_by(&owner) >= self.of_one || !shares.take(&owner, 1) {
            return Err(TooManyListeners);
        }
        drop(shares);
        Ok(ListenerPermit { shares: Arc::clone(&self.shares), owner })
    }
}

impl Drop for ListenerPermit {
    fn drop(&mut self) {
        self.shares.lock().give_back(&self.owner, 1);
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
            session: None,
            auth: AuthMethod::Operator,
        }
    }

    /// The listeners that `tenant` gets with as many principals as it likes.
    fn take(listeners: &Listeners, tenant: usize) -> Vec<ListenerPermit> {
        (0..MAX_LISTENERS * 2).filter_map(|name| listeners.add(&who(tenant, name)).ok()).collect()
    }

    // I-34, I-105
    #[test]
    fn no_tenant_takes_the_listeners_of_another() {
        let listeners = Listeners::default();
        let alone = take(&listeners, 0);
        assert_eq!(alone.len(), MAX_LISTENERS, "one tenant may have all");
        let own = take(&listeners, 1);
        assert_eq!(own.len(), SHARE_OF_TENANT, "and others have theirs");
        drop((alone, own));
        let crowd = take(&listeners, 0);
        assert_eq!(crowd.len(), MAX_LISTENERS * 7 / 8, "until others were seen");
        let own = take(&listeners, 1);
        assert_eq!(own.len(), MAX_LISTENERS / 8);
        for tenant in 2..9 {
            assert_eq!(take(&listeners, tenant).len(), SHARE_OF_TENANT, "{tenant}");
        }
        drop((crowd, own));
        assert_eq!(listeners.shares.lock().owners(), 0);
        let permits: Vec<_> = (0..20).map(|_| listeners.add(&who(0, 0))).collect();
        let admitted = permits.iter().filter(|permit| permit.is_ok()).count();
        assert_eq!(admitted, MAX_LISTENERS_OF_ONE);
    }
}
