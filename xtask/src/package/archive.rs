//! The files of a package, and the formats that hold them.
//!
//! Invariant: on every machine, entries are sorted, belong to root and have the given time.

use std::collections::BTreeMap;
use std::fs::{self, File, Permissions};
use std::io::{self, Read};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use flate2::{Compression, GzBuilder};
use sha2::{Digest as _, Sha256};
use tar::{Builder, EntryType, Header};
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipWriter};

const PLAIN: u32 = 0o644;
const EXECUTABLE: u32 = 0o755;

/// How much time compression may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Effort {
    /// For users: small files.
    Small,
    /// For tests: files that are made quickly.
    Quick,
}

impl Effort {
    pub(super) fn level(self) -> u32 {
        match self {
            Self::Small => 6,
            Self::Quick => 1,
        }
    }
}

/// Files by their paths in a package.
#[derive(Debug, Default, Clone)]
pub(super) struct Files(BTreeMap<String, Entry>);

#[derive(Debug, Clone)]
struct Entry {
    mode: u32,
    content: Vec<u8>,
    is_folder: bool,
}

impl Files {
    /// Adds a file.
    pub(super) fn add(&mut self, path: impl Into<String>, content: impl Into<Vec<u8>>) {
        self.insert(path, PLAIN, content.into());
    }

    /// Adds an empty folder; only [`write_folder`](Self::write_folder) makes it.
    pub(super) fn add_folder(&mut self, path: impl Into<String>) {
        let entry = Entry { mode: EXECUTABLE, content: Vec::new(), is_folder: true };
        self.0.insert(path.into(), entry);
    }

    /// Adds a file that can be run.
    pub(super) fn add_executable(&mut self, path: impl Into<String>, content: impl Into<Vec<u8>>) {
        self.insert(path, EXECUTABLE, content.into());
    }

    fn insert(&mut self, path: impl Into<String>, mode: u32, content: Vec<u8>) {
        self.0.insert(path.into(), Entry { mode, content, is_folder: false });
    }

    /// Adds all files of `others` below `folder`.
    pub(super) fn add_all(&mut self, folder: &str, others: &Files) {
        for (path, entry) in &others.0 {
            self.0.insert(format!("{folder}/{path}"), entry.clone());
        }
    }

    /// Paths and contents.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&str, &[u8])> {
        self.0.iter().map(|(path, entry)| (path.as_str(), entry.content.as_slice()))
    }

    /// The number of bytes of all files.
    pub(super) fn size(&self) -> usize {
        self.0.values().map(|entry| entry.content.len()).sum()
    }

    /// Writes the files below `folder`.
    pub(super) fn write_folder(&self, folder: &Path) -> Result<()> {
        for (path, entry) in &self.0 {
            let file = folder.join(path);
            let write = || -> io::Result<()> {
                if entry.is_folder {
                    return fs::create_dir_all(&file);
                }
                fs::create_dir_all(file.parent().unwrap_or(folder))?;
                fs::write(&file, &entry.content)?;
                fs::set_permissions(&file, Permissions::from_mode(entry.mode))
            };
            write().with_context(|| format!("cannot write {}", file.display()))?;
        }
        Ok(())
    }

    /// Writes a compressed tar archive with everything below `root`.
    pub(super) fn write_tar_gz(
        &self,
        file: &Path,
        root: &str,
        time: u32,
        effort: Effort,
    ) -> Result<()> {
        let out = File::create(file).with_context(|| format!("cannot write {}", file.display()))?;
        let mut tar =
            Builder::new(GzBuilder::new().mtime(time).write(out, Compression::new(effort.level())));
        for (path, entry) in self.0.iter().filter(|(_, entry)| !entry.is_folder) {
            let mut header = Header::new_gnu();
            header.set_entry_type(EntryType::Regular);
            header.set_mode(entry.mode);
            header.set_uid(0);
            header.set_gid(0);
            header.set_mtime(time.into());
            header.set_size(entry.content.len() as u64);
            tar.append_data(&mut header, format!("{root}/{path}"), entry.content.as_slice())?;
        }
        tar.into_inner()?.finish()?;
        Ok(())
    }

    /// Writes a zip archive. Its times are fixed, because the format has no time zone.
    pub(super) fn write_zip(&self, file: &Path, effort: Effort) -> Result<()> {
        let out = File::create(file).with_context(|| format!("cannot write {}", file.display()))?;
        let mut zip = ZipWriter::new(out);
        for (path, entry) in self.0.iter().filter(|(_, entry)| !entry.is_folder) {
            let options = SimpleFileOptions::default()
                .compression_method(CompressionMethod::Deflated)
                .compression_level(Some(effort.level().into()))
                .unix_permissions(entry.mode);
            zip.start_file(path.as_str(), options)?;
            io::copy(&mut entry.content.as_slice(), &mut zip)?;
        }
        zip.finish()?;
        Ok(())
    }
}

/// Compresses `content` as `gzip -9n` does.
pub(super) fn gzip(content: &[u8]) -> Result<Vec<u8>> {
    let mut encoder = GzBuilder::new().read(content, Compression::best());
    let mut compressed = Vec::new();
    encoder.read_to_end(&mut compressed)?;
    Ok(compressed)
}

/// Lines in the format of `sha256sum`.
pub(super) fn checksums(files: &[&PathBuf]) -> Result<String> {
    let mut lines = String::new();
    for file in files {
        let digest = Sha256::digest(fs::read(file)?);
        let hex: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        lines.push_str(&format!("{hex}  {name}\n"));
    }
    Ok(lines)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn archives_of_the_same_files_are_the_same_bytes() {
        let folder = tempfile::tempdir().unwrap();
        let mut files = Files::default();
        files.add("b", "text");
        files.add_executable("a/run", "#!/bin/sh\n");
        let write = |name: &str| {
            let (tar, zip) =
                (folder.path().join(format!("{name}.tar.gz")), folder.path().join(name));
            files.write_tar_gz(&tar, "root", 1_700_000_000, Effort::Quick).unwrap();
            files.write_zip(&zip, Effort::Quick).unwrap();
            (fs::read(tar).unwrap(), fs::read(zip).unwrap())
        };
        assert_eq!(write("one"), write("two"));
        files.write_folder(&folder.path().join("tree")).unwrap();
        let mode = fs::metadata(folder.path().join("tree/a/run")).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o755);
        assert!(checksums(&[&folder.path().join("one")]).unwrap().ends_with("  one\n"));
    }
}
