//! I-21: whatever several processes call, return and leave open, the next process closes exactly the
//! open calls.
#![cfg(test)]

use std::{collections::BTreeMap, path::Path};

use proptest::prelude::*;
use toolcrib_core::{
    event::{EventBody, EventLog, EventQuery, NewEvent},
    record::RecordStore,
    store::Storage,
};
use toolcrib_store::{
    Durability, Options, SqliteStore,
    conformance::{
        event_log::{called, returned},
        moment,
    },
};

/// Run and call id.
type Name = (String, String);

#[derive(Debug, Clone)]
enum Step {
    Call(Name),
    /// The number is that of the step whose event is named as the cause.
    Return(Name, Option<usize>),
    /// The process moves its open calls to their table.
    Store,
    /// All processes are killed, and another one recovers.
    Kill,
}

/// Few runs and call ids, so that they meet; each step with the process that does it.
fn step() -> impl Strategy<Value = (usize, Step)> {
    let name = || ("[rs]", "[cd]");
    let cause = proptest::option::of(0..16_usize);
    let step = prop_oneof![
        5 => name().prop_map(Step::Call),
        4 => (name(), cause).prop_map(|(name, cause)| Step::Return(name, cause)),
        1 => Just(Step::Store),
        1 => Just(Step::Kill),
    ];
    (0..2_usize, step)
}

fn open(path: &Path) -> SqliteStore {
    let options = Options { durability: Durability::Relaxed, ..Options::default() };
    SqliteStore::open(path, options).unwrap()
}

/// Counts the calls that were closed as interrupted, by name.
async fn interrupted(store: &SqliteStore) -> BTreeMap<Name, usize> {
    let mut closed = BTreeMap::new();
    for logged in store.read(EventQuery::default()).await.unwrap() {
        let EventBody::ToolReturned(end) = logged.event.body else { continue };
        if end.error.is_some_and(|error| error.code == "interrupted") {
            *closed
                .entry((logged.event.run_id.to_string(), end.call_id.to_string()))
                .or_default() += 1;
        }
    }
    closed
}

/// Recovers as the only living process: the locks of all others are gone.
async fn recover(path: &Path, ghosts: Vec<SqliteStore>) -> BTreeMap<Name, usize> {
    std::fs::remove_dir_all(path.with_file_name("store.db.instances")).unwrap();
    let store = open(path);
    let before: usize = interrupted(&store).await.values().sum();
    let closed = store.recover(moment(9)).await.unwrap();
    assert_eq!(store.recover(moment(9)).await.unwrap(), 0);
    let all = interrupted(&store).await;
    assert_eq!(all.values().sum::<usize>(), before + closed);
    store.close().await;
    for ghost in ghosts {
        ghost.close().await;
    }
    all
}

async fn check(steps: Vec<(usize, Step)>) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store.db");
    let mut processes = vec![open(&path), open(&path)];
    let (mut left, mut expected) = (BTreeMap::<Name, usize>::new(), BTreeMap::<Name, usize>::new());
    let end = [(0, Step::Kill)];
    for (number, (process, step)) in steps.into_iter().chain(end).enumerate() {
        let store = &processes[process];
        let id = format!("e{number}");
        match step {
            Step::Call(name) => {
                store.append(&[called("t", &name.0, &id, &name.1)]).await.unwrap();
                *left.entry(name).or_default() += 1;
            }
            Step::Return(name, cause) => {
                let end = returned(&called("t", &name.0, "unused", &name.1), &id);
                let causation_id = cause.map(|cause| format!("e{cause}").parse().unwrap());
                store.append(&[NewEvent { causation_id, ..end }]).await.unwrap();
                // One return closes one call of its name, if there is any.
                let open = left.entry(name).or_default();
                *open = open.saturating_sub(1);
            }
            Step::Store => {
                store.prunable(&"t".parse().unwrap(), moment(0), 0).await.unwrap();
            }
            Step::Kill => {
                for (name, open) in std::mem::take(&mut left).into_iter().filter(|it| it.1 > 0) {
                    *expected.entry(name).or_default() += open;
                }
                assert_eq!(recover(&path, processes).await, expected, "step {number}");
                processes = vec![open(&path), open(&path)];
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..Default::default() })]

    #[test]
    fn exactly_what_is_open_is_closed(steps in proptest::collection::vec(step(), 1..40)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(check(steps));
    }
}
