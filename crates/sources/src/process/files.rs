//! How many files this process may have open, and how many its children may.

use std::sync::OnceLock;

use rustix::process::{Pid, Resource, Rlimit, getrlimit, setrlimit};

/// The limit before it was raised.
static INHERITED: OnceLock<Rlimit> = OnceLock::new();

/// Raises this process's soft limit of open files to the hard one and returns the number; `None`
/// means unlimited. Children that are started afterwards get the limit that was there before:
/// programs that go through all possible descriptors, or use `select`, count on a small one.
pub fn raise_file_limit() -> Result<Option<u64>, String> {
    let inherited = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: inherited.maximum, maximum: inherited.maximum };
    setrlimit(Resource::Nofile, raised).map_err(|error| error.to_string())?;
    INHERITED.get_or_init(|| inherited);
    Ok(raised.current)
}

/// Gives `child` the limit that this process had.
pub(super) fn inherit_limit(child: Pid) {
    let Some(inherited) = INHERITED.get() else { return };
    #[cfg(target_os = "linux")]
    if let Err(error) = rustix::process::prlimit(Some(child), Resource::Nofile, *inherited) {
        tracing::debug!(%error, "a child keeps this process's limit of open files");
    }
    #[cfg(not(target_os = "linux"))]
    let _ = (child, inherited);
}
