//! State that handlers of all dialects share. It depends on no dialect.

use std::sync::Arc;

use async_trait::async_trait;
use axum::extract::FromRef;
use http::{HeaderMap, StatusCode, Uri};
use toolcrib_gateway::{
    Gateway,
    authn::AuthError,
    config::{Config, MountAuth, ServerConfig},
    metrics::Surface,
};

use crate::middleware::{
    BodyLimit, Caller, Challenge, Credentials, HttpHost, Memory, Refusal, authenticate, origin,
};

/// Cheap to clone; handlers take it as axum `State`. The caller arrives as `middleware::Caller`.
#[derive(Clone)]
pub(crate) struct AppState {
    pub(crate) gateway: Gateway,
    /// The configuration that the routes were built with. Listener and mounts do not change while
    /// the server runs.
    pub(crate) config: Arc<Config>,
    /// The memory budget for request bodies.
    pub(crate) memory: Memory,
    challenge: Arc<Challenge>,
}

impl AppState {
    pub(crate) fn new(gateway: Gateway, config: &Config) -> Self {
        let server = &config.server;
        let memory = Memory::new(server.max_body_total_bytes, server.max_body_bytes);
        let challenge = Arc::new(Challenge::of(config.resource.as_ref()));
        Self { gateway, config: Arc::new(config.clone()), memory, challenge }
    }
}

impl FromRef<AppState> for BodyLimit {
    fn from_ref(state: &AppState) -> Self {
        Self(state.config.server.max_body_bytes)
    }
}

#[async_trait]
impl HttpHost for AppState {
    fn server(&self) -> &ServerConfig {
        &self.config.server
    }

    fn challenge(&self) -> &Challenge {
        &self.challenge
    }

    fn check(&self, uri: &Uri, headers: &HeaderMap) -> Result<(), Refusal> {
        origin::check(&self.config.server, uri, headers)
    }

    async fn caller(
        &self,
        headers: &HeaderMap,
        auth: MountAuth,
        credentials: Credentials,
    ) -> Result<Caller, AuthError> {
        authenticate::caller(&self.gateway, headers, auth, credentials).await
    }

    fn record_unauthenticated(&self, route: &str) {
        self.gateway.audit().unauthenticated(route);
    }

    fn memory(&self) -> &Memory {
        &self.memory
    }

    fn crowded(&self) {
        self.gateway.metrics().body_refused();
    }

    fn answered(&self, surface: Surface, status: StatusCode) {
        self.gateway.metrics().request(surface, status.as_u16());
    }
}
