//! The launcher of child processes: this program, started again. It supervises a child, or drops
//! privileges that are forbidden to the child and then executes it.

use std::{ffi::OsString, path::PathBuf, process::ExitCode};

use toolcrib_sources::{Launcher, run_child};

/// The first argument of a launcher process. It is internal, so the help omits it.
const LAUNCHER_ARGUMENT: &str = "run-child";

/// A launcher that runs this program, also after its file was replaced by another version.
pub(crate) fn launcher() -> Launcher {
    let own = PathBuf::from("/proc/self/exe");
    let program = match own.exists() {
        true => own,
        false => std::env::current_exe().unwrap_or(own),
    };
    // The allocator of this program (`main.rs`) would start a thread.
    let environment = vec![("_RJEM_MALLOC_CONF".to_owned(), "background_thread:false".to_owned())];
    Launcher { program, arguments: vec![OsString::from(LAUNCHER_ARGUMENT)], environment }
}

/// Runs a child if this process is a launcher; the result is its exit code.
///
/// Must be called first in `main`, so that the child inherits no thread and no open file.
pub(crate) fn entered() -> Option<ExitCode> {
    let mut arguments = std::env::args_os().skip(1);
    (arguments.next()? == LAUNCHER_ARGUMENT).then(|| run_child(arguments))
}
