//! The hand-over from many callers to the one writer thread: first in, first out, in batches.
//!
//! Invariants:
//! - every item that [`Queue::push`] accepted is handed out exactly once, in the order of the
//!   pushes, also when the queue is closed meanwhile;
//! - after [`Queue::close`] all items are refused, and [`Queue::take`] says [`TakeOutcome::Closed`]
//!   only once everything accepted has been handed out.
//!
//! The permits of the callers bound the length of the queue, not the queue itself.

use std::{collections::VecDeque, time::Duration};

use crate::sync::{Condvar, Mutex, PoisonError, thread};

/// How often producers get the processor before a batch is taken.
const MAX_YIELDS: usize = 8;

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
    /// No item arrived within the given patience.
    Idle,
    /// The queue is closed and empty.
    Closed,
}

struct State<T> {
    items: VecDeque<T>,
    closed: bool,
    /// Whether the consumer sleeps and has not been woken yet. To wake a consumer that is awake
    /// would cost every producer a system call.
    asleep: bool,
}

// === impl Queue ===

impl<T> Queue<T> {
    pub(crate) fn new() -> Self {
        Self {
            state: Mutex::new(State { items: VecDeque::new(), closed: false, asleep: false }),
            changed: Condvar::new(),
        }
    }

    /// Adds an item; gives it back if the queue is closed.
    pub(crate) fn push(&self, item: T) -> Result<(), T> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.closed {
            return Err(item);
        }
        state.items.push_back(item);
        let wakes = std::mem::take(&mut state.asleep);
        drop(state);
        if wakes {
            self.changed.notify_one();
        }
        Ok(())
    }

    /// Waits for items and takes up to `max` of them. With `patience`, gives up after that long.
    /// Several items show that there are several producers; those that are ready to run then get
    /// the processor first, as long as they add items. A single producer never waits for that.
    pub(crate) fn take(&self, max: usize, patience: Option<Duration>) -> TakeOutcome<T> {
        let (mut gathered, mut yields) = (0, 0);
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if !state.items.is_empty() {
                let found = state.items.len();
                if found > gathered.max(1) && found < max && yields < MAX_YIELDS {
                    (gathered, yields) = (found, yields + 1);
                    drop(state);
                    thread::yield_now();
                    state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
                    continue;
                }
                let count = state.items.len().min(max);
                return TakeOutcome::Batch(state.items.drain(..count).collect());
            }
            if state.closed {
                return TakeOutcome::Closed;
            }
            state.asleep = true;
            match patience {
                None => {
                    state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
                }
                Some(patience) => {
                    let (woken, timeout) = self
                        .changed
                        .wait_timeout(state, patience)
                        .unwrap_or_else(PoisonError::into_inner);
                    state = woken;
                    if timeout.timed_out() && state.items.is_empty() && !state.closed {
                        return TakeOutcome::Idle;
                    }
                }
            }
        }
    }

    /// Whether no item waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).items.is_empty()
    }

    /// Closes the queue and wakes the consumer.
    pub(crate) fn close(&self) {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).closed = true;
        self.changed.notify_all();
    }
}
