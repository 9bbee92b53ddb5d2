//! The places of files: the tree, and the cache outside it.
//!
//! The tree holds sources only. Builds go to `CARGO_TARGET_DIR` or `<cache>/target`; programs and
//! packages that tests need go to `<cache>/tools`, so that they survive a fresh clone.

use std::env;
use std::path::{Path, PathBuf};

/// Returns the root of the work tree. Cargo names it at run time: checkouts share their builds, so
/// this program may have been built in another one.
pub(crate) fn root() -> PathBuf {
    let here = set("CARGO_MANIFEST_DIR");
    let here = here.unwrap_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).to_path_buf());
    here.parent().map_or(here.clone(), Path::to_path_buf)
}

/// Returns `TOOLCRIB_CACHE`, or `toolcrib` in the user's cache directory.
pub(crate) fn cache() -> PathBuf {
    set("TOOLCRIB_CACHE")
        .or_else(|| set("XDG_CACHE_HOME").map(|base| base.join("toolcrib")))
        .or_else(|| set("HOME").map(|home| home.join(".cache").join("toolcrib")))
        .unwrap_or_else(|| root().join("target").join("cache"))
}

/// Returns the build directory of every cargo call of a task.
pub(crate) fn target() -> PathBuf {
    set("CARGO_TARGET_DIR").unwrap_or_else(|| cache().join("target"))
}

/// Returns the directory of programs and packages for tests.
pub(crate) fn tools() -> PathBuf {
    cache().join("tools")
}

fn set(name: &str) -> Option<PathBuf> {
    env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from)
}
