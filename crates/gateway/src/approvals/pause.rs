//! Deadlines with pauses: while a step waits for approval, the deadlines of the enclosing workflows
//! do not advance.

use std::{
    collections::{HashMap, hash_map::Entry},
    future::Future,
    pin::pin,
    time::Duration,
};

use parking_lot::Mutex;
use tokio::time::Instant;
use toolcrib_core::id::CallId;

/// How often a paused deadline is checked.
const LOOK: Duration = Duration::from_millis(100);

/// The pauses of running calls that make other calls.
#[derive(Default)]
pub(crate) struct Pauses(Mutex<HashMap<CallId, PauseState>>);

#[derive(Default)]
struct PauseState {
    parent: Option<CallId>,
    /// The deadlines of the call.
    users: usize,
    /// Its waiting calls, and the time since when there is any.
    waiting: usize,
    since: Option<Instant>,
    before: Duration,
}

/// The deadline of one call.
pub(crate) struct Deadline<'a> {
    pauses: &'a Pauses,
    /// `None` for a call that makes no other calls.
    call: Option<CallId>,
}

/// Pauses the deadlines of the enclosing calls until it is dropped.
pub(crate) struct PauseGuard<'a> {
    pauses: &'a Pauses,
    calls: Vec<CallId>,
}

impl Pauses {
    /// The deadline of `call`, which `parent` made.
    pub(crate) fn deadline(&self, call: Option<&CallId>, parent: Option<&CallId>) -> Deadline<'_> {
        if let Some(call) = call {
            let mut calls = self.0.lock();
            let waits = calls.entry(call.clone()).or_default();
            waits.users += 1;
            if waits.parent.is_none() {
                waits.parent = parent.cloned();
            }
        }
        Deadline { pauses: self, call: call.cloned() }
    }

    /// Starts the wait of a call that `parent` made.
    pub(crate) fn enter(&self, parent: &CallId) -> PauseGuard<'_> {
        let mut entered = Vec::new();
        let mut calls = self.0.lock();
        let mut next = Some(parent.clone());
        while let Some(call) = next.take() {
            let Some(waits) = calls.get_mut(&call) else { break };
            waits.waiting += 1;
            waits.since.get_or_insert_with(Instant::now);
            next.clone_from(&waits.parent);
            entered.push(call);
        }
        PauseGuard { pauses: self, calls: entered }
    }
}

impl Deadline<'_> {
    /// Runs `future` for at most `limit`; `None` on a timeout.
    pub(crate) async fn with_timeout<F: Future>(
        &self,
        limit: Duration,
        future: F,
    ) -> Option<F::Output> {
        let mut future = pin!(future);
        let started = Instant::now();
        let mut end = started + limit;
        loop {
            if let Ok(output) = tokio::time::timeout_at(end, &mut future).await {
                return Some(output);
            }
            let (waited, waits) = self.waited();
            let now = Instant::now();
            end = started + limit + waited;
            if waits {
                end = end.max(now + LOOK);
            } else if end <= now {
                return None;
            }
        }
    }

    /// The total time of pauses, and whether the call is paused now.
    fn waited(&self) -> (Duration, bool) {
        let calls = self.pauses.0.lock();
        let Some(waits) = self.call.as_ref().and_then(|call| calls.get(call)) else {
            return (Duration::ZERO, false);
        };
        let now = waits.since.map_or(Duration::ZERO, |since| since.elapsed());
        (waits.before + now, waits.since.is_some())
    }
}

impl Drop for Deadline<'_> {
    fn drop(&mut self) {
        let Some(call) = self.call.take() else { return };
        if let Entry::Occupied(mut waits) = self.pauses.0.lock().entry(call) {
            waits.get_mut().users -= 1;
            if waits.get().users == 0 {
                waits.remove();
            }
        }
    }
}

impl Drop for PauseGuard<'_> {
    fn drop(&mut self) {
        let mut calls = self.pauses.0.lock();
        for call in &self.calls {
            let Some(waits) = calls.get_mut(call) else { continue };
            waits.waiting = waits.waiting.saturating_sub(1);
            if waits.waiting == 0 {
                waits.before += waits.since.take().map_or(Duration::ZERO, |since| since.elapsed());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(text: &str) -> CallId {
        CallId::parse(text).unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn waiting_is_no_time_of_the_calls_around() {
        let pauses = Pauses::default();
        let outer = pauses.deadline(Some(&id("outer")), None);
        let inner = pauses.deadline(Some(&id("inner")), Some(&id("outer")));
        let limit = Duration::from_secs(1);
        let work = async {
            tokio::time::sleep(Duration::from_millis(600)).await;
            {
                let _one = pauses.enter(&id("inner"));
                let _two = pauses.enter(&id("inner"));
                tokio::time::sleep(Duration::from_secs(3600)).await;
            }
            tokio::time::sleep(Duration::from_millis(300)).await;
        };
        assert!(
            outer.with_timeout(limit, inner.with_timeout(limit, work)).await.flatten().is_some()
        );
        drop((outer, inner));
        assert!(pauses.0.lock().is_empty(), "nothing is kept of calls that have ended");
    }

    #[tokio::test(start_paused = true)]
    async fn time_after_the_wait_counts_and_time_of_others_too() {
        let pauses = Pauses::default();
        let limit = Duration::from_secs(1);
        let stranger = pauses.deadline(Some(&id("stranger")), None);
        let call = pauses.deadline(Some(&id("call")), None);
        let work = async {
            drop(pauses.enter(&id("call")));
            let _other = pauses.enter(&id("stranger"));
            tokio::time::sleep(Duration::from_millis(1100)).await;
        };
        assert!(call.with_timeout(limit, work).await.is_none());
        let plain = pauses.deadline(None, Some(&id("call")));
        assert!(plain.with_timeout(limit, std::future::pending::<()>()).await.is_none());
        drop(stranger);
    }
}
