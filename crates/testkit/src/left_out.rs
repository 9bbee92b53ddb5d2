//! Tests that skip themselves.
#![expect(clippy::unwrap_used, reason = "a test fails without its file")]

use std::{fs::OpenOptions, io::Write as _};

/// Reports that a test skips itself, and why.
///
/// # Panics
/// When `CI` is `true`.
#[expect(clippy::print_stderr, reason = "a test that is left out says so")]
pub fn left_out(why: &str) {
    assert_ne!(std::env::var("CI").as_deref(), Ok("true"), "left out under CI: {why}");
    if let Some(path) = std::env::var_os("TOOLCRIB_SKIPS") {
        let mut file = OpenOptions::new().create(true).append(true).open(path).unwrap();
        writeln!(file, "{why}").unwrap();
    }
    eprintln!("SKIPPED: {why}");
}
