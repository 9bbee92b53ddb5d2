//! One request to an upstream, before a transport carries it, and why it has no reply.

use http::{HeaderMap, StatusCode};
use toolcrib_core::{
    call::{UpstreamError, UpstreamErrorKind},
    egress::EgressTrail,
};

use super::{era::Era, peer::Interest};
use crate::error::refused;

/// One request, before it has an id.
pub(crate) struct Call<'a> {
    pub(crate) method: &'static str,
    pub(crate) era: &'a Era,
    /// The tool of the request, for routers between this client and the upstream.
    pub(crate) name: Option<&'a str>,
    pub(crate) headers: HeaderMap,
    pub(crate) interest: Interest,
    /// Whether a dropped request is cancelled at the upstream.
    pub(crate) cancellable: bool,
    /// Whether refused credentials fail this request alone, and not the connection.
    pub(crate) optional: bool,
    /// Records which host was reached.
    pub(crate) egress: EgressTrail,
    pub(crate) encode: &'a (dyn Fn(u64) -> Vec<u8> + Send + Sync),
}

impl<'a> Call<'a> {
    /// Creates a request without a name, headers or progress.
    pub(crate) fn plain(
        method: &'static str,
        era: &'a Era,
        encode: &'a (dyn Fn(u64) -> Vec<u8> + Send + Sync),
    ) -> Self {
        let (headers, interest) = (HeaderMap::new(), Interest::default());
        let egress = EgressTrail::default();
        Self {
            method,
            era,
            name: None,
            headers,
            interest,
            cancellable: false,
            optional: false,
            egress,
            encode,
        }
    }
}

/// Why a request has no reply.
#[derive(Debug)]
pub(crate) enum Failure {
    Upstream(UpstreamError),
    /// The upstream does not know the session; it did not read the request.
    SessionExpired,
    /// HTTP 401 or 403.
    Credentials(StatusCode),
    /// Another status without an answer, and the beginning of its body.
    Refused {
        status: StatusCode,
        body: String,
    },
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
            Self::Credentials(_) => true,
            Self::SessionExpired | Self::Refused { .. } => false,
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
            Failure::Credentials(status) => refused(credentials_refused(status)),
            Failure::Refused { status, .. } => refused(format!("HTTP status {}", status.as_u16())),
        }
    }
}

/// Describes 401 or 403 for the operator.
pub(crate) fn credentials_refused(status: StatusCode) -> String {
    format!("upstream refused our credentials ({})", status.as_u16())
}
