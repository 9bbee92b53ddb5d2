//! The suites on every engine.
#![cfg(test)]

use std::sync::Arc;

use tempfile::TempDir;
use toolcrib_core::{
    credential::{CredentialStore, Secret},
    event::EventLog,
    store::KeyStore,
};
use toolcrib_store::{
    Durability, MemoryApprovals, MemoryCatalogs, MemoryCredentials, MemoryKeys, MemoryLog,
    MemoryPins, MemoryRuns, Options, SealKey, SealKeys, SqliteApprovals, SqliteCredentials,
    SqliteRuns, SqliteStore, approval_store_suite, catalog_store_suite, credential_store_suite,
    event_log_suite, key_store_suite, pin_store_suite, record_store_suite, run_store_suite,
};

fn sqlite(durability: Durability) -> (SqliteStore, TempDir) {
    let directory = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(directory.path().join("store.db"), Options { durability });
    (store.unwrap(), directory)
}

fn credentials() -> (SqliteCredentials, TempDir) {
    let (store, directory) = sqlite(Durability::Strict);
    (store.credentials(SealKeys::new(key(), [])), directory)
}

fn key() -> SealKey {
    SealKey::parse(&Secret::new("0f".repeat(32))).unwrap()
}

fn runs(keys: SealKeys) -> (SqliteRuns, TempDir) {
    let (store, directory) = sqlite(Durability::Strict);
    (store.runs(keys), directory)
}

fn approvals(keys: SealKeys) -> ((SqliteApprovals, SqliteStore), TempDir) {
    let (store, directory) = sqlite(Durability::Strict);
    ((store.approvals(keys), store), directory)
}

fn approvals_in_memory() -> ((MemoryApprovals, MemoryLog), ()) {
    let log = MemoryLog::new();
    ((MemoryApprovals::new(log.clone()), log), ())
}

// I-20: the stored events are exactly the closed envelope that was written.
event_log_suite!(memory_log, (MemoryLog::new(), ()));
event_log_suite!(sqlite_log, sqlite(Durability::Strict));
event_log_suite!(relaxed_sqlite_log, sqlite(Durability::Relaxed));

record_store_suite!(memory_record, (MemoryLog::new(), ()));
record_store_suite!(sqlite_record, sqlite(Durability::Relaxed));

key_store_suite!(memory_keys, (MemoryKeys::new(), ()));
key_store_suite!(sqlite_keys, sqlite(Durability::Strict));

credential_store_suite!(memory_credentials, (MemoryCredentials::new(), ()));
credential_store_suite!(sqlite_credentials, credentials());

run_store_suite!(memory_runs, (MemoryRuns::new(), ()));
run_store_suite!(sqlite_runs, runs(SealKeys::none()));
run_store_suite!(sealed_sqlite_runs, runs(SealKeys::new(key(), [])));

pin_store_suite!(memory_pins, (MemoryPins::new(), ()));
pin_store_suite!(sqlite_pins, sqlite(Durability::Strict));

approval_store_suite!(memory_approvals, approvals_in_memory());
approval_store_suite!(sqlite_approvals, approvals(SealKeys::none()));
approval_store_suite!(sealed_sqlite_approvals, approvals(SealKeys::new(key(), [])));

catalog_store_suite!(memory_catalogs, (MemoryCatalogs::new(), ()));
catalog_store_suite!(sqlite_catalogs, sqlite(Durability::Strict));

#[test]
fn every_engine_fits_behind_its_seam() {
    let _logs: [Arc<dyn EventLog>; 1] = [Arc::new(MemoryLog::new())];
    let (store, _directory) = sqlite(Durability::Relaxed);
    let sealed = store.credentials(SealKeys::none());
    let _credentials: [Arc<dyn CredentialStore>; 2] =
        [Arc::new(MemoryCredentials::new()), Arc::new(sealed)];
    let _keys: [Arc<dyn KeyStore>; 2] = [Arc::new(MemoryKeys::new()), Arc::new(store)];
}
