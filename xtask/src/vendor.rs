//! Files of npm packages that the console brings, so that it needs neither a build step nor a network:
//! `crates/toolcrib/src/ui/vendor`, with the licences of the packages.

use std::fs;

use anyhow::{Context, Result, bail};

use crate::install::console_packages;
use crate::paths;
use crate::shell::say;

/// The files, and where the packages have them.
const FILES: [(&str, &str); 3] = [
    ("preact.js", "htm/preact/standalone.module.js"),
    ("LICENSE.htm", "htm/LICENSE"),
    ("LICENSE.preact", "preact/LICENSE"),
];

/// Copies the files that differ.
pub(crate) fn build() -> Result<()> {
    for (name, bytes) in stale()? {
        fs::write(paths::root().join(FOLDER).join(name), bytes)?;
        say(format_args!("written: {FOLDER}/{name}"));
    }
    Ok(())
}

/// Fails when a file is not that of its package.
pub(crate) fn check() -> Result<()> {
    match stale()?.first() {
        None => Ok(()),
        Some((name, _)) => {
            bail!("{FOLDER}/{name} is not that of its package: run `cargo xtask gen`")
        }
    }
}

const FOLDER: &str = "crates/toolcrib/src/ui/vendor";

fn stale() -> Result<Vec<(&'static str, Vec<u8>)>> {
    let packages = console_packages()?.join("node_modules");
    let mut stale = Vec::new();
    for (name, place) in FILES {
        let wanted = packages.join(place);
        let bytes = fs::read(&wanted).with_context(|| wanted.display().to_string())?;
        if fs::read(paths::root().join(FOLDER).join(name)).ok().as_ref() != Some(&bytes) {
            stale.push((name, bytes));
        }
    }
    Ok(stale)
}
