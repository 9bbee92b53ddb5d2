//! Liveness of processes: every open store holds an operating system lock on a separate file. The
//! system releases the lock when the process exits, in any way.
//!
//! Invariant: an instance whose file is missing or unlocked is dead. A file is therefore removed
//! only by the holder of its lock, and a new instance checks that the file it locked is still the
//! one at its path.

use std::{
    fs::{self, File, OpenOptions, TryLockError},
    io,
    os::unix::fs::{MetadataExt, OpenOptionsExt},
    path::{Path, PathBuf},
    time::Duration,
};

use toolcrib_core::{store::StoreError, text::io_reason};

use crate::create_directory;

/// Attempts to create a file. Another process may remove it as dead before it is locked.
const ATTEMPTS: usize = 16;

/// Longer than [`alive`] holds the lock of a dead instance.
const LOOK: Duration = Duration::from_millis(10);

/// The lock of this process. Dropping it removes the file.
#[derive(Debug)]
pub(super) struct Instance {
    id: String,
    path: PathBuf,
    lock: File,
}

/// A dead instance. This process holds its lock, so that no other process cleans it up too.
#[derive(Debug)]
pub(super) struct DeadInstance {
    pub(super) id: String,
    path: PathBuf,
    /// `None` when the file is missing.
    lock: Option<File>,
}

// === impl Instance ===

impl Instance {
    /// Creates and locks a file in the directory that belongs to the store at `store`.
    pub(super) fn start(store: &Path) -> Result<Self, StoreError> {
        let directory = directory(store);
        create_directory(&directory)?;
        for _ in 0..ATTEMPTS {
            let id = uuid::Uuid::new_v4().simple().to_string();
            let path = lock_path(&directory, &id);
            let lock = OpenOptions::new()
                .write(true)
                .create_new(true)
                .mode(0o600)
                .open(&path)
                .map_err(|error| unavailable(&path, &error))?;
            match lock.try_lock() {
                Ok(()) if same_file(&lock, &path) => return Ok(Self { id, path, lock }),
                // A process that searched for dead instances saw the file before it was locked.
                Ok(()) | Err(TryLockError::WouldBlock) => {}
                Err(TryLockError::Error(error)) => return Err(unavailable(&path, &error)),
            }
        }
        Err(StoreError::Unavailable(format!(
            "no lock could be kept in {}; another process keeps removing files there",
            directory.display()
        )))
    }

    pub(super) fn id(&self) -> &str {
        &self.id
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        // Removed while it is still locked, so that no process finds it unlocked.
        remove(&self.path);
        if let Err(error) = self.lock.unlock() {
            tracing::debug!(%error, "the instance lock could not be released early");
        }
    }
}

// === impl DeadInstance ===

impl DeadInstance {
    /// Claims `id` as dead when its lock is free. Returns `None` when it is alive or already
    /// claimed.
    pub(super) fn claim(store: &Path, id: &str) -> Result<Option<Self>, StoreError> {
        let path = lock_path(&directory(store), id);
        let lock = match OpenOptions::new().write(true).open(&path) {
            Ok(lock) => lock,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Ok(Some(Self { id: id.to_owned(), path, lock: None }));
            }
            Err(error) => return Err(unavailable(&path, &error)),
        };
        let mut held = lock.try_lock();
        if matches!(held, Err(TryLockError::WouldBlock)) {
            // A process that looks for living instances holds the lock for a moment.
            std::thread::sleep(LOOK);
            held = lock.try_lock();
        }
        match held {
            Ok(()) => Ok(Some(Self { id: id.to_owned(), path, lock: Some(lock) })),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(unavailable(&path, &error)),
        }
    }

    /// Removes the file if this process holds its lock.
    pub(super) fn bury(self) {
        if self.lock.is_some() {
            remove(&self.path);
        }
    }
}

/// The ids of all instances with a file, alive or dead.
pub(super) fn present(store: &Path) -> Result<Vec<String>, StoreError> {
    let directory = directory(store);
    let mut ids = Vec::new();
    for entry in fs::read_dir(&directory).map_err(|error| unavailable(&directory, &error))? {
        let name = entry.map_err(|error| unavailable(&directory, &error))?.file_name();
        if let Some(id) = name.to_str().and_then(|name| name.strip_suffix(".lock")) {
            ids.push(id.to_owned());
        }
    }
    Ok(ids)
}

/// The ids of all instances whose lock is held.
pub(super) fn alive(store: &Path) -> Result<Vec<String>, StoreError> {
    let mut alive = Vec::new();
    for id in present(store)? {
        if DeadInstance::claim(store, &id)?.is_none() {
            alive.push(id);
        }
    }
    Ok(alive)
}

fn directory(store: &Path) -> PathBuf {
    let mut name = store.as_os_str().to_owned();
    name.push(".instances");
    PathBuf::from(name)
}

fn lock_path(directory: &Path, id: &str) -> PathBuf {
    directory.join(format!("{id}.lock"))
}

fn same_file(lock: &File, path: &Path) -> bool {
    match (lock.metadata(), fs::metadata(path)) {
        (Ok(held), Ok(found)) => held.dev() == found.dev() && held.ino() == found.ino(),
        _ => false,
    }
}

fn remove(path: &Path) {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            tracing::warn!(path = %path.display(), %error, "an instance file was not removed");
        }
        _ => {}
    }
}

fn unavailable(path: &Path, error: &io::Error) -> StoreError {
    StoreError::Unavailable(format!(
        "{} cannot be used ({}); check that this user may write there",
        path.display(),
        io_reason(error.kind())
    ))
}
