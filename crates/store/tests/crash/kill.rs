//! I-21: acknowledged events survive `kill -9`, and the next process closes open calls.
//!
//! The process that is killed is this test binary itself, running [`helper_process`].

use std::{
    collections::HashSet,
    io::{BufRead, BufReader, Write},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use rusqlite::Connection;
use toolcrib_core::{
    event::{EventLog, EventQuery},
    id::EventId,
    store::Storage,
};
use toolcrib_store::{
    Options, SqliteStore,
    conformance::{
        event_log::{called, closed, decided, opened, returned},
        moment,
    },
    verify,
};

use crate::{STORE, all, ends_as_failed, left_open, sequences_have_no_gap};

/// Callers in the helper.
const CALLERS: usize = 16;

struct Helper(Child);

impl Helper {
    fn start(store: &Path) -> Self {
        Self::start_as("kill::helper_process", store)
    }

    fn start_as(helper: &str, store: &Path) -> Self {
        let child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", helper, "--ignored", "--nocapture"])
            .env(STORE, store)
            .stdout(Stdio::piped())
            .spawn();
        Self(child.unwrap())
    }

    /// Waits for `count` acknowledgements, kills the process in the middle of its work, and returns
    /// all acknowledgements.
    fn kill_after(mut self, count: usize) -> Vec<EventId> {
        let lines = BufReader::new(self.0.stdout.take().unwrap()).lines();
        let mut acknowledged = Vec::new();
        for line in lines {
            acknowledged.extend(line.unwrap().strip_prefix("ack ").map(|id| id.parse().unwrap()));
            if acknowledged.len() == count {
                self.0.kill().unwrap();
            }
        }
        let status = self.0.wait().unwrap();
        assert_eq!(status.code(), None, "it was killed, it did not end by itself");
        acknowledged
    }
}

impl Drop for Helper {
    fn drop(&mut self) {
        // Ended already unless the test failed.
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

/// Not a test: appends until it is killed. Every third call is never returned. Every fifth has a
/// tool session around it, of which every second is never closed.
#[test]
#[ignore = "started by the other tests of this file"]
fn helper_process() {
    let Some(path) = std::env::var_os(STORE).map(PathBuf::from) else { return };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().unwrap();
    runtime.block_on(async {
        let store = SqliteStore::open(path, Options::default()).unwrap();
        let pid = std::process::id();
        for caller in 0..CALLERS {
            let store = store.clone();
            tokio::spawn(async move {
                for number in 0.. {
                    let name = format!("{pid}-{caller}-{number}");
                    let run = format!("run-{caller}");
                    let call = called("t", &run, &name, &name);
                    let end = returned(&call, &format!("{name}-end"));
                    let session = opened("t", &run, &format!("{name}-open"), &name);
                    let last = closed(&session, &format!("{name}-closed"));
                    if number % 5 == 0 {
                        store.append(&[session]).await.unwrap();
                        acknowledge(&format!("{name}-open"));
                    }
                    store.append(&[call]).await.unwrap();
                    acknowledge(&name);
                    if number % 3 != 0 {
                        store.append(&[end]).await.unwrap();
                        acknowledge(&format!("{name}-end"));
                    }
                    if number % 10 == 0 {
                        store.append(&[last]).await.unwrap();
                        acknowledge(&format!("{name}-closed"));
                    }
                }
            });
        }
        std::future::pending::<()>().await;
    });
}

fn acknowledge(event: &str) {
    let mut out = std::io::stdout().lock();
    // On a line of its own: the test harness does not end the line that it starts.
    out.write_all(format!("\nack {event}\n").as_bytes()).unwrap();
    out.flush().unwrap();
}

#[tokio::test]
async fn every_acknowledged_event_survives_a_kill_and_what_was_lost_is_closed() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store.db");
    let mut acknowledged = Vec::new();
    // The second helper continues with the store of the first one.
    for count in [300, 500] {
        acknowledged.extend(Helper::start(&path).kill_after(count));
    }
    assert!(acknowledged.len() >= 800);

    let store = SqliteStore::open(&path, Options::default()).unwrap();
    let before = all(&store).await;
    let stored: HashSet<_> = before.iter().map(|logged| &logged.event.event_id).collect();
    for event in &acknowledged {
        assert!(stored.contains(event), "{event} was acknowledged and is lost");
    }
    let (calls, sessions) = left_open(&before);
    assert!(!calls.is_empty() && !sessions.is_empty());
    let in_table = "SELECT count(*) FROM open_calls";
    let file = Connection::open(&path).unwrap();
    let in_table: i64 = file.query_row(in_table, [], |row| row.get(0)).unwrap();
    assert!(
        usize::try_from(in_table).unwrap() < calls.len(),
        "some of them are found from the events alone"
    );

    let closed = store.recover(moment(5)).await.unwrap();
    assert_eq!(closed, calls.len() + sessions.len());
    let after = all(&store).await;
    assert_eq!(&after[..before.len()], before, "nothing that was stored changed");
    let causes: HashSet<_> = after[before.len()..]
        .iter()
        .map(|logged| logged.event.causation_id.clone().unwrap())
        .collect();
    assert_eq!(causes, calls.union(&sessions).cloned().collect());
    assert_eq!(left_open(&after), Default::default());
    assert!(after[before.len()..].iter().all(|logged| ends_as_failed(&logged.event.body)));
    assert_eq!(store.recover(moment(6)).await.unwrap(), 0);
    assert_eq!(sequences_have_no_gap(&after), CALLERS);
    // I-71
    let whole = verify::Scope::default();
    let report = verify::record(&store, &whole, Vec::new(), &[], &[], |_, _| ()).await.unwrap();
    assert_eq!((report.events, report.findings), (after.len() as u64, Vec::new()));
    let files = std::fs::read_dir(directory.path().join("store.db.instances")).unwrap();
    assert_eq!(files.count(), 1, "only this process counts as alive");
}

/// Not a test: leaves calls open before and after many other events, then waits to be killed.
#[test]
#[ignore = "started by the other tests of this file"]
fn helper_with_long_calls() {
    let Some(path) = std::env::var_os(STORE).map(PathBuf::from) else { return };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().unwrap();
    runtime.block_on(async {
        let store = SqliteStore::open(path, Options::default()).unwrap();
        let [long, ended] = ["long", "ended"].map(|name| called("t", "r", name, name));
        store.append(&[long, ended.clone()]).await.unwrap();
        for batch in 0..100 {
            let ids = (0..100).map(|number| format!("{batch}-{number}"));
            store.append(&ids.map(|id| decided("t", "s", &id)).collect::<Vec<_>>()).await.unwrap();
        }
        let late = called("t", "r", "late", "late");
        store.append(&[returned(&ended, "end"), late]).await.unwrap();
        acknowledge("late");
        // Without a quiet time, after which the open calls would be stored.
        for number in 0.. {
            store.append(&[decided("u", "r", &format!("u{number}"))]).await.unwrap();
        }
    });
}

#[tokio::test]
async fn calls_that_stay_open_over_many_events_are_closed_oldest_first() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store.db");
    Helper::start_as("kill::helper_with_long_calls", &path).kill_after(1);
    let store = SqliteStore::open(&path, Options::default()).unwrap();
    assert_eq!(store.recover(moment(5)).await.unwrap(), 2);
    let newest = EventQuery {
        tenant: Some("t".parse().unwrap()),
        newest: true,
        limit: 2,
        ..EventQuery::default()
    };
    let closed = store.read(newest).await.unwrap();
    let causes = closed.iter().map(|logged| logged.event.causation_id.as_ref().unwrap().as_str());
    assert_eq!(causes.collect::<Vec<_>>(), ["long", "late"]);
    assert_eq!(store.recover(moment(6)).await.unwrap(), 0);
}

#[tokio::test]
async fn the_calls_of_a_living_process_are_left_to_it() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store.db");
    let mut helper = Helper::start(&path);
    let mut lines = BufReader::new(helper.0.stdout.as_mut().unwrap()).lines();
    lines.by_ref().map(Result::unwrap).find(|line| line.starts_with("ack ")).unwrap();

    let store = SqliteStore::open(&path, Options::default()).unwrap();
    assert_eq!(store.recover(moment(1)).await.unwrap(), 0, "it lives");
    drop(lines);
    helper.0.kill().unwrap();
    helper.0.wait().unwrap();
    assert_ne!(store.recover(moment(2)).await.unwrap(), 0, "now it does not");
}
