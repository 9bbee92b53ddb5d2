//! The files of a pack in memory, read from a directory or an archive with the same limits.
//!
//! Invariant (I-41): no file of a pack is extracted to disk, and no path in it leads outside. File
//! paths are plain and relative; links and devices are rejected.

use std::{
    collections::BTreeMap,
    io::Read as _,
    path::{Path, PathBuf},
};

use toolcrib_core::text::io_reason;

use super::error::{PackCode, PackError};

/// Largest number of files and directories in a pack.
pub(super) const MAX_ENTRIES: usize = 1_000;
/// Largest total size of all files, in bytes.
pub(super) const MAX_TOTAL: usize = 64 << 20;
/// Largest number of directories above a file.
const MAX_DEPTH: usize = 8;
/// Longest path in bytes.
const MAX_PATH: usize = 256;

/// The files of a pack by their paths from its root, with `/` as separator.
#[derive(Debug, Default)]
pub(super) struct Files {
    files: BTreeMap<String, Vec<u8>>,
    entries: usize,
    total: usize,
}

/// Reads the file at `path`. Fails when it has more than `max` bytes.
pub(super) fn read(path: &Path, max: usize) -> Result<Vec<u8>, PackError> {
    let file = std::fs::File::open(path).map_err(|error| unreadable("a file", &error))?;
    let mut bytes = Vec::new();
    file.take(max as u64 + 1)
        .read_to_end(&mut bytes)
        .map_err(|error| unreadable("a file", &error))?;
    match bytes.len() > max {
        true => PackCode::Unreadable.refuse(format!("a file is larger than {max} bytes")),
        false => Ok(bytes),
    }
}

pub(super) fn unreadable(what: &str, error: &std::io::Error) -> PackError {
    PackCode::Unreadable.error(format!("{what} cannot be read: {}", io_reason(error.kind())))
}

/// Reads the pack in the directory `root`.
pub(super) fn directory(root: &Path) -> Result<Files, PackError> {
    let mut files = Files::default();
    let mut waiting: Vec<(PathBuf, String)> = vec![(root.to_path_buf(), String::new())];
    while let Some((directory, prefix)) = waiting.pop() {
        let entries = std::fs::read_dir(&directory).map_err(|e| unreadable("a directory", &e))?;
        for entry in entries {
            let entry = entry.map_err(|error| unreadable("a directory", &error))?;
            let name = entry.file_name();
            let Some(name) = name.to_str() else {
                return PackCode::Unreadable.refuse("the name of a file is not UTF-8");
            };
            let path = format!("{prefix}{name}");
            // Links are not followed; they are rejected.
            let kind = entry.file_type().map_err(|error| unreadable("a file", &error))?;
            files.count()?;
            if kind.is_dir() {
                check_path(&path)?;
                waiting.push((entry.path(), format!("{path}/")));
            } else if kind.is_file() {
                let left = MAX_TOTAL.saturating_sub(files.total);
                files.insert(&path, read(&entry.path(), left)?)?;
            } else {
                return PackCode::Unreadable.refuse("a pack holds a link or a device");
            }
        }
    }
    Ok(files)
}

/// Requires a path that leads to a place inside the pack on every platform.
fn check_path(path: &str) -> Result<(), PackError> {
    let plain = |segment: &str| {
        !matches!(segment, "" | "." | "..")
            && !segment.bytes().any(|b| b.is_ascii_control() || b == b'\\' || b == b':')
    };
    let segments = path.split('/').count();
    match path {
        _ if path.len() > MAX_PATH || segments > MAX_DEPTH + 1 => {
            PackCode::Unreadable.refuse("a path in the pack is too long or too deep")
        }
        _ if !path.split('/').all(plain) => {
            PackCode::Unreadable.refuse("a path in the pack is not a plain relative path")
        }
        _ => Ok(()),
    }
}

// === impl Files ===

impl Files {
    /// Counts one more entry of the pack, of any type.
    pub(super) fn count(&mut self) -> Result<(), PackError> {
        self.entries += 1;
        match self.entries > MAX_ENTRIES {
            true => PackCode::Unreadable.refuse(format!("a pack holds over {MAX_ENTRIES} entries")),
            false => Ok(()),
        }
    }

    pub(super) fn insert(&mut self, path: &str, bytes: Vec<u8>) -> Result<(), PackError> {
        check_path(path)?;
        self.total = self.total.saturating_add(bytes.len());
        if self.total > MAX_TOTAL {
            return PackCode::Unreadable.refuse(format!("a pack holds over {MAX_TOTAL} bytes"));
        }
        match self.files.insert(path.to_owned(), bytes) {
            // With duplicates, readers could disagree on the signed file.
            Some(_) => PackCode::Unreadable.refuse("the pack contains a path twice"),
            None => Ok(()),
        }
    }

    pub(super) fn get(&self, path: &str) -> Option<&[u8]> {
        let path = path.strip_prefix("./").unwrap_or(path);
        self.files.get(path).map(Vec::as_slice)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&str, &[u8])> {
        self.files.iter().map(|(path, bytes)| (path.as_str(), bytes.as_slice()))
    }

    /// Removes `prefix` from the paths, if all of them have it.
    pub(super) fn without_prefix(self, prefix: &str) -> Self {
        if !self.files.keys().all(|path| path.starts_with(prefix)) {
            return self;
        }
        let files = self
            .files
            .into_iter()
            .map(|(path, bytes)| (path.get(prefix.len()..).unwrap_or_default().to_owned(), bytes))
            .collect();
        Self { files, ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // I-41
    #[test]
    fn only_plain_relative_paths_are_files_of_a_pack() {
        for good in ["pack.json", "dist/pack.wasm", "a/b/c/d/e/f/g/h/i", "..a", "a..b"] {
            assert!(check_path(good).is_ok(), "{good}");
        }
        let long = "a".repeat(257);
        for bad in [
            "",
            "/etc/passwd",
            "../x",
            "a/../b",
            "a//b",
            "./a",
            "a/.",
            "a\\b",
            "C:/x",
            "a\nb",
            "a/b/c/d/e/f/g/h/i/j",
            &long,
        ] {
            assert!(check_path(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn a_link_in_a_directory_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("pack.json"), "{}").unwrap();
        assert!(directory(dir.path()).unwrap().get("./pack.json").is_some());
        std::os::unix::fs::symlink("/etc/hostname", dir.path().join("key.pem")).unwrap();
        let error = directory(dir.path()).err().unwrap();
        assert_eq!(error.code, PackCode::Unreadable);
        assert!(error.problem.contains("link"), "{error}");
    }
}
