//! Requests that name a tool or a run that their caller does not see, and the moment at which they are
//! answered.
//!
//! Invariant (I-9, I-81): how long such a request takes does not depend on whether there is a tool or
//! a run of that name. Hidden, foreign and unknown names take the same path; the rest of a difference, a
//! lookup that finds something or not, disappears in the wait for the next `STEP` of the clock.

use std::{
    cell::Cell,
    sync::LazyLock,
    time::{Duration, Instant},
};

/// Answers to misses are given at multiples of this: a thousand times longer than a lookup, and too
/// short to be noticed.
const STEP: Duration = Duration::from_micros(250);

static START: LazyLock<Instant> = LazyLock::new(Instant::now);

tokio::task_local! {
    /// Whether the request has named something that its caller does not see.
    static MISSED: Cell<bool>;
}

/// Runs `request`. If it names something that its caller does not see, returns at the next multiple of
/// 250 µs.
pub async fn evenly<F: Future>(request: F) -> F::Output {
    let run = async {
        let output = request.await;
        (output, MISSED.with(Cell::get))
    };
    let (output, missed) = MISSED.scope(Cell::new(false), run).await;
    if missed {
        let due = START.elapsed().as_nanos() / STEP.as_nanos() + 1;
        // A timer is not exact enough: it sleeps for whole milliseconds from now on.
        while START.elapsed().as_nanos() / STEP.as_nanos() < due {
            tokio::task::yield_now().await;
        }
    }
    output
}

/// Notes that the current request has named something that its caller does not see.
pub fn note() {
    // Outside of a request there is no answer to delay.
    MISSED.try_with(|missed| missed.set(true)).ok();
}
