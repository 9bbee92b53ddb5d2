//! `cargo xtask dist`: builds the program as it is shipped.
//!
//! The program is built twice: with counters, which record its run under the load of
//! `toolcrib-bench`, and again with that record. The compiler then puts the code of calls and lists
//! together and makes the rest small.

use std::hash::{DefaultHasher, Hasher as _};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

use anyhow::{Context, Result, bail};
use clap::Args;

use crate::cargo::{cargo, dist_program};
use crate::install::apt;
use crate::{paths, shell};

/// Versions of LLVM whose `llvm-profdata` can read the counters, newest first.
const LLVM: std::ops::RangeInclusive<u32> = 19..=30;
/// The package with `llvm-profdata`.
const LLVM_PACKAGE: &str = "llvm-19";

/// Keeps the code that runs often and the code that seldom runs in separate sections, so that a
/// request touches few pages.
const TOGETHER: &str = "-Clink-arg=-Wl,-z,keep-text-section-prefix";

#[derive(Debug, Args)]
pub(crate) struct DistOptions {
    /// Build once, without a record of a run; such a program takes more processor time and memory
    #[arg(long)]
    without_profile: bool,
}

pub(crate) fn run(options: &DistOptions) -> Result<()> {
    let built = match options.without_profile {
        true => dist_program("toolcrib", "toolcrib")?,
        false => guided()?,
    };
    shell::say(format_args!("built {}", built.display()));
    Ok(())
}

/// Builds the program with a record of its run; returns its path.
pub(crate) fn guided() -> Result<PathBuf> {
    let profdata = profdata()?;
    let folder = paths::target().join("profile");
    let (raw, merged) = (folder.join("raw"), folder.join("merged.profdata"));
    if raw.exists() {
        fs::remove_dir_all(&raw).context("cannot remove the counters of an earlier run")?;
    }
    fs::create_dir_all(&raw)?;

    shell::step("build with counters");
    let counting = build(&format!("-Cprofile-generate={}", raw.display()))?;
    let bench = dist_program("toolcrib-bench", "toolcrib-bench")?;
    shell::step("run under load");
    let mut load = Command::new(bench);
    load.args(["run", "--connections", "64", "--seconds", "2", "--toolcrib"]).arg(&counting);
    shell::run(&mut load)?;

    let mut merge = Command::new(profdata);
    merge.args(["merge", "--output"]).arg(&merged).arg(&raw);
    shell::run(&mut merge)?;
    // Each record gets a new name, because cargo does not see changes inside the file.
    let record = fs::read(&merged).context("cannot read the record of the run")?;
    let mut hasher = DefaultHasher::new();
    hasher.write(&record);
    let named = folder.join(format!("{:016x}.profdata", hasher.finish()));
    fs::rename(&merged, &named)?;
    shell::step("build with the record of the run");
    build(&format!("-Cprofile-use={} {TOGETHER}", named.display()))
}

/// Builds the program with one more flag of the compiler, which build scripts and macros do not get.
fn build(flag: &str) -> Result<PathBuf> {
    let target = host()?;
    let flags = env::var("RUSTFLAGS").unwrap_or_default();
    let mut command =
        cargo(&["build", "--profile", "dist", "--package", "toolcrib", "--target", &target]);
    shell::run(command.env("RUSTFLAGS", format!("{flags} {flag}").trim()))?;
    Ok(paths::target().join(target).join("dist").join("toolcrib"))
}

/// The name of this machine's target.
fn host() -> Result<String> {
    let version = shell::output(Command::new("rustc").arg("-vV"))?;
    let host = version.lines().find_map(|line| line.strip_prefix("host: "));
    host.map(str::to_owned).context("`rustc -vV` names no host")
}

/// Finds `llvm-profdata`, which merges the counters, or installs it.
fn profdata() -> Result<PathBuf> {
    if let Some(found) = installed()? {
        return Ok(found);
    }
    let hint = "llvm-profdata of LLVM 19 or later is missing: `rustup component add llvm-tools`, or \
                set LLVM_PROFDATA to its path";
    apt::install(&[LLVM_PACKAGE]).context(hint)?;
    match installed()? {
        Some(found) => Ok(found),
        None => bail!(hint),
    }
}

fn installed() -> Result<Option<PathBuf>> {
    if let Some(set) = env::var_os("LLVM_PROFDATA") {
        return Ok(Some(set.into()));
    }
    let sysroot = shell::output(Command::new("rustc").args(["--print", "sysroot"]))?;
    let component = Path::new(sysroot.trim()).join("lib/rustlib").join(host()?).join("bin");
    let debian = LLVM.rev().map(|number| PathBuf::from(format!("/usr/lib/llvm-{number}/bin")));
    let places = std::iter::once(component).chain(debian);
    Ok(places.map(|place| place.join("llvm-profdata")).find(|program| program.is_file()))
}
