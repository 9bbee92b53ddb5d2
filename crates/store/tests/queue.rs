//! The hand-over to the writer under every kind of scheduling: this file compiles `src/queue.rs`
//! with the locks of a model checker.
#![cfg(test)]

#[path = "../src/queue.rs"]
mod queue;

mod sync {
    pub(crate) use shuttle::{
        sync::{Condvar, Mutex, MutexGuard},
        thread,
    };
    pub(crate) use std::sync::PoisonError;
}

use std::time::Duration;

use queue::{PushOutcome, Queue, TakeOutcome};
use shuttle::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    thread,
};

const PRODUCERS: usize = 3;
const ITEMS: usize = 4;
const MAX_BATCH: usize = 3;
const PATIENCE: Duration = Duration::from_secs(1);

/// An item: its producer, and its number.
type Item = (usize, usize);

/// What was done with the items, in order, by whoever worked.
#[derive(Default)]
struct Done {
    works: AtomicBool,
    items: Mutex<Vec<Item>>,
}

impl Done {
    /// Only one works at a time.
    fn work(&self, items: Vec<Item>) {
        assert!(!self.works.swap(true, Ordering::SeqCst), "two work at once");
        thread::yield_now();
        self.items.lock().unwrap().extend(items);
        assert!(self.works.swap(false, Ordering::SeqCst));
    }
}

/// Hands `item` over, or does it here. Returns whether it was accepted.
fn hand_over(queue: &Queue<Item>, done: &Done, item: Item, may_claim: bool) -> bool {
    match queue.push(item, may_claim) {
        PushOutcome::Queued => true,
        PushOutcome::Claimed(item, mut claim) => {
            done.work(vec![item]);
            claim.ask();
            true
        }
        PushOutcome::Refused(refused) => {
            assert_eq!(refused, item);
            false
        }
    }
}

/// Hands over alone until a claim is possible.
fn be_alone(queue: &Queue<Item>) {
    for _ in 0..8 {
        assert!(matches!(queue.push((PRODUCERS, 0), false), PushOutcome::Queued));
        assert!(matches!(queue.take(MAX_BATCH, Some(PATIENCE)), TakeOutcome::Batch(_)));
    }
}

/// Three callers hand over four items each, and do some of them themselves; one of them closes the
/// queue at some point. Returns the accepted items of each caller, and those that were done.
fn three_callers(patience: Option<Duration>) -> (Vec<Vec<usize>>, Vec<Item>) {
    let (queue, done) = (Arc::new(Queue::new()), Arc::<Done>::default());
    be_alone(&queue);
    let producers: Vec<_> = (0..PRODUCERS)
        .map(|producer| {
            let (queue, done) = (Arc::clone(&queue), Arc::clone(&done));
            thread::spawn(move || {
                let push = |item: &usize| hand_over(&queue, &done, (producer, *item), true);
                let accepted = (0..ITEMS).filter(push).collect::<Vec<_>>();
                if producer == 0 {
                    queue.close();
                    assert!(!hand_over(&queue, &done, (0, ITEMS), true));
                }
                accepted
            })
        })
        .collect();
    loop {
        match queue.take(MAX_BATCH, patience) {
            TakeOutcome::Batch(batch) => {
                assert!(!batch.is_empty() && batch.len() <= MAX_BATCH);
                done.work(batch);
            }
            TakeOutcome::Asked | TakeOutcome::Idle => done.work(Vec::new()),
            TakeOutcome::Closed => {
                done.work(Vec::new());
                assert!(queue.is_empty());
                break;
            }
        }
    }
    let accepted = producers.into_iter().map(|producer| producer.join().unwrap()).collect();
    let items = done.items.lock().unwrap().clone();
    (accepted, items)
}

/// A deadlock or a lost wake-up fails by itself.
fn nothing_is_lost_or_doubled(patience: Option<Duration>) {
    let (accepted, done) = three_callers(patience);
    assert_eq!(accepted[0].len(), ITEMS, "it closed the queue only afterwards");
    for (producer, accepted) in accepted.iter().enumerate() {
        let from_it = done.iter().filter(|(from, _)| *from == producer);
        let from_it: Vec<usize> = from_it.map(|(_, item)| *item).collect();
        assert_eq!(from_it, *accepted, "in order, each once");
    }
}

#[test]
fn random_schedules_lose_nothing() {
    shuttle::check_random(|| nothing_is_lost_or_doubled(None), 2_000);
}

#[test]
fn random_schedules_with_claims_lose_nothing() {
    shuttle::check_random(|| nothing_is_lost_or_doubled(Some(PATIENCE)), 4_000);
}

#[test]
fn adversarial_schedules_lose_nothing() {
    shuttle::check_pct(|| nothing_is_lost_or_doubled(Some(PATIENCE)), 4_000, 3);
}

#[test]
fn a_patient_consumer_becomes_idle() {
    shuttle::check_random(
        || {
            let queue = Queue::new();
            assert!(matches!(queue.push((1, 1), true), PushOutcome::Queued));
            assert_eq!(queue.take(9, Some(Duration::ZERO)), TakeOutcome::Batch(vec![(1, 1)]));
            queue.close();
            assert_eq!(queue.take(9, Some(Duration::ZERO)), TakeOutcome::Closed);
        },
        1,
    );
}

/// Runs `first` beside a consumer that waits with patience, after items that were alone. Returns
/// what the consumer takes.
fn beside_a_consumer(first: fn(&Queue<Item>)) -> TakeOutcome<Item> {
    let queue = Arc::new(Queue::new());
    be_alone(&queue);
    let producer = {
        let queue = Arc::clone(&queue);
        thread::spawn(move || first(&queue))
    };
    let taken = queue.take(9, Some(PATIENCE));
    producer.join().unwrap();
    taken
}

#[test]
fn an_item_that_comes_during_a_claim_is_taken_after_it() {
    shuttle::check_random(
        || {
            let taken = beside_a_consumer(|queue| match queue.push((0, 0), true) {
                PushOutcome::Claimed(_, claim) => {
                    assert!(matches!(queue.push((0, 1), true), PushOutcome::Queued));
                    drop(claim);
                }
                _ => assert!(matches!(queue.push((0, 1), false), PushOutcome::Queued)),
            });
            match taken {
                TakeOutcome::Batch(items) => assert!(!items.is_empty()),
                other => panic!("{other:?}"),
            }
        },
        2_000,
    );
}

#[test]
fn a_claim_can_ask_the_consumer() {
    shuttle::check_random(
        || {
            let taken = beside_a_consumer(|queue| match queue.push((0, 0), true) {
                PushOutcome::Claimed(_, mut claim) => claim.ask(),
                PushOutcome::Queued => {}
                PushOutcome::Refused(_) => panic!("closed"),
            });
            assert!(matches!(taken, TakeOutcome::Asked | TakeOutcome::Batch(_)), "{taken:?}");
        },
        2_000,
    );
}
