//! State that handlers of all dialects share. It depends on no dialect.

use std::sync::Arc;

use axum::extract::FromRef;
use toolcrib_config::Config;
use toolcrib_core::catalog::Body;
use toolcrib_gateway::Gateway;

use crate::middleware::{BodyLimit, Challenge, HttpHost, Memory};

/// Cheap to clone; handlers take it as axum `State`. The caller arrives as `middleware::Caller`.
#[derive(Clone)]
pub(crate) struct AppState {
    pub(crate) gateway: Gateway,
    /// The configuration that the routes were built with. Listener and mounts do not change while
    /// the server runs.
    pub(crate) config: Arc<Config>,
    pub(crate) host: HttpHost,
    /// The OpenAPI description of the routes with this state, as it is served.
    pub(crate) description: Arc<Body>,
}

impl AppState {
    pub(crate) fn new(gateway: Gateway, config: &Config) -> Self {
        let server = config.server.clone();
        let host = HttpHost {
            gateway: Some(gateway.clone()),
            memory: Memory::new(server.max_body_total_bytes, server.max_body_bytes),
            challenge: Arc::new(Challenge::of(config.resource.as_ref())),
            server: Arc::new(server),
            any_host: false,
            logs_access: config.log.access,
            tracer: gateway.tracer().clone(),
        };
        let description = Arc::new(Body::new(String::new()));
        Self { gateway, config: Arc::new(config.clone()), host, description }
    }
}

impl FromRef<AppState> for BodyLimit {
    fn from_ref(state: &AppState) -> Self {
        Self(state.config.server.max_body_bytes)
    }
}
