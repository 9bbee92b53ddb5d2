//! Creates the errors of sources, by kind.

use toolcrib_core::call::{UpstreamError, UpstreamErrorKind};

use crate::egress::EgressError;

/// The call was not sent, because the upstream cannot be reached now.
pub(crate) fn unavailable(detail: impl Into<String>) -> UpstreamError {
    UpstreamError::new(UpstreamErrorKind::Unavailable, detail)
}

/// The call was not sent, because the upstream has changed the tool.
pub(crate) fn changed(detail: impl Into<String>) -> UpstreamError {
    UpstreamError::new(UpstreamErrorKind::Changed, detail)
}

/// The upstream disconnected during the call.
pub(crate) fn died(detail: impl Into<String>) -> UpstreamError {
    UpstreamError::new(UpstreamErrorKind::Died, detail)
}

/// The upstream's message violates its protocol.
pub(crate) fn protocol(detail: impl Into<String>) -> UpstreamError {
    UpstreamError::new(UpstreamErrorKind::Protocol, detail)
}

/// The upstream refused the request.
pub(crate) fn refused(detail: impl Into<String>) -> UpstreamError {
    UpstreamError::new(UpstreamErrorKind::Refused, detail)
}

/// The upstream did not answer in time.
pub(crate) fn timeout(detail: impl Into<String>) -> UpstreamError {
    UpstreamError::new(UpstreamErrorKind::Timeout, detail)
}

/// The answer exceeds a size limit.
pub(crate) fn too_large(detail: impl Into<String>) -> UpstreamError {
    UpstreamError::new(UpstreamErrorKind::TooLarge, detail)
}

/// The answer has more than `max` bytes, the `max_result` of the gate.
pub(crate) fn over_max_result(max: usize) -> UpstreamError {
    too_large(format!("it has more than {max} bytes, the limit of `[gate] max_result`"))
}

/// The answer to a call could not be read. A result may have at most `max` bytes.
pub(crate) fn unread(error: EgressError, max: usize) -> UpstreamError {
    match error {
        EgressError::TooLarge(_) => over_max_result(max),
        other => other.into(),
    }
}
