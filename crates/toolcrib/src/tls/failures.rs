//! Failed handshakes: their kinds, and log lines that a flood cannot multiply.

use std::{
    io,
    net::SocketAddr,
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use rustls::{AlertDescription, Error};

/// The least time between two log lines of one kind.
const PAUSE: Duration = Duration::from_secs(10);

/// The kind of a failed handshake.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HandshakeFailure {
    /// It took too long.
    Timeout,
    /// The peer closed the connection.
    Closed,
    /// The peer sent unencrypted HTTP.
    PlainHttp,
    /// The peer sent other bytes that are not TLS.
    NotTls,
    /// No version, cipher suite or protocol is common.
    Incompatible,
    /// The client presented no valid certificate.
    ClientCertificate,
    /// The client rejected the certificate of this server.
    ServerCertificate,
    /// The connection made room for others.
    Evicted,
    /// Another violation of the protocol.
    Other,
}

/// When each kind was logged last, and how many were not.
#[derive(Default)]
pub(super) struct FailureLog {
    kinds: Mutex<[Kind; HandshakeFailure::ALL.len()]>,
}

#[derive(Clone, Copy, Default)]
struct Kind {
    logged: Option<Instant>,
    omitted: u64,
}

// === impl HandshakeFailure ===

impl HandshakeFailure {
    /// All kinds.
    pub const ALL: [Self; 9] = [
        Self::Timeout,
        Self::Closed,
        Self::PlainHttp,
        Self::NotTls,
        Self::Incompatible,
        Self::ClientCertificate,
        Self::ServerCertificate,
        Self::Evicted,
        Self::Other,
    ];

    /// The label of the kind in metrics and logs.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Timeout => "timeout",
            Self::Closed => "closed",
            Self::PlainHttp => "plain_http",
            Self::NotTls => "not_tls",
            Self::Incompatible => "incompatible",
            Self::ClientCertificate => "client_certificate",
            Self::ServerCertificate => "server_certificate",
            Self::Evicted => "evicted",
            Self::Other => "other",
        }
    }

    /// Classifies an error of a handshake.
    pub(crate) fn of(error: &io::Error) -> Self {
        let cause = error.get_ref().and_then(|source| source.downcast_ref::<Error>());
        match cause {
            None => Self::Closed,
            Some(Error::NoCertificatesPresented | Error::InvalidCertificate(_)) => {
                Self::ClientCertificate
            }
            Some(Error::InvalidMessage(_)) => Self::NotTls,
            Some(Error::PeerIncompatible(_) | Error::NoApplicationProtocol) => Self::Incompatible,
            Some(Error::AlertReceived(alert)) => match alert {
                AlertDescription::BadCertificate
                | AlertDescription::UnsupportedCertificate
                | AlertDescription::CertificateRevoked
                | AlertDescription::CertificateExpired
                | AlertDescription::CertificateUnknown
                | AlertDescription::UnknownCA => Self::ServerCertificate,
                AlertDescription::CloseNotify | AlertDescription::UserCanceled => Self::Closed,
                AlertDescription::ProtocolVersion | AlertDescription::HandshakeFailure => {
                    Self::Incompatible
                }
                _ => Self::Other,
            },
            Some(_) => Self::Other,
        }
    }
}

// === impl FailureLog ===

impl FailureLog {
    pub(super) fn add(&self, failure: HandshakeFailure, peer: Option<SocketAddr>, why: &str) {
        let Some(omitted) = self.turn(failure, Instant::now()) else { return };
        let peer = peer.map(|peer| peer.ip().to_string()).unwrap_or_default();
        let reason = failure.as_str();
        tracing::info!(reason, peer, why, omitted, "a TLS handshake failed");
    }

    /// The number of failures of the kind that were not logged since the last line, if it is time
    /// for another line.
    fn turn(&self, failure: HandshakeFailure, now: Instant) -> Option<u64> {
        let mut kinds = self.kinds.lock();
        let at = HandshakeFailure::ALL.iter().position(|known| *known == failure)?;
        let kind = kinds.get_mut(at)?;
        match kind.logged {
            Some(logged) if now.saturating_duration_since(logged) < PAUSE => {
                kind.omitted += 1;
                None
            }
            _ => {
                kind.logged = Some(now);
                Some(std::mem::take(&mut kind.omitted))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_of_failures_is_one_line_in_ten_seconds() {
        let log = FailureLog::default();
        let now = Instant::now();
        assert_eq!(log.turn(HandshakeFailure::Closed, now), Some(0));
        for _ in 0..1_000 {
            assert_eq!(log.turn(HandshakeFailure::Closed, now), None);
        }
        assert_eq!(log.turn(HandshakeFailure::Timeout, now), Some(0), "each kind has its own");
        assert_eq!(log.turn(HandshakeFailure::Closed, now + PAUSE), Some(1_000));
    }
}
