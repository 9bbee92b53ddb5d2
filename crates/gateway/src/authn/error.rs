//! Why a request has no caller.

/// Why a request has no caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum AuthError {
    /// No credentials were presented.
    #[error("credentials are required: send `Authorization: Bearer <key>`")]
    Missing,
    /// The credentials are invalid, expired or revoked. The response does not say which.
    #[error("the credentials are not valid")]
    Invalid,
    /// The request has several credentials.
    #[error("the request has several credentials; send exactly one")]
    Ambiguous,
    /// Keys cannot be checked right now.
    #[error("credentials cannot be checked right now; try again later")]
    Unavailable,
}
