//! Tests of internals: batches, a full disk, a lock held elsewhere.

use std::{path::Path, sync::mpsc, time::Duration};

use futures_util::future::{FutureExt, join_all};
use rusqlite::Connection;
use tokio::task::unconstrained;
use toolcrib_core::{
    event::{EventBody, EventLog, EventQuery, NewEvent},
    record::{KnownHeads, RecordStore},
    store::{CatalogStore, KeyStore, Storage, StoreError},
};
use toolcrib_tasks::cores::Cores;

use super::{SqliteStore, failure::Failure, log::select_sql, transaction::WriteTransaction};
use crate::{
    Durability, Options,
    conformance::{
        event_log::{called, decided, returned},
        key_store::key,
        moment,
    },
};

fn open(directory: &Path) -> SqliteStore {
    SqliteStore::open(directory.join("store.db"), Options::default()).unwrap()
}

/// Keeps the writer busy until the returned sender is dropped, so that later work meets in one
/// batch.
async fn hold(store: &SqliteStore) -> mpsc::Sender<()> {
    let (release, gate) = mpsc::channel::<()>();
    let (entered, inside) = tokio::sync::oneshot::channel();
    let mut entered = Some(entered);
    let writer = store.clone();
    tokio::spawn(async move {
        let held = writer.on_writer(move |_| {
            if let Some(entered) = entered.take() {
                entered.send(()).unwrap();
            }
            gate.recv().unwrap_err();
            Ok(())
        });
        held.await.unwrap();
    });
    inside.await.unwrap();
    release
}

/// Runs `sql` on the writer's connection.
async fn on_writer(store: &SqliteStore, sql: &'static str) -> i64 {
    let run = move |connection: &mut WriteTransaction<'_>| {
        Ok(connection.query_row(sql, [], |row| row.get(0))?)
    };
    store.on_writer(run).await.unwrap()
}

#[tokio::test]
async fn appends_that_wait_together_are_committed_together() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(directory.path());
    let release = hold(&store).await;
    let before = store.commits();
    let appends: Vec<_> = (0..200)
        .map(|number| append(&store, vec![decided("t", "r", &format!("e{number}"))]))
        .collect();
    let released = async { drop(release) };
    // Unconstrained: all 200 are handed over in one poll, before the writer is released.
    let (results, ()) = tokio::join!(unconstrained(join_all(appends)), released);
    let positions: Vec<u64> = results.into_iter().flat_map(Result::unwrap).collect();
    assert!(positions.is_sorted_by(|a, b| a < b), "handed over in order, stored in order");
    assert_eq!(store.commits() - before, 2, "the held one, and one for all 200");
}

#[tokio::test]
async fn an_append_that_fails_does_not_fail_the_others_of_its_batch() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(directory.path());
    store.append(&[decided("t", "r", "taken")]).await.unwrap();
    let release = hold(&store).await;
    let before = store.commits();
    let appends = (0..9).map(|number| {
        let mut events = vec![decided("t", "r", &format!("e{number}"))];
        if number % 3 == 1 {
            events.push(decided("t", "r", "taken"));
        }
        append(&store, events)
    });
    let released = async { drop(release) };
    let (results, ()) = tokio::join!(join_all(appends), released);
    for (number, result) in results.iter().enumerate() {
        match result {
            Ok(positions) => assert!(number % 3 != 1 && positions.len() == 1),
            Err(error) => assert!(number % 3 == 1 && matches!(error, StoreError::Conflict(_))),
        }
    }
    assert_eq!(store.commits() - before, 2, "still one transaction");
    let read = store.read(EventQuery::default()).await.unwrap();
    let sequences: Vec<_> = read.iter().map(|logged| logged.event.sequence).collect();
    assert_eq!(sequences, (0..7).collect::<Vec<_>>(), "the failed ones left no gap");
}

async fn append(store: &SqliteStore, events: Vec<NewEvent>) -> Result<Vec<u64>, StoreError> {
    store.append(&events).await
}

/// Fails when the state in memory differs from the file.
async fn compare(store: &SqliteStore) {
    let compare = |transaction: &mut WriteTransaction<'_>| transaction.log.compare(transaction);
    store.on_writer(compare).await.unwrap();
}

/// A call, and a return that names neither it nor its own cause.
fn pair(number: usize) -> [NewEvent; 2] {
    let call = called("t", "r", &format!("e{number}"), &format!("c{number}"));
    let end = NewEvent { causation_id: None, ..returned(&call, &format!("e{number}-end")) };
    [call, end]
}

#[tokio::test]
async fn failed_work_leaves_the_state_as_it_leaves_the_file() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(directory.path());
    store.append(&pair(0)).await.unwrap();
    store.append(&[called("t", "r", "open", "open")]).await.unwrap();
    let closes_open = returned(&called("t", "r", "open", "open"), "never");
    let release = hold(&store).await;
    // Every third append fails after it has opened and closed calls, and in a run that it begins.
    let appends = (1..10).map(|number| {
        let [call, end] = pair(number);
        let run = decided("u", &format!("r{number}"), &format!("u{number}"));
        let taken = decided("t", "r", "e0");
        let events = match number % 3 {
            0 => vec![call, closes_open.clone(), run, taken],
            1 => vec![call, run],
            _ => vec![call, end],
        };
        append(&store, events)
    });
    let released = async { drop(release) };
    let (results, ()) = tokio::join!(join_all(appends), released);
    assert_eq!(results.iter().filter(|result| result.is_err()).count(), 3);
    compare(&store).await;
    store.append(&[closes_open]).await.unwrap();
    compare(&store).await;
    let read = store.read(EventQuery { limit: 1, newest: true, ..EventQuery::default() }).await;
    assert_eq!(read.unwrap()[0].event.sequence, 3 + 3 + 6, "the failed ones left no gap");
}

#[tokio::test]
async fn a_failed_commit_leaves_the_state_as_it_leaves_the_file() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(directory.path());
    store.append(&pair(0)).await.unwrap();
    // The registration of the writer is undone as well.
    store.on_writer(|transaction| transaction.clear()).await.unwrap();
    let release = hold(&store).await;
    let unfinished = store.on_writer(|connection| {
        connection.execute_batch(
            "CREATE TEMP TABLE parent (id INTEGER PRIMARY KEY); \
             CREATE TEMP TABLE child (id REFERENCES parent (id) DEFERRABLE INITIALLY DEFERRED); \
             INSERT INTO child VALUES (1)",
        )?;
        Ok(())
    });
    let (first, second) = (append(&store, pair(1).to_vec()), append(&store, pair(2).to_vec()));
    let released = async { drop(release) };
    let (first, failed, second, ()) = tokio::join!(first, unfinished, second, released);
    assert!(first.is_err() && failed.is_err() && second.is_err());
    compare(&store).await;
    store.append(&pair(1)).await.unwrap();
    compare(&store).await;
    let read = store.read(EventQuery::default()).await.unwrap();
    let sequences: Vec<_> = read.iter().map(|logged| logged.event.sequence).collect();
    assert_eq!(sequences, [0, 1, 2, 3]);
}

#[tokio::test]
async fn a_form_is_stored_when_it_occurs_again() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(directory.path());
    let with_tool = |number: usize, tool: &str| {
        let mut call = called("t", "r", &format!("{number}"), &format!("c{number}"));
        let EventBody::ToolCalled(body) = &mut call.body else { unreachable!("a call") };
        body.tool_name = tool.to_owned();
        call
    };
    let forms = "SELECT count(*) FROM forms";
    let small = "SELECT count(*) FROM events WHERE form IS NOT NULL";
    let long = "x".repeat(2000);
    for (number, (tool, expected)) in [
        ("a", (0, 0)),
        ("a", (1, 1)),
        ("a", (1, 2)),
        ("b", (1, 2)),
        (&long, (1, 2)),
        (&long, (1, 2)),
    ]
    .into_iter()
    .enumerate()
    {
        store.append(&[with_tool(number, tool)]).await.unwrap();
        let found = (on_writer(&store, forms).await, on_writer(&store, small).await);
        assert_eq!(found, expected, "{number}");
    }
    store.close().await;
    let again = open(directory.path());
    again.append(&[with_tool(6, "a")]).await.unwrap();
    assert_eq!(on_writer(&again, small).await, 3, "the form is found in the file");
    let read = again.read(EventQuery::default()).await.unwrap();
    let tools: Vec<_> = read
        .iter()
        .map(|logged| match &logged.event.body {
            EventBody::ToolCalled(body) => body.tool_name.as_str(),
            _ => unreachable!("a call"),
        })
        .collect();
    assert_eq!(tools, ["a", "a", "a", "b", &long, &long, "a"]);
}

#[tokio::test]
async fn a_caller_that_stops_waiting_does_not_undo_its_append() {
    // I-22: the closing event of a cancelled call is written although no caller waits for it.
    let directory = tempfile::tempdir().unwrap();
    let store = open(directory.path());
    let release = hold(&store).await;
    let abandoned = store.append(&[decided("t", "r", "e1")]).now_or_never();
    assert!(abandoned.is_none(), "it was still waiting");
    drop(release);
    store.append(&[decided("t", "r", "e2")]).await.unwrap();
    let read = store.read(EventQuery::default()).await.unwrap();
    assert_eq!(read.len(), 2);
}

#[tokio::test]
async fn a_full_disk_is_reported_and_loses_nothing() {
    // I-18: an event that cannot be stored is refused, so nothing runs because of it.
    let directory = tempfile::tempdir().unwrap();
    let store = open(directory.path());
    let pages = on_writer(&store, "PRAGMA page_count").await;
    assert!(pages < 80);
    on_writer(&store, "PRAGMA max_page_count = 80").await;
    let mut acknowledged = 0;
    let error = loop {
        let call = called("t", "r", &format!("e{acknowledged}"), &format!("c{acknowledged}"));
        match store.append(&[call]).await {
            Ok(_) => acknowledged += 1,
            Err(error) => break error,
        }
        assert!(acknowledged < 10_000, "80 pages do not hold this many events");
    };
    assert!(matches!(error, StoreError::Unavailable(_)), "{error}");
    assert!(error.to_string().contains("disk is full"), "{error}");
    assert!(error.to_string().contains("free some space"), "{error}");

    let release = hold(&store).await;
    let sources: Vec<_> = (0..8).map(|n| format!("s{n}").parse().unwrap()).collect();
    let batch = sources.iter().map(|source| store.save(source, "x".repeat(20_000), moment(0)));
    let released = async { drop(release) };
    let (refused, ()) = tokio::join!(join_all(batch), released);
    assert!(refused.iter().any(Result::is_err), "8 times 5 pages do not fit either");

    let stored = on_writer(&store, "SELECT count(*) FROM events").await;
    assert_eq!(stored, acknowledged, "everything acknowledged, and nothing else");

    on_writer(&store, "PRAGMA max_page_count = 1000000").await;
    store.append(&[decided("t", "r", "after")]).await.unwrap();
    let newest = EventQuery { newest: true, limit: 1, ..EventQuery::default() };
    let newest = store.read(newest).await.unwrap().remove(0);
    assert_eq!(i64::try_from(newest.event.sequence).unwrap(), acknowledged, "no gap");
    store.close().await;
    let file = Connection::open(directory.path().join("store.db")).unwrap();
    let open = "SELECT count(*) FROM open_calls";
    let open: i64 = file.query_row(open, [], |row| row.get(0)).unwrap();
    assert_eq!(open, acknowledged);
}

#[tokio::test]
async fn a_lock_held_elsewhere_is_reported_and_overcome() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store.db");
    let patience = Duration::from_millis(20);
    let store = SqliteStore::open_patiently(&path, Options::default(), patience).unwrap();
    let other = Connection::open(&path).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let error = store.append(&[decided("t", "r", "e1")]).await.unwrap_err();
    assert!(matches!(error, StoreError::Unavailable(_)), "{error}");
    assert!(error.to_string().contains("another process kept the file locked"), "{error}");
    assert!(store.read(EventQuery::default()).await.unwrap().is_empty(), "readers do not wait");
    other.execute_batch("COMMIT").unwrap();
    store.append(&[decided("t", "r", "e1")]).await.unwrap();
    store.close().await;

    other.execute_batch("PRAGMA locking_mode = EXCLUSIVE; BEGIN EXCLUSIVE").unwrap();
    let error = SqliteStore::open_patiently(&path, Options::default(), patience).unwrap_err();
    assert!(error.to_string().contains("locked"), "{error}");
}

#[tokio::test]
async fn the_write_ahead_log_stays_bounded_without_a_quiet_moment() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store.db");
    let store =
        SqliteStore::open(&path, Options { durability: Durability::Relaxed, ..Options::default() })
            .unwrap();
    let source = "files".parse().unwrap();
    for number in 0..192 {
        store.save(&source, "x".repeat(1 << 20), moment(number)).await.unwrap();
    }
    let log = std::fs::metadata(directory.path().join("store.db-wal")).unwrap().len();
    // 32 MiB, and sixteen transactions until it is measured again.
    assert!(log < 56 << 20, "{log} bytes after 192 MiB of writes");
    store.close().await;
    assert!(!directory.path().join("store.db-wal").exists(), "everything is in the one file");
}

#[tokio::test]
async fn a_writer_that_panics_leaves_no_caller_waiting() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(directory.path());
    let release = hold(&store).await;
    let broken = store.on_writer(|_| -> Result<(), Failure> { panic!("on purpose") });
    let behind = store.insert(key("a", 1, 0));
    let released = async { drop(release) };
    let (broken, behind, ()) = tokio::join!(broken, behind, released);
    assert!(matches!(broken, Err(StoreError::Unavailable(_))));
    assert!(matches!(behind, Err(StoreError::Unavailable(_))));
    let after = store.append(&[decided("t", "r", "e1")]).await;
    assert!(matches!(after, Err(StoreError::Unavailable(_))), "nothing is accepted afterwards");
    store.close().await;
    let files = std::fs::read_dir(directory.path().join("store.db.instances")).unwrap();
    assert_eq!(files.count(), 0, "and it no longer counts as alive");
}

/// Runs `work` on a core that serves nothing else, where a caller that is alone stores its events
/// itself.
async fn on_core<T: Send + 'static>(
    work: impl Future<Output = T> + Send + 'static,
) -> Result<T, tokio::task::JoinError> {
    let cores = Cores::start(2).unwrap();
    let place = cores.place();
    place.runtime().spawn(work).await
}

/// Returns the thread that stores.
async fn storing_thread(store: &SqliteStore) -> String {
    let name = |_: &mut WriteTransaction<'_>| Ok(std::thread::current().name().map(str::to_owned));
    store.on_writer(name).await.unwrap().unwrap()
}

/// Stores alone until a core stores.
async fn be_alone(store: &SqliteStore) {
    for _ in 0..100 {
        if storing_thread(store).await.starts_with("toolcrib-core-") {
            return;
        }
    }
    panic!("the thread of the store does everything");
}

#[tokio::test]
async fn a_caller_that_is_alone_on_a_core_stores_its_events_itself() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(directory.path());
    for _ in 0..100 {
        assert_eq!(storing_thread(&store).await, "toolcrib-store", "this is not a core");
    }
    let alone = store.clone();
    on_core(async move {
        be_alone(&alone).await;
        for number in 0..20 {
            let call = called("t", "r", &format!("e{number}"), &format!("c{number}"));
            alone.append(std::slice::from_ref(&call)).await.unwrap();
            alone.append(&[returned(&call, &format!("e{number}-end"))]).await.unwrap();
            let taken = alone.append(&[decided("t", "r", "new"), call]).await.unwrap_err();
            assert!(matches!(taken, StoreError::Conflict(_)), "{taken}");
            compare(&alone).await;
        }
    })
    .await
    .unwrap();
    assert_eq!(store.read(EventQuery::default()).await.unwrap().len(), 40);
    store.close().await;
}

#[tokio::test]
async fn what_comes_while_a_caller_stores_is_stored_after_it_by_the_thread() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(directory.path());
    let cores = Cores::start(3).unwrap();
    let (first, second) = (cores.place(), cores.place());
    let (release, gate) = mpsc::channel::<()>();
    let (entered, inside) = tokio::sync::oneshot::channel();
    let mut entered = Some(entered);
    let alone = store.clone();
    let held = first.runtime().spawn(async move {
        be_alone(&alone).await;
        let hold = move |_: &mut WriteTransaction<'_>| {
            entered.take().unwrap().send(std::thread::current().name().map(str::to_owned)).unwrap();
            gate.recv().unwrap_err();
            Ok(())
        };
        alone.on_writer(hold).await.unwrap();
    });
    assert_eq!(inside.await.unwrap().unwrap(), "toolcrib-core-0");
    let before = store.commits();
    let behind = [&store, &store].map(|store| {
        let store = store.clone();
        second.runtime().spawn(async move { storing_thread(&store).await })
    });
    while store.inner.writer.waiting() < 3 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    drop(release);
    held.await.unwrap();
    for stored in behind {
        assert_eq!(stored.await.unwrap(), "toolcrib-store");
    }
    assert_eq!(store.commits() - before, 2, "that of the core, and one for both");
    store.close().await;
}

/// The write-ahead log is copied in a quiet time; a later write starts it anew.
#[tokio::test]
async fn what_a_caller_stored_itself_is_copied_in_a_quiet_time() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(directory.path());
    let (alone, path) = (store.clone(), directory.path().join("store.db"));
    on_core(async move {
        be_alone(&alone).await;
        alone.append(&[decided("t", "r", "last")]).await.unwrap();
    })
    .await
    .unwrap();
    let uncopied = || -> i64 {
        let pages = |row: &rusqlite::Row<'_>| Ok(row.get::<_, i64>(1)? - row.get::<_, i64>(2)?);
        let reader = Connection::open(&path).unwrap();
        reader.query_row("PRAGMA wal_checkpoint(NOOP)", [], pages).unwrap()
    };
    for _ in 0..1_000 {
        if uncopied() == 0 {
            return store.close().await;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("{} pages are not copied", uncopied());
}

#[tokio::test]
async fn a_caller_that_panics_while_it_stores_ends_the_store() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(directory.path());
    let alone = store.clone();
    let panicked = on_core(async move {
        be_alone(&alone).await;
        alone.on_writer(|_| -> Result<(), Failure> { panic!("on purpose") }).await
    })
    .await;
    assert!(panicked.unwrap_err().is_panic());
    let after = store.append(&[decided("t", "r", "e1")]).await;
    assert!(matches!(after, Err(StoreError::Unavailable(_))), "nothing is accepted afterwards");
    store.ended().await;
    store.close().await;
    let files = std::fs::read_dir(directory.path().join("store.db.instances")).unwrap();
    assert_eq!(files.count(), 0, "and it no longer counts as alive");
}

#[tokio::test]
async fn reads_of_a_long_log_use_an_index() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(directory.path());
    let some = |text: &str| Some(text.to_owned());
    for (tenant, run, expected) in [
        (None, None, "SEARCH events USING INTEGER PRIMARY KEY (rowid>?)"),
        (
            some("t"),
            None,
            "SEARCH events USING INDEX events_by_tenant (tenant=? AND tenant_position>?)",
        ),
        (None, some("r"), "SEARCH events USING INDEX events_by_run (run_id=?"),
        (some("t"), some("r"), "SEARCH events USING INDEX events_by_run (run_id=? AND tenant=?)"),
    ] {
        let query = EventQuery {
            tenant: tenant.map(|text| text.parse().unwrap()),
            run: run.map(|text| text.parse().unwrap()),
            ..EventQuery::default()
        };
        let plan = format!("EXPLAIN QUERY PLAN {}", select_sql(&query));
        let explain = move |connection: &mut WriteTransaction<'_>| {
            let mut statement = connection.prepare(&plan)?;
            let rows = statement.query_map([None::<i64>; 4], |row| row.get::<_, String>(3))?;
            Ok(rows.collect::<Result<Vec<_>, _>>()?)
        };
        let steps = store.on_writer(explain).await.unwrap();
        let first = steps.first().unwrap();
        assert!(first.starts_with(expected), "{steps:?}");
    }
}

/// I-72: the ends in memory are those that this process wrote, or they are of another generation.
#[tokio::test]
async fn ends_of_logs_are_known_until_something_else_may_have_changed_them() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(directory.path());
    let known = async || store.known_heads().await.unwrap().unwrap();
    let ends = async |known: &KnownHeads| {
        for (tenant, end) in &known.heads {
            let head = store.head(tenant).await.unwrap().unwrap();
            assert_eq!((head.position, head.hash), *end);
        }
        known.heads.len()
    };
    store.append(&[decided("t", "r", "e1")]).await.unwrap();
    let first = known().await;
    // More runs than are kept in memory.
    let events: Vec<_> = (0..8200)
        .map(|number| decided("t", &format!("r{number}"), &format!("e1{number}")))
        .collect();
    store.append(&events).await.unwrap();
    store.append(&[decided("u", "r", "e2")]).await.unwrap();
    let second = known().await;
    assert_eq!(second.generation, first.generation);
    assert_eq!(ends(&second).await, 2);

    // The end of this log was in memory only for a moment, and is read from the file again.
    let twice = [decided("v", "r", "e3"), decided("v", "r", "e3")];
    assert!(matches!(store.append(&twice).await, Err(StoreError::Conflict(_))));
    let third = known().await;
    assert_ne!(third.generation, second.generation);
    assert_eq!(ends(&third).await, 2);

    let other = Connection::open(directory.path().join("store.db")).unwrap();
    other.execute("UPDATE events SET timestamp = 0 WHERE position = 2", []).unwrap();
    let fourth = known().await;
    assert_ne!(fourth.generation, third.generation);
    assert_eq!(ends(&fourth).await, 0);
}
