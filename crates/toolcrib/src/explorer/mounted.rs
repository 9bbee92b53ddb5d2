//! An explorer by itself, in the router of an embedding program.

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
    Explorer, embedded::Embedded, gated::Gated, host::Host, mount, page::Look, page::Page,
    resource, routes, settings::ExplorerConfig,
};
use crate::middleware::{self, Caller, Challenge, Credentials, HttpHost, Memory, Refusal, origin};

/// The explorer of the tools of `provider`, below `prefix`.
///
/// `provider` is a vector of tools, a closure that returns one, a closure that returns a future of
/// one, or a [`Gateway`]. It is asked on every request and nothing it answers is kept. With a
/// gateway, callers are recognised by its keys, see what they may use, and call through its gate;
/// handler, authenticator and time-out of `config` are not used then.
///
/// Merge the router into another one, or nest it. `prefix` is a plain path such as `/explorer`; `/`
/// is the root, and a router for the root answers for everything. The page is served with and
/// without a slash at the end.
///
/// # Panics
/// Like every axum router, when merged where one of its paths is taken.
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
    // Nesting takes the prefix away, so that handlers and hooks see the path below it.
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

/// The listener is the embedding program's; here is what of it is known.
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
        // The explorer asks who comes in by itself.
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
