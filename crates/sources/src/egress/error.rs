//! Why a request failed.

use std::{error::Error, io};

use hyper_util::client::legacy as client;
use rustls::CertificateError;
use toolcrib_core::{
    call::{UpstreamError, UpstreamErrorKind},
    credential::CredentialProblem,
};

use super::guard::GuardRefusal;

/// Why a request failed, or its response broke off.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum EgressError {
    /// The guard refused the destination, either of a redirect (`sent`) or of the request itself.
    #[error("{}", refusal(*.sent))]
    Refused { sent: bool },
    /// The credential must not be sent to the destination.
    #[error("{0}")]
    Credential(CredentialProblem),
    /// The request was not sent.
    #[error("cannot connect: {0}")]
    Connect(String),
    /// The connection broke after the request was sent, or might have been sent.
    #[error("the connection broke: {0}")]
    Broken(String),
    /// The body is larger than the cap.
    #[error("the body is larger than {0} bytes")]
    TooLarge(usize),
    /// The responses being read together exceed the budget of the source.
    #[error("the concurrent responses of this source are larger than {0} bytes")]
    Crowded(usize),
}

fn refusal(sent: bool) -> String {
    let after = if sent { "a redirect was not followed: " } else { "" };
    format!("{after}{GuardRefusal}")
}

// === impl EgressError ===

impl EgressError {
    /// Converts the error of a request that a redirect led to. The first request was sent, and may
    /// have had its effect.
    pub(super) fn after_redirect(self) -> Self {
        match self {
            Self::Connect(reason) => {
                Self::Broken(format!("a redirect was not followed: cannot connect: {reason}"))
            }
            Self::Credential(_) => Self::Refused { sent: true },
            other => other,
        }
    }
}

impl From<client::Error> for EgressError {
    fn from(error: client::Error) -> Self {
        let mut text = causes(&error);
        if is_unknown_authority(&error) {
            text.push_str(UNKNOWN_AUTHORITY);
        }
        if error.is_connect() { Self::Connect(text) } else { Self::Broken(text) }
    }
}

impl From<hyper::Error> for EgressError {
    fn from(error: hyper::Error) -> Self {
        Self::Broken(causes(&error))
    }
}

impl From<EgressError> for UpstreamError {
    fn from(error: EgressError) -> Self {
        let kind = match &error {
            EgressError::Refused { sent: false } => UpstreamErrorKind::EgressRefused,
            EgressError::Refused { sent: true } => UpstreamErrorKind::RedirectRefused,
            EgressError::Credential(problem) => UpstreamErrorKind::Credential(*problem),
            EgressError::Connect(_) => UpstreamErrorKind::Unavailable,
            EgressError::Broken(_) => UpstreamErrorKind::Died,
            EgressError::TooLarge(_) | EgressError::Crowded(_) => UpstreamErrorKind::TooLarge,
        };
        Self::new(kind, error.to_string())
    }
}

/// Whether the resolver's address check caused `error`.
pub(super) fn was_refused(error: &client::Error) -> bool {
    let mut cause = error.source();
    while let Some(error) = cause {
        let inner = error.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
        if error.is::<GuardRefusal>() || inner.is_some_and(|inner| inner.is::<GuardRefusal>()) {
            return true;
        }
        cause = error.source();
    }
    false
}

/// Hint for a certificate from an unknown authority. Sources have no setting for authorities: the
/// machine decides which ones it trusts.
const UNKNOWN_AUTHORITY: &str = "; if it is a private authority, add it to those of this system, or \
                                 name its PEM file in the variable SSL_CERT_FILE of the server";

fn is_unknown_authority(error: &(dyn Error + 'static)) -> bool {
    let mut cause = Some(error);
    while let Some(error) = cause {
        let mut inner = error;
        while let Some(wrapped) = inner.downcast_ref::<io::Error>().and_then(io::Error::get_ref) {
            inner = wrapped;
        }
        if let Some(rustls::Error::InvalidCertificate(CertificateError::UnknownIssuer)) =
            inner.downcast_ref::<rustls::Error>()
        {
            return true;
        }
        cause = error.source();
    }
    false
}

/// Returns the text of the innermost cause of `error`: outer layers only repeat that something
/// failed.
fn causes(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = error.to_string();
        cause = error.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_unknown_authority_has_the_remedy() {
        let tls = |problem| io::Error::other(rustls::Error::InvalidCertificate(problem));
        assert!(is_unknown_authority(&tls(CertificateError::UnknownIssuer)));
        // A connector wraps the error of the handshake once more.
        assert!(is_unknown_authority(&io::Error::other(tls(CertificateError::UnknownIssuer))));
        assert!(!is_unknown_authority(&tls(CertificateError::Expired)));
        assert!(!is_unknown_authority(&io::Error::from(io::ErrorKind::ConnectionRefused)));
    }
}
