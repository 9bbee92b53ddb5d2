//! TLS of the listener: the certificate in force, and its replacement.
//!
//! Invariant: only files that fit together come into force.
//! Invariant: a connection keeps the certificate of its handshake; a replacement closes no
//! connection.

mod failures;
mod identity;

use std::{fmt, net::SocketAddr, sync::Arc};

use arc_swap::ArcSwap;
use rustls::ServerConfig;

use self::failures::FailureLog;
pub use self::{
    failures::HandshakeFailure,
    identity::{TlsError, TlsIdentity},
};

/// TLS of a listener; clones share it.
#[derive(Clone)]
pub struct Tls(Arc<Shared>);

struct Shared {
    current: ArcSwap<ServerConfig>,
    failures: FailureLog,
    on_failure: Box<dyn Fn(HandshakeFailure) + Send + Sync>,
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
