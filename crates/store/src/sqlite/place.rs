//! Detects that the open file is no longer the file at its path. SQLite would continue to write
//! into a removed or replaced file, where the data is lost.

use std::{
    fs,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
};

use toolcrib_core::{store::StoreError, text::io_reason};

/// The identity of a file and its path.
pub(super) struct Place {
    path: PathBuf,
    device: u64,
    inode: u64,
}

impl Place {
    /// Records the file that is at `path` now.
    pub(super) fn new(path: &Path) -> Result<Self, StoreError> {
        let found = fs::metadata(path).map_err(|error| {
            let (path, why) = (path.display(), io_reason(error.kind()));
            StoreError::Unavailable(format!("{path} cannot be read ({why})"))
        })?;
        Ok(Self { path: path.to_owned(), device: found.dev(), inode: found.ino() })
    }

    /// Returns the problem of the file; `None` when it is unchanged.
    pub(super) fn displaced(&self) -> Option<&'static str> {
        match fs::metadata(&self.path) {
            Err(_) => Some("the file of the store is gone"),
            Ok(found) if (found.dev(), found.ino()) != (self.device, self.inode) => {
                Some("the file of the store was replaced by another one")
            }
            Ok(found) if found.len() == 0 => Some("the file of the store was emptied"),
            Ok(_) => None,
        }
    }
}
