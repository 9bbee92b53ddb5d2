//! The paths that no confined program may reach: the data directory, keys, files with secrets, and
//! (for writing) the configuration.
//!
//! Invariant: a configuration that gives a program access to one of them is refused when it is
//! loaded. The paths are also passed to each program's launcher, which checks again.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
};

use toolcrib_core::source::{
    UpstreamSpec,
    command::{Confinement, Protected},
};

use super::{Config, ConfigError, Problem};

/// The files that the configuration refers to, and the paths that it opens to confined programs.
#[derive(Debug, Clone, Default)]
pub struct Protection {
    /// Keys of the server.
    pub(super) keys: BTreeSet<PathBuf>,
    /// Secrets for sources.
    pub(super) secrets: BTreeSet<PathBuf>,
    pub(super) named: Vec<NamedPath>,
}

/// A path that the configuration opens to a confined program.
#[derive(Debug, Clone)]
pub(super) struct NamedPath {
    pub(super) line: usize,
    pub(super) key: String,
    pub(super) path: PathBuf,
    pub(super) is_written: bool,
}

impl Config {
    /// Denies confined programs access to `data_dir`, the store, keys and secrets, and write access
    /// to the configuration file `file`.
    ///
    /// # Errors
    /// Fails when a program's path leads to one of them, with every such path. A secret of
    /// `{ file = … }` is readable if its own path is listed.
    pub fn protect(&mut self, file: Option<&Path>, data_dir: &Path) -> Result<(), ConfigError> {
        let fixed: BTreeSet<PathBuf> = file.map(resolved).into_iter().collect();
        let mut own: BTreeSet<PathBuf> = [data_dir.to_owned()].into();
        own.extend(store_files(&self.store.path, file));
        own.extend(self.protection.keys.iter().cloned());
        let own: BTreeSet<PathBuf> = own.iter().map(|path| resolved(path)).collect();
        let secrets: BTreeSet<PathBuf> =
            self.protection.secrets.iter().map(|path| resolved(path)).collect();
        let mut problems = Vec::new();
        for named in &self.protection.named {
            let path = resolved(&named.path);
            let meets = |other: &PathBuf| other.starts_with(&path) || path.starts_with(other);
            let what = if own.iter().any(meets) {
                "the data directory or a key of the server"
            } else if secrets.iter().any(|it| meets(it) && (named.is_written || *it != path)) {
                "a file with a secret"
            } else if named.is_written && fixed.iter().any(meets) {
                "the configuration"
            } else {
                continue;
            };
            let verb = if named.is_written { "write" } else { "read" };
            problems.push(Problem {
                line: Some(named.line),
                key: Some(named.key.clone()),
                message: format!(
                    "{} would let the program {verb} {what}; name a narrower path, or move one of \
                     them",
                    named.path.display()
                ),
            });
        }
        let file = file.map(|file| file.display().to_string()).unwrap_or_default();
        if !problems.is_empty() {
            return Err(ConfigError::new(file, problems));
        }
        for confinement in
            self.sources.iter_mut().flat_map(|it| confinements(&mut it.spec.upstream))
        {
            let named: BTreeSet<PathBuf> =
                confinement.read.iter().map(|path| resolved(path)).collect();
            let secret = own.iter().chain(secrets.difference(&named)).cloned().collect();
            confinement.protected = Protected { secret, fixed: fixed.clone() };
        }
        Ok(())
    }
}

fn confinements(upstream: &mut UpstreamSpec) -> Vec<&mut Confinement> {
    match upstream {
        UpstreamSpec::Commands(commands) => {
            commands.commands.iter_mut().map(|command| &mut command.confinement).collect()
        }
        UpstreamSpec::McpStdio(stdio) => stdio.sandbox.iter_mut().collect(),
        UpstreamSpec::McpHttp(_)
        | UpstreamSpec::Connector(_)
        | UpstreamSpec::Workflow(_)
        | UpstreamSpec::Pack(_)
        | UpstreamSpec::Native => Vec::new(),
        UpstreamSpec::Unusable(unusable) => confinements(&mut unusable.upstream),
    }
}

/// Returns the directory of the store. If that also contains the configuration, returns the files
/// whose names begin with that of the store.
fn store_files(store: &Path, config: Option<&Path>) -> Vec<PathBuf> {
    let directory = resolved(store.parent().unwrap_or(Path::new("")));
    if !config.is_some_and(|config| resolved(config).starts_with(&directory)) {
        return vec![directory];
    }
    let name = store.file_name().unwrap_or_default().as_encoded_bytes();
    let entries = std::fs::read_dir(&directory).into_iter().flatten().flatten();
    let beside = entries.filter(|it| it.file_name().as_encoded_bytes().starts_with(name));
    let mut files: Vec<PathBuf> = beside.map(|entry| entry.path()).collect();
    // The files that the server will create.
    for ending in ["", "-wal", "-shm", "-journal", ".signing-key", ".witness"] {
        let mut path = store.as_os_str().to_owned();
        path.push(ending);
        files.push(path.into());
    }
    files
}

/// Returns `path` without symbolic links; its last components need not exist.
fn resolved(path: &Path) -> PathBuf {
    let here = if path.as_os_str().is_empty() { Path::new(".") } else { path };
    let Ok(absolute) = std::path::absolute(here) else { return path.to_owned() };
    let known = absolute.ancestors().find_map(|there| {
        let rest = absolute.strip_prefix(there).ok()?;
        Some(there.canonicalize().ok()?.join(rest))
    });
    // `..` after a missing component is resolved by its text.
    let mut resolved = PathBuf::new();
    for part in known.as_deref().unwrap_or(&absolute).components() {
        match part {
            std::path::Component::ParentDir => drop(resolved.pop()),
            part => resolved.push(part),
        }
    }
    resolved
}
