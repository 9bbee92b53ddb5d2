//! Grants in memory, unsealed, so that a call reads the store for its account only now and then.
//!
//! Invariant (I-110): a grant is used for [`MAX_READ_AGE`] after the start of its read, and never
//! after a change by this process.

use std::{collections::HashMap, sync::Arc};

use parking_lot::Mutex;
use toolcrib_core::{
    clock::{MAX_READ_AGE, ReadStart},
    credential::{AccountGrant, GrantPlace, GrantSecrets},
    id::CredentialId,
};

/// The most grants in memory. A call with another one reads the store.
const MAX_KNOWN: usize = 16_384;

type UnsealedGrant = (AccountGrant, GrantSecrets);

/// The grants that this process has read a moment ago.
#[derive(Default)]
pub(crate) struct KnownGrants(Mutex<State>);

#[derive(Default)]
struct State {
    by_place: HashMap<GrantPlace, Known>,
    /// Counts the changes of grants by this process.
    changes: u64,
    swept_at: Option<ReadStart>,
}

struct Known {
    began: ReadStart,
    grant: Arc<UnsealedGrant>,
}

/// A read of the store that has not ended.
pub(crate) struct PendingRead {
    began: ReadStart,
    changes: u64,
}

/// A change of grants that has not ended. When it is dropped, earlier reads no longer count.
pub(crate) struct PendingChange<'a> {
    known: &'a KnownGrants,
    of: Changed<'a>,
}

/// The grants that change.
#[derive(Clone, Copy)]
pub(crate) enum Changed<'a> {
    At(&'a GrantPlace),
    Id(&'a CredentialId),
}

// === impl KnownGrants ===

impl KnownGrants {
    /// The grant at `place`, or else the beginning of a read of it.
    pub(crate) fn find(
        &self,
        place: &GrantPlace,
        now: ReadStart,
    ) -> Result<Arc<UnsealedGrant>, PendingRead> {
        let state = self.0.lock();
        let known = state.by_place.get(place).filter(|known| is_recent(known.began, now));
        known
            .map(|known| Arc::clone(&known.grant))
            .ok_or(PendingRead { began: now, changes: state.changes })
    }

    /// Keeps what was read, unless this process has changed a grant meanwhile.
    pub(crate) fn keep(&self, read: &PendingRead, grant: &Arc<UnsealedGrant>) {
        let PendingRead { began, changes } = *read;
        let mut state = self.0.lock();
        if state.changes != changes {
            return;
        }
        if state.swept_at.is_none_or(|at| !is_recent(at, began)) {
            state.by_place.retain(|_, known| is_recent(known.began, began));
            state.swept_at = Some(began);
        }
        let has_room = state.by_place.len() < MAX_KNOWN;
        if has_room || state.by_place.contains_key(&grant.0.place) {
            let known = Known { began, grant: Arc::clone(grant) };
            state.by_place.insert(grant.0.place.clone(), known);
        }
    }

    /// The beginning of a change by this process.
    pub(crate) fn change<'a>(&'a self, of: Changed<'a>) -> PendingChange<'a> {
        PendingChange { known: self, of }
    }
}

impl Drop for PendingChange<'_> {
    fn drop(&mut self) {
        let mut state = self.known.0.lock();
        state.changes += 1;
        match self.of {
            Changed::At(place) => drop(state.by_place.remove(place)),
            Changed::Id(id) => state.by_place.retain(|_, known| known.grant.0.id != *id),
        }
    }
}

fn is_recent(read: ReadStart, now: ReadStart) -> bool {
    read.is_within(now, MAX_READ_AGE)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conformance::grant_store::{grant, place, secrets};

    fn moment(millis: i64) -> ReadStart {
        ReadStart { at: 0, wall_at: millis }
    }

    fn read(known: &KnownGrants, id: &str, at: i64) -> Arc<UnsealedGrant> {
        let grant = Arc::new((grant(id, "ann"), secrets(id)));
        let Err(read) = known.find(&grant.0.place, moment(at)) else { panic!("it is known") };
        known.keep(&read, &grant);
        grant
    }

    /// I-110
    #[test]
    fn a_grant_is_known_for_two_seconds_from_the_beginning_of_its_read() {
        let known = KnownGrants::default();
        let grant = read(&known, "a", 0);
        for at in [-1_000, 0, 2_000] {
            let found = known.find(&grant.0.place, moment(at)).ok().unwrap();
            assert!(Arc::ptr_eq(&found, &grant), "{at}");
        }
        assert!(known.find(&grant.0.place, moment(2_001)).is_err());
        let later = |at| known.find(&grant.0.place, ReadStart { at, wall_at: 0 });
        assert!(later(2_000_000_000).is_ok() && later(2_000_000_001).is_err());
        assert!(known.find(&place("bob"), moment(0)).is_err());
    }

    /// I-110
    #[test]
    fn a_grant_that_this_process_changes_is_read_again() {
        let known = KnownGrants::default();
        let grant = read(&known, "a", 0);
        let other = "b".parse().unwrap();
        for (of, is_forgotten) in [
            (Changed::At(&place("bob")), false),
            (Changed::Id(&other), false),
            (Changed::At(&grant.0.place), true),
            (Changed::Id(&grant.0.id), true),
        ] {
            let change = known.change(of);
            assert!(known.find(&grant.0.place, moment(0)).is_ok(), "the change has not ended");
            drop(change);
            let read = known.find(&grant.0.place, moment(0));
            assert_eq!(read.is_err(), is_forgotten);
            read.err().iter().for_each(|read| known.keep(read, &grant));
        }
    }

    /// I-110
    #[test]
    fn a_read_that_a_change_overtakes_is_not_kept() {
        let known = KnownGrants::default();
        let grant = Arc::new((grant("a", "ann"), secrets("a")));
        let Err(read) = known.find(&grant.0.place, moment(0)) else { panic!("it is known") };
        drop(known.change(Changed::Id(&grant.0.id)));
        known.keep(&read, &grant);
        assert!(known.find(&grant.0.place, moment(0)).is_err());
    }

    #[test]
    fn earlier_values_are_dropped_by_the_next_read() {
        let known = KnownGrants::default();
        let first = Arc::downgrade(&read(&known, "a", 0));
        let other = Arc::new((grant("b", "bob"), secrets("b")));
        let Err(read) = known.find(&other.0.place, moment(2_001)) else { panic!("it is known") };
        known.keep(&read, &other);
        assert!(first.upgrade().is_none());
    }
}
