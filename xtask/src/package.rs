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
mod make;
mod npm;
mod parts;
mod program;
mod sbom;
mod tarball;
mod wheel;

use std::path::{Path, PathBuf};

use anyhow::Result;
use clap::Args;

use crate::{dist, paths, shell};
use archive::Effort;
pub(crate) use check::test;
use make::{Kind, make};

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

/// Makes all packages of `program` in `out`, for users; returns their paths.
pub(crate) fn make_all(program: &Path, out: &Path) -> Result<Vec<PathBuf>> {
    make(program, out, &[], Effort::Small)
}

/// Lines in the format of `sha256sum`.
pub(crate) fn checksums(files: &[PathBuf]) -> Result<String> {
    archive::checksums(&files.iter().collect::<Vec<_>>())
}
