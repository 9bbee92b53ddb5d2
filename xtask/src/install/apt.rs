//! Debian packages, with apt-get and as root.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Result, bail};

use crate::install::{Tools, permitted, retried};
use crate::shell;

const CHROMIUMS: &[&str] = &["chromium", "chromium-browser", "google-chrome"];

/// Installs packages.
pub(crate) fn install(packages: &[&str]) -> Result<()> {
    permitted()?;
    if shell::find("apt-get").is_none() || shell::first_line("id", &["-u"]).as_deref() != Some("0")
    {
        bail!(
            "install it yourself ({}): apt-get is missing or this user is not root",
            packages.join(" ")
        );
    }
    retried(|| apt_get(&["update", "--quiet"]))?;
    let mut arguments = vec!["install", "--quiet", "--yes", "--no-install-recommends"];
    arguments.extend(packages);
    retried(|| apt_get(&arguments))
}

/// Finds or installs a Chromium.
pub(crate) fn chromium(tools: &mut Tools) -> Result<()> {
    let found = match on_path() {
        Some(found) => found,
        None => {
            install(&["chromium"])?;
            match on_path() {
                Some(found) => found,
                None => bail!("the package chromium contains no program of that name"),
            }
        }
    };
    tools.set("TOOLCRIB_CHROMIUM", found);
    Ok(())
}

fn on_path() -> Option<PathBuf> {
    CHROMIUMS.iter().find_map(|name| shell::find(name))
}

fn apt_get(arguments: &[&str]) -> Command {
    let mut command = Command::new("apt-get");
    // Another process may be installing at the same time.
    command.args(["-o", "DPkg::Lock::Timeout=300"]).args(arguments);
    command.env("DEBIAN_FRONTEND", "noninteractive");
    command
}
