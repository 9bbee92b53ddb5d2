//! Calls of cargo: the toolchain's own program, the tree as directory, the shared build directory.

use std::env;
use std::path::PathBuf;
use std::process::Command;

use anyhow::Result;

use crate::{paths, shell};

/// `cargo ARGUMENTS` in the tree, building in the cache.
pub(crate) fn cargo(arguments: &[&str]) -> Command {
    let program = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(program);
    command.args(arguments).current_dir(paths::root()).env("CARGO_TARGET_DIR", paths::target());
    // `cargo run` started this task; its variables are not for the next cargo.
    for (name, _) in env::vars_os() {
        let inherited = name.to_string_lossy();
        if inherited.starts_with("CARGO_PKG_") || inherited.starts_with("CARGO_MANIFEST_") {
            command.env_remove(&name);
        }
    }
    command
}

/// Whether a cargo subcommand (`nextest`, `deny`) is installed.
pub(crate) fn has(subcommand: &str) -> bool {
    shell::find(&format!("cargo-{subcommand}")).is_some()
}

/// Builds the workspace as the tests do; returns the `toolcrib` program of that build.
///
/// Builds the same packages and targets as the test run: features are unified in the same way, and
/// each crate is compiled only once.
pub(crate) fn built_program() -> Result<PathBuf> {
    shell::run(&mut cargo(&["test", "--workspace", "--no-run", "--quiet"]))?;
    Ok(paths::target().join("debug").join("toolcrib"))
}

/// Builds one program as it is shipped; returns its path.
pub(crate) fn dist_program(package: &str, program: &str) -> Result<PathBuf> {
    let arguments = ["build", "--profile", "dist", "--package", package, "--bin", program];
    shell::run(&mut cargo(&arguments))?;
    Ok(paths::target().join("dist").join(program))
}
