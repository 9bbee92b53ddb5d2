//! Workflows: files that say which tools to call in which order.

use std::path::PathBuf;

/// Where workflows are defined, and whether their runs survive the process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkflowSpec {
    /// Files, or patterns of files in one directory (`flows/*.yaml`).
    pub files: Vec<PathBuf>,
    /// Whether the results of completed steps are kept until the run ends, so that it can go on
    /// after a crash. Unsaid, they are kept where the store can seal them.
    pub durable: Option<bool>,
}
