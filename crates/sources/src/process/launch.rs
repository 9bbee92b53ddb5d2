//! Shared by all starts of programs: the launcher, the roles of the helper processes, and the
//! environment.

use std::{collections::BTreeMap, ffi::OsString, io, path::PathBuf, time::Duration};

use serde::{Deserialize, Serialize};
use toolcrib_core::{
    source::{
        SecretValue,
        command::{Confinement, Resources},
    },
    text::io_reason,
};

/// How long the remaining output may take to arrive after the processes were killed.
pub(super) const DRAIN: Duration = Duration::from_millis(200);

/// The error of a program whose standard streams are missing.
pub(super) const NO_PIPES: &str = "the program was started without its pipes";

/// How child processes are started: a program that passes the arguments after `arguments` to
/// [`run_child`](crate::run_child).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Launcher {
    /// The program.
    pub program: PathBuf,
    /// Its first arguments.
    pub arguments: Vec<OsString>,
    /// Variables of the process that confines itself; the program that it becomes does not get
    /// them. They must keep its allocator from starting a thread: a process with several threads
    /// cannot create a user namespace.
    pub environment: Vec<(String, String)>,
}

/// The role of this program when it runs again as a helper process, as one argument.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Role {
    Reap(ReaperRules),
    Confine(ConfinementRules),
    /// Tries the layers of a sandbox and prints the result.
    Probe,
}

/// How modes, owners, times and attributes of files outside a sandbox's writable paths are kept
/// unchanged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum MetadataGuard {
    /// All other mounts are read-only.
    ReadOnlyMounts,
    /// The system calls are refused, also for writable paths.
    SystemCalls,
}

/// The configuration of a reaper.
#[derive(Serialize, Deserialize)]
pub(super) struct ReaperRules {
    /// Command line that runs this program again.
    pub(super) launcher: Vec<String>,
    /// Variables for it.
    pub(super) environment: Vec<(String, String)>,
    pub(super) confinement: Option<ConfinementRules>,
    /// The directory in which to create the child's empty working directory.
    pub(super) scratch: Option<PathBuf>,
}

/// The configuration of a process that confines itself before it executes its program.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct ConfinementRules {
    pub(super) confinement: Confinement,
    pub(super) guard: MetadataGuard,
    pub(super) resources: Option<Resources>,
    /// Names of the launcher's own variables.
    pub(super) variables: Vec<String>,
    /// The descriptor of the report pipe, which the reaper sets.
    pub(super) report: i32,
}

impl Role {
    pub(super) fn to_argument(&self) -> Result<String, String> {
        serde_json::to_string(self).map_err(|_| "a path is not UTF-8".to_owned())
    }
}

/// Returns the environment of a child: the `inherited` variables of this process that are set, and
/// the configured ones, which override them.
#[expect(
    clippy::disallowed_methods,
    reason = "the inherited environment is read when a child starts"
)]
pub(crate) fn environment<'a>(
    inherited: impl IntoIterator<Item = &'a str>,
    configured: &BTreeMap<String, SecretValue>,
) -> Vec<(String, OsString)> {
    let inherited = inherited.into_iter();
    let inherited = inherited.filter_map(|name| Some((name.to_owned(), std::env::var_os(name)?)));
    let configured = configured.iter().map(|(name, value)| (name.clone(), value.0.expose().into()));
    inherited.chain(configured).collect()
}

/// Describes why a program could not be started.
pub(super) fn cannot_start(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::NotFound => {
            "cannot start the program: not found; check `command`, `cwd` and PATH".to_owned()
        }
        kind => format!("cannot start the program: {}", io_reason(kind)),
    }
}
