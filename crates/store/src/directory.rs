//! Directories of files that must survive a power cut.

use std::{fs, io, os::unix::fs::DirBuilderExt as _, path::Path};

use toolcrib_core::{store::StoreError, text::io_reason};

/// Creates a directory for the owner only, unless it exists. Its name survives a power cut:
/// otherwise the synced files in it would be lost with it.
///
/// # Errors
/// [`StoreError::Unavailable`] when it cannot be created or synced.
pub fn create_directory(path: &Path) -> Result<(), StoreError> {
    let is_missing = |ancestor: &&Path| !ancestor.as_os_str().is_empty() && !ancestor.exists();
    let missing: Vec<&Path> = path.ancestors().take_while(is_missing).collect();
    let created = fs::DirBuilder::new().recursive(true).mode(0o700).create(path);
    let synced = created.and_then(|()| missing.into_iter().try_for_each(sync_name));
    synced.map_err(|error| {
        StoreError::Unavailable(format!(
            "the directory {} cannot be created ({}); create it or choose another path",
            path.display(),
            io_reason(error.kind())
        ))
    })
}

/// Syncs the directory that contains `path`.
pub(crate) fn sync_name(path: &Path) -> io::Result<()> {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    fs::File::open(parent.unwrap_or(Path::new(".")))?.sync_all()
}
