//! The state machine of a breaker. It has no clock and no lock; the caller provides both.
//!
//! There are two kinds of failure. An unavailable source counts against the source for every caller. A
//! call that died, timed out or broke the protocol may be due to its arguments: such failures of one
//! caller count once for all other callers, and each time for that caller. So a caller whose arguments
//! make a source fail loses the source, and the others keep it.
//!
//! Bounds: the remembered failures are fewer than those that open a circuit, and the callers are at most
//! [`MAX_CALLERS`].

use std::collections::{HashMap, VecDeque};

/// Remembered callers with consecutive failures; further ones count as one caller.
pub(super) const MAX_CALLERS: usize = 1_024;

/// When it opens and for how long, in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Terms {
    pub(super) failures: usize,
    pub(super) window: u64,
    pub(super) open: u64,
}

/// The meaning of a call for the state of its source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// The source responds.
    Answers,
    /// The source is unavailable for every call.
    Away,
    /// It failed at this call.
    Fails,
    /// The call has no effect on the breaker.
    Silent,
}

/// Whether calls are admitted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    Closed,
    /// Calls are refused until this time.
    Open(u64),
    /// One call has been in progress since this time; its result decides.
    Probing(u64),
}

/// An admitted call, to be returned with its verdict.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Admission {
    who: u64,
    /// The entry time, if the result of this call decides: for all callers, and for its caller.
    probes: Option<u64>,
    probes_for_caller: Option<u64>,
}

/// The changes caused by a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Changes {
    /// The new state of the circuit of all callers.
    pub(super) shared: Option<State>,
    /// Whether the circuit of the call's caller opened (true) or closed.
    pub(super) caller: Option<bool>,
}

/// The circuits of a source.
#[derive(Debug)]
pub(super) struct Circuit {
    shared: State,
    /// Consecutive failures, each with its caller if its arguments may be the cause.
    failures: VecDeque<(u64, Option<u64>)>,
    callers: HashMap<u64, Caller>,
    /// The caller with the failed probe, and the time until which other callers' probes have
    /// priority.
    suspect: Option<(u64, u64)>,
}

#[derive(Debug)]
struct Caller {
    state: State,
    failures: VecDeque<u64>,
}

impl State {
    /// Time that a call must wait; `None` if the call may proceed.
    fn wait(self, now: u64, open: u64) -> Option<u64> {
        let until = match self {
            Self::Closed => return None,
            Self::Open(until) => until,
            // A probe that takes longer than this does not delay others.
            Self::Probing(since) => since.saturating_add(open),
        };
        until.checked_sub(now).filter(|wait| *wait > 0)
    }

    /// Admits a call; `Some` if it is a probe.
    fn enter(&mut self, now: u64) -> Option<u64> {
        match self {
            Self::Closed => None,
            Self::Open(_) | Self::Probing(_) => {
                *self = Self::Probing(now);
                Some(now)
            }
        }
    }

    /// Whether the result of the probe that entered at `probe` decides.
    fn awaits(self, probe: Option<u64>) -> bool {
        probe.is_some_and(|at| self == Self::Probing(at))
    }
}

impl Circuit {
    pub(super) fn new() -> Self {
        Self {
            shared: State::Closed,
            failures: VecDeque::new(),
            callers: HashMap::new(),
            suspect: None,
        }
    }

    pub(super) fn shared(&self) -> State {
        self.shared
    }

    /// Consecutive failures that count for all callers.
    pub(super) fn failures(&self) -> usize {
        self.failures.len()
    }

    /// Callers whose circuit is not closed.
    pub(super) fn callers_open(&self) -> usize {
        self.callers.values().filter(|caller| caller.state != State::Closed).count()
    }

    /// The source is back: the next call may try it.
    pub(super) fn came_back(&mut self, now: u64) {
        if matches!(self.shared, State::Open(until) if until > now) {
            self.shared = State::Open(now);
        }
    }

    /// Admits a call of `who`, or returns the time to wait.
    pub(super) fn enter(&mut self, who: u64, now: u64, terms: Terms) -> Result<Admission, u64> {
        let suspected = match self.suspect {
            Some((suspect, until)) if suspect == who && self.shared != State::Closed => {
                until.checked_sub(now).filter(|wait| *wait > 0)
            }
            Some(_) | None => None,
        };
        let caller = self.callers.get(&who).and_then(|caller| caller.state.wait(now, terms.open));
        let waits = [self.shared.wait(now, terms.open), caller, suspected];
        if let Some(wait) = waits.into_iter().flatten().max() {
            return Err(wait);
        }
        Ok(Admission {
            who,
            probes: self.shared.enter(now),
            probes_for_caller: self
                .callers
                .get_mut(&who)
                .and_then(|caller| caller.state.enter(now)),
        })
    }

    /// Applies the verdict on an admitted call.
    pub(super) fn leave(
        &mut self,
        call: Admission,
        verdict: Verdict,
        now: u64,
        terms: Terms,
    ) -> Changes {
        let before = self.shared;
        let caller = match verdict {
            Verdict::Answers => self.answered(call),
            Verdict::Away => {
                self.failed(call, None, now, terms);
                self.undecided_caller(call, now)
            }
            Verdict::Fails => {
                self.failed(call, Some(call.who), now, terms);
                self.failed_for_caller(call, now, terms)
            }
            Verdict::Silent => {
                if self.shared.awaits(call.probes) {
                    self.shared = State::Open(now);
                }
                self.undecided_caller(call, now)
            }
        };
        Changes { shared: (self.shared != before).then_some(self.shared), caller }
    }

    fn answered(&mut self, call: Admission) -> Option<bool> {
        self.failures.clear();
        if self.shared.awaits(call.probes) {
            self.shared = State::Closed;
            self.suspect = None;
        }
        let caller = self.callers.get(&call.who)?;
        match caller.state {
            State::Closed => {
                self.callers.remove(&call.who);
                None
            }
            state if state.awaits(call.probes_for_caller) => {
                self.callers.remove(&call.who);
                Some(false)
            }
            State::Open(_) | State::Probing(_) => None,
        }
    }

    /// Counts a failure for all callers, once for each caller whose arguments may be the cause.
    fn failed(&mut self, call: Admission, who: Option<u64>, now: u64, terms: Terms) {
        if self.shared.awaits(call.probes) {
            self.shared = State::Open(now.saturating_add(terms.open));
            let again = now.saturating_add(terms.open.saturating_mul(2));
            self.suspect = who.map(|who| (who, again));
            return;
        }
        if self.shared != State::Closed {
            return;
        }
        let since = now.saturating_sub(terms.window);
        self.failures.retain(|(at, of)| *at >= since && (of.is_none() || *of != who));
        self.failures.push_back((now, who));
        if self.failures.len() >= terms.failures {
            self.failures.clear();
            self.shared = State::Open(now.saturating_add(terms.open));
        }
    }

    fn failed_for_caller(&mut self, call: Admission, now: u64, terms: Terms) -> Option<bool> {
        let since = now.saturating_sub(terms.window);
        if self.callers.len() >= MAX_CALLERS && !self.callers.contains_key(&call.who) {
            self.callers.retain(|_, caller| {
                caller.state != State::Closed
                    || caller.failures.back().is_some_and(|at| *at >= since)
            });
            if self.callers.len() >= MAX_CALLERS {
                return None;
            }
        }
        let fresh = || Caller { state: State::Closed, failures: VecDeque::new() };
        let caller = self.callers.entry(call.who).or_insert_with(fresh);
        if caller.state.awaits(call.probes_for_caller) {
            caller.state = State::Open(now.saturating_add(terms.open));
            return None;
        }
        if caller.state != State::Closed {
            return None;
        }
        caller.failures.retain(|at| *at >= since);
        caller.failures.push_back(now);
        if caller.failures.len() < terms.failures {
            return None;
        }
        caller.failures.clear();
        caller.state = State::Open(now.saturating_add(terms.open));
        Some(true)
    }

    /// Handles a probe of a caller's circuit without a verdict: the next call is a probe.
    fn undecided_caller(&mut self, call: Admission, now: u64) -> Option<bool> {
        let caller = self.callers.get_mut(&call.who)?;
        if caller.state.awaits(call.probes_for_caller) {
            caller.state = State::Open(now);
        }
        None
    }
}

#[cfg(test)]
mod tests;
