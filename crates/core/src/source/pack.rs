//! A node pack, as the operator describes it.

use std::{collections::BTreeSet, fmt, path::PathBuf};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::egress::AllowList;

/// A pack and the permissions of its code.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PackSpec {
    /// The location of the pack.
    pub location: PackLocation,
    /// The parts that become tools.
    pub offers: PackOffer,
    /// Globs over the type ids of nodes that become tools; empty means all.
    pub nodes: Vec<String>,
    /// The host functions that its code may use.
    pub grants: BTreeSet<PackGrant>,
    /// The additions to the public addresses that may be contacted.
    pub allow: AllowList,
    /// Largest linear memory of one call, in bytes.
    pub memory: usize,
    /// The proofs required before anything of the pack is used.
    pub verify: PackVerification,
}

/// The parts of a pack that become tools.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum PackOffer {
    /// Its nodes.
    #[default]
    Nodes,
    /// The actions of its connector (RFC 0045).
    Actions,
}

/// The location of a pack.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PackLocation {
    /// A directory, or a `.tgz`.
    Path(PathBuf),
    /// In the data directory, by name, with an optional version.
    Installed {
        /// The pack's name.
        name: String,
        /// The version; `None` means the newest installed one.
        version: Option<String>,
    },
}

/// The required proofs about a pack.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PackVerification {
    /// `sha256-…`, of the archive.
    pub integrity: Option<String>,
    /// Ed25519 keys, 32 bytes each; if not empty, one of them must have signed the pack.
    pub keys: Vec<[u8; 32]>,
}

/// A function of this host that a pack's code may use.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum PackGrant {
    /// Write lines to the log of the server.
    Log,
    /// Read the time.
    Clock,
    /// Read random bytes.
    Random,
    /// Send HTTP requests through the guard.
    Http,
}

impl PackGrant {
    /// All of them, in the order of the documentation.
    pub const ALL: [Self; 4] = [Self::Log, Self::Clock, Self::Random, Self::Http];

    /// The grant as written in a configuration.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Log => "log",
            Self::Clock => "clock",
            Self::Random => "random",
            Self::Http => "http",
        }
    }
}

impl fmt::Display for PackGrant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl PackLocation {
    /// Identifies the pack, ignoring its permissions.
    pub fn identity(&self) -> String {
        match self {
            Self::Path(path) => format!("pack at {}", path.display()),
            Self::Installed { name, version: None } => format!("installed pack {name}"),
            Self::Installed { name, version: Some(version) } => {
                format!("installed pack {name}@{version}")
            }
        }
    }
}
