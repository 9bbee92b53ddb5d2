//! Durable storage: the engines behind [`Storage`]. [`open()`] selects one by the scheme of a URL.
//!
//! [`SqliteStore`] keeps everything in one SQLite file that several processes share.
//! [`MemoryStorage`] keeps it in memory, for tests and for embedders that need no durability. Every
//! engine is one folder and passes the suite `storage_suite!`, which the feature `conformance` has
//! for other engines as well.
//!
//! This is the only crate that contains SQL.
//!
//! [`Storage`]: toolcrib_core::store::Storage
#![warn(missing_docs)]

#[doc(hidden)]
pub mod benchmarks;
#[cfg(any(test, feature = "conformance"))]
#[doc(hidden)]
pub mod conformance;
mod copy;
mod directory;
mod event_text;
mod fingerprint;
pub mod key_text;
mod known_grants;
mod memory;
mod open;
mod options;
mod page;
mod parts;
#[cfg(feature = "postgres")]
mod postgres;
mod queue;
#[cfg(feature = "redis")]
mod redis;
mod rows;
mod seal;
mod seal_places;
mod sign;
mod sqlite;
pub mod verify;
mod witness;

use self::page::{MAX_READ, capped};
#[cfg(feature = "postgres")]
pub use self::postgres::PostgresStore;
#[cfg(feature = "redis")]
pub use self::redis::RedisLimiter;
pub use self::{
    copy::{CopySummary, Place as CopyPlace, Step as CopyStep, copy},
    directory::create_directory,
    memory::{MemoryCatalogs, MemoryCredentials, MemoryLog, MemoryStorage},
    open::{check_url, open, scratch, shared_limiter},
    options::{Durability, IdempotencyBounds, Options},
    seal::{InvalidSealKey, SealKey, SealKeys, new_credential_id},
    sign::{InvalidSigningKey, SigningKey, is_signed, public_key, witness},
    sqlite::SqliteStore,
    witness::WitnessFile,
};

/// The locks and threads that [`queue`] uses. The model-checked test compiles the same file against
/// `shuttle`.
mod sync {
    pub(crate) use std::{
        sync::{Condvar, Mutex, MutexGuard, PoisonError},
        thread,
    };
}
