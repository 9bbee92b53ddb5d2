//! The last signed state, stored separately from the store. Without it, a store whose checkpoints
//! were removed or rolled back would be signed as if it were new.
//!
//! The signature (Ed25519) covers these parts, each preceded by its length as eight big-endian
//! bytes: the text `toolcrib witness 1`, the public key (32 bytes), the position in the whole log,
//! and for each tenant, by name: its name, the number and the digest of its last checkpoint, and
//! the position and the hash in its last checkpoint other than a retention mark. Numbers have eight
//! bytes.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{
    Checkpoint, CheckpointKind, Signature,
    checkpoint::{key_id, push_part},
    genesis,
};
use crate::{canonical::Digest, hex, id::TenantId};

const DOMAIN: &str = "toolcrib witness 1";

/// The last state that a key has signed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Witness {
    /// The Ed25519 key of the signature.
    pub public_key: [u8; 32],
    /// Position of the last event of the whole log when this was signed.
    pub position: u64,
    /// Each tenant that has a checkpoint.
    pub tenants: BTreeMap<TenantId, WitnessEntry>,
}

/// The last checkpoint of a tenant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WitnessEntry {
    /// Its number.
    pub number: u64,
    /// Its digest.
    pub digest: Digest,
    /// The last signed position, retention marks excluded.
    pub position: u64,
    /// Hash of the event there.
    pub hash: Digest,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Wire {
    key_id: String,
    #[serde(with = "hex")]
    public_key: [u8; 32],
    position: u64,
    tenants: Vec<WireTenant>,
    #[serde(with = "hex")]
    signature: Signature,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct WireTenant {
    tenant: TenantId,
    number: u64,
    digest: Digest,
    position: u64,
    hash: Digest,
}

// === impl Witness ===

impl Witness {
    /// Creates the witness of a key before its first signature.
    pub fn new(public_key: [u8; 32]) -> Self {
        Self { public_key, position: 0, tenants: BTreeMap::new() }
    }

    /// Adds a stored checkpoint.
    pub fn add(&mut self, checkpoint: &Checkpoint) {
        let entry = self.tenants.entry(checkpoint.tenant.clone());
        let place = WitnessEntry { number: 0, digest: genesis(), position: 0, hash: genesis() };
        let place = entry.or_insert(place);
        (place.number, place.digest) = (checkpoint.number, checkpoint.digest());
        if checkpoint.kind != CheckpointKind::Pruned {
            (place.position, place.hash) = (checkpoint.position, checkpoint.hash);
        }
    }

    /// The bytes to sign.
    pub fn signed(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(128 + 160 * self.tenants.len());
        let mut part = |part: &[u8]| push_part(&mut bytes, part);
        part(DOMAIN.as_bytes());
        part(&self.public_key);
        part(&self.position.to_be_bytes());
        for (tenant, last) in &self.tenants {
            part(tenant.as_str().as_bytes());
            part(&last.number.to_be_bytes());
            part(&last.digest.0);
            part(&last.position.to_be_bytes());
            part(&last.hash.0);
        }
        bytes
    }

    /// The text to store, with a signature over [`signed`](Self::signed).
    pub fn text(&self, signature: &Signature) -> String {
        let tenants = self.tenants.iter().map(|(tenant, last)| WireTenant {
            tenant: tenant.clone(),
            number: last.number,
            digest: last.digest,
            position: last.position,
            hash: last.hash,
        });
        let wire = Wire {
            key_id: key_id(&self.public_key),
            public_key: self.public_key,
            position: self.position,
            tenants: tenants.collect(),
            signature: *signature,
        };
        // Strings and numbers always have a JSON form.
        serde_json::to_string(&wire).unwrap_or_default() + "\n"
    }

    /// Parses the output of [`text`](Self::text), without checking the signature.
    pub fn parse(text: &str) -> Option<(Self, Signature)> {
        let wire: Wire = serde_json::from_str(text).ok()?;
        let tenants = wire.tenants.into_iter().map(|entry| {
            let WireTenant { tenant, number, digest, position, hash } = entry;
            (tenant, WitnessEntry { number, digest, position, hash })
        });
        let (public_key, position) = (wire.public_key, wire.position);
        let witness = Self { public_key, position, tenants: tenants.collect() };
        (key_id(&public_key) == wire.key_id).then_some((witness, wire.signature))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_witness_is_read_as_it_was_written_and_everything_in_it_is_signed() {
        let mut witness = Witness::new([7; 32]);
        witness.position = 12;
        let last = WitnessEntry {
            number: 3,
            digest: Digest([0xab; 32]),
            position: 9,
            hash: Digest([0xcd; 32]),
        };
        witness.tenants.insert("t".parse().unwrap(), last);
        let text = witness.text(&[9; 64]);
        assert_eq!(Witness::parse(&text), Some((witness.clone(), [9; 64])));
        for (from, to) in [("abab", "ABAB"), ("0909", "09"), ("\"number\"", "\"n\"")] {
            assert_eq!(Witness::parse(&text.replacen(from, to, 1)), None, "{from}");
        }
        let changes: [&dyn Fn(&mut Witness); 7] = [
            &|w| w.public_key = [8; 32],
            &|w| w.position = 13,
            &|w| w.tenants.clear(),
            &|w| w.tenants.values_mut().for_each(|entry| entry.number += 1),
            &|w| w.tenants.values_mut().for_each(|entry| entry.digest = Digest([1; 32])),
            &|w| w.tenants.values_mut().for_each(|entry| entry.position += 1),
            &|w| w.tenants.values_mut().for_each(|entry| entry.hash = Digest([1; 32])),
        ];
        for (number, change) in changes.iter().enumerate() {
            let mut changed = witness.clone();
            change(&mut changed);
            assert_ne!(changed.signed(), witness.signed(), "{number}");
        }
    }
}
