//! `cargo xtask package`: makes installable files of one built program.
//!
//! Invariant: the files depend on the program, the tree and `SOURCE_DATE_EPOCH` alone, so that two
//! runs make the same bytes. Without that variable the time is that of the last commit.
//! Invariant: versions come from the workspace; the program must have the same one.

mod archive;
mod check;
mod container;
mod debian;
mod deploy;
mod npm;
mod parts;
mod program;
mod sbom;
mod tarball;
mod wheel;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::{Args, ValueEnum};

use crate::{dist, paths, shell};
pub(crate) use check::test;
use parts::Parts;

#[derive(Debug, Args)]
pub(crate) struct PackageOptions {
    /// The program to pack; by default it is built as by `cargo xtask dist`
    #[arg(long)]
    program: Option<PathBuf>,
    /// The folder for the files [default: `package` in the build directory]
    #[arg(long)]
    out: Option<PathBuf>,
    /// Only this kind; may be repeated
    #[arg(long, value_enum)]
    only: Vec<Kind>,
    /// Afterwards install each package in an empty place, and run it
    #[arg(long, conflicts_with = "only")]
    check: bool,
}

/// The kinds of packages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Kind {
    /// A compressed archive with the program, its manual and its completions
    Tarball,
    /// A Debian package with a systemd unit
    Deb,
    /// A Python wheel, for pip and uvx
    Wheel,
    /// An npm package, for npm and npx
    Npm,
    /// A folder from which buildah, podman or docker builds an image
    Container,
    /// The bill of materials, in CycloneDX JSON
    Sbom,
}

pub(crate) fn run(options: &PackageOptions) -> Result<()> {
    let program = match &options.program {
        Some(program) => std::path::absolute(program)?,
        None => dist::guided()?,
    };
    let out = options.out.clone().unwrap_or_else(|| paths::target().join("package"));
    for file in make(&program, &out, &options.only, Effort::Small)? {
        shell::say(format_args!("written: {}", file.display()));
    }
    match options.check {
        true => check::packages(&out),
        false => Ok(()),
    }
}

/// Makes all packages of `program` in `out`, for users, and returns their paths.
pub(crate) fn make_all(program: &Path, out: &Path) -> Result<Vec<PathBuf>> {
    make(program, out, &[], Effort::Small)
}

/// Returns lines as `sha256sum` writes and checks them.
pub(crate) fn checksums(files: &[PathBuf]) -> Result<String> {
    archive::checksums(&files.iter().collect::<Vec<_>>())
}

/// How much time compression may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Effort {
    /// For users: small files.
    Small,
    /// For tests: files that are made quickly.
    Quick,
}

/// Makes the packages of `program` in `out` with their checksums, and returns their paths. No kinds mean
/// all kinds.
fn make(program: &Path, out: &Path, only: &[Kind], effort: Effort) -> Result<Vec<PathBuf>> {
    fs::create_dir_all(out).with_context(|| format!("cannot create {}", out.display()))?;
    let parts = Parts::collect(program, effort)?;
    let mut made = Vec::new();
    for kind in Kind::value_variants() {
        if !only.is_empty() && !only.contains(kind) {
            continue;
        }
        made.push(match kind {
            Kind::Tarball => tarball::write(&parts, out),
            Kind::Deb => debian::write(&parts, out),
            Kind::Wheel => wheel::write(&parts, out),
            Kind::Npm => npm::write(&parts, out),
            Kind::Container => container::write(&parts, out),
            Kind::Sbom => sbom::write(&parts, out),
        }?);
    }
    let files: Vec<&PathBuf> = made.iter().filter(|path| path.is_file()).collect();
    let sums = out.join("SHA256SUMS");
    fs::write(&sums, archive::checksums(&files)?)?;
    made.push(sums);
    Ok(made)
}
