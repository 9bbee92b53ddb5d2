//! How the record hashes arguments.

use std::{fmt, sync::Arc};

use aws_lc_rs::hmac;
use serde_json::Value;
use toolcrib_core::{
    canonical::{self, Digest},
    hex,
};

/// The hash of redacted arguments in their canonical form (RFC 8785), as 64 lower-case hexadecimal
/// digits. It is only the `argsHash` of events: approvals and idempotent calls have other hashes,
/// and this one is never compared.
#[derive(Clone, Default)]
pub enum ArgumentsHash {
    /// SHA-256 (RFC 0064 §B). A reader of the record can guess arguments with few possible values.
    #[default]
    Plain,
    /// HMAC-SHA-256. Guessing arguments requires the key.
    Keyed(Arc<hmac::Key>),
}

impl ArgumentsHash {
    /// Hashes with `key`.
    pub fn keyed(key: &[u8; 32]) -> Self {
        Self::Keyed(Arc::new(hmac::Key::new(hmac::HMAC_SHA256, key)))
    }

    /// Hashes `redacted` arguments.
    pub fn of(&self, redacted: &Value) -> String {
        let bytes = canonical::canonical_bytes(redacted);
        match self {
            Self::Plain => Digest::of(&bytes).to_string(),
            Self::Keyed(key) => hex::encode(hmac::sign(key, &bytes).as_ref()),
        }
    }
}

impl fmt::Debug for ArgumentsHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Plain => "Plain",
            Self::Keyed(_) => "Keyed(..)",
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_key_changes_every_hash_and_is_not_printed() {
        let pin = json!({ "pin": "0042" });
        let keyed = ArgumentsHash::keyed(&[7; 32]);
        // printf '%s' '{"pin":"0042"}' | openssl dgst -sha256 -mac HMAC -macopt hexkey:0707…07
        let expected = "6a05f5f97d67773ab0b554bb6e03737746e264e5ab81cc97e7924ea4ec3d8ad6";
        assert_eq!(keyed.of(&pin), expected);
        assert_ne!(keyed.of(&pin), ArgumentsHash::Plain.of(&pin));
        assert_ne!(keyed.of(&pin), ArgumentsHash::keyed(&[8; 32]).of(&pin));
        assert_eq!(format!("{keyed:?}"), "Keyed(..)");
    }
}
