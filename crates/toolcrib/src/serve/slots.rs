//! The places for open connections, and who gives one up when there is none left.
//!
//! Invariant: a peer without a valid credential never keeps out one that has it, and never costs it
//! its connection.

use std::{collections::HashMap, sync::Arc, time::Duration};

use parking_lot::Mutex;
use tokio::{sync::Notify, time::Instant};

use super::connection::{Connection, Rank};

/// How often it is tried again to make room, when every place is in use.
const RETRY: Duration = Duration::from_millis(20);

/// Of the places, the part that idle peers without a credential give up at once, so that a flood of
/// connections does not look through all of them for each.
const BATCH: usize = 16;

/// All places.
#[derive(Debug)]
pub(super) struct Slots {
    size: usize,
    taken: Mutex<Taken>,
    freed: Notify,
}

#[derive(Debug, Default)]
struct Taken {
    next: u64,
    connections: HashMap<u64, Arc<Connection>>,
}

/// One place, until it is dropped.
#[derive(Debug)]
pub(super) struct Slot {
    slots: Arc<Slots>,
    number: u64,
    pub(super) connection: Arc<Connection>,
}

impl Slots {
    pub(super) fn new(size: usize) -> Self {
        Self { size: size.max(1), taken: Mutex::default(), freed: Notify::new() }
    }

    /// A place for a new connection, made by evicting another when there is none.
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
        let connection = Arc::new(Connection::new());
        taken.connections.insert(number, Arc::clone(&connection));
        Some(Slot { slots: Arc::clone(self), number, connection })
    }

    /// Evicts connections, unless evicted ones are still about to go.
    pub(super) fn make_room(&self) {
        self.make_room_at(Instant::now());
    }

    fn make_room_at(&self, now: Instant) {
        let taken = self.taken.lock();
        if taken.connections.values().any(|connection| connection.is_evicted()) {
            return;
        }
        let ranked = taken.connections.values();
        let mut ranked: Vec<_> = ranked.filter_map(|it| Some((it.rank(now)?, it))).collect();
        ranked.sort_unstable_by_key(|(rank, _)| *rank);
        let first = ranked.first().map(|((rank, _), _)| *rank);
        let same = ranked.iter().take_while(|((rank, _), _)| Some(*rank) == first).count();
        let count = match first {
            Some(Rank::Idle | Rank::Fresh) => same.min(self.size / BATCH).max(1),
            // What has a request, or a credential, is given up one by one.
            Some(Rank::Busy | Rank::Known) | None => 1,
        };
        for (_, connection) in ranked.into_iter().take(count) {
            connection.evict();
        }
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.slots.taken.lock().connections.remove(&self.number);
        self.slots.freed.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use http::Version;

    use super::{
        super::connection::{CURRENT, authenticated},
        *,
    };

    async fn known(slot: &Slot) {
        CURRENT.scope(Arc::clone(&slot.connection), async { authenticated() }).await;
    }

    #[tokio::test]
    async fn places_are_given_up_in_order_and_never_by_a_caller_with_a_request() {
        let slots = Arc::new(Slots::new(5));
        let mut places = Vec::new();
        for _ in 0..5 {
            places.push(slots.take().await);
        }
        let [calling, waiting, busy, old, young] = &places[..] else { unreachable!() };
        known(calling).await;
        let _call = calling.connection.begin(Version::HTTP_2);
        known(waiting).await;
        let _request = busy.connection.begin(Version::HTTP_11);
        // What is idle now is so for some time by then.
        let later = Instant::now() + Duration::from_secs(1);
        for (before, next) in [old, young, busy, waiting].into_iter().enumerate() {
            slots.make_room_at(later);
            let evicted = places.iter().filter(|it| it.connection.is_evicted()).count();
            assert!(next.connection.is_evicted());
            assert_eq!(evicted, before + 1, "one at a time of so few");
            slots.make_room_at(later);
            let evicted = places.iter().filter(|it| it.connection.is_evicted()).count();
            assert_eq!(evicted, before + 1, "none as long as that one is about to go");
            // As if it had gone.
            slots.taken.lock().connections.remove(&next.number);
        }
        slots.make_room_at(later);
        assert!(!calling.connection.is_evicted());
    }

    #[tokio::test]
    async fn a_new_connection_outlasts_one_with_a_request_and_no_credential() {
        let slots = Arc::new(Slots::new(2));
        let (busy, fresh) = (slots.take().await, slots.take().await);
        let _request = busy.connection.begin(Version::HTTP_11);
        slots.make_room();
        assert!(busy.connection.is_evicted() && !fresh.connection.is_evicted());
    }
}
