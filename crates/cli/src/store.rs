//! Opens the store of a configuration.

use std::{
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    sync::Arc,
    time::Duration,
};

use tokio::net::TcpStream;
use toolcrib_config::{Config, Durability, Engine, LimitPlace, StoreConfig};
use toolcrib_core::{
    credential::Secret,
    limit::RateLimiter,
    store::{Storage, StoreError},
};
use toolcrib_store::Options;

use crate::{
    failure::{Advice as _, advised},
    printer::Printer,
    seal,
    settings::{Settings, StorePlace},
};

/// How long to wait for a server on the address of the configuration.
const CONNECT_LIMIT: Duration = Duration::from_secs(1);

/// Opens the store of `config` with the keys of `options`; creates it if it is missing.
pub(crate) async fn open(config: &Config, options: Options) -> anyhow::Result<Arc<dyn Storage>> {
    let durability = match config.record.durability {
        Durability::Strict => toolcrib_store::Durability::Strict,
        Durability::Opening => toolcrib_store::Durability::Opening,
        Durability::Relaxed => toolcrib_store::Durability::Relaxed,
    };
    let password = match options.password {
        Some(password) => Some(password),
        None => password(&config.store).await?,
    };
    // For the lock and the witness, whatever the engine.
    if let Some(directory) = config.store.path.parent() {
        toolcrib_store::create_directory(directory)
            .map_err(|error| explain(error, &config.store))?;
    }
    toolcrib_store::open(config.store.url(), Options { durability, password, ..options })
        .await
        .map_err(|error| explain(error, &config.store))
}

/// Opens the store of `settings`, or creates it with a message.
pub(crate) async fn open_or_create(
    settings: &Settings,
    options: Options,
    printer: Printer,
) -> anyhow::Result<Arc<dyn Storage>> {
    let store = &settings.config.store;
    let is_new = !may_exist(store);
    let opened = open(&settings.config, options).await?;
    if is_new {
        printer.note(format_args!(
            "created the store {}; a server uses it if it has the same --config and --data-dir",
            store.path.display()
        ));
    }
    Ok(opened)
}

/// Fails if the store of `settings` is missing, its place is not set, and a server listens on the
/// address of the configuration: that server has its store elsewhere, so a new one would be
/// useless.
pub(crate) async fn refuse_second(settings: &Settings) -> anyhow::Result<()> {
    let Settings { config, place, .. } = settings;
    if *place == StorePlace::Explicit || may_exist(&config.store) || !answers(config).await {
        return Ok(());
    }
    let (listen, path) = (config.server.listen, config.store.path.display());
    Err(advised(
        format!("no store was created: {path} does not exist, and a server listens on {listen}"),
        format!(
            "if it is a server of this configuration, it has its store elsewhere: set --data-dir to its \
             data directory (TOOLCRIB_DATA_DIR of its service), or change it with --url; if it is \
             another program, `--data-dir {}` creates a store here, and `[server] listen` needs \
             another port",
            settings.data_dir.display()
        ),
    ))
}

/// Whether a server listens on the address of `config`.
async fn answers(config: &Config) -> bool {
    let listen = config.server.listen;
    let ip = match listen.ip() {
        ip if !ip.is_unspecified() => ip,
        IpAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(_) => Ipv6Addr::LOCALHOST.into(),
    };
    let connected = TcpStream::connect((ip, listen.port()));
    listen.port() != 0
        && tokio::time::timeout(CONNECT_LIMIT, connected).await.is_ok_and(|attempt| attempt.is_ok())
}

/// The password of the PostgreSQL user, if `[store] password` names its place.
pub(crate) async fn password(store: &StoreConfig) -> anyhow::Result<Option<Secret>> {
    let Engine::Postgres { password: Some(place), .. } = &store.engine else { return Ok(None) };
    let read = seal::text(place).await.map_err(|problem| {
        advised(
            format!("`[store] password` cannot be read: {problem}"),
            "it is the password of the PostgreSQL user in `[store] url`",
        )
    })?;
    Ok(Some(read))
}

/// Fails if this program cannot use a store like that of `store`.
pub(crate) fn check_url(store: &StoreConfig) -> anyhow::Result<()> {
    toolcrib_store::check_url(store.url()).map_err(|error| explain(error, store))
}

/// Opens the store of `config` without keys. Fails if it does not exist.
pub(crate) async fn open_existing(config: &Config) -> anyhow::Result<Arc<dyn Storage>> {
    open_existing_with(config, Options::default()).await
}

/// As [`open_existing`], with the keys of `options`.
pub(crate) async fn open_existing_with(
    config: &Config,
    options: Options,
) -> anyhow::Result<Arc<dyn Storage>> {
    require(&config.store)?;
    open(config, options).await
}

/// Fails if there is no store.
pub(crate) fn require(store: &StoreConfig) -> anyhow::Result<()> {
    match may_exist(store) {
        true => Ok(()),
        false => Err(advised(
            format!("there is no store at {}", store.path.display()),
            "name the configuration with --config or the directory with --data-dir; `toolcrib \
             serve` creates a store",
        )),
    }
}

/// Whether there may be a store. A shared database is assumed to exist.
pub(crate) fn may_exist(store: &StoreConfig) -> bool {
    store.is_shared() || store.path.try_exists().unwrap_or(true)
}

/// The limiter in Valkey or Redis, if `[limits]` names one. It connects later.
pub(crate) async fn limiter(config: &Config) -> anyhow::Result<Option<Arc<dyn RateLimiter>>> {
    let Some(LimitPlace::Redis { url, password }) =
        config.limits.as_ref().map(|limits| &limits.place)
    else {
        return Ok(None);
    };
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
            "the file was not changed; choose another with --data-dir or `[store] url`"
        }
        (StoreError::Corrupt(_) | StoreError::Conflict(_), true) => {
            "the database was not changed; choose another with `[store] url`"
        }
        (StoreError::TooNew { .. }, _) => {
            "use the newer version of toolcrib, or another `[store] url` or --data-dir"
        }
        // Such as `TakenOver`.
        _ => "restart the server",
    };
    let url = store.url().display().to_string();
    let place = url.strip_prefix("sqlite:").unwrap_or(&url);
    Err::<(), _>(error)
        .advise(format!("the store {place} cannot be opened"), hint)
        .err()
        .unwrap_or_else(|| anyhow::anyhow!("the store cannot be opened"))
}
