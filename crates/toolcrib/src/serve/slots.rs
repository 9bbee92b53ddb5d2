//! The slots for open connections, and the choice of the connection that gives one up.
//!
//! Invariant: a peer without a valid credential never keeps out an authenticated caller, and never
//! costs a caller its connection. Peers without a credential give up slots to each other, and
//! callers to each other. Some slots are always left to newcomers, because every caller starts as
//! one.
//!
//! Slots are freed before the last one is taken, so that accepting a connection need not wait until
//! another one closes.

use std::{
    collections::HashMap,
    sync::{Arc, Weak},
    time::Duration,
};

use parking_lot::Mutex;
use tokio::{sync::Notify, time::Instant};

use super::connection::{Connection, Rank};

/// Pause before the next attempt to make room when every slot is taken.
const RETRY: Duration = Duration::from_millis(20);

/// The divisor of all slots that gives the part reserved for newcomers.
const NEWCOMERS: usize = 16;

/// Divisors of the slots without callers: the part that must be free, and the larger part to free
/// if it is not. The larger part spares a scan of all connections for each new one in a flood.
const LEAST_FREE: usize = 8;
const MADE_FREE: usize = 4;

/// The divisor that gives the number of slots taken between two scans for connections to evict: on
/// a busy machine many connections cannot be evicted yet.
const LOOK: usize = 32;

pub(super) struct Slots {
    size: usize,
    taken: Mutex<SlotTable>,
    freed: Notify,
}

#[derive(Default)]
struct SlotTable {
    next: u64,
    connections: HashMap<u64, SlotHolder>,
    /// The number of callers that are not evicted.
    callers: usize,
    /// The number of connections that are evicted and not closed yet.
    evicted: usize,
}

struct SlotHolder {
    connection: Arc<Connection>,
    /// Whether the peer has shown a valid credential.
    caller: bool,
    evicted: bool,
}

/// One slot, freed when it is dropped.
pub(super) struct Slot {
    slots: Arc<Slots>,
    number: u64,
    pub(super) connection: Arc<Connection>,
}

// === impl Slots ===

impl Slots {
    pub(super) fn new(size: usize) -> Self {
        Self { size: size.max(1), taken: Mutex::default(), freed: Notify::new() }
    }

    /// Takes a slot for a new connection. Waits only while every slot belongs to a running request
    /// of a caller or to a closing connection.
    pub(super) async fn take(self: &Arc<Self>) -> Slot {
        loop {
            if let Some(slot) = self.try_take() {
                return slot;
            }
            self.make_room();
            tokio::time::timeout(RETRY, self.freed.notified()).await.ok();
        }
    }

    fn try_take(self: &Arc<Self>) -> Option<Slot> {
        let mut taken = self.taken.lock();
        if taken.connections.len() >= self.size {
            return None;
        }
        let number = taken.next;
        taken.next += 1;
        let slots = Arc::downgrade(self);
        let connection = Arc::new(Connection::new(move || {
            if let Some(slots) = Weak::upgrade(&slots) {
                slots.promote(number);
            }
        }));
        let holder =
            SlotHolder { connection: Arc::clone(&connection), caller: false, evicted: false };
        taken.connections.insert(number, holder);
        let excess = self.excess(&taken);
        let step = (self.size.saturating_sub(taken.callers) / LOOK).max(1);
        if excess > 0 && taken.newcomers().is_multiple_of(step) {
            taken.evict_newcomers(excess, Instant::now());
        }
        Some(Slot { slots: Arc::clone(self), number, connection })
    }

    /// The number of peers without a credential that must give up their slots to free enough of
    /// them.
    fn excess(&self, taken: &SlotTable) -> usize {
        let open = self.size.saturating_sub(taken.callers);
        let newcomers = taken.newcomers();
        match newcomers > open - open / LEAST_FREE {
            true => newcomers - (open - open / MADE_FREE),
            false => 0,
        }
    }

    /// The number of slots that callers may hold while newcomers need some.
    fn part_of_callers(&self) -> usize {
        self.size - (self.size / NEWCOMERS).max(1)
    }

    /// Evicts peers without a credential: at least one, unless evicted ones are still about to
    /// close. Also evicts an idle caller if callers hold more than their part.
    pub(super) fn make_room(&self) {
        self.make_room_at(Instant::now());
    }

    fn make_room_at(&self, now: Instant) {
        let mut taken = self.taken.lock();
        let least = match taken.evicted {
            0 => (taken.newcomers() / NEWCOMERS).max(1),
            _ => 0,
        };
        let count = self.excess(&taken).max(least);
        if count > 0 {
            taken.evict_newcomers(count, now);
        }
        if taken.callers > self.part_of_callers() {
            taken.evict_idle_caller(None, now);
        }
    }

    /// Marks the connection with `number` as a caller's. When callers hold more than their part,
    /// the longest idle one gives up its slot.
    fn promote(&self, number: u64) {
        let mut taken = self.taken.lock();
        let Some(holder) = taken.connections.get_mut(&number) else { return };
        if std::mem::replace(&mut holder.caller, true) || holder.evicted {
            return;
        }
        taken.callers += 1;
        if taken.callers > self.part_of_callers() {
            taken.evict_idle_caller(Some(number), Instant::now());
        }
    }
}

// === impl SlotTable ===

impl SlotTable {
    fn newcomers(&self) -> usize {
        self.connections.len().saturating_sub(self.callers + self.evicted)
    }

    fn evict_newcomers(&mut self, count: usize, now: Instant) {
        let candidates = self.connections.iter().filter(|(_, holder)| !holder.evicted);
        let mut ranked: Vec<_> = candidates
            .filter_map(|(number, holder)| Some((holder.connection.rank(now)?, *number)))
            .filter(|((rank, _), _)| *rank != Rank::Caller)
            .collect();
        if count < ranked.len() {
            ranked.select_nth_unstable(count);
            ranked.truncate(count);
        }
        for (_, number) in ranked {
            self.evict(number);
        }
    }

    fn evict_idle_caller(&mut self, except: Option<u64>, now: Instant) {
        let candidates = self
            .connections
            .iter()
            .filter(|(number, holder)| Some(**number) != except && !holder.evicted);
        let ranked =
            candidates.filter_map(|(number, holder)| Some((holder.connection.rank(now)?, *number)));
        let idle = ranked.filter(|((rank, _), _)| *rank == Rank::Caller).min();
        if let Some((_, number)) = idle {
            self.evict(number);
        }
    }

    fn evict(&mut self, number: u64) {
        let Some(holder) = self.connections.get_mut(&number) else { return };
        if std::mem::replace(&mut holder.evicted, true) {
            return;
        }
        self.evicted += 1;
        if holder.caller {
            self.callers -= 1;
        }
        holder.connection.evict();
    }
}

// === impl Slot ===

impl Drop for Slot {
    fn drop(&mut self) {
        let mut taken = self.slots.taken.lock();
        match taken.connections.remove(&self.number) {
            Some(SlotHolder { evicted: true, .. }) => taken.evicted -= 1,
            Some(SlotHolder { caller: true, .. }) => taken.callers -= 1,
            Some(_) | None => {}
        }
        drop(taken);
        self.slots.freed.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use http::Version;

    use super::{
        super::connection::{CURRENT, Shutdown, authenticated, unauthenticated},
        *,
    };

    async fn take(slots: &Arc<Slots>) -> Slot {
        let slot = slots.take().await;
        slot.connection.start(Shutdown::default());
        slot
    }

    async fn known(slot: &Slot) {
        CURRENT.scope(Arc::clone(&slot.connection), async { authenticated() }).await;
    }

    fn evicted(places: &[Slot]) -> usize {
        places.iter().filter(|slot| slot.connection.is_evicted()).count()
    }

    // I-27
    #[tokio::test]
    async fn places_are_given_up_in_order_and_never_by_a_caller() {
        let slots = Arc::new(Slots::new(5));
        let mut places = Vec::new();
        for _ in 0..5 {
            places.push(take(&slots).await);
        }
        let [calling, waiting, busy, old, young] = &places[..] else { unreachable!() };
        known(calling).await;
        let _call = calling.connection.begin(Version::HTTP_2);
        known(waiting).await;
        let _request = busy.connection.begin(Version::HTTP_11);
        // By then, connections that are idle now are no longer new.
        let later = Instant::now() + Duration::from_secs(1);
        for (before, next) in [old, young, busy].into_iter().enumerate() {
            slots.make_room_at(later);
            assert!(next.connection.is_evicted());
            assert_eq!(evicted(&places), before + 1, "one at a time of so few");
            slots.make_room_at(later);
            assert_eq!(evicted(&places), before + 1, "none as long as that one is about to close");
            // Simulates its close.
            slots.taken.lock().connections.remove(&next.number);
            slots.taken.lock().evicted -= 1;
        }
        slots.make_room_at(later);
        assert!(!calling.connection.is_evicted() && !waiting.connection.is_evicted());
    }

    // I-27
    #[tokio::test]
    async fn a_new_connection_outlasts_one_whose_request_had_no_credential() {
        let slots = Arc::new(Slots::new(2));
        let (busy, fresh) = (take(&slots).await, take(&slots).await);
        let _request = busy.connection.begin(Version::HTTP_11);
        CURRENT.scope(Arc::clone(&busy.connection), async { unauthenticated() }).await;
        slots.make_room();
        assert!(busy.connection.is_evicted() && !fresh.connection.is_evicted());
    }

    // I-27
    #[tokio::test]
    async fn newcomers_without_a_credential_take_no_place_of_an_idle_caller() {
        let slots = Arc::new(Slots::new(64));
        let mut callers = Vec::new();
        for _ in 0..60 {
            let slot = take(&slots).await;
            known(&slot).await;
            callers.push(slot);
        }
        let mut flood: Vec<Slot> = Vec::new();
        for _ in 0..1_000 {
            if flood.len() == 4 {
                slots.make_room();
                // Simulates the immediate close of the evicted ones.
                flood.retain(|slot| !slot.connection.is_evicted());
            }
            flood.push(take(&slots).await);
        }
        assert_eq!(evicted(&callers), 0);
        let last = flood.last().unwrap();
        assert!(!last.connection.is_evicted(), "the newest has time to show its credential");
        known(last).await;
        assert_eq!(evicted(&callers), 1, "which gives it the place of the longest idle caller");
        assert!(callers[0].connection.is_evicted());
    }

    // I-27
    #[tokio::test]
    async fn callers_that_held_every_place_leave_some_when_they_are_idle() {
        let slots = Arc::new(Slots::new(4));
        let mut callers = Vec::new();
        let mut calls = Vec::new();
        for _ in 0..4 {
            let slot = take(&slots).await;
            known(&slot).await;
            calls.push(slot.connection.begin(Version::HTTP_2));
            callers.push(slot);
        }
        slots.make_room();
        assert_eq!(evicted(&callers), 0, "while their requests run");
        drop(calls);
        slots.make_room();
        assert!(callers[0].connection.is_evicted());
        slots.make_room();
        assert_eq!(evicted(&callers), 1, "the others keep their part");
    }

    // I-27
    #[tokio::test]
    async fn a_flood_leaves_places_free() {
        let slots = Arc::new(Slots::new(64));
        let mut flood = Vec::new();
        for _ in 0..63 {
            // No connection closes meanwhile.
            flood.push(take(&slots).await);
        }
        let going = evicted(&flood);
        assert!(going >= 8, "{going} make room before all places are taken");
        assert!(flood[..going].iter().all(|slot| slot.connection.is_evicted()), "the oldest first");
        assert_eq!(slots.taken.lock().evicted, going);
        drop(flood);
        let taken = slots.taken.lock();
        assert_eq!((taken.evicted, taken.callers, taken.connections.len()), (0, 0, 0));
    }

    #[tokio::test]
    async fn a_connection_that_was_not_served_yet_is_not_evicted() {
        let slots = Arc::new(Slots::new(1));
        let first = slots.take().await;
        slots.make_room();
        assert!(!first.connection.is_evicted());
        first.connection.start(Shutdown::default());
        slots.make_room();
        assert!(first.connection.is_evicted());
    }
}
