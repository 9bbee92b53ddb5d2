//! The program behind and between other programs, which `cargo xtask test` installs.

mod init;
mod proxies;
mod sessions;
mod taplo;

use std::path::PathBuf;

/// Returns the program that a variable names, or says why the test is left out.
fn program(variable: &str) -> Option<PathBuf> {
    #[expect(clippy::disallowed_methods, reason = "cargo xtask test says where things are")]
    let found = std::env::var(variable).ok().map(PathBuf::from);
    if found.is_none() {
        toolcrib_testkit::left_out(&format!("{variable} is not set; run `cargo xtask test`"));
    }
    found
}
