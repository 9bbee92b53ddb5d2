//! Errors of packs, with the stable codes of the protocol.

use std::fmt;

/// The reason why a pack was rejected. `Display` starts with the code.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{code}: {problem}")]
pub struct PackError {
    /// Stable code.
    pub code: PackCode,
    /// The problem and its remedy. From the pack it contains only validated names.
    pub problem: String,
}

macro_rules! codes {
    ($($(#[$doc:meta])* $name:ident = $text:literal),+ $(,)?) => {
        /// The OpenWOP error codes of a host for packs, and `pack_unreadable` for files that are
        /// missing or are not packs.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum PackCode {
            $($(#[$doc])* $name),+
        }

        impl PackCode {
            /// Returns the code as text on the wire.
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$name => $text),+ }
            }
        }
    };
}

codes! {
    /// The file does not exist, or is not a readable pack.
    Unreadable = "pack_unreadable",
    /// The manifest or a file it names is invalid.
    InvalidManifest = "invalid_manifest",
    /// The name is outside the scopes allowed for packs.
    InvalidScope = "invalid_pack_scope",
    /// The pack is of another kind than `node`.
    KindInvalid = "pack_kind_invalid",
    /// The engine range excludes the protocol version of this host.
    EngineUnsupported = "pack_engine_unsupported",
    /// The nodes require an engine that this host does not have.
    UnsupportedRuntime = "unsupported_runtime",
    /// The pack requires something that this host does not provide or grant.
    RequirementUnmet = "pack_runtime_requirement_unmet",
    /// The pack requires a capability that this host does not advertise.
    PeerMissing = "pack_peer_dependency_missing",
    /// The bytes differ from the expected ones.
    IntegrityMismatch = "pack_integrity_mismatch",
    /// No signature by a trusted key.
    SignatureInvalid = "pack_signature_invalid",
    /// The pack is not installed.
    LockfileIncomplete = "pack_lockfile_incomplete",
    /// An action of a connector names no existing node.
    ActionUnresolved = "connector_action_unresolved",
}

impl fmt::Display for PackCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl PackCode {
    /// Creates an error with this code.
    pub(crate) fn error(self, problem: impl Into<String>) -> PackError {
        PackError { code: self, problem: problem.into() }
    }

    /// Fails with this code.
    pub(crate) fn refuse<T>(self, problem: impl Into<String>) -> Result<T, PackError> {
        Err(self.error(problem))
    }
}
