//! Idempotent calls and their answers: the view of a second process, and the content of the file.
#![cfg(test)]

use std::{fs, path::Path, sync::Arc};

use toolcrib_core::{
    canonical::Digest,
    clock::Timestamp,
    credential::Secret,
    event::{EventBody, EventLog},
    idempotency::{AnswerRecord, ClaimOutcome, IdempotencyClaim, IdempotencyKey, IdempotencyStore},
    store::Storage,
};
use toolcrib_store::{
    IdempotencyBounds, Options, SealKey, SealKeys, SqliteStore,
    conformance::{
        event_log::{called, returned},
        moment,
    },
};

const CANARY: &str = "ONCE_CANARY_91ab7d";

fn keys(byte: &str) -> SealKeys {
    SealKeys::new(SealKey::parse(&Secret::new(byte.repeat(32))).unwrap(), [])
}

fn open(path: &Path) -> (SqliteStore, Arc<dyn IdempotencyStore>) {
    open_with(path, keys("0a"), IdempotencyBounds::default())
}

fn open_with(
    path: &Path,
    call_keys: SealKeys,
    idempotency: IdempotencyBounds,
) -> (SqliteStore, Arc<dyn IdempotencyStore>) {
    let options = Options { call_keys, idempotency, ..Options::default() };
    let store = SqliteStore::open(path, options).unwrap();
    let once = store.idempotency();
    (store, once)
}

fn key(principal: &str, text: &str) -> IdempotencyKey {
    IdempotencyKey {
        tenant: "t".parse().unwrap(),
        principal: principal.parse().unwrap(),
        key: Digest::of(text.as_bytes()),
    }
}

fn until() -> Timestamp {
    moment(1_000)
}

fn claim(key: IdempotencyKey, call: &str, run: &str) -> IdempotencyClaim {
    IdempotencyClaim {
        key,
        call: Digest::of(call.as_bytes()),
        run: run.parse().unwrap(),
        call_id: format!("{run}-call").parse().unwrap(),
        repeatable: false,
        now: moment(0),
        until: until(),
    }
}

fn ended(run: &str, body: &str) -> ClaimOutcome {
    let (run, body) = (run.parse().unwrap(), body.to_owned());
    ClaimOutcome::Ended(AnswerRecord { run, body, until: until() })
}

async fn keep(once: &Arc<dyn IdempotencyStore>, key: &IdempotencyKey, run: &str, body: &str) {
    once.keep(key, &run.parse().unwrap(), Some(body.to_owned()), until()).await.unwrap();
}

/// I-75: another process returns the same answer, for the same call and until it expires.
#[tokio::test]
async fn an_answer_outlives_its_process() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store.db");
    let (store, once) = open(&path);
    let ann = key("ann", "k");
    assert_eq!(once.claim(claim(ann.clone(), "c", "r1")).await.unwrap(), ClaimOutcome::Taken);
    let body = format!("{{\"text\":\"{CANARY}\"}}");
    keep(&once, &ann, "r1", &body).await;
    store.close().await;

    let (store, once) = open(&path);
    assert_eq!(once.claim(claim(ann.clone(), "c", "r2")).await.unwrap(), ended("r1", &body));
    assert_eq!(once.claim(claim(ann.clone(), "d", "r2")).await.unwrap(), ClaimOutcome::OtherCall);
    let others = [key("bob", "k"), key("ann", "l")];
    for other in others {
        assert_eq!(once.claim(claim(other, "c", "r3")).await.unwrap(), ClaimOutcome::Taken);
    }
    // A late answer for a key of another call has no effect.
    once.release(&ann, &"r2".parse().unwrap()).await.unwrap();
    keep(&once, &ann, "r2", "late").await;
    assert_eq!(once.claim(claim(ann.clone(), "c", "r4")).await.unwrap(), ended("r1", &body));
    let late = IdempotencyClaim { now: until(), ..claim(ann.clone(), "e", "r5") };
    assert_eq!(once.claim(late).await.unwrap(), ClaimOutcome::Taken);
    once.release(&ann, &"r5".parse().unwrap()).await.unwrap();
    assert_eq!(once.claim(claim(ann, "f", "r6")).await.unwrap(), ClaimOutcome::Taken);
    store.close().await;
}

/// I-75: the file alone reveals nothing; another key opens nothing, and nothing runs again for it.
#[tokio::test]
async fn answers_are_sealed() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store.db");
    let (store, once) = open(&path);
    let ann = key("ann", CANARY);
    once.claim(claim(ann.clone(), CANARY, "r1")).await.unwrap();
    keep(&once, &ann, "r1", CANARY).await;
    let call = Digest::of(CANARY.as_bytes()).to_string();
    store.close().await;
    for file in fs::read_dir(directory.path()).unwrap().map(Result::unwrap) {
        if file.file_type().unwrap().is_file() {
            let bytes = fs::read(file.path()).unwrap();
            for text in [CANARY, &call] {
                let found = bytes.windows(text.len()).any(|it| it == text.as_bytes());
                assert!(!found, "{text} in {:?}", file.path());
            }
        }
    }
    let bounds = IdempotencyBounds::default();
    let (_, other) = open_with(&path, keys("0b"), bounds);
    assert_eq!(other.claim(claim(ann.clone(), CANARY, "r2")).await.unwrap(), ClaimOutcome::Spent);
    let (_, none) = open_with(&path, SealKeys::none(), bounds);
    assert!(!none.seals() && none.claim(claim(ann.clone(), CANARY, "r3")).await.is_err());
    // An answer that was moved to another key cannot be opened.
    let (store, once) = open(&path);
    let bob = key("bob", CANARY);
    once.claim(claim(bob.clone(), CANARY, "r4")).await.unwrap();
    keep(&once, &bob, "r4", "bob's").await;
    store.close().await;
    let sql = rusqlite::Connection::open(&path).unwrap();
    let swapped = sql
        .execute(
            "UPDATE once_calls SET answer = (SELECT answer FROM once_calls \
             WHERE principal = 'bob') WHERE principal = 'ann'",
            [],
        )
        .unwrap();
    assert_eq!(swapped, 1);
    drop(sql);
    let (store, once) = open(&path);
    assert_eq!(once.claim(claim(ann, CANARY, "r5")).await.unwrap(), ClaimOutcome::Spent);
    store.close().await;
}

/// I-75: of a dead process's calls, those that may have run are lost, and the keys of the others
/// are free.
#[tokio::test]
async fn the_record_shows_which_calls_of_a_dead_process_may_have_run() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store.db");
    let (dead, once) = open(&path);
    let (living, other) = open(&path);
    for name in ["unborn", "open", "refused", "ran"] {
        let claim = claim(key("ann", name), "c", name);
        let call = claim.call_id.clone();
        assert_eq!(once.claim(claim.clone()).await.unwrap(), ClaimOutcome::Taken);
        assert_eq!(other.claim(claim).await.unwrap(), ClaimOutcome::Running, "it lives");
        if name == "unborn" {
            continue;
        }
        let start = called("t", name, &format!("{name}-start"), call.as_str());
        dead.append(std::slice::from_ref(&start)).await.unwrap();
        let mut end = returned(&start, &format!("{name}-end"));
        let EventBody::ToolReturned(body) = &mut end.body else { panic!("{end:?}") };
        match name {
            "refused" => body.duration_ms = None,
            "ran" => {}
            _ => continue,
        }
        dead.append(&[end]).await.unwrap();
    }
    assert_eq!(living.recover(moment(9)).await.unwrap(), 0, "everyone lives");
    dead.close().await;
    assert_eq!(living.recover(moment(9)).await.unwrap(), 1);
    for (name, lost) in [("unborn", false), ("open", true), ("refused", false), ("ran", true)] {
        let (run, call_id) = (name.parse().unwrap(), format!("{name}-call").parse().unwrap());
        let expected = match lost {
            true => ClaimOutcome::Lost { run, call_id },
            false => ClaimOutcome::Taken,
        };
        for _ in 0..2 {
            let found = other.claim(claim(key("ann", name), "c", "again")).await.unwrap();
            assert_eq!(found, expected, "{name}");
            other.release(&key("ann", name), &"again".parse().unwrap()).await.unwrap();
        }
        if lost {
            let repeated = claim(key("ann", name), "c", "again");
            let found =
                other.claim(IdempotencyClaim { repeatable: true, ..repeated }).await.unwrap();
            assert_eq!(found, ClaimOutcome::Taken, "{name}");
        }
    }
    living.close().await;
}

/// I-31: no caller loses an answer to one who holds more, and expired answers are deleted.
#[tokio::test]
async fn calls_and_bytes_are_bounded() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store.db");
    let bounds = IdempotencyBounds { calls: (8, 6), bytes: (60_000, 30_000) };
    let (store, once) = open_with(&path, keys("0a"), bounds);
    let put = async |who: &str, name: &str, size: usize| {
        let key = key(who, name);
        assert_eq!(once.claim(claim(key.clone(), "c", name)).await.unwrap(), ClaimOutcome::Taken);
        keep(&once, &key, name, &"x".repeat(size)).await;
    };
    let is_kept = async |who: &str, name: &str| {
        let found = once.claim(claim(key(who, name), "c", "look")).await.unwrap();
        once.release(&key(who, name), &"look".parse().unwrap()).await.unwrap();
        matches!(found, ClaimOutcome::Ended(_))
    };
    put("ann", "small", 100).await;
    for name in ["b1", "b2", "b3", "b4"] {
        put("bob", name, 9_000).await;
    }
    assert!(!is_kept("bob", "b1").await, "the oldest of the caller with too many bytes");
    assert!(is_kept("bob", "b2").await && is_kept("ann", "small").await);
    put("bob", "huge", 40_000).await;
    let huge = once.claim(claim(key("bob", "huge"), "c", "look")).await.unwrap();
    assert_eq!(huge, ClaimOutcome::Spent, "made, and too large to be given again");
    for name in ["c1", "c2", "c3", "c4", "c5"] {
        put("cid", name, 10).await;
    }
    assert!(is_kept("ann", "small").await, "the caller with the least loses nothing");
    assert_eq!(once.sweep(moment(999)).await.unwrap(), 0);
    let mut swept = 0;
    loop {
        match once.sweep(until()).await.unwrap() {
            0 => break,
            some => swept += some,
        }
    }
    assert!(swept > 0 && swept <= 8, "{swept}");
    store.close().await;
    let sql = rusqlite::Connection::open(&path).unwrap();
    let left = |what: &str| sql.query_row(what, [], |row| row.get::<_, i64>(0)).unwrap();
    assert_eq!(left("SELECT count(*) FROM once_calls"), 0);
    assert_eq!(left("SELECT count(*) FROM once_holders"), 0);
    assert_eq!(left("SELECT sum(value) FROM meta WHERE name IN ('once_calls', 'once_bytes')"), 0);
}
