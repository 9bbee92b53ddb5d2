//! The table of idempotency keys and stored answers. It has no clock and never waits; the caller does.
//!
//! Invariant (I-31): entries and bytes are bounded, in total and for each holder. A holder over its own
//! bound loses its oldest answers; over the total bound, the largest holder loses its oldest.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use bytes::Bytes;
use toolcrib_core::{
    canonical::Digest,
    id::{PrincipalId, RunId, TenantId},
};

/// An answer that repeated calls get again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kept {
    /// The body of the answer, byte for byte.
    pub body: Bytes,
    /// The run of the call.
    pub run_id: RunId,
}

/// The owner of keys.
pub(crate) type Holder = (TenantId, PrincipalId);

/// How much there may be.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    /// Bytes kept, for all and for one holder.
    pub(super) bytes: (usize, usize),
    /// Answers kept, for all and for one holder.
    pub(super) answers: (usize, usize),
    /// Calls running under keys, for all and for one holder.
    pub(super) running: (usize, usize),
}

impl Default for Limits {
    fn default() -> Self {
        Self { bytes: (64 << 20, 8 << 20), answers: (65_536, 8_192), running: (8_192, 256) }
    }
}

/// Bytes of an answer in addition to its body and its key.
const OVERHEAD: usize = 512;

/// Answers that one step forgets because of their age; more wait for the next step.
const SWEEP: usize = 64;

/// The state of a key. `R` waits for a running call.
pub(super) enum Found<R> {
    Nothing,
    Running(R),
    Kept(Kept),
    /// It ran, and the answer was too large.
    Spent,
    /// Another tool or other arguments.
    OtherCall,
}

/// There are too many running calls.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Busy;

pub(super) struct Table<R> {
    limits: Limits,
    holders: HashMap<Holder, Held<R>>,
    /// By age.
    answers: BTreeMap<u64, Place>,
    /// Holders by their bytes.
    largest: BTreeSet<(usize, Holder)>,
    /// Of the next answer.
    number: u64,
    bytes: usize,
    running: usize,
}

/// Everything of one holder.
struct Held<R> {
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

/// The place of an answer.
struct Place {
    holder: Holder,
    key: String,
    kept: Option<Kept>,
    bytes: usize,
    until: u64,
}

impl<R> Default for Held<R> {
    fn default() -> Self {
        Self { keys: HashMap::new(), answers: BTreeSet::new(), bytes: 0, running: 0 }
    }
}

impl<R: Clone> Table<R> {
    pub(super) fn new(limits: Limits) -> Self {
        Self {
            limits,
            holders: HashMap::new(),
            answers: BTreeMap::new(),
            largest: BTreeSet::new(),
            number: 0,
            bytes: 0,
            running: 0,
        }
    }

    /// The state of `key` of `holder` for `call`.
    pub(super) fn find(&mut self, holder: &Holder, key: &str, call: Digest, now: u64) -> Found<R> {
        self.sweep(now);
        let Some(slot) = self.holders.get(holder).and_then(|held| held.keys.get(key)) else {
            return Found::Nothing;
        };
        let same = slot.call == call;
        match &slot.state {
            State::Running(_) if !same => Found::OtherCall,
            State::Running(waiting) => Found::Running(waiting.clone()),
            State::Ended(number) => {
                let number = *number;
                match self.answers.get(&number) {
                    Some(place) if place.until <= now => {
                        self.forget(number);
                        Found::Nothing
                    }
                    Some(_) if !same => Found::OtherCall,
                    Some(place) => place.kept.clone().map_or(Found::Spent, Found::Kept),
                    None => Found::Nothing,
                }
            }
        }
    }

    /// Takes the free `key` for a running call.
    pub(super) fn begin(
        &mut self,
        holder: &Holder,
        key: &str,
        call: Digest,
        waiting: R,
    ) -> Result<(), Busy> {
        let (all, each) = self.limits.running;
        let running = self.holders.get(holder).map_or(0, |held| held.running);
        if running >= each || self.running >= all {
            return Err(Busy);
        }
        self.running += 1;
        let held = self.holders.entry(holder.clone()).or_default();
        held.running += 1;
        held.keys.insert(key.to_owned(), Slot { call, state: State::Running(waiting) });
        Ok(())
    }

    /// Ends the running call under `key` with an answer to keep.
    pub(super) fn keep(&mut self, holder: &Holder, key: &str, kept: Kept, now: u64, until: u64) {
        self.sweep(now);
        let number = self.number;
        let Some(held) = self.holders.get_mut(holder) else { return };
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
        let place = Place { holder: holder.clone(), key: key.to_owned(), kept, bytes, until };
        self.answers.insert(number, place);
        held.answers.insert(number);
        self.weigh(holder, |bytes_held| bytes_held + bytes);
        self.make_room(holder);
    }

    /// Ends the running call under `key` without one. Without effect on a call that has ended.
    pub(super) fn release(&mut self, holder: &Holder, key: &str) {
        let Some(held) = self.holders.get_mut(holder) else { return };
        let runs = |slot: &Slot<R>| matches!(slot.state, State::Running(_));
        if held.keys.get(key).is_some_and(runs) {
            held.keys.remove(key);
            held.running -= 1;
            self.running -= 1;
            self.leave(holder);
        }
    }

    /// Forgets answers until all bounds hold.
    fn make_room(&mut self, holder: &Holder) {
        let (bytes, answers) = (self.limits.bytes, self.limits.answers);
        while let Some(oldest) = self.holders.get(holder).and_then(|held| {
            let over = held.bytes > bytes.1 || held.answers.len() > answers.1;
            held.answers.first().copied().filter(|_| over)
        }) {
            self.forget(oldest);
        }
        while self.bytes > bytes.0 || self.answers.len() > answers.0 {
            let Some((_, most)) = self.largest.last() else { return };
            let oldest = self.holders.get(most).and_then(|held| held.answers.first());
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
        let Some(Place { holder, key, bytes, .. }) = self.answers.remove(&number) else { return };
        if let Some(held) = self.holders.get_mut(&holder) {
            held.keys.remove(&key);
            held.answers.remove(&number);
        }
        self.weigh(&holder, |held| held.saturating_sub(bytes));
        self.leave(&holder);
    }

    /// Notes that `holder` holds other bytes than before.
    fn weigh(&mut self, holder: &Holder, change: impl FnOnce(usize) -> usize) {
        let Some(held) = self.holders.get_mut(holder) else { return };
        let (before, after) = (held.bytes, change(held.bytes));
        held.bytes = after;
        self.bytes = (self.bytes + after).saturating_sub(before);
        self.largest.remove(&(before, holder.clone()));
        if after > 0 {
            self.largest.insert((after, holder.clone()));
        }
    }

    /// Drops `holder` once nothing of it is left.
    fn leave(&mut self, holder: &Holder) {
        if self.holders.get(holder).is_some_and(|held| held.keys.is_empty()) {
            self.holders.remove(holder);
        }
    }
}

#[cfg(test)]
mod tests;
