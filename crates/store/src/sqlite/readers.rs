//! A few connections that read, each used by one blocking task at a time.

use std::{
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};

use rusqlite::Connection;
use tokio::sync::Semaphore;
use toolcrib_core::store::StoreError;

use super::{failure::Failure, open, writer::closed};

/// The most connections. Reads take tens of microseconds, so four keep more cores busy than a
/// gateway has left for its operators.
const MAX_READERS: usize = 4;

/// Provides connections, opened on first use.
#[derive(Debug, Clone)]
pub(super) struct Readers(Arc<Pool>);

#[derive(Debug)]
struct Pool {
    place: PathBuf,
    free: Semaphore,
    idle: Mutex<Vec<Connection>>,
}

// === impl Readers ===

impl Readers {
    pub(super) fn new(place: PathBuf) -> Self {
        let free = Semaphore::new(MAX_READERS);
        Self(Arc::new(Pool { place, free, idle: Mutex::new(Vec::new()) }))
    }

    /// Runs `work` on a connection, away from the runtime's own threads.
    pub(super) async fn read<T, F>(&self, work: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> Result<T, Failure> + Send + 'static,
    {
        let pool = Arc::clone(&self.0);
        let permit = self.0.free.acquire().await.map_err(|_| closed())?;
        let task = tokio::task::spawn_blocking(move || {
            pool.with(work).map_err(|failure| failure.at(&pool.place))
        });
        let result = task.await.unwrap_or_else(|_| {
            Err(StoreError::Unavailable(
                "a read was interrupted because the process is ending".to_owned(),
            ))
        });
        drop(permit);
        result
    }

    /// Provides no more connections and closes the idle ones.
    pub(super) fn close(&self) {
        self.0.free.close();
        self.0.take_all();
    }

    pub(super) fn place(&self) -> &Path {
        &self.0.place
    }
}

// === impl Pool ===

impl Pool {
    fn with<T>(&self, work: impl FnOnce(&Connection) -> Result<T, Failure>) -> Result<T, Failure> {
        let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let connection = match idle {
            Some(connection) => connection,
            None => open::reader(&self.place)?,
        };
        let result = work(&connection);
        // A connection that failed is not used again.
        if result.is_ok() && !self.free.is_closed() {
            self.idle.lock().unwrap_or_else(PoisonError::into_inner).push(connection);
        }
        result
    }

    fn take_all(&self) {
        let idle = std::mem::take(&mut *self.idle.lock().unwrap_or_else(PoisonError::into_inner));
        drop(idle);
    }
}
