//! `sandbox`: the files and ports that a child process may use.

use std::{collections::BTreeSet, path::PathBuf};

use schemars::JsonSchema;
use serde::Deserialize;
use toolcrib_core::source::command::{Confinement, ConfinementMode, ConnectPorts, ProtectedFiles};

use crate::resolver::Resolver;

/// Reachable files and ports of a child process, in addition to the system's own programs and
/// libraries.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Sandbox {
    /// `required`: the program only runs inside the sandbox. The other modes require `mode_reason`.
    mode: ConfinementMode,
    /// The reason for another mode.
    mode_reason: Option<String>,
    /// Readable files and directories.
    read: Vec<PathBuf>,
    /// Writable files and directories.
    write: Vec<PathBuf>,
    /// TCP ports for connections to any host, or `"any"` for all ports and for listening.
    #[schemars(with = "Vec<u16>")]
    connect: ConnectChoice,
}

/// TCP ports, or `"any"`.
#[derive(Debug, Deserialize)]
#[serde(untagged, expecting = "expected TCP ports such as [443], or \"any\"")]
enum ConnectChoice {
    Ports(BTreeSet<u16>),
    Word(AnyPort),
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
enum AnyPort {
    Any,
}

impl Default for ConnectChoice {
    fn default() -> Self {
        Self::Ports(BTreeSet::new())
    }
}

impl Resolver<'_> {
    /// Resolves the reachable files and ports of a program: of a command, or of an MCP server that
    /// runs as a child.
    pub(super) fn confinement(&mut self, key: &str, typed: Sandbox) -> Confinement {
        let reason = typed.mode_reason.as_deref().map(str::trim).unwrap_or_default();
        if typed.mode != ConfinementMode::Required && reason.is_empty() {
            let message = "a program without the full sandbox requires a reason; add \
                           `mode_reason = \"…\"`";
            self.complain(&format!("{key}.mode"), message);
        }
        let mut paths = |list: &str, typed: &[PathBuf], is_written| {
            let key = format!("{key}.{list}");
            typed.iter().map(|path| self.reachable(&key, path, is_written)).collect()
        };
        Confinement {
            mode: typed.mode,
            read: paths("read", &typed.read, false),
            write: paths("write", &typed.write, true),
            connect: match typed.connect {
                ConnectChoice::Ports(ports) => ConnectPorts::Ports(ports),
                ConnectChoice::Word(AnyPort::Any) => ConnectPorts::Any,
            },
            protected: ProtectedFiles::default(),
            root: self.root,
        }
    }
}
