//! A standalone explorer, for the router of an embedding program.

use std::{path::Path, sync::Arc};

use async_trait::async_trait;
use axum::Router;
use http::{HeaderMap, StatusCode, Uri};
use toolcrib_gateway::{
    Gateway,
    authn::AuthError,
    config::{Config, MountAuth, ServerConfig},
    metrics::Surface,
    provider::{ToolsProvider, shared},
};
use utoipa_axum::router::OpenApiRouter;

use super::{
    Explorer, context::Host, embedded::Embedded, gated::Gated, mount, page::Look, page::Page,
    resource, routes, settings::ExplorerConfig,
};
use crate::middleware::{self, Caller, Challenge, Credentials, HttpHost, Memory, Refusal, origin};

/// Returns a router with an explorer of the tools of `provider`, below `prefix`.
///
/// `provider` is a vector of tools, a closure that returns one, a closure that returns a future of
/// one, or a [`Gateway`]. Every request calls it anew; its tools are not cached. A gateway
/// authenticates callers by its keys, shows the tools that they may use, and runs their calls
/// through its gate. The handler, authenticator and timeout of `config` are then ignored.
///
/// Merge the router into another one, or nest it. `prefix` is a plain path such as `/explorer`. `/`
/// is the root; a router for the root responds to every path. The page is served with and without a
/// slash at the end.
///
/// # Panics
/// Panics like every axum router when it is merged into a router that has one of its paths.
pub fn explorer<P, Kind>(prefix: &str, provider: P, config: ExplorerConfig) -> Router
where
    P: ToolsProvider<Kind>,
    Kind: 'static,
{
    let prefix = prefix.trim_end_matches('/');
    let prefix = match prefix.strip_prefix('/') {
        _ if prefix.is_empty() => String::new(),
        Some(_) => prefix.to_owned(),
        None => format!("/{prefix}"),
    };
    let provider = shared(provider);
    let gateway = provider.gateway().cloned();
    let host: Arc<dyn Host> = match &gateway {
        Some(gateway) => Arc::new(Gated::new(gateway.clone())),
        None => Arc::new(Embedded::new(&config)),
    };
    let server = ServerConfig {
        allowed_hosts: config.allowed_hosts,
        allowed_origins: config.allowed_origins,
        ..Config::empty(Path::new("")).server
    };
    let look = Look {
        title: config.title,
        project_name: config.project_name,
        project_url: config.project_url,
        allow_execute: config.allow_execute,
        approvals: false,
    };
    let explorer = Explorer {
        provider,
        host,
        policy: config.policy,
        allow_execute: config.allow_execute,
        max_body: config.max_body_bytes,
        page: Page::new(look, &prefix),
        resource: resource(&prefix),
    };
    // Nesting strips the prefix, so that handlers and hooks see the path below it.
    let routes: OpenApiRouter<Alone> = routes(explorer, "");
    let (routes, _) = routes.split_for_parts();
    let total = server.max_body_total_bytes.max(config.max_body_bytes);
    let alone = Alone {
        gateway,
        memory: Memory::new(total, config.max_body_bytes),
        server: Arc::new(server),
        challenge: Arc::new(Challenge::of(None)),
    };
    let guarded = middleware::guarded(routes, Vec::new(), mount(""), alone);
    match prefix.as_str() {
        "" => guarded,
        prefix => Router::new().nest_service(prefix, guarded),
    }
}

/// The host of a standalone explorer. The embedding program owns the listener, so only part of the
/// server's settings apply.
#[derive(Clone)]
struct Alone {
    gateway: Option<Gateway>,
    server: Arc<ServerConfig>,
    challenge: Arc<Challenge>,
    memory: Memory,
}

#[async_trait]
impl HttpHost for Alone {
    fn server(&self) -> &ServerConfig {
        &self.server
    }

    fn challenge(&self) -> &Challenge {
        &self.challenge
    }

    fn check(&self, uri: &Uri, headers: &HeaderMap) -> Result<(), Refusal> {
        match self.server.allowed_hosts.is_empty() {
            true => origin::check_page(&self.server, uri, headers),
            false => origin::check(&self.server, uri, headers),
        }
    }

    async fn caller(
        &self,
        _: &HeaderMap,
        _: MountAuth,
        _: Credentials,
    ) -> Result<Caller, AuthError> {
        // The handlers of the explorer authenticate callers themselves.
        Err(AuthError::Missing)
    }

    fn record_unauthenticated(&self, _route: &str) {}

    fn memory(&self) -> &Memory {
        &self.memory
    }

    fn crowded(&self) {
        if let Some(gateway) = &self.gateway {
            gateway.metrics().body_refused();
        }
    }

    fn answered(&self, surface: Surface, status: StatusCode) {
        if let Some(gateway) = &self.gateway {
            gateway.metrics().request(surface, status.as_u16());
        }
    }
}
