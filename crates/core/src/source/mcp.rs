//! MCP servers: a program, or an address.

use std::{collections::BTreeMap, path::PathBuf};

use super::command::{Confinement, StderrMode};
use crate::{credential::SecretValue, egress::AllowList};

/// A child process. Its environment contains only `PATH`, `HOME`, `LANG`, `TMPDIR`, `USER` (where
/// set) and `env`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StdioSpec {
    /// Program and arguments; never empty.
    pub command: Vec<String>,
    /// Extra environment; values may be secrets.
    pub env: BTreeMap<String, SecretValue>,
    /// Working directory. By default a confined program gets a new empty directory, and any other
    /// the server's.
    pub cwd: Option<PathBuf>,
    /// The confinement; without it, the program has all access of the server.
    pub sandbox: Option<Confinement>,
    /// The destination of its stderr.
    pub stderr: StderrMode,
}

/// An HTTP endpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HttpSpec {
    /// `http` or `https`, no user information.
    pub url: String,
    /// Extra request headers; values may be secrets.
    pub headers: BTreeMap<String, SecretValue>,
    /// The additions to the public addresses and the host of `url` that may be contacted.
    pub allow: AllowList,
}
