//! The paths of a configuration that programs, forwarders and anchors may or must not reach.

use std::{collections::BTreeSet, path::PathBuf};

/// The files that confined programs may not reach, and the paths that programs and the record's
/// destinations may reach.
#[derive(Debug, Clone, Default)]
pub struct Protection {
    /// Keys of the server.
    pub(super) keys: BTreeSet<PathBuf>,
    /// Secrets for sources.
    pub(super) secrets: BTreeSet<PathBuf>,
    pub(super) named: Vec<NamedPath>,
    /// Files whose content belongs to the configuration.
    pub(super) included: BTreeSet<PathBuf>,
    /// The files that forwarders and anchors write.
    pub(super) outputs: Vec<NamedPath>,
}

/// A path that a confined program may reach, or that the record is written to.
#[derive(Debug, Clone)]
pub(super) struct NamedPath {
    pub(super) line: Option<usize>,
    pub(super) key: Option<String>,
    pub(super) path: PathBuf,
    pub(super) is_written: bool,
}
