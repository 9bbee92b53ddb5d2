//! Opens the store of a configuration.

use std::{path::Path, sync::Arc};

use toolcrib_core::store::{Storage, StoreError};
use toolcrib_gateway::config::{Config, Durability};
use toolcrib_store::Options;

use crate::failure::{Advise as _, advised};

/// Opens the store of `config` with the keys of `options`; creates it if it is missing.
pub(crate) fn open(config: &Config, options: Options) -> anyhow::Result<Arc<dyn Storage>> {
    let durability = match config.record.durability {
        Durability::Strict => toolcrib_store::Durability::Strict,
        Durability::Relaxed => toolcrib_store::Durability::Relaxed,
    };
    toolcrib_store::open(config.store.url(), Options { durability, ..options })
        .map_err(|error| explain(error, &config.store.path))
}

/// Opens the store of `config` without keys. Fails when it does not exist.
pub(crate) fn open_existing(config: &Config) -> anyhow::Result<Arc<dyn Storage>> {
    open_existing_with(config, Options::default())
}

/// As [`open_existing`], with the keys of `options`.
pub(crate) fn open_existing_with(
    config: &Config,
    options: Options,
) -> anyhow::Result<Arc<dyn Storage>> {
    let path = &config.store.path;
    match path.try_exists() {
        Ok(false) => Err(advised(
            format!("there is no store at {}", path.display()),
            "name the configuration with --config or the directory with --data-dir; `toolcrib \
             serve` creates a store",
        )),
        Ok(true) | Err(_) => open(config, options),
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
