//! Opens a store by its URL.

use std::{ffi::OsStr, os::unix::ffi::OsStrExt as _, path::Path, sync::Arc};

use toolcrib_core::{
    credential::Secret,
    id::SourceId,
    limit::RateLimiter,
    pin::PinStore,
    store::{Storage, StoreError},
};

use crate::{MemoryStorage, Options, SqliteStore};

/// Opens the store at `url`. The scheme selects the engine: `sqlite:PATH`, or with the feature
/// `postgres` also `postgres://USER@HOST/DATABASE`.
///
/// # Errors
/// Fails with [`StoreError::Unavailable`] for an unknown scheme, and like the engine.
pub async fn open(
    url: impl AsRef<OsStr>,
    options: Options,
) -> Result<Arc<dyn Storage>, StoreError> {
    let url = url.as_ref();
    if let Some(path) = url.as_bytes().strip_prefix(b"sqlite:")
        && !path.is_empty()
    {
        return Ok(Arc::new(SqliteStore::open(Path::new(OsStr::from_bytes(path)), options)?));
    }
    if let Some(url) = url.to_str().filter(|url| is_postgres(url)) {
        return postgres(url, options).await;
    }
    Err(unknown_scheme(url))
}

/// Fails unless [`open`] of this build knows the store at `url`. Makes no connection.
///
/// # Errors
/// [`StoreError::Unavailable`] for an unknown scheme, an invalid URL, or an engine missing in this
/// build.
pub fn check_url(url: impl AsRef<OsStr>) -> Result<(), StoreError> {
    match url.as_ref().to_str().filter(|url| is_postgres(url)) {
        Some(url) => check_postgres(url),
        None if url.as_ref().as_bytes().starts_with(b"sqlite:") => Ok(()),
        None => Err(unknown_scheme(url.as_ref())),
    }
}

fn unknown_scheme(url: &OsStr) -> StoreError {
    StoreError::Unavailable(format!(
        "{} has no known scheme; a store is written like `sqlite:PATH` or \
         `postgres://USER@HOST/DATABASE`",
        url.display()
    ))
}

fn is_postgres(url: &str) -> bool {
    url.starts_with("postgres://") || url.starts_with("postgresql://")
}

#[cfg(feature = "postgres")]
async fn postgres(url: &str, options: Options) -> Result<Arc<dyn Storage>, StoreError> {
    Ok(Arc::new(crate::PostgresStore::open(url, options).await?))
}

#[cfg(feature = "postgres")]
fn check_postgres(url: &str) -> Result<(), StoreError> {
    crate::postgres::check_url(url)
}

#[cfg(not(feature = "postgres"))]
async fn postgres(url: &str, _options: Options) -> Result<Arc<dyn Storage>, StoreError> {
    Err(check_postgres(url).err().unwrap_or(StoreError::TakenOver))
}

#[cfg(not(feature = "postgres"))]
fn check_postgres(_url: &str) -> Result<(), StoreError> {
    Err(StoreError::Unavailable(
        "this program was built without PostgreSQL; build it with the feature `postgres`"
            .to_owned(),
    ))
}

/// Returns the rate limits that several servers share at `url` (`redis://HOST:PORT`, with TLS
/// `rediss://HOST:PORT`), with the feature `redis`. Connects later.
///
/// # Errors
/// [`StoreError::Unavailable`] for an invalid URL, and without the feature.
#[cfg(feature = "redis")]
pub fn shared_limiter(
    url: &str,
    password: Option<&Secret>,
) -> Result<Arc<dyn RateLimiter>, StoreError> {
    Ok(Arc::new(crate::RedisLimiter::new(url, password)?))
}

/// Fails: this program was built without the feature `redis`.
///
/// # Errors
/// Always.
#[cfg(not(feature = "redis"))]
pub fn shared_limiter(
    _url: &str,
    _password: Option<&Secret>,
) -> Result<Arc<dyn RateLimiter>, StoreError> {
    Err(StoreError::Unavailable(
        "this program was built without Valkey and Redis; build it with the feature `redis`"
            .to_owned(),
    ))
}

/// Creates a store in memory with a copy of the pins of `sources` in `pins`, to work without
/// changing the original.
///
/// # Errors
/// Fails with [`StoreError`] when `pins` cannot be read.
pub async fn scratch(
    pins: Option<&dyn PinStore>,
    sources: impl IntoIterator<Item = &SourceId>,
) -> Result<Arc<dyn Storage>, StoreError> {
    let mut copies = Vec::new();
    if let Some(pins) = pins {
        for source in sources {
            copies.extend(pins.pins(source).await?);
        }
    }
    Ok(Arc::new(MemoryStorage::with_pins(copies)))
}
