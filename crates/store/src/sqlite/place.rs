//! Whether the file that was opened is still the file at its path. SQLite would go on writing into a
//! file that was removed or replaced, where nobody finds it again.

use std::{
    fs,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
};

use toolcrib_core::{store::StoreError, text::io_reason};

/// A file and where it is.
pub(super) struct Place {
    path: PathBuf,
    device: u64,
    inode: u64,
}

impl Place {
    /// The file that is at `path` now.
    pub(super) fn new(path: &Path) -> Result<Self, StoreError> {
        let found = fs::metadata(path).map_err(|error| {
            let (path, why) = (path.display(), io_reason(error.kind()));
            StoreError::Unavailable(format!("{path} cannot be read ({why})"))
        })?;
        Ok(Self { path: path.to_owned(), device: found.dev(), inode: found.ino() })
    }

    /// What has happened to it; `None` for nothing.
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
