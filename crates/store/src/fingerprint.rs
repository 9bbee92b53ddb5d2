//! Fingerprints of calls for approvals: HMAC-SHA-256 under a key of the store. They do not reveal
//! the call.

use aws_lc_rs::hmac;
use toolcrib_core::{approval::Fingerprint, hex, store::StoreError};
use zeroize::Zeroizing;

use crate::{key_text, seal::SealKeys, seal_places};

#[derive(Clone)]
pub(crate) struct FingerprintKey(hmac::Key);

impl FingerprintKey {
    /// Parses a key in the text form of 32-byte keys.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        key_text::read(text).map(|bytes| Self(hmac::Key::new(hmac::HMAC_SHA256, &*bytes)))
    }

    /// Opens the stored key, and returns it with its text.
    ///
    /// # Errors
    /// [`StoreError::Corrupt`] when no key of `keys` opens it.
    pub(crate) fn open(
        keys: &SealKeys,
        stored: &[u8],
    ) -> Result<(Self, Zeroizing<String>), StoreError> {
        let text = keys.unpack_any(&seal_places::FINGERPRINT_KEY, stored).map(Zeroizing::new);
        let opened = text.and_then(|text| Some((Self::parse(&text)?, text)));
        opened.ok_or_else(|| {
            StoreError::Corrupt(
                "the key of the approvals cannot be opened with this seal key".to_owned(),
            )
        })
    }

    /// Hashes each part with its length, so that different parts have different fingerprints.
    pub(crate) fn of(&self, parts: &[Vec<u8>]) -> Fingerprint {
        let mut context = hmac::Context::with_key(&self.0);
        for part in parts {
            context.update(&(part.len() as u64).to_be_bytes());
            context.update(part);
        }
        Fingerprint(hex::encode(context.sign().as_ref()))
    }
}

impl std::fmt::Debug for FingerprintKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("FingerprintKey(..)")
    }
}
