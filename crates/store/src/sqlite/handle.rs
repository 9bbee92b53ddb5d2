//! The open file: the handle that every part shares.

use std::{path::Path, sync::Arc, time::Duration};

use rusqlite::Connection;
use tokio::sync::{Mutex, OnceCell};
use toolcrib_core::{
    store::{Changes, StoreError},
    text::io_reason,
};

use super::{
    failure::Failure,
    instance::Instance,
    open::{self, SchemaCheck},
    place::Place,
    readers::Readers,
    transaction::WriteTransaction,
    writer::{Acknowledgement, Writer},
};
use crate::{Durability, Options, fingerprint::FingerprintKey, known_grants::KnownGrants};

/// An open store. Clones are handles to the same store.
///
/// It is the [`Storage`](toolcrib_core::store::Storage) and each of its parts. Times are kept with
/// millisecond precision. Reading needs a Tokio runtime; writing does not.
///
/// Close it with [`close`](toolcrib_core::store::Storage::close). Otherwise the drop of the last
/// handle blocks until all accepted data is stored.
#[derive(Clone)]
pub struct SqliteStore {
    pub(super) inner: Arc<Inner>,
}

pub(super) struct Inner {
    pub(super) readers: Readers,
    pub(super) writer: Writer,
    /// Name of this open store in `open_calls.instance`.
    instance: Arc<str>,
    pub(super) place: Arc<Place>,
    pub(super) schema: Arc<SchemaCheck>,
    options: Options,
    pub(super) known_grants: KnownGrants,
    pub(super) fingerprint_key: OnceCell<FingerprintKey>,
    pub(super) polled: Mutex<Option<LastPoll>>,
}

/// The last poll for changes.
#[derive(Clone, Copy)]
pub(super) struct LastPoll {
    pub(super) at: tokio::time::Instant,
    pub(super) changes: Changes,
}

// === impl SqliteStore ===

impl SqliteStore {
    /// Opens the store in the file at `path`. Creates the file (mode 0600) and its directory (0700)
    /// if missing, and migrates an older store.
    ///
    /// Blocks for as long as the disk takes, at most a few seconds when other processes write.
    ///
    /// # Errors
    /// [`StoreError::TooNew`] for a newer schema, [`StoreError::Corrupt`] for another kind of file,
    /// [`StoreError::Unavailable`] for everything that the operator can fix.
    pub fn open(path: impl AsRef<Path>, options: Options) -> Result<Self, StoreError> {
        Self::open_patiently(path.as_ref(), options, open::BUSY_TIMEOUT)
    }

    pub(super) fn open_patiently(
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
        let copying = open::reader(&path).map_err(|failure| failure.at(&path))?;
        let lock = Instance::start(&path)?;
        let instance = lock.id().into();
        let place = Arc::new(Place::new(&path)?);
        let schema = Arc::default();
        let writer =
            Writer::start(connection, copying, Arc::clone(&place), lock, Arc::clone(&schema))?;
        let inner = Inner {
            readers: Readers::new(path),
            writer,
            instance,
            place,
            schema,
            options,
            known_grants: KnownGrants::default(),
            fingerprint_key: OnceCell::new(),
            polled: Mutex::default(),
        };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// Returns the number of transactions that this store has committed. With concurrent callers it
    /// is well below the number of appends.
    pub fn commits(&self) -> u64 {
        self.inner.writer.commits()
    }

    /// Returns the path of the file, without symbolic links.
    pub fn path(&self) -> &Path {
        self.inner.readers.place()
    }

    /// Runs `work` on a connection that reads.
    pub(super) async fn on_reader<T, F>(&self, work: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> Result<T, Failure> + Send + 'static,
    {
        self.inner.readers.read(work).await
    }

    /// Runs `work` in a transaction of the writer; see [`Writer::write`].
    pub(super) async fn on_writer<T, F>(&self, work: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: FnMut(&mut WriteTransaction<'_>) -> Result<T, Failure> + Send + 'static,
    {
        self.inner.writer.write(work, Acknowledgement::AfterSync).await
    }

    /// As [`on_writer`](Self::on_writer), for work that only completes calls. With
    /// [`Durability::Opening`] it may be acknowledged before the sync.
    pub(super) async fn on_writer_completing<T, F>(&self, work: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: FnMut(&mut WriteTransaction<'_>) -> Result<T, Failure> + Send + 'static,
    {
        let acknowledgement = match self.inner.options.durability {
            Durability::Opening => Acknowledgement::BeforeSync,
            Durability::Strict | Durability::Relaxed => Acknowledgement::AfterSync,
        };
        self.inner.writer.write(work, acknowledgement).await
    }

    pub(super) fn instance(&self) -> Arc<str> {
        Arc::clone(&self.inner.instance)
    }

    pub(super) fn options(&self) -> &Options {
        &self.inner.options
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
