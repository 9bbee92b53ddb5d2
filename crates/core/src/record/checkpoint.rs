//! Signed statements about the state of a tenant's chain, themselves a chain.
//!
//! The signature (Ed25519) covers these parts, each preceded by its length as eight big-endian
//! bytes: the text `toolcrib checkpoint 1`, the kind, the tenant, the number (eight bytes), the
//! position (eight bytes), the hash (32 bytes), the time as RFC 3339 text, the key's id, and the
//! digest of the previous checkpoint (32 bytes; zero bytes for the first). The digest of a
//! checkpoint is SHA-256 over the signed bytes and the signature.

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::{
    canonical::Digest,
    clock::{Timestamp, millis},
    hex,
    id::TenantId,
    text_types::closed_enum,
};

const DOMAIN: &str = "toolcrib checkpoint 1";

/// The digest that precedes the first checkpoint.
pub const NO_CHECKPOINT: Digest = Digest([0; 32]);

/// An Ed25519 signature.
pub type Signature = [u8; 64];

closed_enum! {
    /// The statement of a checkpoint.
    CheckpointKind {
        /// The event at this position has this hash.
        Head = "head",
        /// Like `Head`, and: the signer removed the events up to this position.
        Pruned = "pruned",
        /// Like `Head`, and: the operator accepted the log as it is, although it does not continue
        /// the earlier checkpoints.
        Accepted = "accepted",
    }
}

/// A signed statement about the state of a tenant's chain.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, try_from = "Wire", into = "Wire")]
pub struct Checkpoint {
    /// The kind of statement.
    pub kind: CheckpointKind,
    /// The tenant.
    pub tenant: TenantId,
    /// Counts from 1, per tenant.
    pub number: u64,
    /// Position in the tenant's log.
    pub position: u64,
    /// Hash of the event there.
    pub hash: Digest,
    /// When it was signed.
    pub at: Timestamp,
    /// The Ed25519 key of the signature.
    pub public_key: [u8; 32],
    /// Digest of the previous checkpoint.
    pub prev: Digest,
    /// The signature over [`signed`](Self::signed).
    pub signature: Signature,
}

/// A malformed checkpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("this is not a checkpoint of a record")]
pub struct InvalidCheckpoint;

/// A short name of a public key: the first 16 hexadecimal digits of its SHA-256.
pub fn key_id(public_key: &[u8; 32]) -> String {
    let mut text = Digest::of(public_key).to_string();
    text.truncate(16);
    text
}

/// Appends `part`, preceded by its length, to the bytes that are signed.
pub(super) fn push_part(bytes: &mut Vec<u8>, part: &[u8]) {
    bytes.extend_from_slice(&(part.len() as u64).to_be_bytes());
    bytes.extend_from_slice(part);
}

// === impl Checkpoint ===

impl Checkpoint {
    /// The bytes to sign.
    pub fn signed(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(320);
        let mut part = |part: &[u8]| push_part(&mut bytes, part);
        part(DOMAIN.as_bytes());
        part(self.kind.as_str().as_bytes());
        part(self.tenant.as_str().as_bytes());
        part(&self.number.to_be_bytes());
        part(&self.position.to_be_bytes());
        part(&self.hash.0);
        part(millis::text(&self.at).as_bytes());
        part(key_id(&self.public_key).as_bytes());
        part(&self.prev.0);
        bytes
    }

    /// The digest that the next checkpoint refers to.
    pub fn digest(&self) -> Digest {
        let hasher = Sha256::new().chain_update(self.signed()).chain_update(self.signature);
        Digest(hasher.finalize().into())
    }
}

/// The form in anchors and responses: bytes as hexadecimal digits.
#[derive(Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Wire {
    kind: CheckpointKind,
    tenant: TenantId,
    number: u64,
    position: u64,
    hash: Digest,
    #[serde(with = "millis")]
    time: Timestamp,
    key_id: String,
    #[serde(with = "hex")]
    public_key: [u8; 32],
    prev: Digest,
    #[serde(with = "hex")]
    signature: Signature,
}

impl From<Checkpoint> for Wire {
    fn from(checkpoint: Checkpoint) -> Self {
        Self {
            key_id: key_id(&checkpoint.public_key),
            kind: checkpoint.kind,
            tenant: checkpoint.tenant,
            number: checkpoint.number,
            position: checkpoint.position,
            hash: checkpoint.hash,
            time: checkpoint.at,
            public_key: checkpoint.public_key,
            prev: checkpoint.prev,
            signature: checkpoint.signature,
        }
    }
}

impl TryFrom<Wire> for Checkpoint {
    type Error = InvalidCheckpoint;

    fn try_from(wire: Wire) -> Result<Self, InvalidCheckpoint> {
        let checkpoint = Self {
            kind: wire.kind,
            tenant: wire.tenant,
            number: wire.number,
            position: wire.position,
            hash: wire.hash,
            at: wire.time,
            public_key: wire.public_key,
            prev: wire.prev,
            signature: wire.signature,
        };
        let is_own_key = key_id(&checkpoint.public_key) == wire.key_id;
        is_own_key.then_some(checkpoint).ok_or(InvalidCheckpoint)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_checkpoint_is_read_as_it_was_written_and_nothing_else_is() {
        let checkpoint = Checkpoint {
            kind: CheckpointKind::Pruned,
            tenant: "t".parse().unwrap(),
            number: 3,
            position: 4,
            hash: Digest([0xab; 32]),
            at: "2026-11-20T10:00:00.120Z".parse().unwrap(),
            public_key: [7; 32],
            prev: Digest([1; 32]),
            signature: [9; 64],
        };
        let text = serde_json::to_string(&checkpoint).unwrap();
        assert_eq!(serde_json::from_str::<Checkpoint>(&text).unwrap(), checkpoint);
        for (from, to) in [("pruned", "cut"), ("abab", "ABAB"), ("0909", "09"), (".120Z", "")] {
            let other = text.replacen(from, to, 1);
            assert!(serde_json::from_str::<Checkpoint>(&other).is_err(), "{from}");
        }
    }

    #[test]
    fn every_field_of_a_checkpoint_is_signed() {
        let plain = Checkpoint {
            kind: CheckpointKind::Head,
            tenant: "t".parse().unwrap(),
            number: 1,
            position: 1,
            hash: Digest([2; 32]),
            at: "2026-11-20T10:00:00Z".parse().unwrap(),
            public_key: [7; 32],
            prev: NO_CHECKPOINT,
            signature: [0; 64],
        };
        let changes: [&dyn Fn(&mut Checkpoint); 8] = [
            &|c| c.kind = CheckpointKind::Pruned,
            &|c| c.tenant = "u".parse().unwrap(),
            &|c| c.number = 2,
            &|c| c.position = 2,
            &|c| c.hash = Digest([3; 32]),
            &|c| c.at += chrono::TimeDelta::milliseconds(1),
            &|c| c.public_key = [8; 32],
            &|c| c.prev = Digest([1; 32]),
        ];
        for (number, change) in changes.iter().enumerate() {
            let mut changed = plain.clone();
            change(&mut changed);
            assert_ne!(changed.signed(), plain.signed(), "{number}");
        }
        let other = Checkpoint { signature: [1; 64], ..plain.clone() };
        assert_ne!(other.digest(), plain.digest());
    }
}
