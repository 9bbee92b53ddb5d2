//! All packages of one program.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::ValueEnum;

use super::archive::{self, Effort};
use super::parts::Parts;
use super::{container, debian, npm, sbom, tarball, wheel};

/// The kinds of packages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Kind {
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

/// Makes the packages of `program` in `out` with their checksums; returns their paths. An empty `only`
/// selects all kinds.
pub(super) fn make(
    program: &Path,
    out: &Path,
    only: &[Kind],
    effort: Effort,
) -> Result<Vec<PathBuf>> {
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
