use proptest::prelude::*;

use super::*;

const TERMS: Terms = Terms { failures: 3, window: 100, open: 50 };

struct Rig(Circuit);

impl Rig {
    fn new() -> Self {
        Self(Circuit::new())
    }

    /// Opens for all.
    fn away(&mut self) {
        for at in 0..3 {
            self.call(1, at, Verdict::Away).unwrap();
        }
    }

    /// One call of `who` that takes no time.
    fn call(&mut self, who: u64, now: u64, verdict: Verdict) -> Result<Changes, u64> {
        let entered = self.0.enter(who, now, TERMS)?;
        Ok(self.0.leave(entered, verdict, now, TERMS))
    }
}

#[test]
fn a_source_that_is_away_opens_for_all_and_one_probe_closes_it() {
    let mut rig = Rig::new();
    for at in [0, 1] {
        assert_eq!(rig.call(1, at, Verdict::Away), Ok(Changes::default()));
    }
    let opened = rig.call(1, 2, Verdict::Away).unwrap();
    assert_eq!(opened.shared, Some(State::Open(52)));
    assert_eq!(rig.call(2, 3, Verdict::Answers), Err(49));
    let probe = rig.0.enter(2, 52, TERMS).unwrap();
    assert_eq!(rig.call(3, 53, Verdict::Answers), Err(49), "one at a time");
    let closed = rig.0.leave(probe, Verdict::Answers, 54, TERMS);
    assert_eq!(closed.shared, Some(State::Closed));
    assert_eq!(rig.call(3, 55, Verdict::Answers), Ok(Changes::default()));
}

#[test]
fn a_failed_probe_opens_again_and_an_undecided_one_does_not_count() {
    let mut rig = Rig::new();
    rig.away();
    assert!(rig.call(1, 52, Verdict::Silent).is_ok());
    assert_eq!(rig.0.shared(), State::Open(52), "the next one probes");
    rig.call(1, 53, Verdict::Away).unwrap();
    assert_eq!(rig.0.shared(), State::Open(103));
    assert_eq!(rig.call(1, 60, Verdict::Answers), Err(43));
    // A probe that hangs is replaced; its late failure changes nothing.
    let hangs = rig.0.enter(1, 103, TERMS).unwrap();
    assert_eq!(rig.call(2, 120, Verdict::Answers), Err(33));
    rig.call(2, 153, Verdict::Answers).unwrap();
    assert_eq!(rig.0.shared(), State::Closed);
    rig.0.leave(hangs, Verdict::Fails, 160, TERMS);
    assert_eq!(rig.0.shared(), State::Closed);
}

#[test]
fn failures_count_in_a_row_and_within_the_window() {
    let mut rig = Rig::new();
    rig.call(1, 0, Verdict::Away).unwrap();
    rig.call(1, 1, Verdict::Away).unwrap();
    rig.call(2, 2, Verdict::Answers).unwrap();
    rig.call(1, 3, Verdict::Away).unwrap();
    rig.call(1, 4, Verdict::Away).unwrap();
    rig.call(1, 110, Verdict::Away).unwrap();
    assert_eq!(rig.0.shared(), State::Closed);
    assert_eq!(rig.0.failures(), 1, "the others are too old");
}

#[test]
fn a_source_that_came_back_is_tried_at_once() {
    let mut rig = Rig::new();
    rig.away();
    assert_eq!(rig.call(1, 10, Verdict::Answers), Err(42));
    rig.0.came_back(10);
    assert_eq!(rig.call(1, 10, Verdict::Answers).unwrap().shared, Some(State::Closed));
}

#[test]
fn what_one_caller_sends_closes_the_source_to_that_caller_alone() {
    let mut rig = Rig::new();
    let opened: Vec<_> = (0..3).map(|at| rig.call(1, at, Verdict::Fails).unwrap().caller).collect();
    assert_eq!(opened, [None, None, Some(true)]);
    assert_eq!(rig.0.shared(), State::Closed);
    assert_eq!(rig.call(1, 3, Verdict::Fails), Err(49));
    assert_eq!(rig.0.callers_open(), 1);
    for at in 3..20 {
        assert!(rig.call(2, at, Verdict::Answers).is_ok(), "somebody else goes on");
    }
    assert_eq!(rig.call(1, 52, Verdict::Answers).unwrap().caller, Some(false));
    assert_eq!(rig.0.callers_open(), 0);
}

#[test]
fn what_several_callers_meet_is_the_source() {
    let mut rig = Rig::new();
    for (at, who) in [(0, 1), (1, 1), (2, 2), (3, 2)] {
        rig.call(who, at, Verdict::Fails).unwrap();
        assert_eq!(rig.0.shared(), State::Closed);
    }
    rig.call(3, 4, Verdict::Fails).unwrap();
    assert_eq!(rig.0.shared(), State::Open(54));
}

#[test]
fn whose_probe_failed_lets_others_try_first() {
    let mut rig = Rig::new();
    rig.away();
    rig.call(1, 52, Verdict::Fails).unwrap();
    assert_eq!(rig.0.shared(), State::Open(102));
    assert_eq!(rig.call(1, 102, Verdict::Fails), Err(50), "not the same one again");
    rig.call(2, 103, Verdict::Answers).unwrap();
    assert_eq!(rig.0.shared(), State::Closed);
}

#[test]
fn the_number_of_callers_is_bounded() {
    let mut rig = Rig::new();
    for who in 0..5_000 {
        let answers = rig.0.enter(u64::MAX, 0, TERMS).unwrap();
        rig.0.leave(answers, Verdict::Answers, 0, TERMS);
        rig.call(who, 0, Verdict::Fails).unwrap();
    }
    assert_eq!(rig.0.callers.len(), MAX_CALLERS);
    rig.call(u64::MAX, 200, Verdict::Answers).unwrap();
    rig.call(7_000, 200, Verdict::Fails).unwrap();
    assert_eq!(rig.0.callers.len(), 1, "what is too old makes room");
}

proptest! {
    /// I-74: while the source is available, the calls of one caller never delay another.
    #[test]
    fn one_caller_closes_nothing_for_others(
        steps in proptest::collection::vec((0..3_u8, 0..40_u64), 1..300),
    ) {
        let mut rig = Rig::new();
        let mut now = 0;
        for (what, pause) in steps {
            now += pause;
            let verdict = [Verdict::Fails, Verdict::Silent, Verdict::Answers][usize::from(what)];
            let _waits = rig.call(1, now, verdict);
            prop_assert!(rig.0.enter(2, now, TERMS).is_ok());
            prop_assert!(rig.0.failures.len() < TERMS.failures);
        }
    }
}
