//! Several open stores on one file, as the server, the command line and MCP children have them.
#![cfg(test)]

use std::{collections::HashSet, os::unix::fs::symlink, path::Path};

use rusqlite::Connection;
use toolcrib_core::{
    event::{CallStatus, EventBody, EventLog, EventQuery, LoggedEvent, SessionOutcome},
    record::RecordStore,
    store::{KeyStore, Storage},
};
use toolcrib_store::{
    Durability, Options, SqliteStore,
    conformance::{
        event_log::{called, closed, decided, opened, returned},
        key_store::key,
        moment,
        record_store::{sign, signing_key},
    },
    verify,
};

fn open(path: &Path) -> SqliteStore {
    SqliteStore::open(path, Options { durability: Durability::Relaxed, ..Options::default() })
        .unwrap()
}

async fn all(store: &SqliteStore) -> Vec<LoggedEvent> {
    store.read(EventQuery::default()).await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_writers_lose_nothing_and_share_the_sequences() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store.db");
    let mut tasks = Vec::new();
    for (name, store) in [("a", open(&path)), ("b", open(&path))] {
        for task in 0..4 {
            let store = store.clone();
            tasks.push(tokio::spawn(async move {
                let mut positions = Vec::new();
                for number in 0..50 {
                    let event = decided("t", "r", &format!("{name}-{task}-{number}"));
                    positions.extend(store.append(&[event]).await.unwrap());
                }
                positions
            }));
        }
    }
    let mut positions = HashSet::new();
    for task in tasks {
        let acknowledged = task.await.unwrap();
        assert!(acknowledged.is_sorted_by(|a, b| a < b));
        positions.extend(acknowledged);
    }
    let read = all(&open(&path)).await;
    let sequences: Vec<_> = read.iter().map(|logged| logged.event.sequence).collect();
    assert_eq!(sequences, (0..400).collect::<Vec<_>>());
    assert_eq!(read.iter().map(|logged| logged.position).collect::<HashSet<_>>(), positions);
    // I-71: they share one chain, too.
    let store = open(&path);
    let whole = verify::Scope::default();
    let report = verify::record(&store, &whole, Vec::new(), &[], &[], |_, _| ()).await.unwrap();
    assert_eq!((report.events, report.findings), (400, Vec::new()));
}

#[test]
fn a_new_file_can_be_opened_by_many_at_once() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store.db");
    let opened: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..6).map(|_| scope.spawn(|| open(&path))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let files = std::fs::read_dir(directory.path().join("store.db.instances")).unwrap();
    assert_eq!(files.count(), opened.len());
}

#[tokio::test]
async fn a_key_made_elsewhere_changes_the_epoch_here() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store.db");
    let (server, command_line) = (open(&path), open(&path));
    let before = server.changes(None).await.unwrap().keys;
    command_line.insert(key("k", 1, 0)).await.unwrap();
    let inserted = server.changes(None).await.unwrap().keys;
    command_line.revoke(&"k".parse().unwrap(), moment(1)).await.unwrap();
    let revoked = server.changes(None).await.unwrap().keys;
    assert!(before != inserted && inserted != revoked && before != revoked);
    assert_eq!(server.list().await.unwrap()[0].revoked_at, Some(moment(1)));
}

#[tokio::test]
async fn only_the_calls_of_the_dead_are_closed() {
    // I-21: the dead process's calls end as failed; those of the living are unchanged.
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store.db");
    let link = directory.path().join("link.db");
    symlink(&path, &link).unwrap();
    let (living, dead) = (open(&path), open(&path));
    let through_link = open(&link);

    let finished = called("t", "r", "e1", "c1");
    dead.append(&[finished.clone(), returned(&finished, "e2")]).await.unwrap();
    let lost = called("t", "r", "e3", "c3");
    dead.append(std::slice::from_ref(&lost)).await.unwrap();
    living.append(&[called("t", "r", "e4", "c3")]).await.unwrap();
    through_link.append(&[called("u", "r", "e5", "c5")]).await.unwrap();

    for store in [&living, &through_link, &dead] {
        assert_eq!(store.recover(moment(99)).await.unwrap(), 0, "everyone lives");
    }
    dead.close().await;
    let (one, two) = tokio::join!(living.recover(moment(99)), through_link.recover(moment(99)));
    assert_eq!(one.unwrap() + two.unwrap(), 1, "closed by exactly one of them");
    assert_eq!(living.recover(moment(100)).await.unwrap(), 0);

    let read = all(&living).await;
    assert_eq!(read.len(), 6);
    let closing = read.last().unwrap();
    assert_eq!((closing.tenant.as_str(), closing.event.run_id.as_str()), ("t", "r"));
    assert_eq!(closing.event.causation_id, Some(lost.event_id.clone()));
    assert_eq!((closing.event.timestamp, closing.event.sequence), (moment(99), 4));
    let EventBody::ToolReturned(end) = &closing.event.body else { panic!("{closing:?}") };
    let EventBody::ToolCalled(start) = &lost.body else { panic!("{lost:?}") };
    assert_eq!(
        (&end.agent_id, &end.tool_name, &end.call_id),
        (&start.agent_id, &start.tool_name, &start.call_id)
    );
    assert_eq!(end.principal.as_ref(), Some(&start.principal));
    assert_eq!((end.status, end.duration_ms), (CallStatus::Error, None));
    assert_eq!(end.error.as_ref().unwrap().code, "interrupted");
}

#[tokio::test]
async fn a_return_closes_the_call_that_it_names() {
    // I-21: a call id that is used twice in a run does not make a finished call look lost.
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store.db");
    let (living, dead) = (open(&path), open(&path));
    let (first, second) = (called("t", "r", "e1", "c"), called("t", "r", "e2", "c"));
    dead.append(&[first.clone(), second.clone()]).await.unwrap();
    dead.append(&[returned(&second, "e3")]).await.unwrap();
    dead.close().await;
    assert_eq!(living.recover(moment(9)).await.unwrap(), 1);
    let read = all(&living).await;
    assert_eq!(read.last().unwrap().event.causation_id, Some(first.event_id));
}

#[tokio::test]
async fn the_sessions_of_the_dead_are_closed_after_their_calls() {
    // I-21
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store.db");
    let (living, dead) = (open(&path), open(&path));
    let (lost, ended) = (opened("t", "r", "e1", "s1"), opened("t", "r", "e2", "s2"));
    let end = closed(&ended, "e3");
    dead.append(&[lost.clone(), ended, end, called("t", "r", "e4", "c")]).await.unwrap();
    living.append(&[opened("t", "q", "e5", "s1")]).await.unwrap();
    // A tool that is opened twice is open once, and belongs to its last holder.
    dead.append(&[opened("t", "p", "e6", "s"), opened("t", "p", "e7", "s")]).await.unwrap();
    dead.append(&[opened("t", "o", "e8", "s")]).await.unwrap();
    living.append(&[opened("t", "o", "e9", "s")]).await.unwrap();
    assert_eq!(living.recover(moment(9)).await.unwrap(), 0, "everyone lives");
    dead.close().await;
    assert_eq!(living.recover(moment(9)).await.unwrap(), 3);
    assert_eq!(living.recover(moment(9)).await.unwrap(), 0);
    let read = all(&living).await;
    let [call, session, twice] = &read[9..] else { panic!("{read:?}") };
    assert!(matches!(call.event.body, EventBody::ToolReturned(_)));
    let EventBody::ToolSessionClosed(end) = &session.event.body else { panic!("{session:?}") };
    assert_eq!(session.event.causation_id, Some(lost.event_id));
    assert_eq!((end.session_id.as_str(), end.outcome), ("s1", SessionOutcome::Failed));
    assert_eq!(end.tool_id.as_str(), "mcp:files.read_file");
    assert_eq!(session.event.sequence, call.event.sequence + 1);
    assert_eq!(twice.event.causation_id.as_ref().unwrap().as_str(), "e7");
}

#[tokio::test]
async fn more_lost_calls_than_one_transaction_holds_are_all_closed() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store.db");
    let dead = open(&path);
    let calls =
        (0..600).map(|number| called("t", "r", &format!("e{number}"), &format!("c{number}")));
    dead.append(&calls.collect::<Vec<_>>()).await.unwrap();
    drop(dead);
    let store = open(&path);
    assert_eq!(store.recover(moment(1)).await.unwrap(), 600);
    assert_eq!(store.recover(moment(2)).await.unwrap(), 0);
    let returns = store.read(EventQuery { after: Some(600), ..EventQuery::default() }).await;
    let causes: Vec<_> =
        returns.unwrap().into_iter().map(|logged| logged.event.causation_id).collect();
    let expected: Vec<_> =
        (0..600).map(|number| Some(format!("e{number}").parse().unwrap())).collect();
    assert_eq!(causes, expected, "in the order in which they were started");
}

async fn is_sound(store: &SqliteStore, events: u64) {
    let whole = verify::Scope::default();
    let report = verify::record(store, &whole, Vec::new(), &[], &[], |_, _| ()).await.unwrap();
    assert_eq!((report.events, report.findings), (events, Vec::new()));
}

// I-71: each notices what the other has written.
#[tokio::test]
async fn two_stores_that_write_in_turns_continue_one_another() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store.db");
    let (one, two) = (open(&path), open(&path));
    for round in 0..40 {
        let store = if round % 2 == 0 { &one } else { &two };
        let call = called("t", "r", &format!("e{round}"), &format!("c{round}"));
        let end = returned(&call, &format!("e{round}-end"));
        store.append(&[call, decided("u", "r", &format!("u{round}"))]).await.unwrap();
        // Every third call is returned by the other process.
        let other = if round % 3 == 0 { &two } else { store };
        other.append(&[end]).await.unwrap();
    }
    let read = all(&one).await;
    for (tenant, count) in [("t", 80), ("u", 40)] {
        let of_tenant = read.iter().filter(|logged| logged.tenant.as_str() == tenant);
        let sequences: Vec<_> = of_tenant.map(|logged| logged.event.sequence).collect();
        assert_eq!(sequences, (0..count).collect::<Vec<_>>());
    }
    is_sound(&one, 120).await;
    two.close().await;
    assert_eq!(one.recover(moment(9)).await.unwrap(), 0, "every call was returned");
    one.close().await;
    assert_eq!(open(&path).recover(moment(9)).await.unwrap(), 0);
}

// I-71: an older state that is put back under a running process is continued as it is.
#[tokio::test]
async fn a_state_that_another_connection_puts_back_is_noticed() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store.db");
    let store = open(&path);
    let kept = called("t", "r", "e0", "c0");
    store.append(&[kept.clone(), decided("t", "r", "e1")]).await.unwrap();
    let lost = called("t", "r", "e2", "c2");
    store.append(&[lost.clone(), decided("t", "q", "e3")]).await.unwrap();
    let other = Connection::open(&path).unwrap();
    other.execute_batch("DELETE FROM events WHERE position > 2").unwrap();
    store.append(&[called("t", "r", "e4", "c4"), decided("t", "q", "e5")]).await.unwrap();
    let read = all(&store).await;
    let sequences: Vec<_> = read.iter().map(|logged| logged.event.sequence).collect();
    assert_eq!(sequences, [0, 1, 2, 0]);
    let places: Vec<_> = read.iter().map(|logged| logged.link.position).collect();
    assert_eq!(places, [1, 2, 3, 4]);
    // The event of this call is gone, and another one may have its position.
    store.append(&[returned(&lost, "e6"), returned(&kept, "e7")]).await.unwrap();
    // Without its lock a process is dead, and has not stored its open calls.
    std::fs::remove_dir_all(directory.path().join("store.db.instances")).unwrap();
    let next = open(&path);
    assert_eq!(next.recover(moment(9)).await.unwrap(), 1);
    let closing = all(&next).await.pop().unwrap();
    assert_eq!(closing.event.causation_id.unwrap().as_str(), "e4");
}

#[tokio::test]
async fn a_call_that_another_process_runs_keeps_its_events() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store.db");
    let (living, asking) = (open(&path), open(&path));
    let tenant = "t".parse().unwrap();
    asking.append(&[decided("t", "r", "e0")]).await.unwrap();
    let first = sign(&asking, &signing_key(), "t", 1).await;
    let call = called("t", "r", "e1", "c");
    living.append(&[call.clone(), decided("t", "r", "e2")]).await.unwrap();
    let second = sign(&asking, &signing_key(), "t", 2).await;
    asking.append(&[decided("t", "r", "e3")]).await.unwrap();
    let prunable = async || asking.prunable(&tenant, moment(50), u64::MAX).await.unwrap();
    assert_eq!(prunable().await, Some(first.clone()), "found from its events");
    // This stores the open calls of the living one in the table.
    living.prunable(&tenant, moment(50), u64::MAX).await.unwrap();
    assert_eq!(prunable().await, Some(first), "found in the table");
    living.append(&[returned(&call, "e4")]).await.unwrap();
    assert_eq!(prunable().await, Some(second));
}
