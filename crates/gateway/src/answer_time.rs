//! Delays responses to requests for tools and runs that are invisible to their caller.
//!
//! Invariant (I-9, I-81): the duration of such a request does not depend on the existence of the
//! tool or the run. Hidden, foreign and unknown names take the same path. Remaining differences,
//! such as a successful lookup, disappear in the wait for the next step after the start of the
//! request.

use std::{
    cell::Cell,
    time::{Duration, Instant},
};

/// Responses about tools are sent at multiples of this: a thousand times longer than a lookup in
/// memory, and too short to be noticed.
const LOOKUP_STEP: Duration = Duration::from_micros(250);
/// Responses about stored items are sent at multiples of this, by the same ratio.
const STORE_STEP: Duration = Duration::from_millis(10);
/// Timers are exact to a millisecond; the rest of a wait needs no timer.
const TIMER_ERROR: Duration = Duration::from_millis(2);

tokio::task_local! {
    /// The step for the response, if the request has named an item that its caller does not see.
    static STEP: Cell<Option<Duration>>;
}

/// Runs `request`. If it names an item that its caller does not see, it finishes at the next
/// multiple of 250 µs after its start for tools, or of 10 ms for stored items.
pub async fn evenly<F: Future>(request: F) -> F::Output {
    let start = Instant::now();
    let run = async {
        let output = request.await;
        (output, STEP.with(Cell::get))
    };
    let (output, step) = STEP.scope(Cell::new(None), run).await;
    if let Some(step) = step {
        let now = start.elapsed();
        let into_step = Duration::from_nanos(nanoseconds(now) % nanoseconds(step));
        let due = now + (step - into_step);
        if let Some(long) = (due - now).checked_sub(TIMER_ERROR) {
            tokio::time::sleep(long).await;
        }
        while start.elapsed() < due {
            tokio::task::yield_now().await;
        }
    }
    output
}

/// `time` in nanoseconds; saturates after 584 years.
fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// Notes that the current request has named a tool that its caller does not see.
pub(crate) fn note() {
    note_step(LOOKUP_STEP);
}

/// Notes that the current request has named a stored item that its caller does not see, or that
/// does not exist.
pub fn note_stored() {
    note_step(STORE_STEP);
}

fn note_step(step: Duration) {
    // Outside of a request there is no response to delay.
    STEP.try_with(|noted| noted.set(noted.get().max(Some(step)))).ok();
}
