//! One-time sign-in links, in the memory of this process.

use parking_lot::Mutex;
use toolcrib_core::{clock::Timestamp, id::KeyId};

/// Links that can be open at the same time.
const MAX_LINKS: usize = 16;

/// The open links. If there are too many, the oldest is dropped.
#[derive(Default)]
pub(super) struct SignInLinks(Mutex<Vec<SignInLink>>);

struct SignInLink {
    /// SHA-256 of its secret.
    digest: [u8; 32],
    /// The key that it signs in with.
    key: KeyId,
    expires_at: Timestamp,
}

// === impl SignInLinks ===

impl SignInLinks {
    pub(super) fn add(&self, digest: [u8; 32], key: KeyId, expires_at: Timestamp) {
        let mut links = self.0.lock();
        if links.len() >= MAX_LINKS {
            links.remove(0);
        }
        links.push(SignInLink { digest, key, expires_at });
    }

    /// Removes the link with `digest` and returns its key; `None` if it is unknown or has expired at
    /// `now`.
    pub(super) fn take(&self, digest: [u8; 32], now: Timestamp) -> Option<KeyId> {
        let mut links = self.0.lock();
        links.retain(|link| now < link.expires_at);
        let place = links.iter().position(|link| link.digest == digest)?;
        Some(links.remove(place).key)
    }
}
