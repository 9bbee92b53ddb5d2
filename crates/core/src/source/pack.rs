//! A node pack, as the operator describes it.

use std::{collections::BTreeSet, fmt, path::PathBuf, str::FromStr};

use crate::egress::AllowList;

/// A pack and what its code may do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PackSpec {
    /// Where the pack is.
    pub location: PackLocation,
    /// What of it becomes tools.
    pub offers: PackOffer,
    /// Globs over the type ids of nodes that become tools; all of them when there is none.
    pub nodes: Vec<String>,
    /// What its code may ask this host for.
    pub grants: BTreeSet<PackGrant>,
    /// Where requests may go besides public addresses.
    pub allow: AllowList,
    /// Largest linear memory of one call, in bytes.
    pub memory: usize,
    /// What must be proven before anything of the pack is used.
    pub verify: PackVerification,
}

/// What of a pack becomes tools.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum PackOffer {
    /// Its nodes.
    #[default]
    Nodes,
    /// The actions of the connector that it is (RFC 0045).
    Actions,
}

/// Where a pack is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PackLocation {
    /// A directory, or a `.tgz`.
    Path(PathBuf),
    /// In the data directory, by name; the version may be left open.
    Installed {
        /// The pack's name.
        name: String,
        /// The version; none means the newest that is installed.
        version: Option<String>,
    },
}

/// What must be proven of a pack.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PackVerification {
    /// `sha256-…`, of the archive.
    pub integrity: Option<String>,
    /// Ed25519 keys, 32 bytes each; with any, the pack must be signed with one of them.
    pub keys: Vec<[u8; 32]>,
}

/// Something of this host that a pack's code may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
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

    /// As it stands in a configuration.
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

impl FromStr for PackGrant {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let found = Self::ALL.into_iter().find(|grant| grant.as_str() == text);
        found.ok_or("expected \"log\", \"clock\", \"random\" or \"http\"")
    }
}

impl PackLocation {
    /// Names the pack, whatever may be done with it.
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
