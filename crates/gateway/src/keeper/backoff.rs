//! How long to wait before the next attempt, and what is remembered of those in vain.

use std::time::Duration;

use toolcrib_core::{
    clock::Timestamp,
    record::{Cursor, DeliveryError},
};

const FIRST: Duration = Duration::from_millis(200);
const LONGEST: Duration = Duration::from_secs(60);

/// The time to wait after so many attempts in vain.
pub(crate) fn pause(failures: u64) -> Duration {
    let doublings = u32::try_from(failures.saturating_sub(1).min(16)).unwrap_or(16);
    FIRST.saturating_mul(1 << doublings).min(LONGEST)
}

/// A cursor that has not moved yet.
pub(super) fn new_cursor(name: &str) -> Cursor {
    Cursor {
        name: name.to_owned(),
        position: 0,
        moved_at: None,
        failing_since: None,
        failures: 0,
        problem: None,
    }
}

pub(super) fn failed(cursor: &mut Cursor, error: &DeliveryError, now: Timestamp) {
    cursor.failures += 1;
    cursor.failing_since.get_or_insert(now);
    cursor.problem = Some(error.to_string());
}

pub(super) fn moved(cursor: &mut Cursor, position: u64, now: Timestamp) {
    cursor.position = position;
    cursor.moved_at = Some(now);
    cursor.failing_since = None;
    cursor.failures = 0;
    cursor.problem = None;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_and_end_growing() {
        assert_eq!(pause(1), FIRST);
        assert_eq!(pause(2), FIRST * 2);
        assert_eq!(pause(9), Duration::from_millis(51_200));
        assert_eq!(pause(10), LONGEST);
        assert_eq!(pause(u64::MAX), LONGEST);
    }
}
