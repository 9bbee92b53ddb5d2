//! From names to addresses: the system's resolver behind a seam, and the check in between.

use std::{
    io,
    net::{IpAddr, SocketAddr},
    sync::Arc,
};

use async_trait::async_trait;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};

use super::guard::{Guard, Trust};

/// Turns a host's name into its addresses.
#[async_trait]
pub trait Resolver: Send + Sync + 'static {
    /// Every address of `host`.
    ///
    /// # Errors
    /// The name has none, or nobody could be asked.
    async fn resolve(&self, host: &str) -> io::Result<Vec<IpAddr>>;
}

/// The machine's own resolver.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemResolver;

#[async_trait]
impl Resolver for SystemResolver {
    async fn resolve(&self, host: &str) -> io::Result<Vec<IpAddr>> {
        Ok(tokio::net::lookup_host((host, 0)).await?.map(|address| address.ip()).collect())
    }
}

/// What the HTTP client asks, once for each connection it opens: only addresses that have been
/// checked reach it, so that the one it connects to is one of them.
pub(super) struct Checked {
    pub(super) resolver: Arc<dyn Resolver>,
    pub(super) guard: Arc<Guard>,
    pub(super) trust: Trust,
}

impl Resolve for Checked {
    fn resolve(&self, name: Name) -> Resolving {
        let (resolver, guard) = (Arc::clone(&self.resolver), Arc::clone(&self.guard));
        let trust = self.trust;
        Box::pin(async move {
            let addresses = resolver.resolve(name.as_str()).await?;
            guard.check(trust, &addresses)?;
            let addresses = addresses.into_iter().map(|address| SocketAddr::new(address, 0));
            Ok(Box::new(addresses) as Addrs)
        })
    }
}
