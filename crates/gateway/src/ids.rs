//! New identifiers.

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use uuid::{Uuid, fmt::Hyphenated};

/// 256 random bits.
///
/// # Errors
/// Fails if the operating system has no randomness.
pub(crate) fn random() -> Result<[u8; 32], getrandom::Error> {
    let mut bits = [0; 32];
    getrandom::fill(&mut bits)?;
    Ok(bits)
}

/// A new secret: 256 random bits as 43 characters of base64url.
///
/// # Errors
/// Fails if the operating system has no randomness.
pub(crate) fn secret() -> Result<String, getrandom::Error> {
    random().map(|bits| URL_SAFE_NO_PAD.encode(bits))
}

/// A new identifier of any type: a UUIDv7.
pub(crate) fn new_id<T: for<'a> TryFrom<&'a str>>() -> T {
    // 36 characters of [0-9a-f-] fit every identifier's grammar, so the first try succeeds.
    loop {
        let mut text = [0; Hyphenated::LENGTH];
        if let Ok(id) = T::try_from(Uuid::now_v7().as_hyphenated().encode_lower(&mut text)) {
            return id;
        }
    }
}
