//! What stands behind the endpoints beside the tools themselves: who asks, and what runs a call.

use std::sync::Arc;

use async_trait::async_trait;
use axum::response::Response;
use http::request::Parts;
use serde_json::Value;
use toolcrib_core::principal::Principal;
use toolcrib_gateway::{
    authn::AuthError,
    provider::{Identity, Offer},
};

/// A gateway, or the embedding program.
#[async_trait]
pub(super) trait Host: Send + Sync + 'static {
    /// Who sends `head` to an endpoint that asks for nothing. Credentials that do not hold are an
    /// error when `strict`, and count as none otherwise.
    async fn visitor(&self, head: &Parts, strict: bool) -> Result<Visitor, AuthError>;

    /// Who sends `head` to an endpoint that asks for credentials.
    async fn holder(&self, head: &Parts) -> Result<Visitor, AuthError>;

    /// Runs a call, and answers for it whatever happens.
    async fn call(&self, call: Call) -> Response;

    /// Records that somebody without valid credentials was turned away from `route`.
    fn record_unauthenticated(&self, route: &str);
}

/// Who asks.
#[derive(Debug, Clone, Default)]
pub(super) struct Visitor {
    /// Whom a gateway takes it for.
    pub(super) principal: Option<Arc<Principal>>,
    /// Whom the embedding program takes it for.
    pub(super) identity: Option<Identity>,
    /// Whether credentials say so.
    pub(super) proven: bool,
}

/// A call that may be run.
pub(super) struct Call {
    pub(super) visitor: Visitor,
    /// What the visitor was offered in this request.
    pub(super) offer: Offer,
    pub(super) name: String,
    /// Anything but an object is not run.
    pub(super) arguments: Value,
    pub(super) head: Parts,
}
