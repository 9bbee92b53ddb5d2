//! Limits on open files, for this process and for its children.

use std::sync::OnceLock;

use rustix::process::{Pid, Resource, Rlimit, getrlimit, setrlimit};

/// The limit before it was raised.
static INHERITED: OnceLock<Rlimit> = OnceLock::new();

/// Raises this process's soft limit of open files to the hard limit and returns it; `None` means
/// unlimited. Children started afterwards get the original limit, because programs that iterate
/// over all descriptors, or use `select`, expect a small one.
pub fn raise_file_limit() -> Result<Option<u64>, String> {
    let inherited = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: inherited.maximum, maximum: inherited.maximum };
    setrlimit(Resource::Nofile, raised).map_err(|error| error.to_string())?;
    INHERITED.get_or_init(|| inherited);
    Ok(raised.current)
}

/// Restores the original limit for `child`.
pub(super) fn inherit_limit(child: Pid) {
    let Some(inherited) = INHERITED.get() else { return };
    #[cfg(target_os = "linux")]
    if let Err(error) = rustix::process::prlimit(Some(child), Resource::Nofile, *inherited) {
        tracing::debug!(%error, "a child keeps this process's limit of open files");
    }
    #[cfg(not(target_os = "linux"))]
    let _ = (child, inherited);
}
