//! The folders of the cache that hold installed packages.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use std::{env, fs, io, thread};

use anyhow::{Result, bail};

use crate::paths;
use crate::shell::{self, say};

/// A download that takes longer than this hangs.
const DOWNLOAD_LIMIT: Duration = Duration::from_secs(600);
/// Registries answer badly now and then.
const TRIES: u32 = 3;
const PAUSE: Duration = Duration::from_secs(5);
/// Written last into an installed folder: its origin.
const STAMP: &str = ".installed-from";

/// Whether installing is permitted at all.
pub(super) fn permitted() -> Result<()> {
    if env::var("TOOLCRIB_INSTALL").is_ok_and(|value| value == "never") {
        bail!("it is missing and TOOLCRIB_INSTALL=never forbids to install it");
    }
    Ok(())
}

/// Runs a download a few times.
pub(super) fn retried(mut command: impl FnMut() -> Command) -> Result<()> {
    let mut tried = 0;
    loop {
        tried += 1;
        // The output of installers must not mix with the lines of `setup`.
        match shell::run_bounded(command().stdout(io::stderr()), DOWNLOAD_LIMIT) {
            Ok(()) => return Ok(()),
            Err(error) if tried < TRIES => {
                say(format_args!("try {tried} of {TRIES} failed: {error:#}"));
                thread::sleep(PAUSE);
            }
            Err(error) => return Err(error),
        }
    }
}

/// A folder in the cache with the packages of `made_from` (a lock file's text). `fill` runs only if
/// the folder is missing or incomplete.
pub(super) fn folder(
    name: &str,
    made_from: &str,
    fill: impl FnOnce(&Path) -> Result<()>,
) -> Result<PathBuf> {
    let folder = paths::tools().join(format!("{name}-{:016x}", fingerprint(made_from)));
    let stamp = folder.join(STAMP);
    if fs::read_to_string(&stamp).is_ok_and(|found| found == made_from) {
        return Ok(folder);
    }
    permitted()?;
    if folder.exists() {
        fs::remove_dir_all(&folder)?;
    }
    fs::create_dir_all(&folder)?;
    fill(&folder)?;
    fs::write(&stamp, made_from)?;
    Ok(folder)
}

/// FNV-1a: only names a folder. The stamp inside is compared in full.
fn fingerprint(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fingerprints_are_stable_and_differ() {
        assert_eq!(fingerprint(""), 0xcbf2_9ce4_8422_2325);
        assert_ne!(fingerprint("mcp==2.3.0"), fingerprint("mcp==2.3.1"));
    }
}
