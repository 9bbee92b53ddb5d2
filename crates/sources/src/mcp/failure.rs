//! Why a request to an upstream has no reply.

use http::StatusCode;
use toolcrib_core::call::{UpstreamError, UpstreamErrorKind};
use toolcrib_mcp::message::RpcError;

use crate::{
    credential::TokenDenial,
    error::{protocol, refused},
    refusal::Refusal,
};

/// Why a request has no reply.
#[derive(Debug)]
pub(crate) enum Failure {
    Upstream(UpstreamError),
    /// The upstream does not know the session; it did not read the request.
    SessionExpired,
    /// The upstream lost the session after it had started the request, which failed with this error.
    SessionLost(Box<RpcError>),
    /// HTTP 401 or 403, for all requests except those of one caller.
    Credentials(StatusCode),
    /// The upstream refuses the token of an account, and has not run the request.
    Denied(TokenDenial),
    /// Another unsuccessful status; for tool calls, any unsuccessful status.
    Refused(Refusal),
    Malformed(MalformedAnswer),
}

/// An answer without a valid JSON result, as far as it can be read.
#[derive(Debug)]
pub(crate) struct MalformedAnswer {
    /// Its result or its error if it has one, else all of it.
    pub(crate) text: String,
    /// Whether `text` is an error.
    pub(crate) is_error: bool,
    pub(crate) problem: String,
}

// === impl Failure ===

impl Failure {
    /// Whether another era would fail as well.
    pub(crate) fn is_final(&self) -> bool {
        match self {
            Self::Upstream(error) => matches!(
                error.kind,
                UpstreamErrorKind::Unavailable | UpstreamErrorKind::Credential(_)
            ),
            Self::Credentials(_) | Self::Denied(_) => true,
            Self::SessionExpired | Self::SessionLost(_) | Self::Refused(_) | Self::Malformed(_) => {
                false
            }
        }
    }

    /// Describes the failure for the operator. The details are made here, not quoted from the
    /// upstream.
    pub(crate) fn reason(self) -> String {
        UpstreamError::from(self).detail
    }
}

impl From<UpstreamError> for Failure {
    fn from(error: UpstreamError) -> Self {
        Self::Upstream(error)
    }
}

impl From<Failure> for UpstreamError {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Upstream(error) => error,
            Failure::SessionExpired => refused("the session expired again at once"),
            Failure::SessionLost(_) => refused("the session expired during the request"),
            Failure::Credentials(status) => refused(credentials_refused(status)),
            Failure::Denied(denial) => refused(credentials_refused(denial.status())),
            Failure::Refused(refusal) => {
                refused(format!("HTTP status {}", refusal.status.as_u16()))
            }
            Failure::Malformed(answer) => protocol(answer.problem),
        }
    }
}

/// Describes 401 or 403 for the operator.
pub(crate) fn credentials_refused(status: StatusCode) -> String {
    format!("upstream refused our credentials ({})", status.as_u16())
}
