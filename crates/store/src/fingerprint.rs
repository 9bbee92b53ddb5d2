//! Fingerprints of calls for approvals: HMAC-SHA-256 under a key of the store, which reveal
//! nothing.

use aws_lc_rs::hmac;
use base64::{Engine as _, engine::general_purpose};
use toolcrib_core::{approval::Fingerprint, store::StoreError};
use zeroize::Zeroizing;

/// The key for fingerprints.
#[derive(Clone)]
pub(crate) struct FingerprintKey(hmac::Key);

impl FingerprintKey {
    /// Generates a key, and returns it with its text.
    pub(crate) fn generate() -> Result<(Self, Zeroizing<String>), StoreError> {
        let mut bytes = Zeroizing::new([0_u8; 32]);
        aws_lc_rs::rand::fill(&mut *bytes).map_err(|_| {
            StoreError::Unavailable("the system gives no randomness for a key".to_owned())
        })?;
        let text = Zeroizing::new(general_purpose::STANDARD.encode(*bytes));
        Ok((Self(hmac::Key::new(hmac::HMAC_SHA256, &*bytes)), text))
    }

    pub(crate) fn parse(text: &str) -> Option<Self> {
        let bytes = Zeroizing::new(general_purpose::STANDARD.decode(text).ok()?);
        (bytes.len() == 32).then(|| Self(hmac::Key::new(hmac::HMAC_SHA256, &bytes)))
    }

    /// Hashes each part with its length, so that different parts have different fingerprints.
    pub(crate) fn of(&self, parts: &[Vec<u8>]) -> Fingerprint {
        let mut context = hmac::Context::with_key(&self.0);
        for part in parts {
            context.update(&(part.len() as u64).to_be_bytes());
            context.update(part);
        }
        let tag = context.sign();
        Fingerprint(tag.as_ref().iter().map(|byte| format!("{byte:02x}")).collect())
    }
}

impl std::fmt::Debug for FingerprintKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("FingerprintKey(..)")
    }
}
