//! What a service says about the token of a request (RFC 6750, section 3.1).

use http::{HeaderMap, HeaderValue, StatusCode, header};
use toolcrib_oauth::challenge::{self, BearerError};

/// The service refuses the token of a request, and has not run it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum TokenDenial {
    /// It does not accept the token.
    Rejected,
    /// The token lacks these scopes.
    MissingScopes(Vec<String>),
}

// === impl TokenDenial ===

impl TokenDenial {
    /// Reads a response. `None` if it is not about the token.
    pub(crate) fn read(status: StatusCode, headers: &HeaderMap) -> Option<Self> {
        match status {
            StatusCode::UNAUTHORIZED => Some(Self::Rejected),
            StatusCode::FORBIDDEN => {
                let headers = headers.get_all(header::WWW_AUTHENTICATE).iter();
                let challenge = challenge::read(headers.map(HeaderValue::as_bytes))?;
                let lacks = challenge.error == Some(BearerError::InsufficientScope);
                lacks.then_some(Self::MissingScopes(challenge.scopes))
            }
            _ => None,
        }
    }

    pub(crate) fn status(&self) -> StatusCode {
        match self {
            Self::Rejected => StatusCode::UNAUTHORIZED,
            Self::MissingScopes(_) => StatusCode::FORBIDDEN,
        }
    }
}
