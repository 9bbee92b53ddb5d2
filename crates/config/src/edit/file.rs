//! The configuration file on disk: reads and replaces it.
//!
//! Invariant: the file is replaced atomically, keeps its permissions, and is only replaced while
//! its content is the version that the change was made for. The previous text is kept next to it.

use std::{
    fs::{self, File, Metadata, OpenOptions},
    io::{self, Read as _, Write as _},
    os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _, fchown},
    path::{Path, PathBuf},
    sync::Arc,
};

use async_trait::async_trait;
use rustix::{
    fs::{CWD, RenameFlags, renameat_with},
    io::Errno,
};
use toolcrib_core::canonical::Digest;
use uuid::Uuid;

use crate::{Config, Problem};

/// Number of earlier texts to keep.
pub(super) const BACKUPS: usize = 5;
/// Size limit of the file, in bytes.
pub(super) const MAX_BYTES: u64 = 4 << 20;
/// Permissions of a new file.
const NEW_MODE: u32 = 0o600;

/// Checks a text as a server and `toolcrib config check` do.
#[async_trait]
pub trait ConfigCheck: Send + Sync + 'static {
    /// Checks `text` and collects all problems and warnings.
    async fn check(&self, text: &str) -> CheckReport;
}

/// The text of a configuration file after its checks.
#[derive(Debug, Default)]
pub struct CheckReport {
    /// The valid parts; `None` when the text is not TOML.
    pub config: Option<Config>,
    /// Why a server would not apply it.
    pub problems: Vec<Problem>,
    /// Probable mistakes.
    pub warnings: Vec<String>,
}

/// The configuration file of this process.
#[derive(Clone)]
pub struct ConfigFile {
    path: PathBuf,
    check: Arc<dyn ConfigCheck>,
}

/// The content of the file.
#[derive(Debug, Clone)]
pub struct FileContent {
    /// The text; empty when there is no file.
    pub text: String,
    /// The SHA-256 of the text, in hexadecimal digits.
    pub hash: String,
    exists: bool,
}

/// Why the file cannot be read or replaced. The texts are for people who may edit it.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// The file is not the text that the change was made for.
    #[error("the configuration file was changed since it was read; read it again")]
    Changed,
    /// Another process is replacing the file.
    #[error("another process changes the configuration file at this moment; try again")]
    Busy,
    /// This file cannot be replaced; the text is the reason.
    #[error("the configuration file cannot be edited from here: {0}")]
    Unsuitable(String),
    /// The system rejected the operation.
    #[error("the configuration file cannot be {what}: {error}{}", remedy(error))]
    System {
        /// The verb.
        what: &'static str,
        /// Why the system refused.
        error: io::Error,
    },
}

/// A hint for a server without write access to its file.
fn remedy(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::ReadOnlyFilesystem => {
            "; the service or container of the server makes it read-only: make the change by hand on \
             that machine, or allow it (`ReadWritePaths=` in a drop-in of the unit, see \
             docs/guides/deploy.md#edit-the-configuration-from-the-console)"
        }
        io::ErrorKind::PermissionDenied => {
            "; the user of the server may not write it: make the change by hand, or give the user the \
             file and its directory (docs/guides/deploy.md#edit-the-configuration-from-the-console)"
        }
        _ => "",
    }
}

/// A new text on disk, before it replaces the file. Dropping it removes it.
pub struct PendingFile {
    target: PathBuf,
    temporary: PathBuf,
    /// The hash of the text to replace; `None` if there is no file.
    expected: Option<String>,
    /// Held until the file is replaced, so that no other process replaces it meanwhile.
    _lock: File,
    backup: Option<PathBuf>,
}

/// The SHA-256 of `text` in hexadecimal digits.
pub fn hash(text: &str) -> String {
    Digest::of(text.as_bytes()).to_string()
}

impl ConfigFile {
    /// Describes the file at `path`; `check` checks its texts.
    pub fn new(path: PathBuf, check: Arc<dyn ConfigCheck>) -> Self {
        Self { path, check }
    }

    /// The name of the file without its directory.
    pub fn name(&self) -> String {
        self.path.file_name().unwrap_or_default().to_string_lossy().into_owned()
    }

    /// Returns the path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Checks `text`.
    pub async fn check(&self, text: &str) -> CheckReport {
        self.check.check(text).await
    }

    /// Reads the file; a missing file is empty.
    ///
    /// # Errors
    /// [`FileError`].
    pub fn read(&self) -> Result<FileContent, FileError> {
        let read = |error| FileError::System { what: "read", error };
        let mut text = String::new();
        let exists = match open(&self.path) {
            Ok(file) => {
                file.take(MAX_BYTES + 1).read_to_string(&mut text).map_err(read)?;
                true
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => false,
            Err(error) => return Err(read(error)),
        };
        if text.len() as u64 > MAX_BYTES {
            let reason = format!("it is larger than {} MiB", MAX_BYTES >> 20);
            return Err(FileError::Unsuitable(reason));
        }
        Ok(FileContent { hash: hash(&text), text, exists })
    }

    /// The reason why the file cannot be replaced; `None` if it can be.
    pub fn obstacle(&self) -> Option<FileError> {
        let metadata = match self.suitable() {
            Ok(metadata) => metadata,
            Err(error) => return Some(error),
        };
        // Only an attempt shows whether the directory and its file system are writable. The name
        // is unique, because several callers may check at the same time.
        let probe = self.sibling(&format!("probe-{}", Uuid::new_v4()));
        let result = create(&probe, metadata.as_ref()).map(drop);
        fs::remove_file(&probe).ok();
        result.err()
    }

    /// Writes `text` next to the file, durably, and keeps a copy of the current text. `expected` is the
    /// hash of the text that the change was made for.
    ///
    /// # Errors
    /// [`FileError`]: the file is unchanged.
    pub fn prepare(&self, expected: &str, text: &str) -> Result<PendingFile, FileError> {
        let metadata = self.suitable()?;
        let written = |error| FileError::System { what: "written", error };
        let lock = File::open(directory(&self.path)).map_err(written)?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(fs::TryLockError::WouldBlock) => return Err(FileError::Busy),
            Err(fs::TryLockError::Error(error)) => return Err(written(error)),
        }
        let current = self.read()?;
        if current.hash != expected {
            return Err(FileError::Changed);
        }
        let temporary = self.sibling("new");
        // A killed process left it; the lock is held, so no other process uses it.
        fs::remove_file(&temporary).ok();
        let mut prepared = PendingFile {
            target: self.path.clone(),
            temporary: temporary.clone(),
            expected: current.exists.then_some(current.hash),
            _lock: lock,
            backup: None,
        };
        let mut file = create(&temporary, metadata.as_ref())?;
        let durable = file.write_all(text.as_bytes()).and_then(|()| file.sync_all());
        durable.map_err(written)?;
        if current.exists {
            prepared.backup = Some(self.back_up(&current.text, metadata.as_ref())?);
        }
        Ok(prepared)
    }

    /// Keeps `text` as the newest backup, and removes the oldest.
    fn back_up(&self, text: &str, metadata: Option<&Metadata>) -> Result<PathBuf, FileError> {
        let written = |error| FileError::System { what: "copied", error };
        // Check before rotating backups.
        for backup in (1..=BACKUPS).map(|number| self.backup(number)) {
            if fs::symlink_metadata(&backup).is_ok_and(|metadata| metadata.is_dir()) {
                let reason = format!("the name {} of its copies is a directory", backup.display());
                return Err(FileError::Unsuitable(reason));
            }
        }
        let copy = self.sibling("copy");
        fs::remove_file(&copy).ok();
        let mut file = create(&copy, metadata)?;
        let durable = file.write_all(text.as_bytes()).and_then(|()| file.sync_all());
        if let Err(error) = durable {
            fs::remove_file(&copy).ok();
            return Err(written(error));
        }
        for number in (1..BACKUPS).rev() {
            match fs::rename(self.backup(number), self.backup(number + 1)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(written(error));
                }
                Ok(()) | Err(_) => {}
            }
        }
        let newest = self.backup(1);
        fs::rename(&copy, &newest).map_err(written)?;
        Ok(newest)
    }

    fn backup(&self, number: usize) -> PathBuf {
        let more = if number == 1 { String::new() } else { format!(".{number}") };
        self.path.with_file_name(format!("{}.bak{more}", self.name()))
    }

    fn sibling(&self, what: &str) -> PathBuf {
        self.path.with_file_name(format!(".{}.{what}", self.name()))
    }

    /// The metadata of the file if it can be replaced; `None` if the file is missing.
    fn suitable(&self) -> Result<Option<Metadata>, FileError> {
        let unsuitable = |reason: &str| Err(FileError::Unsuitable(reason.to_owned()));
        let metadata = match fs::symlink_metadata(&self.path) {
            Ok(metadata) => metadata,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(FileError::System { what: "read", error }),
        };
        if metadata.file_type().is_symlink() {
            return unsuitable(
                "it is a symbolic link, for example to a version that another program manages; \
                 change it there",
            );
        }
        if !metadata.is_file() {
            return unsuitable("it is not a regular file");
        }
        if metadata.nlink() > 1 {
            return unsuitable("it has several names (hard links), which replacing it would part");
        }
        Ok(Some(metadata))
    }
}

impl PendingFile {
    /// Replaces the file. Returns the name of the backup of the previous text.
    ///
    /// # Errors
    /// [`FileError::System`] or [`FileError::Changed`]: the file is unchanged, or as
    /// another program wrote it meanwhile.
    pub fn place(self) -> Result<Option<String>, FileError> {
        self.replace()?;
        // The new name is already in effect. Without this sync, only a power cut can lose it.
        if let Err(error) = File::open(directory(&self.target)).and_then(|file| file.sync_all()) {
            tracing::warn!(%error, "the directory of the configuration could not be synced");
        }
        let name =
            |path: &PathBuf| path.file_name().map(|name| name.to_string_lossy().into_owned());
        Ok(self.backup.as_ref().and_then(name))
    }

    /// Exchanges both files. If another program has changed the file since [`prepare`], the
    /// exchange reveals its text, and a second exchange restores it.
    ///
    /// [`prepare`]: ConfigFile::prepare
    fn replace(&self) -> Result<(), FileError> {
        let system = |error: io::Error| FileError::System { what: "replaced", error };
        let Some(expected) = &self.expected else {
            return match rename(&self.temporary, &self.target, RenameFlags::NOREPLACE) {
                Err(Errno::EXIST) => Err(FileError::Changed),
                Err(error) if is_unsupported(error) => {
                    fs::rename(&self.temporary, &self.target).map_err(system)
                }
                renamed => renamed.map_err(|error| system(error.into())),
            };
        };
        match rename(&self.temporary, &self.target, RenameFlags::EXCHANGE) {
            Ok(()) => {}
            Err(Errno::NOENT) => return Err(FileError::Changed),
            // A file system without an exchange: a text written in the next microseconds is
            // lost.
            Err(error) if is_unsupported(error) => {
                if content_hash(&self.target).map_err(system)? != *expected {
                    return Err(FileError::Changed);
                }
                return fs::rename(&self.temporary, &self.target).map_err(system);
            }
            Err(error) => return Err(system(error.into())),
        }
        if content_hash(&self.temporary).is_ok_and(|found| found == *expected) {
            return Ok(());
        }
        rename(&self.temporary, &self.target, RenameFlags::EXCHANGE)
            .map_err(|error| system(error.into()))?;
        Err(FileError::Changed)
    }
}

impl Drop for PendingFile {
    /// Removes the new text if it was not used, or the text that it replaced.
    fn drop(&mut self) {
        fs::remove_file(&self.temporary).ok();
    }
}

fn rename(from: &Path, to: &Path, flags: RenameFlags) -> Result<(), Errno> {
    renameat_with(CWD, from, CWD, to, flags)
}

/// Whether the file system or the kernel does not support this rename.
fn is_unsupported(error: Errno) -> bool {
    matches!(error, Errno::INVAL | Errno::NOSYS | Errno::NOTSUP)
}

fn content_hash(path: &Path) -> io::Result<String> {
    Ok(Digest::of(&fs::read(path)?).to_string())
}

fn directory(file: &Path) -> &Path {
    match file.parent() {
        Some(directory) if !directory.as_os_str().is_empty() => directory,
        _ => Path::new("."),
    }
}

/// Opens the file; for a pipe, does not wait for its writer.
fn open(path: &Path) -> io::Result<File> {
    if !fs::metadata(path)?.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    File::open(path)
}

/// Creates a file with the owner and the permissions of the file to replace.
fn create(path: &Path, like: Option<&Metadata>) -> Result<File, FileError> {
    let written = |error| FileError::System { what: "written", error };
    let mut options = OpenOptions::new();
    // Others get access only with the permissions of the old file.
    options.write(true).create_new(true).mode(NEW_MODE);
    let file = options.open(path).map_err(written)?;
    let Some(like) = like else { return Ok(file) };
    let result = adopt(&file, like);
    if let Err(error) = result {
        fs::remove_file(path).ok();
        return Err(error);
    }
    Ok(file)
}

fn adopt(file: &File, like: &Metadata) -> Result<(), FileError> {
    let written = |error| FileError::System { what: "written", error };
    let own = file.metadata().map_err(written)?;
    if (own.uid(), own.gid()) != (like.uid(), like.gid()) {
        fchown(file, Some(like.uid()), Some(like.gid())).map_err(|_| {
            let reason = "it belongs to another user or group, which replacing it would change";
            FileError::Unsuitable(reason.to_owned())
        })?;
    }
    let mode = like.permissions().mode() & 0o7777;
    file.set_permissions(fs::Permissions::from_mode(mode)).map_err(written)
}
