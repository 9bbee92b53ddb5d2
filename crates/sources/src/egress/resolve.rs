//! Resolves names to addresses, and checks the addresses before the HTTP client gets them.

use std::{
    io,
    net::{IpAddr, SocketAddr},
    sync::Arc,
    task::{Context, Poll},
};

use async_trait::async_trait;
use futures_util::future::BoxFuture;
use hyper_util::client::legacy::connect::dns::Name;
use tower::Service;

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

/// The resolver of the HTTP client, called once per connection. It yields checked addresses only,
/// so the client cannot connect to any other.
#[derive(Clone)]
pub(super) struct GuardedResolver {
    pub(super) resolver: Arc<dyn Resolver>,
    pub(super) guard: Arc<Guard>,
    pub(super) trust: Trust,
}

impl Service<Name> for GuardedResolver {
    type Response = std::vec::IntoIter<SocketAddr>;
    type Error = io::Error;
    type Future = BoxFuture<'static, io::Result<Self::Response>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, name: Name) -> Self::Future {
        let Self { resolver, guard, trust } = self.clone();
        Box::pin(async move {
            let addresses = resolver.resolve(name.as_str()).await?;
            guard.check(trust, &addresses).map_err(io::Error::other)?;
            let addresses = addresses.into_iter().map(|address| SocketAddr::new(address, 0));
            Ok(addresses.collect::<Vec<_>>().into_iter())
        })
    }
}
