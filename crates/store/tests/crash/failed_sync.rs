//! I-21: a sync that failed is not repeated, because a later one can succeed without its data.
//!
//! With `durability = "opening"` a result is acknowledged before its sync. The errors and the delays
//! come from `strace`.

use std::{fs, path::Path, process::Command, time::Duration};

use tempfile::TempDir;
use toolcrib_core::{event::EventLog as _, store::Storage as _};
use toolcrib_store::{
    Durability, Options, SqliteStore,
    conformance::event_log::{called, returned},
};

use crate::{DURABILITY, STORE, all, strace};

/// The time between the result of the first call and the start of the second. With
/// [`SLOW_WRITES`] the start waits for the transaction of the result, without them it comes after
/// the sync of the result.
const PAUSE: Duration = Duration::from_millis(30);
const SLOW_WRITES: &str = "--inject=pwrite64:delay_exit=40000";

/// Not a test: stores three calls, of which the first has a result.
#[tokio::test]
#[ignore = "started by the other tests of this file"]
async fn helper_with_three_calls() {
    let Some(path) = std::env::var_os(STORE) else { return };
    assert_eq!(std::env::var(DURABILITY).as_deref(), Ok("opening"));
    let options = Options { durability: Durability::Opening, ..Options::default() };
    let store = SqliteStore::open(Path::new(&path), options).unwrap();
    let call = |name: &str| called("t", "run", name, name);
    let append = async |event| match store.append(&[event]).await {
        Ok(_) => "stored".to_owned(),
        Err(error) => format!("refused: {error}"),
    };
    println!("first {}", append(call("first")).await);
    let second = async {
        tokio::time::sleep(PAUSE).await;
        append(call("second")).await
    };
    let (result, second) = tokio::join!(append(returned(&call("first"), "first-end")), second);
    println!("first-end {result}\nsecond {second}");
    println!("third {}", append(call("third")).await);
    std::process::exit(0);
}

/// Runs the helper with a new store. Returns its lines, and the syncs of its write-ahead log.
async fn run(strace: &Path, injections: &[&str]) -> (TempDir, Vec<String>, Vec<String>) {
    let folder = tempfile::tempdir().unwrap();
    let (path, trace) = (folder.path().join("store.db"), folder.path().join("trace"));
    // Not slowed: the tables are created.
    SqliteStore::open(&path, Options::default()).unwrap().close().await;
    let mut command = Command::new(strace);
    command.args(["-f", "-e", "trace=fsync,fdatasync,pwrite64"]).args(injections);
    command.arg("-o").arg(&trace).arg("-P").arg(folder.path().join("store.db-wal"));
    command.arg(std::env::current_exe().unwrap());
    command.args(["--exact", "failed_sync::helper_with_three_calls", "--ignored", "--nocapture"]);
    command.env(STORE, &path).env(DURABILITY, "opening");
    let output = command.output().unwrap();
    let shown = String::from_utf8(output.stdout).unwrap();
    let lines = |text: &str, wanted: &[&str]| -> Vec<String> {
        let is_wanted = |line: &&str| wanted.iter().any(|part| line.contains(part));
        text.lines().filter(is_wanted).map(str::to_owned).collect()
    };
    let syncs = lines(&fs::read_to_string(&trace).unwrap(), &["fsync(", "fdatasync("]);
    (folder, lines(&shown, &[" stored", " refused"]), syncs)
}

async fn stored(folder: &TempDir) -> Vec<String> {
    let store = SqliteStore::open(folder.path().join("store.db"), Options::default()).unwrap();
    let ids = all(&store).await.into_iter().map(|logged| logged.event.event_id.to_string());
    let ids = ids.collect();
    store.close().await;
    ids
}

fn refused(name: &str) -> String {
    format!(
        "{name} refused: the store is not available: its write-ahead log could not be synced, so \
         the last results of calls may be lost; check the disk, then restart the server"
    )
}

#[tokio::test]
async fn after_a_failed_sync_of_a_result_nothing_is_stored() {
    let Some(strace) = strace::find_or_skip() else { return };
    // SQLite syncs with `fsync`, and the store syncs results with `fdatasync`.
    let (folder, said, syncs) = run(&strace, &["--inject=fdatasync:error=EIO:when=1"]).await;
    assert_eq!(said[..2], ["first stored", "first-end stored"], "{syncs:?}");
    assert_eq!(said[2..], [refused("second"), refused("third")], "{syncs:?}");
    assert!(syncs.last().unwrap().contains("fdatasync"), "{syncs:?}");
    // The next start reads what there is.
    assert_eq!(stored(&folder).await, ["first", "first-end"]);
}

/// The sync of a call that starts was to include the result before it.
#[tokio::test]
async fn after_a_failed_sync_of_a_start_and_a_result_nothing_is_stored() {
    let Some(strace) = strace::find_or_skip() else { return };
    let (folder, said, syncs) = run(&strace, &[SLOW_WRITES]).await;
    assert_eq!(said, ["first stored", "first-end stored", "second stored", "third stored"]);
    assert!(!syncs.iter().any(|sync| sync.contains("fdatasync")), "{syncs:?}");
    assert_eq!(stored(&folder).await, ["first", "first-end", "second", "third"]);

    // The last sync is that of the third call.
    let fails = format!("--inject=fsync:error=EIO:when={}", syncs.len() - 1);
    let (folder, said, syncs) = run(&strace, &[SLOW_WRITES, &fails]).await;
    assert_eq!(said[..2], ["first stored", "first-end stored"], "{syncs:?}");
    assert!(said[2].starts_with("second refused: "), "{said:?}");
    assert_eq!(said[3..], [refused("third")], "{syncs:?}");
    // The second call was written, but did not run: the next start finds and ends it.
    assert_eq!(stored(&folder).await, ["first", "first-end", "second"]);
}
