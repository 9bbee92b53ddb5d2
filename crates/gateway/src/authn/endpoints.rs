//! The cached description of an issuer, and the limits and errors of sign-ins.

use std::{num::NonZeroU32, time::Duration};

use parking_lot::Mutex;
use tokio::sync::Semaphore;
use toolcrib_core::{
    clock::Clock,
    credential::ClientAuth,
    limit::{Rate, take},
};
use url::Url;

/// Concurrent requests to issuers for sign-ins.
const MAX_RUNNING: usize = 16;
/// Sign-ins that may start or finish at once, and the additional ones per minute: the routes are
/// public, and each request may cause one to the issuer.
const BURST: u32 = 60;
const PER_MINUTE: u32 = 120;

/// Why a sign-in failed. `Display` is for the person who signs in.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SignInError {
    /// The issuer is unknown.
    #[error("sign-in with this identity provider is not configured")]
    NoIssuer,
    /// Too many concurrent sign-ins.
    #[error("too many people are signing in at this moment; try again soon")]
    Busy {
        /// When to try again.
        retry_after: Duration,
    },
    /// The issuer gave no usable response.
    #[error("the identity provider does not answer at this moment; try again later")]
    Unreachable,
    /// The issuer's description is incomplete or unsuitable.
    #[error("the identity provider cannot be used for sign-in: {0}")]
    Unsuitable(&'static str),
    /// The code is invalid, used or expired.
    #[error("the sign-in took too long, or was already used; sign in again")]
    CodeExpired,
    /// Another error of the issuer.
    #[error("the identity provider refused the sign-in")]
    Refused {
        /// The issuer's code, such as `invalid_client`.
        error: String,
        /// The issuer's text.
        description: Option<String>,
    },
    /// The ID token is missing, invalid, or of another request.
    #[error("the answer of the identity provider does not belong to this sign-in; sign in again")]
    Unproven,
    /// The access token is opaque.
    #[error(
        "the identity provider issued an access token that this server cannot read; the operator \
         has to configure an API (a resource or audience) for which it issues signed tokens"
    )]
    OpaqueToken,
    /// The access token is for another server.
    #[error(
        "the identity provider issued a token for another server; the operator has to request one \
         of the configured `audiences`"
    )]
    Audience,
    /// The access token is refused for another reason.
    #[error("this server does not accept the token of the identity provider")]
    Rejected,
}

/// The parts of an issuer's description that a sign-in needs.
#[derive(Debug, Clone)]
pub(super) struct Endpoints {
    pub(super) authorization: Url,
    pub(super) token: String,
    pub(super) names_issuer: bool,
    /// How a client with a secret authenticates.
    pub(super) secret_auth: ClientAuth,
}

/// The cached description of one issuer. Locked during a fetch, so that concurrent sign-ins share
/// one request.
#[derive(Default)]
pub(super) struct Description(pub(super) tokio::sync::Mutex<Option<FetchedEndpoints>>);

pub(super) struct FetchedEndpoints {
    pub(super) endpoints: Result<Endpoints, SignInError>,
    /// Monotonic nanoseconds.
    pub(super) until: u64,
}

/// Limits the requests to issuers that anonymous callers can cause.
pub(crate) struct SignInLimits {
    running: Semaphore,
    arrival: Mutex<u64>,
}

// === impl SignInError ===

impl SignInError {
    /// Returns the stable code of the error.
    pub fn code(&self) -> &'static str {
        match self {
            Self::NoIssuer => "no_issuer",
            Self::Busy { .. } => "busy",
            Self::Unreachable => "unreachable",
            Self::Unsuitable(_) => "unsuitable",
            Self::CodeExpired => "code_expired",
            Self::Refused { .. } => "refused",
            Self::Unproven => "unproven",
            Self::OpaqueToken => "opaque_token",
            Self::Audience => "audience",
            Self::Rejected => "rejected",
        }
    }
}

// === impl SignInLimits ===

impl SignInLimits {
    pub(crate) fn new() -> Self {
        Self { running: Semaphore::new(MAX_RUNNING), arrival: Mutex::new(0) }
    }

    pub(crate) fn admit(
        &self,
        clock: &dyn Clock,
    ) -> Result<tokio::sync::SemaphorePermit<'_>, SignInError> {
        let busy = |retry_after| SignInError::Busy { retry_after };
        let (Some(calls), burst) = (NonZeroU32::new(PER_MINUTE), NonZeroU32::new(BURST)) else {
            return Err(busy(Duration::ZERO));
        };
        let permit = self.running.try_acquire().map_err(|_| busy(Duration::from_secs(1)))?;
        let rate = Rate { calls, period: Duration::from_secs(60), burst };
        let mut arrival = self.arrival.lock();
        *arrival = take(*arrival, clock.monotonic_nanos(), &rate)
            .map_err(|nanos| busy(Duration::from_nanos(nanos)))?;
        Ok(permit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strangers_cannot_cause_many_requests() {
        use toolcrib_core::clock::Timestamp;
        struct StoppedClock;
        impl Clock for StoppedClock {
            fn now(&self) -> Timestamp {
                Timestamp::default()
            }
            fn monotonic_nanos(&self) -> u64 {
                1_000_000_000
            }
        }
        let limits = SignInLimits::new();
        let held: Vec<_> = (0..MAX_RUNNING).map(|_| limits.admit(&StoppedClock).unwrap()).collect();
        assert!(matches!(limits.admit(&StoppedClock), Err(SignInError::Busy { .. })));
        drop(held);
        let admitted = (0..1000).filter(|_| limits.admit(&StoppedClock).is_ok()).count();
        assert_eq!(admitted, BURST as usize - MAX_RUNNING);
    }
}
