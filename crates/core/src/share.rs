//! A limited resource that callers share: the slots of a source, sessions, streams, memory.
//!
//! Invariant (I-105): no tenant takes the share of another, and within a tenant no principal that of
//! another.
//!
//! - A tenant's share is the whole divided by the number of tenants that use or want some of it; a
//!   principal's share is its tenant's, divided in the same way. Parts that others leave are free for
//!   all.
//! - An eighth is reserved for tenants within their shares, as soon as a second tenant was seen. So
//!   a tenant that comes late finds room at once. With one tenant, the same holds for its
//!   principals.
//! - Waiting requests are served by rounds: the tenant that holds least is next, and in it the
//!   principal that holds least. Among equals, the one whose last turn is the oldest is next.
//! - If a holder must give up parts, a tenant beyond its share gives up its own; for a tenant
//!   within its share, the tenant that holds most gives up.
//!
//! Every operation takes logarithmic time in the number of callers.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    convert::Infallible,
    hash::Hash,
};

use crate::{
    id::{PrincipalId, TenantId},
    principal::PrincipalKey,
};

/// The part of the whole reserved for callers within their shares: one in this many.
const RESERVED: usize = 8;

/// A resource of a fixed size, with the parts that each caller holds, and the waiting requests,
/// each with a value of `W`.
#[derive(Debug)]
pub struct Shares<W = Infallible> {
    size: usize,
    floor: usize,
    used: usize,
    tenants: Level<TenantId, Level<PrincipalId, Queue<W>>>,
    seen: SeenCallers,
    /// Counts requests that started to wait, and turns.
    turns: u64,
}

/// Identifies a waiting request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ticket(u64);

/// The callers that have ever requested a part.
#[derive(Debug, Clone, PartialEq, Eq)]
enum SeenCallers {
    NoCaller,
    One(PrincipalKey),
    Principals(TenantId),
    Tenants,
}

/// Tenants, or the principals of one tenant.
#[derive(Debug)]
struct Level<K, N> {
    children: HashMap<K, Child<N>>,
    by_use: BTreeSet<(usize, K)>,
    /// Those with waiting requests, the next one first.
    waiting: BTreeSet<(usize, u64, K)>,
}

#[derive(Debug, Default)]
struct Child<N> {
    used: usize,
    /// Its last turn, or when it started to wait.
    turn: u64,
    node: N,
}

/// The waiting requests of one principal, in order.
#[derive(Debug)]
struct Queue<W>(BTreeMap<u64, W>);

trait Node: Default {
    fn is_waiting(&self) -> bool;
}

// === impl Shares ===

impl<W> Shares<W> {
    /// Creates a resource of `size` parts.
    pub fn new(size: usize) -> Self {
        let (tenants, seen) = (Level::default(), SeenCallers::NoCaller);
        Self { size, floor: 0, used: 0, tenants, seen, turns: 0 }
    }

    /// Lets each tenant hold `floor` parts in any case, even beyond the size. For parts that cannot
    /// be given up, and without waiting requests.
    #[must_use]
    pub fn with_floor(self, floor: usize) -> Self {
        Self { floor, ..self }
    }

    /// The number of parts in use.
    pub fn used(&self) -> usize {
        self.used
    }

    /// The number of parts that `owner` holds.
    pub fn used_by(&self, owner: &PrincipalKey) -> usize {
        self.tenants.get(&owner.tenant).map_or(0, |tenant| tenant.node.used(&owner.principal))
    }

    /// The number of callers that hold or want parts.
    pub fn owners(&self) -> usize {
        self.tenants.children.values().map(|tenant| tenant.node.children.len()).sum()
    }

    /// Gives `amount` parts to `owner`; `false` if that would take the share of another. Waiting
    /// requests are served first.
    #[must_use]
    pub fn take(&mut self, owner: &PrincipalKey, amount: usize) -> bool {
        self.seen.note(owner);
        let waits =
            self.tenants.get(&owner.tenant).and_then(|tenant| tenant.node.get(&owner.principal));
        if waits.is_some_and(|principal| principal.node.is_waiting()) || !self.admits(owner, amount)
        {
            return false;
        }
        self.add(owner, amount);
        true
    }

    /// Counts `amount` parts that `owner` holds already, regardless of its share.
    pub fn add(&mut self, owner: &PrincipalKey, amount: usize) {
        self.used = self.used.saturating_add(amount);
        self.tenants.change(&owner.tenant, |tenant| {
            tenant.used = tenant.used.saturating_add(amount);
            tenant.node.change(&owner.principal, |principal| {
                principal.used = principal.used.saturating_add(amount)
            });
        });
    }

    /// Takes `amount` parts without a caller; `false` if only parts reserved for callers are left.
    #[must_use]
    pub fn take_unowned(&mut self, amount: usize) -> bool {
        let sum = self.used.saturating_add(amount);
        let reserved = match self.seen {
            SeenCallers::NoCaller => 0,
            SeenCallers::One(_) | SeenCallers::Principals(_) | SeenCallers::Tenants => {
                self.size / RESERVED
            }
        };
        let admits = sum <= self.size - reserved || (self.used == 0 && sum <= self.size);
        if admits {
            self.used = sum;
        }
        admits
    }

    /// Counts `amount` parts without a caller that are in use already.
    pub fn add_unowned(&mut self, amount: usize) {
        self.used = self.used.saturating_add(amount);
    }

    /// Takes back `amount` parts without a caller.
    pub fn give_back_unowned(&mut self, amount: usize) {
        self.used = self.used.saturating_sub(amount);
    }

    /// Takes `amount` parts back from `owner`, at most those that it holds.
    pub fn give_back(&mut self, owner: &PrincipalKey, amount: usize) {
        let amount = amount.min(self.used_by(owner));
        self.used -= amount;
        self.tenants.change(&owner.tenant, |tenant| {
            tenant.used -= amount;
            tenant.node.change(&owner.principal, |principal| principal.used -= amount);
        });
    }

    /// Lets `owner` wait for one part. [`serve_next`](Self::serve_next) returns `waiter` with it.
    pub fn wait(&mut self, owner: &PrincipalKey, waiter: W) -> Ticket {
        self.seen.note(owner);
        self.turns += 1;
        let turn = self.turns;
        self.tenants.change(&owner.tenant, |tenant| {
            tenant.begin_to_wait(turn);
            tenant.node.change(&owner.principal, |principal| {
                principal.begin_to_wait(turn);
                principal.node.0.insert(turn, waiter);
            });
        });
        Ticket(turn)
    }

    /// Removes a waiting request, unless it was served.
    pub fn cancel(&mut self, owner: &PrincipalKey, ticket: Ticket) {
        self.tenants.change(&owner.tenant, |tenant| {
            tenant.node.change(&owner.principal, |principal| principal.node.0.remove(&ticket.0));
        });
    }

    /// Gives one part to the request whose turn it is, if there is a free part for it.
    pub fn serve_next(&mut self) -> Option<(PrincipalKey, W)> {
        let tenant = self.tenants.next()?.clone();
        let principal = self.tenants.get(&tenant)?.node.next()?.clone();
        let owner = PrincipalKey { tenant, principal };
        if !self.admits(&owner, 1) {
            return None;
        }
        self.turns += 1;
        let turn = self.turns;
        let waiter = self.tenants.change(&owner.tenant, |tenant| {
            tenant.turn = turn;
            tenant.node.change(&owner.principal, |principal| {
                principal.turn = turn;
                principal.node.0.pop_first().map(|(_, waiter)| waiter)
            })
        })?;
        self.add(&owner, 1);
        Some((owner, waiter))
    }

    /// Selects the principals whose parts are given up for `amount` parts of `owner`: principals of
    /// one tenant, the one that holds most first.
    pub fn givers(
        &self,
        owner: &PrincipalKey,
        amount: usize,
    ) -> impl Iterator<Item = PrincipalKey> + '_ {
        let own = self.tenants.used(&owner.tenant).saturating_add(amount);
        let tenant = match own > self.share_of_tenant(&owner.tenant) {
            true => Some(owner.tenant.clone()),
            false => self.tenants.by_use.last().map(|(_, tenant)| tenant.clone()),
        };
        let found = tenant.and_then(|tenant| Some((self.tenants.get(&tenant)?, tenant)));
        found.into_iter().flat_map(|(found, tenant)| {
            let principals = found.node.by_use.iter().rev();
            principals.map(move |(_, principal)| PrincipalKey {
                tenant: tenant.clone(),
                principal: principal.clone(),
            })
        })
    }

    fn admits(&self, owner: &PrincipalKey, amount: usize) -> bool {
        let tenant = self.tenants.used(&owner.tenant).saturating_add(amount);
        if tenant <= self.floor {
            return true;
        }
        let sum = self.used.saturating_add(amount);
        if sum > self.size {
            return false;
        }
        if self.used == 0 || sum <= self.size - self.size / RESERVED {
            return true;
        }
        match &self.seen {
            SeenCallers::Tenants => tenant <= self.share_of_tenant(&owner.tenant),
            SeenCallers::Principals(_) => {
                let level = self.tenants.get(&owner.tenant).map(|tenant| &tenant.node);
                let principals = level.map_or(1, |level| level.count_with(&owner.principal));
                let principal = level.map_or(0, |level| level.used(&owner.principal));
                principal.saturating_add(amount) <= (self.size / principals.max(2)).max(1)
            }
            SeenCallers::NoCaller | SeenCallers::One(_) => true,
        }
    }

    fn share_of_tenant(&self, tenant: &TenantId) -> usize {
        let least = if self.seen == SeenCallers::Tenants { 2 } else { 1 };
        (self.size / self.tenants.count_with(tenant).max(least)).max(1)
    }
}

// === impl SeenCallers ===

impl SeenCallers {
    fn note(&mut self, owner: &PrincipalKey) {
        match self {
            Self::NoCaller => *self = Self::One(owner.clone()),
            Self::One(known) if known.tenant != owner.tenant => *self = Self::Tenants,
            Self::One(known) if known.principal != owner.principal => {
                *self = Self::Principals(owner.tenant.clone());
            }
            Self::Principals(tenant) if *tenant != owner.tenant => *self = Self::Tenants,
            Self::One(_) | Self::Principals(_) | Self::Tenants => {}
        }
    }
}

// === impl Level ===

impl<K: Clone + Ord + Hash, N: Node> Level<K, N> {
    fn get(&self, key: &K) -> Option<&Child<N>> {
        self.children.get(key)
    }

    fn used(&self, key: &K) -> usize {
        self.get(key).map_or(0, |child| child.used)
    }

    /// The number of children, including `key`.
    fn count_with(&self, key: &K) -> usize {
        self.children.len() + usize::from(!self.children.contains_key(key))
    }

    fn next(&self) -> Option<&K> {
        self.waiting.first().map(|(_, _, key)| key)
    }

    /// Changes a child, and its places in the orders.
    fn change<R>(&mut self, key: &K, change: impl FnOnce(&mut Child<N>) -> R) -> R {
        let child = self.children.entry(key.clone()).or_default();
        if child.used > 0 {
            self.by_use.remove(&(child.used, key.clone()));
        }
        if child.node.is_waiting() {
            self.waiting.remove(&(child.used, child.turn, key.clone()));
        }
        let result = change(child);
        if child.used > 0 {
            self.by_use.insert((child.used, key.clone()));
        }
        match child.node.is_waiting() {
            true => {
                self.waiting.insert((child.used, child.turn, key.clone()));
            }
            false if child.used == 0 => {
                self.children.remove(key);
            }
            false => {}
        }
        result
    }
}

impl<K, N> Default for Level<K, N> {
    fn default() -> Self {
        Self { children: HashMap::new(), by_use: BTreeSet::new(), waiting: BTreeSet::new() }
    }
}

impl<K, N> Node for Level<K, N> {
    fn is_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }
}

impl<N: Node> Child<N> {
    fn begin_to_wait(&mut self, turn: u64) {
        if !self.node.is_waiting() {
            self.turn = turn;
        }
    }
}

impl<W> Default for Queue<W> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<W> Node for Queue<W> {
    fn is_waiting(&self) -> bool {
        !self.0.is_empty()
    }
}

#[cfg(test)]
mod tests;
