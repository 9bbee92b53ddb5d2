//! The hand-over to the writer under every kind of scheduling: this file compiles `src/queue.rs`
//! with the locks of a model checker.
#![cfg(test)]

#[path = "../src/queue.rs"]
mod queue;

mod sync {
    pub(crate) use shuttle::{
        sync::{Condvar, Mutex},
        thread,
    };
    pub(crate) use std::sync::PoisonError;
}

use std::time::Duration;

use queue::{Queue, TakeOutcome};
use shuttle::{sync::Arc, thread};

const PRODUCERS: usize = 3;
const ITEMS: usize = 4;
const MAX_BATCH: usize = 3;

/// Three callers hand over four items each; one of them closes the queue at some point. Returns the
/// accepted items of each caller, and the received items of the consumer.
fn hand_over(patience: Option<Duration>) -> (Vec<Vec<usize>>, Vec<(usize, usize)>) {
    let queue = Arc::new(Queue::new());
    let producers: Vec<_> = (0..PRODUCERS)
        .map(|producer| {
            let queue = Arc::clone(&queue);
            thread::spawn(move || {
                let push = |item: &usize| queue.push((producer, *item)).is_ok();
                let accepted = (0..ITEMS).filter(push).collect::<Vec<_>>();
                if producer == 0 {
                    queue.close();
                    assert_eq!(queue.push((0, ITEMS)), Err((0, ITEMS)));
                }
                accepted
            })
        })
        .collect();
    let mut taken = Vec::new();
    loop {
        match queue.take(MAX_BATCH, patience) {
            TakeOutcome::Batch(batch) => {
                assert!(!batch.is_empty() && batch.len() <= MAX_BATCH);
                taken.extend(batch);
            }
            TakeOutcome::Idle => {}
            TakeOutcome::Closed => {
                assert!(queue.is_empty());
                break;
            }
        }
    }
    (producers.into_iter().map(|producer| producer.join().unwrap()).collect(), taken)
}

/// A deadlock or a lost wake-up fails by itself.
fn nothing_is_lost_or_doubled(patience: Option<Duration>) {
    let (accepted, taken) = hand_over(patience);
    assert_eq!(accepted[0].len(), ITEMS, "it closed the queue only afterwards");
    for (producer, accepted) in accepted.iter().enumerate() {
        let from_it = taken.iter().filter(|(from, _)| *from == producer);
        let from_it: Vec<usize> = from_it.map(|(_, item)| *item).collect();
        assert_eq!(from_it, *accepted, "in order, each once");
    }
}

#[test]
fn random_schedules_lose_nothing() {
    shuttle::check_random(|| nothing_is_lost_or_doubled(None), 2_000);
}

#[test]
fn adversarial_schedules_lose_nothing() {
    shuttle::check_pct(|| nothing_is_lost_or_doubled(Some(Duration::from_secs(1))), 2_000, 3);
}

#[test]
fn a_patient_consumer_becomes_idle() {
    shuttle::check_random(
        || {
            let queue = Queue::new();
            queue.push(1).unwrap();
            assert_eq!(queue.take(9, Some(Duration::ZERO)), TakeOutcome::Batch(vec![1]));
            queue.close();
            assert_eq!(queue.take(9, Some(Duration::ZERO)), TakeOutcome::Closed);
        },
        1,
    );
}
