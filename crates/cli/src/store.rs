//! Opens the store of a configuration.

use std::{ffi::OsString, sync::Arc};

use toolcrib_core::{
    limit::RateLimiter,
    store::{Storage, StoreError},
};
use toolcrib_gateway::config::{Config, Durability, Engine, LimitPlace, StoreConfig};
use toolcrib_store::Options;

use crate::{
    failure::{Advise as _, advised},
    seal,
};

/// Opens the store of `config` with the keys of `options`; creates it if it is missing.
pub(crate) async fn open(config: &Config, options: Options) -> anyhow::Result<Arc<dyn Storage>> {
    let durability = match config.record.durability {
        Durability::Strict => toolcrib_store::Durability::Strict,
        Durability::Relaxed => toolcrib_store::Durability::Relaxed,
    };
    let (url, password) = match &config.store.engine {
        Engine::Sqlite => {
            let mut url = OsString::from("sqlite:");
            url.push(&config.store.path);
            (url, None)
        }
        Engine::Postgres { url, password: None } => (url.into(), None),
        Engine::Postgres { url, password: Some(place) } => {
            let password = seal::text(place).await.map_err(|problem| {
                advised(
                    format!("`[store] password` cannot be read: {problem}"),
                    "it is the password of the PostgreSQL user in `[store] url`",
                )
            })?;
            (url.into(), Some(password))
        }
    };
    // SQLite creates the directory of its file; here it is for the lock and the witness.
    if config.store.is_shared()
        && let Some(directory) = config.store.path.parent()
    {
        toolcrib_store::create_directory(directory)?;
    }
    toolcrib_store::open(url, Options { durability, password, ..options })
        .await
        .map_err(|error| explain(error, &config.store))
}

/// Opens the store of `config` without keys. Fails when it does not exist.
pub(crate) async fn open_existing(config: &Config) -> anyhow::Result<Arc<dyn Storage>> {
    open_existing_with(config, Options::default()).await
}

/// As [`open_existing`], with the keys of `options`.
pub(crate) async fn open_existing_with(
    config: &Config,
    options: Options,
) -> anyhow::Result<Arc<dyn Storage>> {
    match may_exist(&config.store) {
        true => open(config, options).await,
        false => Err(advised(
            format!("there is no store at {}", config.store.path.display()),
            "name the configuration with --config or the directory with --data-dir; `toolcrib \
             serve` creates a store",
        )),
    }
}

/// Returns whether there may be a store. A database is not asked.
pub(crate) fn may_exist(store: &StoreConfig) -> bool {
    store.is_shared() || store.path.try_exists().unwrap_or(true)
}

/// Returns the limiter that several servers share, when `[limits]` has one.
pub(crate) async fn limiter(
    config: &Config,
    store: &dyn Storage,
) -> anyhow::Result<Option<Arc<dyn RateLimiter>>> {
    let Some(shared) = &config.limits else { return Ok(None) };
    let LimitPlace::Redis { url, password } = &shared.place else { return Ok(store.limiter()) };
    let password = match password {
        Some(place) => Some(seal::text(place).await.map_err(|problem| {
            advised(
                format!("`[limits] password` cannot be read: {problem}"),
                "it is the password of the server in `[limits] shared`",
            )
        })?),
        None => None,
    };
    let limiter = toolcrib_store::shared_limiter(url, password.as_ref())
        .advise("`[limits] shared` cannot be used", "it is written like `redis://host:6379`")?;
    Ok(Some(limiter))
}

fn explain(error: StoreError, store: &StoreConfig) -> anyhow::Error {
    let hint = match (&error, store.is_shared()) {
        (StoreError::Unavailable(_), false) => {
            "state has to be on a local disk that this user may write; --data-dir chooses another \
             directory"
        }
        (StoreError::Unavailable(_), true) => {
            "check `[store] url` and `password`, and that the database accepts this machine"
        }
        (StoreError::Corrupt(_) | StoreError::Conflict(_), false) => {
            "nothing in the file was changed; choose another with --data-dir or `[store] url`"
        }
        (StoreError::Corrupt(_) | StoreError::Conflict(_), true) => {
            "nothing in the database was changed; choose another with `[store] url`"
        }
        (StoreError::TooNew { .. }, _) => {
            "use the newer version of toolcrib, or another `[store] url` or --data-dir"
        }
        // Such as `TakenOver`.
        _ => "restart the server",
    };
    let place = match &store.engine {
        Engine::Sqlite => store.path.display().to_string(),
        Engine::Postgres { url, .. } => url.clone(),
    };
    Err::<(), _>(error)
        .advise(format!("the store {place} cannot be opened"), hint)
        .err()
        .unwrap_or_else(|| anyhow::anyhow!("the store cannot be opened"))
}
