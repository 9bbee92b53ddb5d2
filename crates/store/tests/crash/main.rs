//! What the store keeps when its process is killed, and when the machine loses its power.
//!
//! The processes that end are this test binary itself, running helpers.
#![cfg(test)]
#![expect(clippy::disallowed_methods, reason = "the process to end is this test binary itself")]

mod disk;
mod failed_sync;
mod kill;
mod power_cut;
mod strace;

use std::collections::{HashMap, HashSet};

use toolcrib_core::{
    event::{CallStatus, EventBody, EventLog, EventQuery, LoggedEvent, SessionOutcome},
    id::EventId,
};
use toolcrib_store::SqliteStore;

/// The path of a helper's store. Without it a helper does nothing.
pub(crate) const STORE: &str = "TOOLCRIB_TEST_STORE";
/// The durability of the store of a helper, if it is not strict.
pub(crate) const DURABILITY: &str = "TOOLCRIB_TEST_DURABILITY";

pub(crate) async fn all(store: &SqliteStore) -> Vec<LoggedEvent> {
    let mut events: Vec<LoggedEvent> = Vec::new();
    loop {
        let after = events.last().map(|logged| logged.position);
        let page = store.read(EventQuery { after, ..EventQuery::default() }).await.unwrap();
        if page.is_empty() {
            return events;
        }
        events.extend(page);
    }
}

/// Returns the events that opened a call or a session without an end.
pub(crate) fn left_open(events: &[LoggedEvent]) -> (HashSet<EventId>, HashSet<EventId>) {
    let caused: HashSet<_> =
        events.iter().filter_map(|logged| logged.event.causation_id.clone()).collect();
    let started = |wanted: fn(&EventBody) -> bool| {
        let of_kind = events.iter().filter(|logged| wanted(&logged.event.body));
        let ids = of_kind.map(|logged| logged.event.event_id.clone());
        ids.filter(|event| !caused.contains(event)).collect()
    };
    (
        started(|body| matches!(body, EventBody::ToolCalled(_))),
        started(|body| matches!(body, EventBody::ToolSessionOpened(_))),
    )
}

pub(crate) fn ends_as_failed(body: &EventBody) -> bool {
    match body {
        EventBody::ToolReturned(returned) => returned.status == CallStatus::Error,
        EventBody::ToolSessionClosed(closed) => closed.outcome == SessionOutcome::Failed,
        _ => false,
    }
}

/// Returns the number of runs.
pub(crate) fn sequences_have_no_gap(events: &[LoggedEvent]) -> usize {
    let mut next: HashMap<_, u64> = HashMap::new();
    for logged in events {
        let next = next.entry(&logged.event.run_id).or_default();
        assert_eq!(logged.event.sequence, *next);
        *next += 1;
    }
    next.len()
}
