//! Debian packages, where apt-get exists and we are root.

use std::fs;
use std::process::Command;

use anyhow::{Context as _, Result, bail};

use crate::install::Tools;
use crate::install::cache::{permitted, retried};
use crate::shell;

const CHROMIUMS: &[&str] = &["chromium", "chromium-browser", "google-chrome"];

/// Installs packages of Debian; needs `apt-get` and root.
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

/// Finds or installs the programs that count what a request costs.
pub(crate) fn counters() -> Result<()> {
    let missing = ["strace", "valgrind"].into_iter().filter(|name| shell::find(name).is_none());
    let missing: Vec<&str> = missing.collect();
    if missing.is_empty() { Ok(()) } else { install(&missing) }
}

/// Finds or installs the library that changes the clock of a program.
pub(crate) fn faketime(tools: &mut Tools) -> Result<()> {
    let library = || {
        let folders = fs::read_dir("/usr/lib").into_iter().flatten().flatten();
        let mut places = folders.map(|folder| folder.path().join("faketime/libfaketime.so.1"));
        places.find(|place| place.is_file())
    };
    let found = match library() {
        Some(found) => found,
        None => {
            install(&["faketime"])?;
            library().context("the package faketime brought no library of that name")?
        }
    };
    tools.set("TOOLCRIB_FAKETIME", found);
    Ok(())
}

/// Finds or installs the program of SQLite, which copies a store in use.
pub(crate) fn sqlite(tools: &mut Tools) -> Result<()> {
    program(tools, "TOOLCRIB_SQLITE", &["sqlite3"], "sqlite3")
}

/// Finds or installs the proxies of `deploy/proxy`.
pub(crate) fn proxies(tools: &mut Tools) -> Result<()> {
    program(tools, "TOOLCRIB_NGINX", &["nginx"], "nginx-light")?;
    program(tools, "TOOLCRIB_CADDY", &["caddy"], "caddy")
}

/// Finds or installs a program that renders manual pages.
pub(crate) fn manual() -> Result<()> {
    match ["man", "groff"].iter().any(|name| shell::find(name).is_some()) {
        true => Ok(()),
        false => install(&["groff"]),
    }
}

/// Finds or installs PostgreSQL, whose programs the tests look for.
pub(crate) fn postgres() -> Result<()> {
    let debian = || {
        let versions = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
        versions.map(|version| version.path().join("bin/initdb")).any(|program| program.is_file())
    };
    match shell::find("initdb").is_some() || debian() {
        true => Ok(()),
        false => install(&["postgresql"]),
    }
}

/// Finds or installs Valkey or Redis, whose program the tests look for.
pub(crate) fn redis() -> Result<()> {
    match ["valkey-server", "redis-server"].iter().any(|name| shell::find(name).is_some()) {
        true => Ok(()),
        false => install(&["redis-server"]),
    }
}

/// Finds or installs Prometheus and its tool, which check the alerts and the dashboard.
pub(crate) fn prometheus(tools: &mut Tools) -> Result<()> {
    program(tools, "TOOLCRIB_PROMETHEUS", &["prometheus"], "prometheus")?;
    program(tools, "TOOLCRIB_PROMTOOL", &["promtool"], "prometheus")
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
    // In runlevel 1, packages of servers do not start them.
    command.env("DEBIAN_FRONTEND", "noninteractive").env("RUNLEVEL", "1");
    command
}
