//! The place of one credential's access token in the cache, and how long it stays there.

use std::{sync::Arc, time::Duration};

use parking_lot::Mutex;
use toolcrib_core::credential::{AccessToken, Material, RefusalCause};

/// A token is not sent in this last part of its lifetime, because it could expire in transit.
const SKEW: Duration = Duration::from_secs(60);
/// Lifetime of a token when the response states no lifetime.
const UNSAID: Duration = Duration::from_secs(300);
/// Pause before the token endpoint is called again after a rejection, and after no response.
pub(super) const PAUSE_DENIED: Duration = Duration::from_secs(5);
pub(super) const PAUSE_SILENT: Duration = Duration::from_secs(1);

/// The token of one credential.
#[derive(Default)]
pub(super) struct Slot {
    pub(super) state: Mutex<State>,
    /// Held during a token request.
    pub(super) turn: tokio::sync::Mutex<()>,
}

#[derive(Default)]
pub(super) struct State {
    /// Revision of the credential that the other fields belong to.
    pub(super) revision: u64,
    pub(super) token: Option<Arc<AccessToken>>,
    /// In nanoseconds of the clock: when the token, or the cached failure, expires.
    pub(super) until: u64,
    pub(super) failed: Option<RefusalCause>,
    /// The successor of the stored refresh token, when it could not be stored.
    pub(super) unstored: Option<Material>,
}

// === impl State ===

impl State {
    /// Returns the cached token or failure for a credential of this revision, if it is still valid
    /// at `now`.
    pub(super) fn known(
        &self,
        revision: u64,
        now: u64,
    ) -> Option<Result<Arc<AccessToken>, RefusalCause>> {
        // A credential that the operator rotated needs a new token. A lower revision was read
        // before this process rotated the credential, so the cached state is newer.
        if revision > self.revision || now >= self.until {
            return None;
        }
        let token = self.token.clone().filter(|token| !token.is_rejected()).map(Ok);
        token.or_else(|| self.failed.clone().map(Err))
    }
}

/// How long a token with this `lifetime` is sent.
pub(super) fn usable(lifetime: Option<Duration>) -> Duration {
    let lifetime = lifetime.unwrap_or(UNSAID);
    lifetime.saturating_sub(SKEW.min(lifetime / 10))
}

/// `duration` in the unit of the clock.
pub(super) fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
