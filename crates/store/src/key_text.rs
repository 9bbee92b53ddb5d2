//! The text form of 32-byte keys.

use base64::{Engine as _, engine::general_purpose};
use toolcrib_core::{canonical::Digest, credential::Secret, store::StoreError};
use zeroize::Zeroizing;

/// Generates a new key, in base64.
pub(crate) fn generate() -> Result<Secret, StoreError> {
    let mut bytes = Zeroizing::new([0; 32]);
    aws_lc_rs::rand::fill(&mut *bytes).map_err(|_| {
        StoreError::Unavailable("the system gives no randomness for a key".to_owned())
    })?;
    Ok(Secret::new(general_purpose::STANDARD.encode(*bytes)))
}

/// Parses a key in base64 (either alphabet, padded or not) or 64 hexadecimal digits.
pub fn read(text: &str) -> Option<Zeroizing<[u8; 32]>> {
    let text = text.trim();
    if text.len() == 64 {
        let digits = Zeroizing::new(text.to_ascii_lowercase());
        return Digest::parse(&digits).map(|digest| Zeroizing::new(digest.0));
    }
    let text = text.trim_end_matches('=');
    let standard = general_purpose::STANDARD_NO_PAD.decode(text);
    let bytes =
        Zeroizing::new(standard.or_else(|_| general_purpose::URL_SAFE_NO_PAD.decode(text)).ok()?);
    bytes.as_slice().try_into().ok().map(Zeroizing::new)
}
