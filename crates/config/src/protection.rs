//! Keeps confined programs away from the data directory, keys and files with secrets, and from
//! writing the configuration.
//!
//! Invariant: a configuration that lets a program reach one of these paths is rejected. The paths
//! are also passed to the launcher of each program, which checks them again.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
};

use toolcrib_core::source::{UpstreamSpec, command::ProtectedFiles};

use super::{
    Config,
    error::{ConfigError, Problem},
};

impl Config {
    /// Keeps confined programs away from `data_dir`, the store, keys and secrets, and from writing
    /// configuration file `file`. Keeps forwarders and anchors from writing to any of them.
    ///
    /// # Errors
    /// Fails with every path of a program, forwarder or anchor that leads there. A program
    /// may read the secret of a `{ file = … }` if its list names it.
    pub fn protect(&mut self, file: Option<&Path>, data_dir: &Path) -> Result<(), ConfigError> {
        let fixed: BTreeSet<PathBuf> = file.map(resolved).into_iter().collect();
        let mut own: BTreeSet<PathBuf> = [data_dir.to_owned()].into();
        own.extend(store_files(&self.store.path, file));
        own.extend(self.protection.keys.iter().cloned());
        let own: BTreeSet<PathBuf> = own.iter().map(|path| resolved(path)).collect();
        let secrets: BTreeSet<PathBuf> =
            self.protection.secrets.iter().map(|path| resolved(path)).collect();
        // A process of the same user, and root in any case, can read the secrets of the server
        // there.
        let server = PathBuf::from(format!("/proc/{}", std::process::id()));
        let mut problems = self.misplaced_outputs(file, data_dir);
        for named in &self.protection.named {
            let path = resolved(&named.path);
            let meets = |other: &PathBuf| other.starts_with(&path) || path.starts_with(other);
            let what = if own.iter().any(meets) {
                "the data directory or a key of the server"
            } else if meets(&server) {
                "the memory and the environment of the server"
            } else if secrets
                .iter()
                .any(|secret| meets(secret) && (named.is_written || *secret != path))
            {
                "a file with a secret"
            } else if named.is_written && fixed.iter().any(meets) {
                "the configuration"
            } else {
                continue;
            };
            let verb = if named.is_written { "write" } else { "read" };
            let message = format!(
                "{} would let the program {verb} {what}; name a narrower path, or move one of them",
                named.path.display()
            );
            problems.push(Problem::new(named.line, named.key.clone(), message));
        }
        let file = file.map(|file| file.display().to_string()).unwrap_or_default();
        if !problems.is_empty() {
            return Err(ConfigError::new(file, problems));
        }
        let upstreams = self.sources.iter_mut().map(|source| &mut source.spec.upstream);
        for confinement in upstreams.flat_map(UpstreamSpec::confinements_mut) {
            let named: BTreeSet<PathBuf> =
                confinement.read.iter().map(|path| resolved(path)).collect();
            let secret = own.iter().chain(secrets.difference(&named)).cloned().collect();
            confinement.protected = ProtectedFiles { secret, fixed: fixed.clone() };
        }
        Ok(())
    }
}

/// The directory of the store. If it also holds the configuration, only the files whose name starts
/// with that of the store.
pub(super) fn store_files(store: &Path, config: Option<&Path>) -> Vec<PathBuf> {
    let directory = resolved(store.parent().unwrap_or(Path::new("")));
    if !config.is_some_and(|config| resolved(config).starts_with(&directory)) {
        return vec![directory];
    }
    let name = store.file_name().unwrap_or_default().as_encoded_bytes();
    let entries = std::fs::read_dir(&directory).into_iter().flatten().flatten();
    let beside = entries.filter(|entry| entry.file_name().as_encoded_bytes().starts_with(name));
    let mut files: Vec<PathBuf> = beside.map(|entry| entry.path()).collect();
    // Files that the server creates later.
    for ending in ["", "-wal", "-shm", "-journal", ".signing-key", ".witness"] {
        let mut path = store.as_os_str().to_owned();
        path.push(ending);
        files.push(path.into());
    }
    files
}

/// Resolves the links of `path`; its last parts need not exist.
pub(super) fn resolved(path: &Path) -> PathBuf {
    let here = if path.as_os_str().is_empty() { Path::new(".") } else { path };
    let Ok(absolute) = std::path::absolute(here) else { return path.to_owned() };
    let known = absolute.ancestors().find_map(|there| {
        let rest = absolute.strip_prefix(there).ok()?;
        Some(there.canonicalize().ok()?.join(rest))
    });
    // `..` after a missing part resolves as if that part existed.
    let mut resolved = PathBuf::new();
    for part in known.as_deref().unwrap_or(&absolute).components() {
        match part {
            std::path::Component::ParentDir => drop(resolved.pop()),
            part => resolved.push(part),
        }
    }
    resolved
}
