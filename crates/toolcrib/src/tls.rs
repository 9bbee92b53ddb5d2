//! TLS of the listener: the certificate in force, and its replacement.
//!
//! Invariant: only files that fit together come into force.
//! Invariant: a connection keeps the certificate of its handshake; a replacement closes nothing.

mod failures;
mod files;

use std::{fmt, net::SocketAddr, path::PathBuf, sync::Arc};

use arc_swap::ArcSwap;
use chrono::{DateTime, Utc};
use rustls::ServerConfig;
use toolcrib_gateway::config::TlsConfig;

use self::failures::FailureLog;
pub use self::failures::HandshakeFailure;

/// A certificate with its key and the authorities of clients, read from files.
pub struct TlsIdentity {
    config: Arc<ServerConfig>,
    expires: Option<DateTime<Utc>>,
    warnings: Vec<String>,
}

/// TLS of a listener; clones share it.
#[derive(Clone)]
pub struct Tls(Arc<Shared>);

struct Shared {
    current: ArcSwap<ServerConfig>,
    failures: FailureLog,
    on_failure: Box<dyn Fn(HandshakeFailure) + Send + Sync>,
}

/// A file of `[server] tls` that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}: {problem}", file.display())]
pub struct TlsError {
    /// The key of `[server] tls` that names the file.
    pub key: &'static str,
    /// The file.
    pub file: PathBuf,
    /// The problem.
    pub problem: String,
    /// A possible remedy.
    pub hint: &'static str,
}

// === impl TlsIdentity ===

impl TlsIdentity {
    /// Reads and checks the files of `config`. The time is only for warnings: an expired certificate
    /// is served, because an old one is better than none.
    ///
    /// # Errors
    /// Fails when a file is unreadable or invalid, or when the key is not that of the certificate.
    pub fn load(config: &TlsConfig, now: DateTime<Utc>) -> Result<Self, TlsError> {
        files::load(config, now)
    }

    /// Returns the end of the validity of the certificate, if it is readable.
    pub fn expires(&self) -> Option<DateTime<Utc>> {
        self.expires
    }

    /// Returns what an operator should change.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }
}

impl fmt::Debug for TlsIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TlsIdentity").field("expires", &self.expires).finish_non_exhaustive()
    }
}

// === impl Tls ===

impl Tls {
    /// Creates TLS with `identity`. Each failed handshake calls `on_failure`.
    pub fn new(
        identity: TlsIdentity,
        on_failure: impl Fn(HandshakeFailure) + Send + Sync + 'static,
    ) -> Self {
        Self(Arc::new(Shared {
            current: ArcSwap::new(identity.config),
            failures: FailureLog::default(),
            on_failure: Box::new(on_failure),
        }))
    }

    /// Uses `identity` for all later handshakes. Sessions of the former identity cannot be resumed,
    /// so every later connection meets its authorities of clients.
    pub fn replace(&self, identity: TlsIdentity) {
        self.0.current.store(identity.config);
    }

    pub(crate) fn current(&self) -> Arc<ServerConfig> {
        self.0.current.load_full()
    }

    /// Counts and logs a failed handshake.
    pub(crate) fn failed(&self, failure: HandshakeFailure, peer: Option<SocketAddr>, why: &str) {
        (self.0.on_failure)(failure);
        self.0.failures.add(failure, peer, why);
    }
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tls").finish_non_exhaustive()
    }
}
