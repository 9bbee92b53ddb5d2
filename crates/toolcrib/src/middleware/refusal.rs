//! What a request can be refused for before a dialect's own handlers speak.

use std::time::Duration;

use axum::response::{IntoResponse, Response};
use http::StatusCode;
use toolcrib_gateway::authn::AuthError;

/// Why a request is refused. As a response it is empty and carries itself along; the guard gives it
/// the body of the dialect. `Display` is fit for the caller and never repeats what it sent.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Refusal {
    /// `Host` names something that this server is not.
    #[error(
        "this server does not answer to that Host; use a loopback name, the listen address or one of server.allowed_hosts"
    )]
    Host,
    /// A page of another origin sent it.
    #[error("requests from that Origin are not accepted; add it to server.allowed_origins")]
    Origin,
    /// Nobody the server knows.
    #[error("{0}")]
    Unauthenticated(AuthError),
    /// Somebody who may not do this.
    #[error("this needs the scope `{0}`")]
    MissingScope(&'static str),
    /// No route.
    #[error("there is nothing at this path")]
    NoRoute,
    /// A route, but not for this method; `Allow` has those.
    #[error("this path does not answer to that method; see the Allow header")]
    Method,
    /// More body than is read.
    #[error("the request body is larger than {limit} bytes")]
    TooLarge {
        /// The most that is read.
        limit: usize,
    },
    /// More bodies than there is memory for.
    #[error(
        "the bodies of the requests in flight take the memory that they may take; try again later"
    )]
    Crowded,
    /// A body that stopped or never came.
    #[error("the request body could not be read to its end")]
    BrokenBody,
    /// The record cannot be read.
    #[error("the record cannot be read right now; try again later")]
    Unavailable,
    /// Our fault; the log has the cause.
    #[error("internal error")]
    Internal,
}

impl Refusal {
    /// The status that every dialect gives it.
    pub(crate) fn status(&self) -> StatusCode {
        match self {
            Self::Host | Self::Origin | Self::MissingScope(_) => StatusCode::FORBIDDEN,
            Self::Unauthenticated(AuthError::Missing | AuthError::Invalid) => {
                StatusCode::UNAUTHORIZED
            }
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

    /// When to try again, where that is known to help.
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
