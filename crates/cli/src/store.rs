//! Opens the store of a configuration.

use std::{path::Path, sync::Arc};

use toolcrib_core::store::StoreError;
use toolcrib_gateway::{
    Stores,
    config::{Config, Durability},
};
use toolcrib_store::{
    MemoryCatalogs, MemoryKeys, MemoryLog, MemoryPins, Options, SealKeys, SqliteStore,
};

use crate::failure::{Advise as _, advised};

/// Opens the store of `config`; creates it if it is missing.
pub(crate) fn open(config: &Config) -> anyhow::Result<SqliteStore> {
    let durability = match config.record.durability {
        Durability::Strict => toolcrib_store::Durability::Strict,
        Durability::Relaxed => toolcrib_store::Durability::Relaxed,
    };
    let path = &config.store.path;
    SqliteStore::open(path, Options { durability }).map_err(|error| explain(error, path))
}

/// Opens the store of `config`. Fails when it does not exist.
pub(crate) fn open_existing(config: &Config) -> anyhow::Result<SqliteStore> {
    let path = &config.store.path;
    match path.try_exists() {
        Ok(false) => Err(advised(
            format!("there is no store at {}", path.display()),
            "name the configuration with --config or the directory with --data-dir; `toolcrib \
             serve` creates a store",
        )),
        Ok(true) | Err(_) => open(config),
    }
}

/// Returns `store` as the storage interfaces of the gateway.
///
/// Runs and idempotent calls are sealed with `keys`, approvals with `approvals`.
pub(crate) fn seams(store: &SqliteStore, keys: SealKeys, approvals: SealKeys) -> Stores {
    Stores {
        log: Arc::new(store.clone()),
        keys: Arc::new(store.clone()),
        catalogs: Arc::new(store.clone()),
        runs: Some(Arc::new(store.runs(keys.clone()))),
        pins: Some(Arc::new(store.clone())),
        approvals: Some(Arc::new(store.approvals(approvals))),
        idempotency: Some(Arc::new(store.idempotency(keys))),
        quotas: Some(Arc::new(store.clone())),
    }
}

/// Returns empty in-memory stores, for commands that only inspect the sources.
pub(crate) fn forgetful() -> Stores {
    Stores {
        log: Arc::new(MemoryLog::default()),
        keys: Arc::new(MemoryKeys::default()),
        catalogs: Arc::new(MemoryCatalogs::default()),
        runs: None,
        pins: Some(Arc::new(MemoryPins::default())),
        approvals: None,
        idempotency: None,
        quotas: None,
    }
}

fn explain(error: StoreError, path: &Path) -> anyhow::Error {
    let hint = match &error {
        StoreError::Unavailable(_) => {
            "state has to be on a local disk that this user may write; --data-dir chooses another \
             directory"
        }
        StoreError::Corrupt(_) | StoreError::Conflict(_) => {
            "nothing in the file was changed; choose another with --data-dir or `[store] url`"
        }
        StoreError::TooNew { .. } => "use the newer version of toolcrib, or another --data-dir",
    };
    Err::<(), _>(error)
        .advise(format!("the store {} cannot be opened", path.display()), hint)
        .err()
        .unwrap_or_else(|| anyhow::anyhow!("the store cannot be opened"))
}
