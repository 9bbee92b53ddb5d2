//! The temporary directory of the tour.

use std::{
    fs::{self, DirBuilder},
    io,
    os::unix::fs::DirBuilderExt as _,
    path::{Path, PathBuf},
    time::Duration,
};

use crate::failure::{Advice as _, advised};

/// The most names to try.
const TRIES: u32 = 100;

/// The most attempts to remove it.
const REMOVALS: u32 = 40;
/// Between two attempts to remove it.
const PAUSE: Duration = Duration::from_millis(50);

/// A directory that only its owner can use. Dropping it removes it with its content.
#[derive(Debug)]
pub(super) struct Folder(PathBuf);

impl Folder {
    pub(super) fn create() -> anyhow::Result<Self> {
        let parent = std::env::temp_dir();
        let process = std::process::id();
        for number in 0..TRIES {
            let path = parent.join(format!("toolcrib-try-{process}-{number}"));
            // Fails if the name exists, also as the directory of another user.
            match DirBuilder::new().mode(0o700).create(&path) {
                Ok(()) => return Ok(Self(path)),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => {
                    return Err(error).advise(
                        format!("a directory cannot be created in {}", parent.display()),
                        "set TMPDIR to a directory that you can write to",
                    );
                }
            }
        }
        Err(advised(
            format!("{} has {TRIES} directories toolcrib-try-{process}-…", parent.display()),
            "remove them, or set TMPDIR to another directory",
        ))
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        for _ in 0..REMOVALS {
            match fs::remove_dir_all(&self.0) {
                Ok(()) => return,
                Err(error) if error.kind() == io::ErrorKind::NotFound => return,
                // A server that is being killed may still write.
                Err(error) => {
                    tracing::debug!(%error, "a directory cannot be removed yet");
                    std::thread::sleep(PAUSE);
                }
            }
        }
        tracing::error!("the directory {} cannot be removed", self.0.display());
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn it_is_private_and_is_removed() {
        let (first, second) = (Folder::create().unwrap(), Folder::create().unwrap());
        assert_ne!(first.path(), second.path());
        assert_eq!(first.path().metadata().unwrap().permissions().mode() & 0o777, 0o700);
        let path = first.path().to_path_buf();
        fs::write(path.join("a"), "a").unwrap();
        drop(first);
        assert!(!path.exists());
    }
}
