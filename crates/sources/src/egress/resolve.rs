//! Resolves names to addresses, and checks the addresses before the HTTP client gets them.

use std::{
    io,
    net::{IpAddr, SocketAddr},
    sync::Arc,
};

use async_trait::async_trait;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};

use super::guard::{Guard, Trust};

/// Resolves a host name to its addresses.
#[async_trait]
pub trait Resolver: Send + Sync + 'static {
    /// Returns every address of `host`.
    ///
    /// # Errors
    /// Fails when the name has no address, or when no name server responds.
    async fn resolve(&self, host: &str) -> io::Result<Vec<IpAddr>>;
}

/// The resolver of the operating system.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemResolver;

#[async_trait]
impl Resolver for SystemResolver {
    async fn resolve(&self, host: &str) -> io::Result<Vec<IpAddr>> {
        Ok(tokio::net::lookup_host((host, 0)).await?.map(|address| address.ip()).collect())
    }
}

/// The resolver of the HTTP client, called once per connection. It returns checked addresses only,
/// so the client cannot connect to any other.
pub(super) struct GuardedResolver {
    pub(super) resolver: Arc<dyn Resolver>,
    pub(super) guard: Arc<Guard>,
    pub(super) trust: Trust,
}

impl Resolve for GuardedResolver {
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
