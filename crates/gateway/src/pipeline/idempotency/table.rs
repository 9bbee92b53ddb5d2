//! The table of idempotency keys and stored answers. It has no clock and never waits; the caller does.
//!
//! Invariant (I-31): entries and bytes are bounded, in total and for each owner. An owner over its
//! bound loses its oldest answers; over the total bound, the largest owner loses its oldest.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use bytes::Bytes;
use toolcrib_core::{
    canonical::Digest,
    id::{PrincipalId, RunId, TenantId},
};

/// An answer for repeated calls.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredAnswer {
    /// The body of the answer, byte for byte.
    pub body: Bytes,
    /// The run of the call.
    pub run_id: RunId,
}

/// The owner of keys.
pub(crate) type Owner = (TenantId, PrincipalId);

#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    /// Bytes of answers, for all and for one owner.
    pub(super) bytes: (usize, usize),
    /// Number of answers, for all and for one owner.
    pub(super) answers: (usize, usize),
    /// Calls running under keys, for all and for one owner.
    pub(super) running: (usize, usize),
}

impl Default for Limits {
    fn default() -> Self {
        Self { bytes: (64 << 20, 8 << 20), answers: (65_536, 8_192), running: (8_192, 256) }
    }
}

/// Bytes of an answer in addition to its body and its key.
const OVERHEAD: usize = 512;

/// Expired answers that one step removes; more wait for the next step.
const SWEEP: usize = 64;

/// The state of a key. `R` waits for a running call.
pub(super) enum Lookup<R> {
    Nothing,
    Running(R),
    Kept(StoredAnswer),
    /// It ran, and the answer was too large.
    Spent,
    /// Another tool or other arguments.
    OtherCall,
}

/// There are too many running calls.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct CapacityError;

pub(super) struct Table<R> {
    limits: Limits,
    owners: HashMap<Owner, OwnerEntries<R>>,
    /// Answers by age.
    answers: BTreeMap<u64, Answer>,
    /// Owners by their bytes.
    largest: BTreeSet<(usize, Owner)>,
    /// The number of the next answer.
    number: u64,
    bytes: usize,
    running: usize,
}

/// Everything of one owner.
struct OwnerEntries<R> {
    keys: HashMap<String, Slot<R>>,
    /// Numbers of its answers.
    answers: BTreeSet<u64>,
    bytes: usize,
    running: usize,
}

struct Slot<R> {
    call: Digest,
    state: State<R>,
}

enum State<R> {
    Running(R),
    Ended(u64),
}

/// The answer of a completed call; without `kept`, it was too large.
struct Answer {
    owner: Owner,
    key: String,
    kept: Option<StoredAnswer>,
    bytes: usize,
    until: u64,
}

impl<R> Default for OwnerEntries<R> {
    fn default() -> Self {
        Self { keys: HashMap::new(), answers: BTreeSet::new(), bytes: 0, running: 0 }
    }
}

impl<R: Clone> Table<R> {
    pub(super) fn new(limits: Limits) -> Self {
        Self {
            limits,
            owners: HashMap::new(),
            answers: BTreeMap::new(),
            largest: BTreeSet::new(),
            number: 0,
            bytes: 0,
            running: 0,
        }
    }

    /// The state of `key` of `owner` for `call`.
    pub(super) fn find(&mut self, owner: &Owner, key: &str, call: Digest, now: u64) -> Lookup<R> {
        self.sweep(now);
        let Some(slot) = self.owners.get(owner).and_then(|held| held.keys.get(key)) else {
            return Lookup::Nothing;
        };
        let same = slot.call == call;
        match &slot.state {
            State::Running(_) if !same => Lookup::OtherCall,
            State::Running(waiting) => Lookup::Running(waiting.clone()),
            State::Ended(number) => {
                let number = *number;
                match self.answers.get(&number) {
                    Some(place) if place.until <= now => {
                        self.forget(number);
                        Lookup::Nothing
                    }
                    Some(_) if !same => Lookup::OtherCall,
                    Some(place) => place.kept.clone().map_or(Lookup::Spent, Lookup::Kept),
                    None => Lookup::Nothing,
                }
            }
        }
    }

    /// Reserves the free `key` for a running call.
    pub(super) fn begin(
        &mut self,
        owner: &Owner,
        key: &str,
        call: Digest,
        waiting: R,
    ) -> Result<(), CapacityError> {
        let (all, each) = self.limits.running;
        let running = self.owners.get(owner).map_or(0, |held| held.running);
        if running >= each || self.running >= all {
            return Err(CapacityError);
        }
        self.running += 1;
        let held = self.owners.entry(owner.clone()).or_default();
        held.running += 1;
        held.keys.insert(key.to_owned(), Slot { call, state: State::Running(waiting) });
        Ok(())
    }

    /// Completes the running call under `key` with an answer to keep.
    pub(super) fn keep(
        &mut self,
        owner: &Owner,
        key: &str,
        kept: StoredAnswer,
        now: u64,
        until: u64,
    ) {
        self.sweep(now);
        let number = self.number;
        let Some(held) = self.owners.get_mut(owner) else { return };
        let Some(slot) = held.keys.get_mut(key) else { return };
        if !matches!(slot.state, State::Running(_)) {
            return;
        }
        slot.state = State::Ended(number);
        self.number += 1;
        self.running -= 1;
        held.running -= 1;
        let fixed = OVERHEAD + 2 * key.len();
        let kept = Some(kept).filter(|kept| fixed + kept.body.len() <= self.limits.bytes.1);
        let bytes = fixed + kept.as_ref().map_or(0, |kept| kept.body.len());
        let place = Answer { owner: owner.clone(), key: key.to_owned(), kept, bytes, until };
        self.answers.insert(number, place);
        held.answers.insert(number);
        self.weigh(owner, |bytes_held| bytes_held + bytes);
        self.make_room(owner);
    }

    /// Completes the running call under `key` without an answer. Ignores calls that are already
    /// complete.
    pub(super) fn release(&mut self, owner: &Owner, key: &str) {
        let Some(held) = self.owners.get_mut(owner) else { return };
        let runs = |slot: &Slot<R>| matches!(slot.state, State::Running(_));
        if held.keys.get(key).is_some_and(runs) {
            held.keys.remove(key);
            held.running -= 1;
            self.running -= 1;
            self.leave(owner);
        }
    }

    /// Drops answers until all bounds hold.
    fn make_room(&mut self, owner: &Owner) {
        let (bytes, answers) = (self.limits.bytes, self.limits.answers);
        while let Some(oldest) = self.owners.get(owner).and_then(|held| {
            let over = held.bytes > bytes.1 || held.answers.len() > answers.1;
            held.answers.first().copied().filter(|_| over)
        }) {
            self.forget(oldest);
        }
        while self.bytes > bytes.0 || self.answers.len() > answers.0 {
            let Some((_, most)) = self.largest.last() else { return };
            let oldest = self.owners.get(most).and_then(|held| held.answers.first());
            let Some(&oldest) = oldest else { return };
            self.forget(oldest);
        }
    }

    /// Removes expired answers, the oldest first.
    fn sweep(&mut self, now: u64) {
        for _ in 0..SWEEP {
            match self.answers.first_key_value() {
                Some((&number, place)) if place.until <= now => self.forget(number),
                Some(_) | None => return,
            }
        }
    }

    fn forget(&mut self, number: u64) {
        let Some(Answer { owner, key, bytes, .. }) = self.answers.remove(&number) else {
            return;
        };
        if let Some(held) = self.owners.get_mut(&owner) {
            held.keys.remove(&key);
            held.answers.remove(&number);
        }
        self.weigh(&owner, |held| held.saturating_sub(bytes));
        self.leave(&owner);
    }

    /// Updates the bytes of `owner`.
    fn weigh(&mut self, owner: &Owner, change: impl FnOnce(usize) -> usize) {
        let Some(held) = self.owners.get_mut(owner) else { return };
        let (before, after) = (held.bytes, change(held.bytes));
        held.bytes = after;
        self.bytes = (self.bytes + after).saturating_sub(before);
        self.largest.remove(&(before, owner.clone()));
        if after > 0 {
            self.largest.insert((after, owner.clone()));
        }
    }

    /// Drops `owner` if it has no entries.
    fn leave(&mut self, owner: &Owner) {
        if self.owners.get(owner).is_some_and(|held| held.keys.is_empty()) {
            self.owners.remove(owner);
        }
    }
}

#[cfg(test)]
mod tests;
