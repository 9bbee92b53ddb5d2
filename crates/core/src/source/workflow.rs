//! Workflows: files that define which tools to call in which order.

use std::path::PathBuf;

/// The files that define workflows, and whether their runs survive the process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkflowSpec {
    /// Files, or patterns of files in one directory (`flows/*.yaml`).
    pub files: Vec<PathBuf>,
    /// Whether the results of completed steps are stored until the run finishes, so that it can
    /// resume after a crash. By default they are stored if the store can seal them.
    pub durable: Option<bool>,
}
