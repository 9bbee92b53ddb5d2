//! Why a pack is refused, with the protocol's stable codes.

use std::fmt;

/// A pack that is refused. `Display` begins with the code.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{code}: {problem}")]
pub struct PackError {
    /// Stable code.
    pub code: PackCode,
    /// What is wrong and what to do; repeats nothing of the pack but names that were checked.
    pub problem: String,
}

macro_rules! codes {
    ($($(#[$doc:meta])* $name:ident = $text:literal),+ $(,)?) => {
        /// The codes of OpenWOP that a host of packs answers with, and `pack_unreadable` for files
        /// that are not there or are no pack at all.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum PackCode {
            $($(#[$doc])* $name),+
        }

        impl PackCode {
            /// As it stands on the wire.
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$name => $text),+ }
            }
        }
    };
}

codes! {
    /// There is no such file, or it cannot be read as a pack.
    Unreadable = "pack_unreadable",
    /// The manifest or a file it names breaks the rules.
    InvalidManifest = "invalid_manifest",
    /// The name is in no scope that packs can have.
    InvalidScope = "invalid_pack_scope",
    /// It is a pack, but not one of nodes.
    KindInvalid = "pack_kind_invalid",
    /// The engine range does not admit the protocol that this host speaks.
    EngineUnsupported = "pack_engine_unsupported",
    /// The nodes need an engine that this host does not have.
    UnsupportedRuntime = "unsupported_runtime",
    /// The pack needs something of the host that it does not have, or was not granted.
    RequirementUnmet = "pack_runtime_requirement_unmet",
    /// The pack needs a capability that this host does not advertise.
    PeerMissing = "pack_peer_dependency_missing",
    /// The bytes are not those that were expected.
    IntegrityMismatch = "pack_integrity_mismatch",
    /// There is no signature by a trusted key.
    SignatureInvalid = "pack_signature_invalid",
    /// The pack is not among the installed ones.
    LockfileIncomplete = "pack_lockfile_incomplete",
    /// An action of a connector names no node.
    ActionUnresolved = "connector_action_unresolved",
}

impl fmt::Display for PackCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl PackCode {
    /// An error of this code.
    pub(crate) fn error(self, problem: impl Into<String>) -> PackError {
        PackError { code: self, problem: problem.into() }
    }

    /// `Err` of this code.
    pub(crate) fn refuse<T>(self, problem: impl Into<String>) -> Result<T, PackError> {
        Err(self.error(problem))
    }
}
