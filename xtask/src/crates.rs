//! `cargo xtask crates`: packs the crates that are published, as `cargo publish --workspace` would.
//!
//! Compiles only with `--build`. Otherwise cargo checks the manifests and the dependencies, and
//! lists the files. It needs the index of the registry, and no account.

use anyhow::{Context, Result, bail};
use clap::Args;

use crate::cargo::cargo;
use crate::shell;
use crate::tidy::publish::{Package, packages};

#[derive(Debug, Default, Args)]
pub(crate) struct CratesOptions {
    /// Also build each crate from its package, which takes as long as building everything
    #[arg(long)]
    build: bool,
}

pub(crate) fn run(options: &CratesOptions) -> Result<()> {
    let packages = packages()?;
    let folder = tempfile::tempdir().context("cannot create a temporary directory")?;
    let mut pack = cargo(&["package", "--workspace", "--locked", "--allow-dirty", "--quiet"]);
    // Excludes private packages, because their dependencies have no versions.
    let (published, private): (Vec<&Package>, Vec<&Package>) =
        packages.iter().partition(|package| package.is_published());
    for package in private {
        pack.args(["--exclude", &package.name]);
    }
    if !options.build {
        pack.arg("--no-verify");
    }
    // The packages of the program are in `package` of the build directory.
    pack.arg("--target-dir").arg(folder.path());
    shell::run(&mut pack)?;
    for package in published {
        let file = format!("package/{}-{}.crate", package.name, env!("CARGO_PKG_VERSION"));
        if !folder.path().join(&file).is_file() {
            bail!("cargo packed no {file}");
        }
    }
    Ok(())
}
