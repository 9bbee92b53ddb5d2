//! The configuration file to write, and its schema.
//!
//! Invariant: an existing file is replaced only with `--force`, as a whole, after a backup.

use std::{
    ffi::OsStr,
    fs,
    io::{self, Write as _},
    path::{Path, PathBuf},
};

use anyhow::Context as _;

use crate::failure::{Advice as _, advised};

/// The most backups to keep.
const MAX_BACKUPS: u32 = 100;

/// Where the configuration goes.
#[derive(Debug)]
pub(super) struct Target {
    file: PathBuf,
    exists: bool,
    force: bool,
}

impl Target {
    /// Fails if the file exists, unless it may be replaced.
    pub(super) fn new(file: PathBuf, force: bool) -> anyhow::Result<Self> {
        let exists = match fs::symlink_metadata(&file) {
            Ok(about) if about.is_dir() => anyhow::bail!("{} is a directory", file.display()),
            Ok(_) => true,
            Err(error) if error.kind() == io::ErrorKind::NotFound => false,
            Err(error) => {
                let problem = format!("{} cannot be written", file.display());
                return Err(anyhow::Error::new(error).context(problem));
            }
        };
        if exists && !force {
            return Err(advised(
                format!("{} exists already", file.display()),
                "--force replaces it and keeps it as a backup; `toolcrib import FILE` prints the servers of \
                 one more client, for you to add",
            ));
        }
        Ok(Self { file, exists, force })
    }

    pub(super) fn file(&self) -> &Path {
        &self.file
    }

    /// The file with the schema: `toolcrib.schema.json` next to `toolcrib.toml`.
    pub(super) fn schema(&self) -> PathBuf {
        self.file.with_file_name(self.schema_name())
    }

    /// The name of the schema in the configuration.
    pub(super) fn schema_name(&self) -> String {
        let name = self.file.file_stem().unwrap_or(OsStr::new("toolcrib"));
        format!("{}.schema.json", name.to_string_lossy())
    }

    /// Writes the schema. Keeps an existing one without `--force`: only editors read it.
    pub(super) fn write_schema(&self, text: &str) -> anyhow::Result<()> {
        let schema = self.schema();
        let mut open = fs::OpenOptions::new();
        open.write(true);
        match self.force {
            true => open.create(true).truncate(true),
            false => open.create_new(true),
        };
        match open.open(&schema).and_then(|mut file| file.write_all(text.as_bytes())) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            written => written.with_context(|| format!("{} cannot be written", schema.display())),
        }
    }

    /// Writes the file; returns the backup of the previous one.
    pub(super) fn write(&self, text: &str) -> anyhow::Result<Option<PathBuf>> {
        match self.exists {
            true => self.replace(text).map(Some),
            false => {
                let file = fs::OpenOptions::new().write(true).create_new(true).open(&self.file);
                let problem = format!("{} cannot be written", self.file.display());
                let mut file =
                    file.advise(problem, "does its directory exist, and may you write there?")?;
                file.write_all(text.as_bytes())?;
                file.sync_all()?;
                Ok(None)
            }
        }
    }

    fn replace(&self, text: &str) -> anyhow::Result<PathBuf> {
        // A link stays; the file that it leads to is replaced.
        let file = self.file.canonicalize();
        let file = file.with_context(|| format!("{} cannot be read", self.file.display()))?;
        let backup = back_up(&file)?;
        let fresh = with_ending(&file, ".new");
        let write = || -> io::Result<()> {
            let mut out = fs::OpenOptions::new().write(true).create_new(true).open(&fresh)?;
            out.set_permissions(fs::metadata(&file)?.permissions())?;
            out.write_all(text.as_bytes())?;
            out.sync_all()?;
            fs::rename(&fresh, &file)
        };
        write().with_context(|| {
            format!("{} cannot be replaced by {}", file.display(), fresh.display())
        })?;
        Ok(backup)
    }
}

/// Copies the file to the first unused name, and returns that.
fn back_up(file: &Path) -> anyhow::Result<PathBuf> {
    let names =
        std::iter::once(".bak".to_owned()).chain((2..=MAX_BACKUPS).map(|n| format!(".bak{n}")));
    for name in names {
        let backup = with_ending(file, &name);
        let created = fs::OpenOptions::new().write(true).create_new(true).open(&backup);
        let mut out = match created {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => continue,
            created => {
                created.with_context(|| format!("{} cannot be written", backup.display()))?
            }
        };
        let mut copy = || -> io::Result<()> {
            out.set_permissions(fs::metadata(file)?.permissions())?;
            io::copy(&mut fs::File::open(file)?, &mut out)?;
            out.sync_all()
        };
        copy().with_context(|| format!("{} cannot be copied", file.display()))?;
        return Ok(backup);
    }
    Err(advised(
        format!("{} has {MAX_BACKUPS} backups already", file.display()),
        "remove the oldest of its .bak files",
    ))
}

fn with_ending(file: &Path, ending: &str) -> PathBuf {
    let mut name = file.as_os_str().to_owned();
    name.push(ending);
    name.into()
}
