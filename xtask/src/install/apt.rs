//! Debian packages, where apt-get exists and we are root.

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
            "install it yourself ({}): there is no apt-get or we are not root",
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
    program(tools, "TOOLCRIB_CHROMIUM", CHROMIUMS, "chromium")
}

/// Finds or installs strace.
pub(crate) fn strace(tools: &mut Tools) -> Result<()> {
    program(tools, "TOOLCRIB_STRACE", &["strace"], "strace")
}

/// Finds a program under one of `names`, or installs it with `package`.
fn program(tools: &mut Tools, variable: &'static str, names: &[&str], package: &str) -> Result<()> {
    let on_path = || names.iter().find_map(|name| shell::find(name));
    let found = match on_path() {
        Some(found) => found,
        None => {
            install(&[package])?;
            match on_path() {
                Some(found) => found,
                None => bail!("the package {package} brought no program of that name"),
            }
        }
    };
    tools.set(variable, found);
    Ok(())
}

fn apt_get(arguments: &[&str]) -> Command {
    let mut command = Command::new("apt-get");
    // Another installation may run at the same time.
    command.args(["-o", "DPkg::Lock::Timeout=300"]).args(arguments);
    command.env("DEBIAN_FRONTEND", "noninteractive");
    command
}
