//! How children are started: this program again, which watches over a child, or gives up what the
//! child must not have and becomes it.

use std::{ffi::OsString, path::PathBuf, process::ExitCode};

use toolcrib_sources::{Launcher, run_child};

/// The first argument of a start as launcher. Nobody types it, so no help shows it.
const WORD: &str = "run-child";

/// Starts children through this program, also when its file has been replaced by a newer one.
pub(crate) fn launcher() -> Launcher {
    let own = PathBuf::from("/proc/self/exe");
    let program = match own.exists() {
        true => own,
        false => std::env::current_exe().unwrap_or(own),
    };
    Launcher { program, arguments: vec![OsString::from(WORD)] }
}

/// Starts a child, if that is what this start is for. Before anything else, so that the child has
/// no thread and no open file of ours.
pub(crate) fn entered() -> Option<ExitCode> {
    let mut arguments = std::env::args_os().skip(1);
    (arguments.next()? == WORD).then(|| run_child(arguments))
}
