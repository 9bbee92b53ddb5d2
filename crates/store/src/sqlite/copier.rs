//! Copies the write-ahead log into the file while the writer continues.
//!
//! The writer itself would have to stop for that: syncing and copying 16 MiB takes tens of
//! milliseconds. It only copies the rest, the pages that it wrote in the meantime. Without that
//! rest SQLite could not restart the log, and it would grow for as long as calls arrive.

use std::{
    path::Path,
    sync::mpsc::{Receiver, SyncSender, TryRecvError, sync_channel},
    thread::JoinHandle,
};

use rusqlite::Connection;
use toolcrib_core::{store::StoreError, text::io_reason};

use super::failure::Failure;

/// Handle to the thread that copies.
pub(super) struct Copier {
    orders: SyncSender<()>,
    ends: Receiver<()>,
    is_copying: bool,
    thread: JoinHandle<()>,
}

// === impl Copier ===

impl Copier {
    /// Starts the thread, which uses `connection`.
    pub(super) fn start(connection: Connection, place: &Path) -> Result<Self, StoreError> {
        let (orders, ordered) = sync_channel(1);
        let (end, ends) = sync_channel(1);
        let place = place.to_owned();
        let thread = start_thread("toolcrib-copier", move || {
            while ordered.recv().is_ok() {
                copy(&connection, &place, "PRAGMA wal_checkpoint(PASSIVE)");
                if end.send(()).is_err() {
                    break;
                }
            }
        })?;
        Ok(Self { orders, ends, is_copying: false, thread })
    }

    /// Starts a copy, unless one is running. Returns whether one is running then; otherwise the
    /// thread is gone.
    pub(super) fn begin(&mut self) -> bool {
        self.is_copying = self.is_copying || self.orders.try_send(()).is_ok();
        self.is_copying
    }

    pub(super) fn is_copying(&self) -> bool {
        self.is_copying
    }

    /// Whether a copy has finished since the last check.
    pub(super) fn has_copied(&mut self) -> bool {
        let has_copied = self.is_copying && self.ends.try_recv() != Err(TryRecvError::Empty);
        self.is_copying &= !has_copied;
        has_copied
    }

    /// Waits for the end of the running copy.
    pub(super) fn wait(&mut self) {
        if std::mem::take(&mut self.is_copying) && self.ends.recv().is_err() {
            tracing::error!("the thread that copies the write-ahead log has stopped");
        }
    }

    /// Stops the thread, after a running copy.
    pub(super) fn end(self) {
        drop(self.orders);
        if self.thread.join().is_err() {
            tracing::error!("the thread that copies the write-ahead log panicked");
        }
    }
}

/// Starts a thread of the store.
pub(super) fn start_thread(
    name: &str,
    work: impl FnOnce() + Send + 'static,
) -> Result<JoinHandle<()>, StoreError> {
    std::thread::Builder::new().name(name.to_owned()).spawn(work).map_err(|error| {
        let why = io_reason(error.kind());
        StoreError::Unavailable(format!("its thread {name:?} cannot be started ({why})"))
    })
}

/// Copies the write-ahead log into the file. A failed attempt does not lose data: the log is as
/// durable as the file.
pub(super) fn copy(connection: &Connection, place: &Path, pragma: &str) {
    if let Err(error) = connection.query_row(pragma, [], |_| Ok(())) {
        let error = Failure::from(error).at(place);
        tracing::warn!(%error, "the write-ahead log was not copied into the file");
    }
}
