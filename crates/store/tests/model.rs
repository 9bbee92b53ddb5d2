//! Any sequence of appends and reads returns the same results on SQLite and in memory.
#![cfg(test)]

use proptest::prelude::*;
use toolcrib_core::{
    event::{EventLog, EventQuery, NewEvent},
    store::StoreError,
};
use toolcrib_store::{
    Durability, MemoryLog, Options, SqliteStore,
    conformance::event_log::{called, closed, decided, opened, returned},
};

#[derive(Debug, Clone)]
enum Step {
    Append(Vec<NewEvent>),
    Read(EventQuery),
}

/// Few tenants, runs and ids, so that they meet.
fn event() -> impl Strategy<Value = NewEvent> {
    ("[ab]", "[rs]", "e[0-9]{1,2}", 0..5).prop_map(|(tenant, run, id, kind)| match kind {
        0 => called(&tenant, &run, &id, "c"),
        1 => returned(&called(&tenant, &run, "cause", "c"), &id),
        2 => opened(&tenant, &run, &id, "s"),
        3 => closed(&opened(&tenant, &run, "cause", "s"), &id),
        _ => decided(&tenant, &run, &id),
    })
}

fn query() -> impl Strategy<Value = EventQuery> {
    let tenant = proptest::option::of("[abc]".prop_map(|text| text.parse().unwrap()));
    let run = proptest::option::of("[rst]".prop_map(|text| text.parse().unwrap()));
    let after = proptest::option::of(0..40u64);
    (tenant, run, after, 0..12usize, any::<bool>()).prop_map(
        |(tenant, run, after, limit, newest)| EventQuery { tenant, run, after, limit, newest },
    )
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        proptest::collection::vec(event(), 0..4).prop_map(Step::Append),
        query().prop_map(Step::Read),
    ]
}

/// The part that two engines must agree on: the kind of an error, not its words.
fn outcome(result: Result<Vec<u64>, StoreError>) -> Option<Vec<u64>> {
    match result {
        Ok(positions) => Some(positions),
        Err(StoreError::Conflict(_)) => None,
        Err(error) => panic!("{error}"),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..Default::default() })]

    #[test]
    fn sqlite_behaves_like_the_model(steps in proptest::collection::vec(step(), 1..40)) {
        let directory = tempfile::tempdir().unwrap();
        let options = Options { durability: Durability::Relaxed, ..Options::default() };
        let sqlite = SqliteStore::open(directory.path().join("store.db"), options).unwrap();
        let model = MemoryLog::default();
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            for step in steps {
                match step {
                    Step::Append(events) => {
                        let expected = outcome(model.append(&events).await);
                        prop_assert_eq!(outcome(sqlite.append(&events).await), expected);
                    }
                    Step::Read(query) => {
                        let expected = model.read(query.clone()).await.unwrap();
                        prop_assert_eq!(sqlite.read(query).await.unwrap(), expected);
                    }
                }
            }
            Ok(())
        })?;
    }
}
