//! A number of bytes that many holders share.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

/// A number of bytes that may be held at once. Clones share it.
#[derive(Debug, Clone)]
pub struct ByteBudget(Arc<State>);

#[derive(Debug)]
struct State {
    size: usize,
    held: AtomicUsize,
}

/// Bytes reserved from a [`ByteBudget`], released on drop.
#[derive(Debug)]
pub struct Reservation {
    budget: ByteBudget,
    bytes: usize,
}

impl ByteBudget {
    /// Creates a budget of `size` bytes.
    pub fn new(size: usize) -> Self {
        Self(Arc::new(State { size, held: AtomicUsize::new(0) }))
    }

    /// How many bytes may be held at once.
    pub fn size(&self) -> usize {
        self.0.size
    }

    /// How many bytes are held.
    pub fn held(&self) -> usize {
        self.0.held.load(Ordering::Relaxed)
    }

    /// Creates a reservation of no bytes, which can grow.
    pub fn reservation(&self) -> Reservation {
        Reservation { budget: self.clone(), bytes: 0 }
    }

    /// Reserves `bytes`; `None` if the budget would be exceeded.
    pub fn reserve(&self, bytes: usize) -> Option<Reservation> {
        let mut reservation = self.reservation();
        reservation.grow(bytes).then_some(reservation)
    }
}

impl Reservation {
    /// How many bytes it holds.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Reserves `more` bytes in addition; `false`, without a change, if the budget would be
    /// exceeded.
    #[must_use]
    pub fn grow(&mut self, more: usize) -> bool {
        let State { size, held } = &*self.budget.0;
        let grown = |held: usize| held.checked_add(more).filter(|sum| sum <= size);
        let has_room = held.fetch_update(Ordering::Relaxed, Ordering::Relaxed, grown).is_ok();
        if has_room {
            self.bytes += more;
        }
        has_room
    }

    /// The budget that the bytes are reserved in.
    pub fn budget(&self) -> &ByteBudget {
        &self.budget
    }

    /// Releases the bytes beyond `bytes`.
    pub fn shrink_to(&mut self, bytes: usize) {
        let less = self.bytes.saturating_sub(bytes);
        self.budget.0.held.fetch_sub(less, Ordering::Relaxed);
        self.bytes -= less;
    }

    /// Adds `more` bytes, even beyond the budget. For bytes that exist already and must prevent
    /// other reservations.
    pub fn add(&mut self, more: usize) {
        self.budget.0.held.fetch_add(more, Ordering::Relaxed);
        self.bytes += more;
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.budget.0.held.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_budget_is_never_exceeded_and_drops_release_bytes() {
        let budget = ByteBudget::new(10);
        let mut first = budget.reserve(6).unwrap();
        assert!(budget.reserve(5).is_none());
        assert!(!first.grow(5) && first.bytes() == 6, "a failure changes nothing");
        assert!(first.grow(4));
        assert!(budget.reserve(1).is_none() && budget.reserve(0).is_some());
        first.add(20);
        assert_eq!((budget.held(), first.bytes()), (30, 30));
        assert!(!first.grow(usize::MAX), "without overflow");
        first.shrink_to(40);
        assert_eq!(first.bytes(), 30);
        first.shrink_to(7);
        assert_eq!((budget.held(), first.bytes()), (7, 7));
        drop(first);
        assert_eq!(budget.held(), 0);
        assert!(budget.reserve(10).is_some());
    }
}
