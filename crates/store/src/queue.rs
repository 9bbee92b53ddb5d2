//! The hand-over from many callers to the one writer thread: first in, first out, in batches. A
//! producer that has been alone for a while does its item itself, without the hand-over.
//!
//! Invariants:
//! - every item that [`Queue::push`] accepted is handed out exactly once, in the order of the
//!   pushes, also when the queue is closed meanwhile;
//! - one at a time works: the consumer with what it took, or a producer with its [`Claim`]. A
//!   producer gets one only while nothing waits;
//! - after [`Queue::close`] all items are refused, and [`Queue::take`] says [`TakeOutcome::Closed`]
//!   only once everything accepted has been handed out and every claim has ended.
//!
//! The permits of the callers bound the length of the queue, not the queue itself.

use std::{collections::VecDeque, time::Duration};

use crate::sync::{Condvar, Mutex, MutexGuard, PoisonError, thread};

/// How often producers get the processor before a batch is taken.
const MAX_YIELDS: usize = 8;

/// So many items in a row must have been alone before a producer may do its item itself.
const ALONE: u32 = 8;

/// Many producers, one consumer.
pub(crate) struct Queue<T> {
    state: Mutex<State<T>>,
    changed: Condvar,
}

/// The result of [`Queue::take`].
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum TakeOutcome<T> {
    /// At least one item, oldest first.
    Batch(Vec<T>),
    /// A producer that did its item itself has left something to do.
    Asked,
    /// No item arrived within the given patience, and no producer did one itself.
    Idle,
    /// The queue is closed and empty.
    Closed,
}

/// The result of [`Queue::push`].
pub(crate) enum PushOutcome<'a, T> {
    Queued,
    /// The producer does the item itself.
    Claimed(T, Claim<'a, T>),
    /// The queue is closed.
    Refused(T),
}

/// The turn of a producer, until it is dropped. If that happens in a panic, the queue is closed.
pub(crate) struct Claim<'a, T> {
    queue: &'a Queue<T>,
    asks: bool,
}

struct State<T> {
    items: VecDeque<T>,
    closed: bool,
    /// Whether the consumer sleeps and has not been woken yet. To wake a consumer that is awake
    /// would cost every producer a system call.
    asleep: bool,
    turn: Turn,
    /// How many items in a row were alone.
    alone: u32,
    /// Whether a producer did an item itself since the consumer slept.
    claimed: bool,
    asked: bool,
}

/// Who may work.
#[derive(PartialEq, Eq)]
enum Turn {
    Consumer,
    /// The consumer sleeps with patience, so it looks again.
    Free,
    Producer,
}

// === impl Queue ===

impl<T> Queue<T> {
    pub(crate) fn new() -> Self {
        let state = State {
            items: VecDeque::new(),
            closed: false,
            asleep: false,
            turn: Turn::Consumer,
            alone: 0,
            claimed: false,
            asked: false,
        };
        Self { state: Mutex::new(state), changed: Condvar::new() }
    }

    /// Adds an item, or gives it back: if the queue is closed, or if the producer `may_claim` and is
    /// alone, so that it does the item itself.
    pub(crate) fn push(&self, item: T, may_claim: bool) -> PushOutcome<'_, T> {
        let mut state = self.lock();
        if state.closed {
            return PushOutcome::Refused(item);
        }
        if may_claim && state.turn == Turn::Free && !state.is_due() && state.alone >= ALONE {
            state.turn = Turn::Producer;
            drop(state);
            return PushOutcome::Claimed(item, Claim { queue: self, asks: false });
        }
        state.items.push_back(item);
        // The end of a claim wakes the consumer.
        let wakes = state.turn != Turn::Producer && std::mem::take(&mut state.asleep);
        drop(state);
        if wakes {
            self.changed.notify_one();
        }
        PushOutcome::Queued
    }

    /// Waits for items and takes up to `max` of them. With `patience`, gives up after that long.
    /// Several items show that there are several producers; those that are ready to run then get
    /// the processor first, as long as they add items. A single producer never waits for that.
    pub(crate) fn take(&self, max: usize, patience: Option<Duration>) -> TakeOutcome<T> {
        let (mut gathered, mut yields) = (0, 0);
        let mut state = self.lock();
        loop {
            if state.turn != Turn::Producer {
                state.turn = Turn::Consumer;
                if !state.items.is_empty() {
                    let found = state.items.len();
                    if found > gathered.max(1) && found < max && yields < MAX_YIELDS {
                        (gathered, yields) = (found, yields + 1);
                        drop(state);
                        thread::yield_now();
                        state = self.lock();
                        continue;
                    }
                    state.count(found == 1);
                    let count = found.min(max);
                    return TakeOutcome::Batch(state.items.drain(..count).collect());
                }
                if state.closed {
                    return TakeOutcome::Closed;
                }
                if std::mem::take(&mut state.asked) {
                    return TakeOutcome::Asked;
                }
                state.turn = if patience.is_some() { Turn::Free } else { Turn::Consumer };
            }
            state.asleep = true;
            let Some(patience) = patience else {
                state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            let (woken, timeout) =
                self.changed.wait_timeout(state, patience).unwrap_or_else(PoisonError::into_inner);
            state = woken;
            if timeout.timed_out() && state.turn == Turn::Free && !state.is_due() {
                // After a claim, the quiet time starts again.
                if !std::mem::take(&mut state.claimed) {
                    state.turn = Turn::Consumer;
                    return TakeOutcome::Idle;
                }
            }
        }
    }

    /// Whether no item waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.lock().items.is_empty()
    }

    /// Closes the queue and wakes the consumer.
    pub(crate) fn close(&self) {
        self.lock().closed = true;
        self.changed.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// === impl State ===

impl<T> State<T> {
    /// Whether the consumer has something to do.
    fn is_due(&self) -> bool {
        !self.items.is_empty() || self.closed || self.asked
    }

    /// Counts an item, or a batch.
    fn count(&mut self, is_alone: bool) {
        self.alone = if is_alone { self.alone.saturating_add(1) } else { 0 };
    }
}

// === impl Claim ===

impl<T> Claim<'_, T> {
    /// Lets the consumer have [`TakeOutcome::Asked`] after this claim.
    pub(crate) fn ask(&mut self) {
        self.asks = true;
    }
}

impl<T> Drop for Claim<'_, T> {
    fn drop(&mut self) {
        let mut state = self.queue.lock();
        state.turn = Turn::Free;
        state.claimed = true;
        state.asked |= self.asks;
        state.closed |= std::thread::panicking();
        let is_alone = state.items.is_empty();
        state.count(is_alone);
        let wakes = state.is_due() && std::mem::take(&mut state.asleep);
        drop(state);
        if wakes {
            self.queue.changed.notify_one();
        }
    }
}
