//! The suites on every engine.
#![cfg(test)]

use tempfile::TempDir;
use toolcrib_core::{credential::Secret, store::StoreError};
use toolcrib_store::{
    Durability, MemoryStorage, Options, SealKey, SealKeys, SqliteStore, open, storage_suite,
};

fn sqlite(durability: Durability) -> (SqliteStore, TempDir) {
    let directory = tempfile::tempdir().unwrap();
    let key = SealKeys::new(SealKey::parse(&Secret::new("0f".repeat(32))).unwrap(), []);
    let (seal_keys, call_keys) = (key.clone(), key);
    let options = Options { durability, seal_keys, call_keys, ..Options::default() };
    let store = SqliteStore::open(directory.path().join("store.db"), options);
    (store.unwrap(), directory)
}

fn unsealed() -> (SqliteStore, TempDir) {
    let directory = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(directory.path().join("store.db"), Options::default());
    (store.unwrap(), directory)
}

// I-20: the stored events are exactly the closed envelope that was written.
storage_suite!(memory, (MemoryStorage::default(), ()));
storage_suite!(strict_sqlite, sqlite(Durability::Strict));
storage_suite!(relaxed_sqlite, sqlite(Durability::Relaxed));

/// Without a seal key runs and approvals are stored as plain text.
mod unsealed_sqlite {
    use super::*;
    toolcrib_store::run_store_suite!(unsealed());
    toolcrib_store::approval_store_suite!(unsealed());
}

#[tokio::test]
async fn the_scheme_of_the_url_selects_the_engine() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store.db");
    assert!(open(format!("sqlite:{}", path.display()), Options::default()).await.is_ok());
    assert!(path.is_file());
    for url in ["store.db", "sqlite:", "mysql://db"] {
        let error = open(url, Options::default()).await.err().unwrap();
        assert!(matches!(error, StoreError::Unavailable(_)), "{error}");
        assert!(error.to_string().contains("`sqlite:PATH`"), "{error}");
    }
}
