//! One server per store.
//!
//! Limits are counted in the process, so two servers over one store would let everybody through
//! twice as often. The operating system keeps the lock: it ends with the process, however that ends.

use std::{
    fs::{File, OpenOptions, TryLockError},
    path::{Path, PathBuf},
};

use crate::{
    failure::{Advise as _, advised},
    settings::{STORE_FILE, Settings},
};

/// The file in the directory of state.
const LOCK_FILE: &str = "serve.lock";

/// Held as long as it exists.
#[derive(Debug)]
pub(in crate::commands) struct Lock {
    _file: File,
}

impl Lock {
    /// Takes the lock of the store of `settings`. `None` when the store's directory is missing:
    /// nobody serves what is not there.
    pub(in crate::commands) fn take(settings: &Settings) -> anyhow::Result<Option<Self>> {
        let path = place(&settings.config.store.path);
        let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty());
        if !dir.is_none_or(Path::is_dir) {
            return Ok(None);
        }
        let shown = dir.unwrap_or(Path::new(".")).display().to_string();
        // Nothing is ever written to it; who may not write the store may not serve it either.
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

/// Beside the store; a store of another name has a lock of its own.
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
