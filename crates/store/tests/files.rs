//! The file on disk: permissions, refusals, and messages to the operator.
#![cfg(test)]

use std::{fs, os::unix::fs::PermissionsExt, path::Path};

use rusqlite::Connection;
use toolcrib_core::{
    event::{EventLog, EventQuery},
    record::RecordStore,
    store::{CatalogStore, KeyStore, Storage, StoreError},
};
use toolcrib_store::{
    Options, SqliteStore,
    conformance::{event_log::decided, key_store::key, moment},
};

fn open(path: &Path) -> Result<SqliteStore, StoreError> {
    SqliteStore::open(path, Options::default())
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

/// Returns the refusal to open `path`, which has to name the file and leave its bytes unchanged.
fn refusal(path: &Path) -> StoreError {
    let before = fs::read(path).unwrap();
    let error = open(path).unwrap_err();
    assert_eq!(fs::read(path).unwrap(), before, "the file was changed");
    assert!(!path.with_extension("db.instances").exists(), "a directory was created next to it");
    error
}

#[tokio::test]
async fn everything_is_private_to_its_owner() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("new/deep/store.db");
    let store = open(&path).unwrap();
    store.append(&[decided("t", "r", "e1")]).await.unwrap();
    for made in ["new", "new/deep", "new/deep/store.db.instances"] {
        assert_eq!(mode(&directory.path().join(made)), 0o700, "{made}");
    }
    for made in ["store.db", "store.db-wal", "store.db-shm"] {
        assert_eq!(mode(&path.with_file_name(made)), 0o600, "{made}");
    }
    for file in fs::read_dir(path.with_file_name("store.db.instances")).unwrap() {
        assert_eq!(mode(&file.unwrap().path()), 0o600);
    }
}

/// SQLite writes on into a removed file, whose data ends with the process.
#[tokio::test]
async fn nothing_is_acknowledged_once_a_file_of_the_store_was_removed_or_replaced() {
    for (name, problem) in [
        ("store.db", "the file of the store"),
        ("store.db-wal", "the write-ahead log of the store"),
        ("store.db-shm", "the shared memory of the store"),
    ] {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("store.db");
        let store = open(&path).unwrap();
        store.append(&[decided("t", "r", "e1")]).await.unwrap();
        assert_eq!(store.displaced().await, None);
        let (file, aside) = (path.with_file_name(name), path.with_file_name("aside"));
        fs::rename(&file, &aside).unwrap();
        for (id, wanted) in [("e2", "is gone"), ("e3", "was replaced by another one")] {
            let message = format!("{problem} {wanted}");
            let error = store.append(&[decided("t", "r", id)]).await.unwrap_err();
            assert!(matches!(error, StoreError::Unavailable(_)), "{error}");
            assert!(error.to_string().contains(&message), "{error}");
            assert_eq!(store.displaced().await, Some(&*message));
            fs::copy(&aside, &file).unwrap();
        }
        fs::rename(&aside, &file).unwrap();
        store.append(&[decided("t", "r", "e4")]).await.unwrap();
        assert_eq!(store.displaced().await, None, "{name} is back");
        store.close().await;
    }
}

#[tokio::test]
async fn a_closed_store_is_one_file_and_holds_everything() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store.db");
    let store = open(&path).unwrap();
    let source = "files".parse().unwrap();
    store.append(&[decided("t", "r", "e1")]).await.unwrap();
    store.insert(key("k", 1, 0)).await.unwrap();
    store.save(&source, "[]".to_owned(), moment(3)).await.unwrap();
    let (events, epoch) =
        (store.read(EventQuery::default()).await.unwrap(), store.changes(None).await.unwrap().keys);
    store.close().await;
    let mut left: Vec<_> =
        fs::read_dir(directory.path()).unwrap().map(|file| file.unwrap().file_name()).collect();
    left.sort();
    assert_eq!(left, ["store.db", "store.db.instances"]);
    assert_eq!(fs::read_dir(directory.path().join("store.db.instances")).unwrap().count(), 0);

    let store = open(&path).unwrap();
    assert_eq!(store.read(EventQuery::default()).await.unwrap(), events);
    assert_eq!(store.list().await.unwrap(), [key("k", 1, 0)]);
    assert_eq!(store.changes(None).await.unwrap().keys, epoch);
    assert_eq!(store.load(&source).await.unwrap(), Some(("[]".to_owned(), moment(3))));
}

#[tokio::test]
async fn a_closed_store_refuses_everything_and_closes_again() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(&directory.path().join("store.db")).unwrap();
    let other = store.clone();
    store.read(EventQuery::default()).await.unwrap();
    tokio::join!(store.close(), other.close());
    for error in [
        other.append(&[decided("t", "r", "e1")]).await.unwrap_err(),
        other.read(EventQuery::default()).await.unwrap_err(),
        other.recover(moment(0)).await.unwrap_err(),
    ] {
        assert_eq!(error.to_string(), "the store is not available: it has been closed");
    }
    store.close().await;
}

#[tokio::test]
async fn dropping_the_last_handle_stores_what_was_handed_over() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store.db");
    let store = open(&path).unwrap();
    store.append(&[decided("t", "r", "e1")]).await.unwrap();
    drop(store);
    assert!(!path.with_extension("db-wal").exists());
    assert_eq!(open(&path).unwrap().read(EventQuery::default()).await.unwrap().len(), 1);
}

#[test]
fn a_file_that_is_no_database_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store.db");
    fs::write(&path, "not a database, but somebody's notes\n".repeat(400)).unwrap();
    let error = refusal(&path);
    assert!(matches!(error, StoreError::Corrupt(_)));
    assert!(error.to_string().contains("is not a SQLite database; move it away"), "{error}");
    assert!(error.to_string().contains("store.db"), "{error}");
}

#[test]
fn a_database_of_another_program_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    for (name, sql) in [
        ("tables.db", "CREATE TABLE notes (text TEXT)"),
        ("marked.db", "PRAGMA application_id = 77; PRAGMA user_version = 1"),
    ] {
        let path = directory.path().join(name);
        Connection::open(&path).unwrap().execute_batch(sql).unwrap();
        let error = refusal(&path);
        assert!(matches!(error, StoreError::Corrupt(_)));
        assert!(error.to_string().contains("of another program"), "{error}");
    }
}

#[tokio::test]
async fn a_newer_schema_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store.db");
    open(&path).unwrap().close().await;
    fs::remove_dir_all(directory.path().join("store.db.instances")).unwrap();
    Connection::open(&path).unwrap().pragma_update(None, "user_version", 99).unwrap();
    let error = refusal(&path);
    assert!(matches!(error, StoreError::TooNew { found: 99, known: 1 }), "{error}");
}

#[tokio::test]
async fn a_damaged_file_is_called_damaged() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store.db");
    let store = open(&path).unwrap();
    for number in 0..200 {
        store.append(&[decided("t", "r", &format!("e{number}"))]).await.unwrap();
    }
    store.close().await;
    let mut bytes = fs::read(&path).unwrap();
    bytes.iter_mut().skip(4096).for_each(|byte| *byte = 0xa5);
    fs::write(&path, bytes).unwrap();
    let error = match open(&path) {
        Ok(store) => store.read(EventQuery::default()).await.unwrap_err(),
        Err(error) => error,
    };
    assert!(matches!(error, StoreError::Corrupt(_)), "{error}");
    assert!(error.to_string().contains("restore it from a backup"), "{error}");
}

#[tokio::test]
async fn an_event_that_cannot_be_understood_is_named() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store.db");
    let store = open(&path).unwrap();
    store.append(&[decided("t", "r", "e1"), decided("t", "r", "e2")]).await.unwrap();
    let other = Connection::open(&path).unwrap();
    for damage in [
        "UPDATE events SET type = 'no.such.type' WHERE position = 2",
        "UPDATE events SET type = 'authorization.decided', payload = '{}' WHERE position = 2",
    ] {
        other.execute_batch(damage).unwrap();
        let error = store.read(EventQuery::default()).await.unwrap_err();
        assert!(matches!(error, StoreError::Corrupt(_)), "{error}");
        assert!(error.to_string().ends_with("the event at position 2"), "{error}");
    }
    let first = EventQuery { limit: 1, ..EventQuery::default() };
    assert_eq!(store.read(first).await.unwrap().len(), 1, "the others can still be read");
}

#[test]
fn a_place_that_cannot_hold_a_store_is_explained() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("file");
    fs::write(&file, "").unwrap();
    for (path, expected) in [
        (file.join("store.db"), "cannot be created"),
        (directory.path().to_owned(), "cannot be opened for writing"),
        #[cfg(target_os = "linux")]
        ("/proc/store.db".into(), "cannot be created"),
        #[cfg(target_os = "linux")]
        ("/proc/toolcrib/store.db".into(), "the directory /proc/toolcrib cannot be created"),
    ] {
        let error = open(&path).unwrap_err();
        assert!(matches!(error, StoreError::Unavailable(_)), "{error}");
        assert!(error.to_string().contains(expected), "{error}");
    }
}
