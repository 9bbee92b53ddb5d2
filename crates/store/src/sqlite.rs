//! Everything durable in one SQLite file, shared by the processes of one machine.
//!
//! Invariants:
//! - one thread per open store writes (`sqlite/writer.rs`); readers have their own connections
//!   (`sqlite/readers.rs`);
//! - what was acknowledged survives the end of the process, and in strict mode that of the machine;
//! - a call that a dead process left open is closed by [`SqliteStore::recover`] (`sqlite/recover.rs`),
//!   and one that a living process runs is never touched (`sqlite/instance.rs`).

mod approvals;
mod catalogs;
mod chain;
mod credentials;
mod failure;
mod instance;
mod keys;
mod log;
mod once;
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
    once::{OnceBounds, SqliteOnce},
    runs::SqliteRuns,
};
use self::{failure::Failure, instance::Instance, readers::Readers, writer::Writer};

/// How to open a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Options {
    /// What an acknowledgement promises.
    pub durability: Durability,
}

/// What an acknowledgement promises.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Durability {
    /// It was synced to disk: survives a power failure.
    #[default]
    Strict,
    /// It was handed to the operating system: survives the end of the process, but a power failure
    /// may take the last moments with it. The file stays consistent.
    Relaxed,
}

/// An open store. Cloning it gives another handle to the same one.
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
/// End with [`close`](Self::close). When the last handle is dropped instead, the drop blocks until
/// everything that was handed over is stored.
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
    /// Opens the store in the file at `path`, making it (mode 0600) and its directory (0700) when
    /// they are missing, and migrating it when it is older than this program.
    ///
    /// Blocks for as long as the disk takes, at most a few seconds when other processes write.
    ///
    /// # Errors
    /// [`StoreError::TooNew`] for a newer schema, [`StoreError::Corrupt`] for a file that is not a
    /// store, [`StoreError::Unavailable`] for everything that the operator can put right.
    pub fn open(path: impl AsRef<Path>, options: Options) -> Result<Self, StoreError> {
        Self::open_patiently(path.as_ref(), options, open::BUSY_TIMEOUT)
    }

    fn open_patiently(
        path: &Path,
        options: Options,
        patience: Duration,
    ) -> Result<Self, StoreError> {
        open::create(path)?;
        // All processes must agree on the directory of the instances, also through symbolic links,
        // and the path must stay right when the working directory changes.
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

    /// Stores everything that was handed over, copies the write-ahead log into the file and gives
    /// up this process's place among the living. Afterwards every operation of every handle fails
    /// with [`StoreError::Unavailable`].
    ///
    /// Calls that are still open then will be closed as interrupted by the next
    /// [`recover`](Self::recover), so end them first.
    pub async fn close(&self) {
        self.inner.writer.stop();
        self.inner.readers.close();
        self.inner.writer.ended().await;
    }

    /// Waits until the store can write no more, because it was closed or because its writer failed.
    pub async fn ended(&self) {
        self.inner.writer.ended().await;
    }

    /// Transactions that this store has committed. With concurrent callers it stays well below the
    /// number of appends.
    pub fn commits(&self) -> u64 {
        self.inner.writer.commits()
    }

    /// The credentials in it, sealed with `keys`.
    pub fn credentials(&self, keys: SealKeys) -> SqliteCredentials {
        SqliteCredentials::new(self.clone(), keys)
    }

    /// The runs of workflows in it; what is kept of them is sealed with `keys`, if there are any.
    pub fn runs(&self, keys: SealKeys) -> SqliteRuns {
        SqliteRuns::new(self.clone(), keys)
    }

    /// The requests for consent in it; their own key, and what may be shown of calls, are sealed with
    /// `keys`, if there are any.
    pub fn approvals(&self, keys: SealKeys) -> SqliteApprovals {
        SqliteApprovals::new(self.clone(), keys)
    }

    /// The calls under keys of their callers, sealed with `keys`; without a key nothing is kept.
    pub fn once(&self, keys: SealKeys) -> SqliteOnce {
        SqliteOnce::new(self.clone(), keys)
    }

    /// Where the file is, without symbolic links.
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
