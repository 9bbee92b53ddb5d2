//! The host of an explorer: identifies callers and runs calls.

use std::sync::Arc;

use async_trait::async_trait;
use axum::response::Response;
use http::request::Parts;
use serde_json::Value;
use toolcrib_core::principal::Principal;
use toolcrib_gateway::{
    authn::AuthError,
    metrics::Surface,
    provider::{Identity, Offer},
};

use crate::middleware::BodySender;

pub(super) const SURFACE: Surface = Surface::new("explorer", "Explorer");

/// Implemented for a gateway and for an embedding program.
#[async_trait]
pub(super) trait Host: Send + Sync + 'static {
    /// Identifies the sender of `head` to an endpoint that requires no credentials. Invalid
    /// credentials are an error if `strict`, and ignored otherwise.
    async fn identify(&self, head: &Parts, strict: bool) -> Result<Sender, AuthError>;

    /// Authenticates the sender of `head` to an endpoint that requires credentials.
    async fn authenticate(&self, head: &Parts) -> Result<Sender, AuthError>;

    /// Runs a call. A failed call has a response too.
    async fn call(&self, call: Call) -> Response;

    /// Records that `route` refused a caller without valid credentials.
    fn record_unauthenticated(&self, route: &str);
}

/// The sender of a request.
#[derive(Debug, Clone, Default)]
pub(super) struct Sender {
    /// The principal, when the host is a gateway.
    pub(super) principal: Option<Arc<Principal>>,
    /// The identity, when the host is an embedding program.
    pub(super) identity: Option<Identity>,
    /// Whether the sender presented valid credentials.
    pub(super) proven: bool,
}

impl Sender {
    /// The sender to which the memory of the body counts.
    pub(super) fn of_body(&self) -> BodySender {
        match &self.principal {
            None if self.proven => BodySender::Program,
            principal => BodySender::of(principal.as_deref()),
        }
    }
}

/// A call that passed the checks of the explorer.
pub(super) struct Call {
    pub(super) sender: Sender,
    /// The tools that the provider offered the sender in this request.
    pub(super) offer: Offer,
    pub(super) name: String,
    /// Only an object is accepted; the host refuses other values.
    pub(super) arguments: Value,
    pub(super) head: Parts,
}
