//! Detects open files that are not the files at their paths any more. SQLite would continue to
//! write into a removed or replaced file, where the data is lost.

use std::{
    ffi::OsString,
    fs, io,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
};

use toolcrib_core::{store::StoreError, text::io_reason};

/// The files of an open store: its own, the write-ahead log, and the index of that log, which the
/// processes share.
pub(super) struct Place([OpenFile; 3]);

/// The identity of a file and its path.
struct OpenFile {
    path: PathBuf,
    device: u64,
    inode: u64,
}

/// What can happen to a file.
struct Problems {
    gone: &'static str,
    replaced: &'static str,
    /// The problem of an empty file; the other two files may be empty.
    emptied: Option<&'static str>,
}

const PROBLEMS: [Problems; 3] = [
    Problems {
        gone: "the file of the store is gone",
        replaced: "the file of the store was replaced by another one",
        emptied: Some("the file of the store was emptied"),
    },
    Problems {
        gone: "the write-ahead log of the store is gone",
        replaced: "the write-ahead log of the store was replaced by another one",
        emptied: None,
    },
    Problems {
        gone: "the shared memory of the store is gone",
        replaced: "the shared memory of the store was replaced by another one",
        emptied: None,
    },
];

impl Place {
    /// Records the files that are at `path` now. Requires a connection that has read, because the
    /// first read creates the other two; they stay until the last connection of all processes is
    /// closed.
    pub(super) fn new(path: &Path) -> Result<Self, StoreError> {
        let beside = |suffix: &str| {
            let mut name = OsString::from(path);
            name.push(suffix);
            PathBuf::from(name)
        };
        let [store, log, index] = [path.to_owned(), beside("-wal"), beside("-shm")];
        Ok(Self([OpenFile::find(store)?, OpenFile::find(log)?, OpenFile::find(index)?]))
    }

    pub(super) fn path(&self) -> &Path {
        let Self([store, ..]) = self;
        &store.path
    }

    /// The size of the store and of its write-ahead log.
    pub(super) fn size(&self) -> u64 {
        let Self([store, log, _]) = self;
        let size = |file: &OpenFile| fs::metadata(&file.path).map_or(0, |found| found.len());
        size(store) + size(log)
    }

    /// Opens the write-ahead log, to sync it. SQLite locks no part of this file, so its locks
    /// outlive the handle.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`] with the reason.
    pub(super) fn open_log(&self) -> Result<fs::File, StoreError> {
        let Self([_, log, _]) = self;
        fs::File::open(&log.path).map_err(|error| unreadable(&log.path, &error))
    }

    /// The problem of the files; `None` when they are unchanged.
    pub(super) fn displaced(&self) -> Option<&'static str> {
        let Self(files) = self;
        files.iter().zip(&PROBLEMS).find_map(|(file, problems)| match fs::metadata(&file.path) {
            Err(_) => Some(problems.gone),
            Ok(found) if !file.is(&found) => Some(problems.replaced),
            Ok(found) if found.len() == 0 => problems.emptied,
            Ok(_) => None,
        })
    }
}

impl OpenFile {
    fn find(path: PathBuf) -> Result<Self, StoreError> {
        let found = fs::metadata(&path).map_err(|error| unreadable(&path, &error))?;
        Ok(Self { device: found.dev(), inode: found.ino(), path })
    }

    fn is(&self, found: &fs::Metadata) -> bool {
        (found.dev(), found.ino()) == (self.device, self.inode)
    }
}

fn unreadable(path: &Path, error: &io::Error) -> StoreError {
    let (path, why) = (path.display(), io_reason(error.kind()));
    StoreError::Unavailable(format!("{path} cannot be read ({why})"))
}
