//! The key that signs checkpoints of the record (Ed25519).

use std::{fmt, sync::Arc};

use aws_lc_rs::signature::{ED25519, Ed25519KeyPair, KeyPair as _, UnparsedPublicKey};
use toolcrib_core::{
    canonical::Digest,
    clock::Timestamp,
    credential::Secret,
    id::TenantId,
    record::{
        Checkpoint, CheckpointKind, CheckpointSigner, NO_CHECKPOINT, Signature, Witness, key_id,
    },
    store::StoreError,
};

use crate::key_text;

/// A signing key. Clones are handles to the same key.
#[derive(Clone)]
pub struct SigningKey {
    pair: Arc<Ed25519KeyPair>,
    public: [u8; 32],
}

/// Why a text is not a key. The text itself is never repeated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "a signing key is 32 bytes, and so is a public key, as base64 or as 64 hexadecimal digits; \
     `openssl rand -base64 32` makes a signing key, `toolcrib audit key` prints its public key"
)]
pub struct InvalidSigningKey;

// === impl SigningKey ===

impl SigningKey {
    /// Returns the text of a new key, in base64.
    ///
    /// # Errors
    /// Fails when the system provides no randomness.
    pub fn generate() -> Result<Secret, StoreError> {
        key_text::generate()
    }

    /// Parses a key: the 32 bytes of a seed in base64 (either alphabet, padded or not) or 64
    /// hexadecimal digits.
    pub fn parse(text: &Secret) -> Result<Self, InvalidSigningKey> {
        let seed = key_text::read(text.expose()).ok_or(InvalidSigningKey)?;
        let pair = Ed25519KeyPair::from_seed_unchecked(&*seed).map_err(|_| InvalidSigningKey)?;
        let public = pair.public_key().as_ref().try_into().map_err(|_| InvalidSigningKey)?;
        Ok(Self { pair: Arc::new(pair), public })
    }

    /// The public key.
    pub fn public(&self) -> [u8; 32] {
        self.public
    }

    /// Returns the short name of the key.
    pub fn id(&self) -> String {
        key_id(&self.public)
    }
}

impl CheckpointSigner for SigningKey {
    fn public_key(&self) -> [u8; 32] {
        self.public
    }

    fn sign(&self, bytes: &[u8]) -> Result<Signature, StoreError> {
        let failed = || StoreError::Unavailable("a checkpoint could not be signed".to_owned());
        let signature = self.pair.try_sign(bytes).map_err(|_| failed())?;
        signature.as_ref().try_into().map_err(|_| failed())
    }

    fn is_own(&self, bytes: &[u8], signature: &Signature) -> bool {
        is_signature(&self.public, bytes, signature)
    }

    fn checkpoint(
        &self,
        kind: CheckpointKind,
        tenant: TenantId,
        (position, hash): (u64, Digest),
        last: Option<&Checkpoint>,
        at: Timestamp,
    ) -> Result<Checkpoint, StoreError> {
        let mut checkpoint = Checkpoint {
            kind,
            tenant,
            number: last.map_or(1, |last| last.number + 1),
            position,
            hash,
            at,
            public_key: self.public,
            prev: last.map_or(NO_CHECKPOINT, Checkpoint::digest),
            signature: [0; 64],
        };
        checkpoint.signature = self.sign(&checkpoint.signed())?;
        Ok(checkpoint)
    }
}

impl fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SigningKey({})", self.id())
    }
}

/// Parses a public key, in the spellings of [`SigningKey::parse`].
///
/// # Errors
/// Fails when `text` is not a key.
pub fn public_key(text: &str) -> Result<[u8; 32], InvalidSigningKey> {
    key_text::read(text).map(|key| *key).ok_or(InvalidSigningKey)
}

/// Whether `checkpoint` was signed with the key that it names.
pub fn is_signed(checkpoint: &Checkpoint) -> bool {
    is_signature(&checkpoint.public_key, &checkpoint.signed(), &checkpoint.signature)
}

/// Parses a [`Witness`]; `None` when its text is damaged or its signature is invalid.
pub fn witness(text: &str) -> Option<Witness> {
    let (witness, signature) = Witness::parse(text)?;
    is_signature(&witness.public_key, &witness.signed(), &signature).then_some(witness)
}

fn is_signature(public_key: &[u8; 32], bytes: &[u8], signature: &Signature) -> bool {
    UnparsedPublicKey::new(&ED25519, public_key).verify(bytes, signature).is_ok()
}

#[cfg(test)]
mod tests {
    use base64::{Engine as _, engine::general_purpose};

    use super::*;

    fn key(text: &str) -> SigningKey {
        SigningKey::parse(&Secret::new(text.to_owned())).unwrap()
    }

    // The first vector of RFC 8032 §7.1.
    #[test]
    fn a_seed_has_the_public_key_of_the_rfc() {
        let key = key("9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60");
        let public = "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a";
        assert_eq!(Digest(key.public()).to_string(), public);
        assert_eq!(public_key(public).unwrap(), key.public());
        assert_eq!(public_key(&general_purpose::STANDARD.encode(key.public())), Ok(key.public()));
        for bad in ["", "canary", &public[2..]] {
            assert!(!public_key(bad).unwrap_err().to_string().contains("canary"));
        }
    }

    #[test]
    fn a_checkpoint_is_signed_and_any_change_shows() {
        let key = key(&"01".repeat(32));
        let at = "2026-11-20T10:00:00Z".parse().unwrap();
        let head = (5, Digest([3; 32]));
        let tenant = || "t".parse().unwrap();
        let first = key.checkpoint(CheckpointKind::Head, tenant(), head, None, at).unwrap();
        assert!(is_signed(&first));
        let next = key.checkpoint(CheckpointKind::Head, tenant(), head, Some(&first), at).unwrap();
        assert_eq!((next.number, next.prev), (2, first.digest()));
        for change in [
            |c: &mut Checkpoint| c.position += 1,
            |c: &mut Checkpoint| c.signature[0] ^= 1,
            |c: &mut Checkpoint| c.public_key[0] ^= 1,
            |c: &mut Checkpoint| c.hash.0[31] ^= 1,
        ] {
            let mut changed = first.clone();
            change(&mut changed);
            assert!(!is_signed(&changed));
        }
    }

    #[test]
    fn a_new_key_is_a_key_and_another_each_time() {
        let (one, two) = (SigningKey::generate().unwrap(), SigningKey::generate().unwrap());
        assert_ne!(SigningKey::parse(&one).unwrap().id(), SigningKey::parse(&two).unwrap().id());
    }
}
