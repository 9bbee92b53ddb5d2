//! Progress and results for a person.

use std::io::{self, Write as _};

use anyhow::Result;

/// Prints a line.
pub(crate) fn say(text: &str) -> Result<()> {
    Ok(writeln!(io::stdout(), "{text}")?)
}
