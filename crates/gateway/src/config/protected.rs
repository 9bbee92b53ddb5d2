//! The paths of a configuration that concern the confinement of programs.

use std::{collections::BTreeSet, path::PathBuf};

/// The files that confined programs may not reach, and the paths that programs may reach.
#[derive(Debug, Clone, Default)]
pub struct Protection {
    /// Keys of the server.
    pub(super) keys: BTreeSet<PathBuf>,
    /// Secrets for sources.
    pub(super) secrets: BTreeSet<PathBuf>,
    pub(super) named: Vec<NamedPath>,
}

/// A path that a confined program may reach.
#[derive(Debug, Clone)]
pub(super) struct NamedPath {
    pub(super) line: Option<usize>,
    pub(super) key: Option<String>,
    pub(super) path: PathBuf,
    pub(super) is_written: bool,
}
