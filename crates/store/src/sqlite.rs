//! One SQLite file for all durable data, shared by the processes of one machine.
//!
//! Invariants:
//! - one thread per open store writes (`sqlite/writer.rs`); readers have their own connections
//!   (`sqlite/readers.rs`);
//! - acknowledged data survives the end of the process, and in strict mode that of the machine;
//! - [`SqliteStore::recover`] closes the calls that a dead process left open (`sqlite/recover.rs`),
//!   and never those of a living process (`sqlite/instance.rs`).

mod approvals;
mod catalogs;
mod chain;
mod credentials;
mod failure;
mod idempotency;
mod instance;
mod keys;
mod log;
mod open;
mod pins;
mod place;
mod quotas;
mod readers;
mod record;
mod recover;
mod runs;
mod writer;

#[cfg(test)]
mod tests;

use std::{path::Path, sync::Arc, time::Duration};

use toolcrib_core::{
    store::{FreeSpace, StoreError},
    text::io_reason,
};

use crate::seal::SealKeys;

pub use self::{
    approvals::SqliteApprovals,
    credentials::SqliteCredentials,
    idempotency::{IdempotencyBounds, SqliteIdempotency},
    runs::SqliteRuns,
};
use self::{failure::Failure, instance::Instance, readers::Readers, writer::Writer};

/// How to open a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Options {
    /// The meaning of an acknowledgement.
    pub durability: Durability,
}

/// The meaning of an acknowledgement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Durability {
    /// The data was synced to disk and survives a power failure.
    #[default]
    Strict,
    /// The data was handed to the operating system and survives the end of the process. A power
    /// failure may lose the last moments; the file stays consistent.
    Relaxed,
}

/// An open store. Clones are handles to the same store.
///
/// It implements [`EventLog`](toolcrib_core::event::EventLog),
/// [`KeyStore`](toolcrib_core::store::KeyStore),
/// [`CatalogStore`](toolcrib_core::store::CatalogStore) and
/// [`PinStore`](toolcrib_core::pin::PinStore); with keys to seal with,
/// [`credentials`](Self::credentials) is a
/// [`CredentialStore`](toolcrib_core::credential::CredentialStore), and [`runs`](Self::runs) a
/// [`RunStore`](toolcrib_core::store::RunStore). Times are kept with millisecond precision.
/// Reading needs a Tokio runtime; writing does not.
///
/// End with [`close`](Self::close). Otherwise the drop of the last handle blocks until all accepted
/// data is stored.
#[derive(Clone)]
pub struct SqliteStore {
    inner: Arc<Inner>,
}

struct Inner {
    readers: Readers,
    writer: Writer,
    /// Name of this open store in `open_calls.instance`.
    instance: Arc<str>,
    place: place::Place,
    schema: Arc<open::SchemaCheck>,
}

// === impl SqliteStore ===

impl SqliteStore {
    /// Opens the store in the file at `path`. Creates the file (mode 0600) and its directory (0700)
    /// if missing, and migrates an older store.
    ///
    /// Blocks for as long as the disk takes, at most a few seconds when other processes write.
    ///
    /// # Errors
    /// [`StoreError::TooNew`] for a newer schema, [`StoreError::Corrupt`] for a file that is not a
    /// store, [`StoreError::Unavailable`] for everything that the operator can fix.
    pub fn open(path: impl AsRef<Path>, options: Options) -> Result<Self, StoreError> {
        Self::open_patiently(path.as_ref(), options, open::BUSY_TIMEOUT)
    }

    fn open_patiently(
        path: &Path,
        options: Options,
        patience: Duration,
    ) -> Result<Self, StoreError> {
        open::create(path)?;
        // All processes must agree on the directory of the instances, through symbolic links too,
        // and the path must stay valid when the working directory changes.
        let path = path.canonicalize().map_err(|error| {
            StoreError::Unavailable(format!(
                "{} cannot be found ({})",
                path.display(),
                io_reason(error.kind())
            ))
        })?;
        let connection = open::writer(&path, options.durability, patience)
            .map_err(|failure: Failure| failure.at(&path))?;
        let instance = Instance::start(&path)?;
        let name = instance.id().into();
        let place = place::Place::new(&path)?;
        let schema = Arc::default();
        let writer = Writer::start(connection, path.clone(), instance, Arc::clone(&schema))?;
        let readers = Readers::new(path);
        Ok(Self { inner: Arc::new(Inner { readers, writer, instance: name, place, schema }) })
    }

    /// Stores all accepted data, copies the write-ahead log into the file and releases this
    /// process's instance lock. Afterwards every operation of every handle fails with
    /// [`StoreError::Unavailable`].
    ///
    /// The next [`recover`](Self::recover) closes calls that are still open as interrupted, so end
    /// them first.
    pub async fn close(&self) {
        self.inner.writer.stop();
        self.inner.readers.close();
        self.inner.writer.ended().await;
    }

    /// Waits until the store can write no more, because it was closed or its writer failed.
    pub async fn ended(&self) {
        self.inner.writer.ended().await;
    }

    /// Returns the number of transactions that this store has committed. With concurrent callers it
    /// is well below the number of appends.
    pub fn commits(&self) -> u64 {
        self.inner.writer.commits()
    }

    /// Returns the credential store, sealed with `keys`.
    pub fn credentials(&self, keys: SealKeys) -> SqliteCredentials {
        SqliteCredentials::new(self.clone(), keys)
    }

    /// Returns the store of workflow runs, whose data is sealed with `keys`, if there are any.
    pub fn runs(&self, keys: SealKeys) -> SqliteRuns {
        SqliteRuns::new(self.clone(), keys)
    }

    /// Returns the approval store. Its key and the displayable arguments are sealed with `keys`, if
    /// there are any.
    pub fn approvals(&self, keys: SealKeys) -> SqliteApprovals {
        SqliteApprovals::new(self.clone(), keys)
    }

    /// Returns the store of idempotent calls, sealed with `keys`; without a key nothing is stored.
    pub fn idempotency(&self, keys: SealKeys) -> SqliteIdempotency {
        SqliteIdempotency::new(self.clone(), keys)
    }

    /// Returns the path of the file, without symbolic links.
    pub fn path(&self) -> &Path {
        self.inner.readers.place()
    }
}

impl FreeSpace for SqliteStore {
    fn free_space(&self) -> Result<u64, StoreError> {
        let stats = rustix::fs::statvfs(self.path())
            .map_err(|error| StoreError::Unavailable(error.to_string()))?;
        Ok(stats.f_bavail.saturating_mul(stats.f_frsize))
    }
}

impl std::fmt::Debug for SqliteStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SqliteStore").field("path", &self.path()).finish_non_exhaustive()
    }
}

// === impl Inner ===

impl Drop for Inner {
    fn drop(&mut self) {
        self.writer.stop();
        self.readers.close();
        self.writer.join();
    }
}
