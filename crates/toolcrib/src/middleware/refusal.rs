//! Refusals of a request outside a dialect's own handlers.

use std::time::Duration;

use axum::response::{IntoResponse, Response};
use http::StatusCode;
use toolcrib_gateway::authn::AuthError;

/// The reason for a refused request. As a response it has no body and carries itself as an
/// extension; the guard adds the body in the dialect's format. `Display` is safe to show to the
/// caller and never repeats its input.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Refusal {
    /// `Host` is not a name of this server.
    #[error(
        "the Host header does not name this server; use a loopback name, the listen address or one of server.allowed_hosts"
    )]
    Host,
    /// A page of another origin sent it.
    #[error("requests from that Origin are not accepted; add it to server.allowed_origins")]
    Origin,
    /// The caller has no valid credentials.
    #[error("{0}")]
    Unauthenticated(AuthError),
    /// The caller lacks a scope.
    #[error("this needs the scope `{0}`")]
    MissingScope(&'static str),
    /// No route.
    #[error("unknown path")]
    NoRoute,
    /// The path exists, but not with this method; `Allow` lists the methods.
    #[error("method not allowed; see the Allow header")]
    Method,
    /// The body is larger than the limit.
    #[error("the request body is larger than {limit} bytes")]
    TooLarge {
        /// The limit, in bytes.
        limit: usize,
    },
    /// The memory budget for bodies is exhausted.
    #[error("the bodies of requests in flight fill the memory budget; try again later")]
    Crowded,
    /// The body is incomplete or stopped arriving.
    #[error("the request body could not be read to its end")]
    BrokenBody,
    /// The record cannot be read.
    #[error("the record cannot be read right now; try again later")]
    Unavailable,
    /// A fault of this server; the log has the cause.
    #[error("internal error")]
    Internal,
}

impl Refusal {
    /// The status, the same in every dialect.
    pub(crate) fn status(&self) -> StatusCode {
        match self {
            Self::Host | Self::Origin | Self::MissingScope(_) => StatusCode::FORBIDDEN,
            Self::Unauthenticated(
                AuthError::Missing | AuthError::Invalid | AuthError::Ambiguous,
            ) => StatusCode::UNAUTHORIZED,
            Self::NoRoute => StatusCode::NOT_FOUND,
            Self::Method => StatusCode::METHOD_NOT_ALLOWED,
            Self::TooLarge { .. } => StatusCode::PAYLOAD_TOO_LARGE,
            Self::BrokenBody => StatusCode::BAD_REQUEST,
            Self::Unauthenticated(AuthError::Unavailable) | Self::Unavailable | Self::Crowded => {
                StatusCode::SERVICE_UNAVAILABLE
            }
            Self::Internal => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }

    /// The time until a retry, if a retry is known to help.
    pub(crate) fn retry_after(&self) -> Option<Duration> {
        matches!(self, Self::Crowded).then_some(Duration::from_secs(1))
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let mut response = self.status().into_response();
        response.extensions_mut().insert(self);
        response
    }
}
