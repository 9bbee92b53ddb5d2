//! Durable storage: the event log, API keys, sealed credentials and last valid catalogs. It
//! implements the storage traits of `toolcrib-core` ([`EventLog`], [`KeyStore`],
//! [`CredentialStore`], [`CatalogStore`], [`PinStore`]).
//!
//! [`SqliteStore`] keeps them all in one SQLite file that several processes share. The types in
//! [`memory`] keep them in memory, for tests and for embedders that need no durability. Every
//! engine passes the suites in [`conformance`].
//!
//! This is the only crate that contains SQL.
//!
//! [`EventLog`]: toolcrib_core::event::EventLog
//! [`KeyStore`]: toolcrib_core::store::KeyStore
//! [`CredentialStore`]: toolcrib_core::credential::CredentialStore
//! [`CatalogStore`]: toolcrib_core::store::CatalogStore
//! [`PinStore`]: toolcrib_core::pin::PinStore
#![warn(missing_docs)]

#[doc(hidden)]
pub mod conformance;
mod fingerprint;
mod key_text;
pub mod memory;
mod queue;
mod seal;
mod sign;
mod sqlite;
pub mod verify;
mod witness;

pub use self::{
    memory::{
        MemoryApprovals, MemoryCatalogs, MemoryCredentials, MemoryKeys, MemoryLog, MemoryPins,
        MemoryQuotas, MemoryRuns,
    },
    seal::{InvalidSealKey, SealKey, SealKeys, new_credential_id},
    sign::{InvalidSigningKey, SigningKey, is_signed, public_key, witness},
    sqlite::{
        Durability, IdempotencyBounds, Options, SqliteApprovals, SqliteCredentials,
        SqliteIdempotency, SqliteRuns, SqliteStore,
    },
    witness::WitnessFile,
};

/// The locks that [`queue`] uses. The model-checked test compiles the same file against `shuttle`.
mod sync {
    pub(crate) use std::sync::{Condvar, Mutex, PoisonError};
}

/// The most events that one read returns; [`EventQuery::limit`] documents the same number.
///
/// [`EventQuery::limit`]: toolcrib_core::event::EventQuery::limit
const MAX_READ: usize = 1_000;
