//! The arguments of `packs`.

use std::{
    path::{Path, PathBuf},
    str::FromStr,
};

use clap::{Args, Subcommand};
use toolcrib_config::{self as config};

use super::output::Output;
use crate::env;

#[derive(Debug, Subcommand)]
pub(crate) enum PacksCommand {
    /// Check a pack and install it
    #[command(after_help = "\
Examples:
  toolcrib packs add ./acme-text.tgz
  toolcrib packs add ./acme-text.tgz --trusted-key acme.pem
  toolcrib packs add ./my-pack --json | jq -r .integrity

A pack is a directory or a .tgz with a pack.json (kind \"node\"). The command checks it without
running it, and stores its archive in the data directory and its hash in pack-lock.json. A source
refers to it by name: pack = \"vendor.acme.text\". With --trusted-key it must be signed: in
ARCHIVE.sig next to the archive, or in the file of `signing.signatureRef`.")]
    Add {
        /// Install this directory or .tgz
        pack: PathBuf,

        /// Require this hash of the archive: `sha256-` and base64
        #[arg(long, value_name = "SRI")]
        integrity: Option<String>,

        #[command(flatten)]
        trust: PackTrust,
    },

    /// List the installed and the bundled packs
    List(Output),

    /// Remove an installed pack
    Remove {
        /// Remove NAME, or only one version with NAME@VERSION
        pack: PackSelector,
    },

    /// Check installed packs, or a directory or archive
    #[command(after_help = "\
Examples:
  toolcrib packs verify
  toolcrib packs verify vendor.acme.text@1.2.0 --trusted-key acme.pem
  toolcrib packs verify ./acme-text.tgz --json

An installed pack must have the hash of its installation. The manifest, the schemas and the code are
checked as in `packs add`.")]
    Verify {
        /// Check NAME, NAME@VERSION, a directory or a .tgz [default: all installed packs]
        pack: Option<PackSelector>,

        #[command(flatten)]
        trust: PackTrust,
    },
}

/// The trusted signers of a pack.
#[derive(Debug, Args)]
pub(crate) struct PackTrust {
    /// Require a signature with this Ed25519 public key (base64 or PEM file), or another given one;
    /// may be repeated
    #[arg(long = "trusted-key", value_name = "KEY", value_parser = key)]
    pub(crate) keys: Vec<[u8; 32]>,
}

/// A pack argument.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum PackSelector {
    /// The path of a directory or an archive.
    Path(PathBuf),
    /// The name of an installed pack.
    Name {
        name: String,
        /// `None` if the argument names all versions.
        version: Option<String>,
    },
}

impl FromStr for PackSelector {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        config::pack_location(text).map(|location| match location {
            config::PackLocation::Path(path) => Self::Path(path),
            config::PackLocation::Installed { name, version } => Self::Name { name, version },
        })
    }
}

fn key(text: &str) -> Result<[u8; 32], String> {
    config::public_key(text).or_else(|problem| {
        let file = env::read_secret(Path::new(text)).map_err(|_| problem.to_owned())?;
        config::public_key(file.expose()).map_err(str::to_owned)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packs_are_named_or_located() {
        let name = |version: Option<&str>| PackSelector::Name {
            name: "vendor.acme.text".to_owned(),
            version: version.map(str::to_owned),
        };
        assert_eq!("vendor.acme.text".parse(), Ok(name(None)));
        assert_eq!("vendor.acme.text@1.2.0".parse(), Ok(name(Some("1.2.0"))));
        for path in ["./text", "text/", "acme.tgz", ".", "/srv/text"] {
            assert_eq!(path.parse(), Ok(PackSelector::Path(path.into())));
        }
        assert!("a b".parse::<PackSelector>().is_err());
        assert!("@1".parse::<PackSelector>().is_err());
    }
}
