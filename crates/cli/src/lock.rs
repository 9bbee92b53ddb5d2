//! The lock that limits a store to one server.
//!
//! Limits are counted per process, so two servers on one store would allow twice as many calls. It
//! is a file lock, which the operating system releases when the process exits.

use std::{
    fs::{File, OpenOptions, TryLockError},
    path::{Path, PathBuf},
};

use crate::{
    failure::{Advice as _, advised},
    settings::{STORE_FILE, Settings},
};

/// The name of the lock file of the default store.
const LOCK_FILE: &str = "serve.lock";

/// A held lock. Dropping it releases the lock.
#[derive(Debug)]
pub(crate) struct Lock {
    _file: File,
}

impl Lock {
    /// Takes the lock of the store of `settings`; `None` if the store's directory does not exist
    /// yet. Fails if another process holds the lock.
    pub(crate) fn take(settings: &Settings) -> anyhow::Result<Option<Self>> {
        let path = place(&settings.config.store.path);
        let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty());
        if !dir.is_none_or(Path::is_dir) {
            return Ok(None);
        }
        let shown = dir.unwrap_or(Path::new(".")).display().to_string();
        // The file stays empty. Opening it for writing also checks the right to write the directory.
        let opened = OpenOptions::new().write(true).create(true).truncate(false).open(&path);
        let file = opened.advise(
            format!("the lock file {} cannot be created", path.display()),
            "state has to be in a directory that this user may write; --data-dir chooses another",
        )?;
        match file.try_lock() {
            Ok(()) => Ok(Some(Self { _file: file })),
            Err(TryLockError::WouldBlock) => Err(advised(
                format!("another server uses the data directory {shown}"),
                "stop that server first, or give this one its own --data-dir; limits are counted \
                 per server, so two would allow twice as much",
            )),
            Err(TryLockError::Error(error)) => Err(error).advise(
                format!("the file {} cannot be locked", path.display()),
                "state has to be on a local disk; --data-dir chooses another directory",
            ),
        }
    }
}

/// The path of the lock file, next to the store. Each store in a directory has its own.
fn place(store: &Path) -> PathBuf {
    match store.file_name() {
        Some(name) if name != STORE_FILE => {
            let mut name = name.to_owned();
            name.push(".");
            name.push(LOCK_FILE);
            store.with_file_name(name)
        }
        _ => store.with_file_name(LOCK_FILE),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stores_that_share_a_directory_have_their_own_locks() {
        for (store, lock) in [
            ("data/toolcrib.db", "data/serve.lock"),
            ("toolcrib.db", "serve.lock"),
            ("data/a.db", "data/a.db.serve.lock"),
        ] {
            assert_eq!(place(Path::new(store)), Path::new(lock));
        }
    }
}
