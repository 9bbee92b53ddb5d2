//! Why a request has no caller.

/// Why a request has no caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum AuthError {
    /// No credentials were presented.
    #[error("credentials are required: send `Authorization: Bearer <key>`")]
    Missing,
    /// The credentials are not, or no longer, valid. The response does not say which.
    #[error("the credentials are not valid")]
    Invalid,
    /// It is unclear which of several credentials counts.
    #[error("the request has several credentials; send exactly one")]
    Ambiguous,
    /// Keys cannot be checked right now.
    #[error("credentials cannot be checked right now; try again later")]
    Unavailable,
}
