//! The requirements of [`IdempotencyStore`](toolcrib_core::idempotency::IdempotencyStore) that
//! concern one process.

use toolcrib_core::{
    canonical::Digest,
    idempotency::{AnswerRecord, ClaimOutcome, IdempotencyClaim, IdempotencyKey},
    store::Storage,
};

use super::moment;

/// An answer is returned for the same call under the same key, and for no other.
pub async fn an_answer_belongs_to_its_call(storage: &dyn Storage) {
    let calls = storage.idempotency();
    let ann = key("ann", "k");
    assert_eq!(calls.claim(claim(&ann, "c", "r1")).await.unwrap(), ClaimOutcome::Taken);
    calls.keep(&ann, &"r1".parse().unwrap(), Some("{}".to_owned()), moment(1_000)).await.unwrap();
    let answer =
        AnswerRecord { run: "r1".parse().unwrap(), body: "{}".to_owned(), until: moment(1_000) };
    let again = calls.claim(claim(&ann, "c", "r2")).await.unwrap();
    assert_eq!(again, ClaimOutcome::Ended(answer));
    assert_eq!(calls.claim(claim(&ann, "d", "r2")).await.unwrap(), ClaimOutcome::OtherCall);
    for other in [key("bob", "k"), key("ann", "l")] {
        assert_eq!(calls.claim(claim(&other, "c", "r3")).await.unwrap(), ClaimOutcome::Taken);
    }
}

/// A call without an answer keeps its key.
pub async fn a_call_without_an_answer_is_spent(storage: &dyn Storage) {
    let calls = storage.idempotency();
    let ann = key("ann", "k");
    calls.claim(claim(&ann, "c", "r1")).await.unwrap();
    calls.keep(&ann, &"r1".parse().unwrap(), None, moment(1_000)).await.unwrap();
    assert_eq!(calls.claim(claim(&ann, "c", "r2")).await.unwrap(), ClaimOutcome::Spent);
}

/// A released key is free; only its own run releases it, and only until the call completes.
pub async fn only_its_run_frees_a_key(storage: &dyn Storage) {
    let calls = storage.idempotency();
    let (ann, run) = (key("ann", "k"), "r1".parse().unwrap());
    calls.claim(claim(&ann, "c", "r1")).await.unwrap();
    calls.release(&ann, &"r2".parse().unwrap()).await.unwrap();
    calls.keep(&ann, &"r2".parse().unwrap(), None, moment(1_000)).await.unwrap();
    let lost =
        ClaimOutcome::Lost { run: "r1".parse().unwrap(), call_id: "r1-call".parse().unwrap() };
    assert_eq!(calls.claim(claim(&ann, "c", "r2")).await.unwrap(), lost, "still of the first run");
    calls.release(&ann, &run).await.unwrap();
    assert_eq!(calls.claim(claim(&ann, "d", "r1")).await.unwrap(), ClaimOutcome::Taken);
    calls.keep(&ann, &run, None, moment(1_000)).await.unwrap();
    calls.release(&ann, &run).await.unwrap();
    assert_eq!(calls.claim(claim(&ann, "d", "r2")).await.unwrap(), ClaimOutcome::Spent);
}

/// A listed call that this process does not run any more may be taken again if it may be repeated.
pub async fn a_repeatable_call_is_taken_again(storage: &dyn Storage) {
    let calls = storage.idempotency();
    let ann = key("ann", "k");
    calls.claim(claim(&ann, "c", "r1")).await.unwrap();
    let again = IdempotencyClaim { repeatable: true, ..claim(&ann, "c", "r2") };
    assert_eq!(calls.claim(again).await.unwrap(), ClaimOutcome::Taken);
    calls.keep(&ann, &"r2".parse().unwrap(), None, moment(1_000)).await.unwrap();
    assert_eq!(calls.claim(claim(&ann, "c", "r3")).await.unwrap(), ClaimOutcome::Spent);
}

/// An expired key is free, and expired calls are removed; running ones are not.
pub async fn expired_keys_are_free(storage: &dyn Storage) {
    let calls = storage.idempotency();
    let (ended, running) = (key("ann", "k"), key("ann", "l"));
    for key in [&ended, &running] {
        calls.claim(claim(key, "c", "r1")).await.unwrap();
    }
    calls.keep(&ended, &"r1".parse().unwrap(), None, moment(1_000)).await.unwrap();
    assert_eq!(calls.sweep(moment(999)).await.unwrap(), 0);
    assert_eq!(calls.sweep(moment(1_000)).await.unwrap(), 1);
    assert_eq!(calls.sweep(moment(2_000)).await.unwrap(), 0);
    assert_eq!(calls.claim(claim(&ended, "d", "r2")).await.unwrap(), ClaimOutcome::Taken);
    calls.keep(&ended, &"r2".parse().unwrap(), None, moment(1_000)).await.unwrap();
    let late = IdempotencyClaim { now: moment(1_000), ..claim(&ended, "e", "r3") };
    assert_eq!(calls.claim(late).await.unwrap(), ClaimOutcome::Taken);
}

fn key(principal: &str, text: &str) -> IdempotencyKey {
    IdempotencyKey {
        tenant: "t".parse().unwrap(),
        principal: principal.parse().unwrap(),
        key: Digest::of(text.as_bytes()),
    }
}

fn claim(key: &IdempotencyKey, call: &str, run: &str) -> IdempotencyClaim {
    IdempotencyClaim {
        key: key.clone(),
        call: Digest::of(call.as_bytes()),
        run: run.parse().unwrap(),
        call_id: format!("{run}-call").parse().unwrap(),
        repeatable: false,
        now: moment(0),
        until: moment(1_000),
    }
}
