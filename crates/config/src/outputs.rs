//! Keeps forwarders and anchors from writing to the server's files.
//!
//! Invariant: a configuration whose forwarder or anchor writes to a file of the server is rejected:
//! appended lines would destroy the store, its witness, a key or the configuration.

use std::{
    collections::BTreeSet,
    fs, io,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
};

use toolcrib_core::source::upstream::SourceFiles;

use super::{
    Config,
    error::Problem,
    protection::{resolved, store_files},
};
use crate::files;

/// The most links of a path that are followed, as in Linux.
const MAX_LINKS: usize = 40;

/// A file or directory of the server.
struct ServerPath {
    path: PathBuf,
    what: &'static str,
}

impl Config {
    /// Reports a problem for each forwarder and anchor that would write to a file of the server:
    /// directly, through a symbolic link, or because a file has two names.
    pub(super) fn misplaced_outputs(&self, file: Option<&Path>, data_dir: &Path) -> Vec<Problem> {
        if self.protection.outputs.is_empty() {
            return Vec::new();
        }
        let own = self.own_files(file, data_dir);
        let log = fs::metadata("/proc/self/fd/2").ok().filter(fs::Metadata::is_file);
        let mut problems = Vec::new();
        for output in &self.protection.outputs {
            let path = followed(&output.path);
            let inside = own.iter().find(|entry| path.starts_with(&entry.path));
            let linked = || own.iter().find(|entry| entry.is_linked(&path));
            let what = match inside.or_else(linked) {
                Some(own) => own.what,
                None if log.as_ref().is_some_and(|log| is_same(log, &path)) => "the server's log",
                None => continue,
            };
            let message = format!(
                "{} is part of {what}, which it would overwrite; name a file in another directory, \
                 which only forwarders and anchors write to",
                output.path.display()
            );
            problems.push(Problem::new(output.line, output.key.clone(), message));
        }
        problems
    }

    fn own_files(&self, file: Option<&Path>, data_dir: &Path) -> Vec<ServerPath> {
        let protection = &self.protection;
        let mut own = Vec::new();
        let mut add = |path: &Path, what| own.push(ServerPath { path: followed(path), what });
        add(data_dir, "the data directory");
        store_files(&self.store.path, file).iter().for_each(|path| add(path, "the store"));
        protection.keys.iter().for_each(|path| add(path, "a key of the server"));
        protection.secrets.iter().for_each(|path| add(path, "a file with a secret"));
        let configured = file.map(Path::to_owned).into_iter().chain(protection.included.clone());
        configured.chain(self.source_files()).for_each(|path| add(&path, "the configuration"));
        own
    }

    /// The files that sources are read from.
    fn source_files(&self) -> BTreeSet<PathBuf> {
        let mut files_of_sources = BTreeSet::new();
        for source in &self.sources {
            let SourceFiles { patterns, file } = source.spec.upstream.files();
            // An unlistable directory is reported when the source is read.
            let found = patterns.iter().filter_map(|pattern| files::find(pattern).ok());
            files_of_sources.extend(found.flatten());
            files_of_sources.extend(file.map(Path::to_owned));
        }
        files_of_sources
    }
}

impl ServerPath {
    /// Whether `path` is another name of this file, or of a file in this directory.
    fn is_linked(&self, path: &Path) -> bool {
        let Ok(found) = fs::metadata(path) else { return false };
        if found.is_file() && found.nlink() < 2 {
            return false;
        }
        let inside = fs::read_dir(&self.path).into_iter().flatten().flatten();
        is_same(&found, &self.path)
            || inside.map(|entry| entry.path()).any(|file| is_same(&found, &file))
    }
}

/// Compares device and inode, because a hard link has another path.
fn is_same(found: &fs::Metadata, path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|own| (own.dev(), own.ino()) == (found.dev(), found.ino()))
}

/// `path` without links, also if its last one leads to a file that does not exist yet.
fn followed(path: &Path) -> PathBuf {
    let mut path = resolved(path);
    for _ in 0..MAX_LINKS {
        let target: io::Result<PathBuf> = fs::read_link(&path);
        let (Ok(target), Some(parent)) = (target, path.parent()) else { break };
        path = resolved(&parent.join(target));
    }
    path
}
