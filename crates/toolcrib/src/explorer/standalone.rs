//! A standalone explorer, for the router of an embedding program.

use std::sync::Arc;

use axum::Router;
use toolcrib_config::{self as config, ServerConfig};
use toolcrib_gateway::provider::{ToolsProvider, shared};
use utoipa_axum::router::OpenApiRouter;

use super::{
    gateway_host::GatewayHost, host::Host, mount, page::Page, program_host::ProgramHost, routes,
    settings::ExplorerConfig, state::Explorer,
};
use crate::middleware::{self, Challenge, HttpHost, Memory};

/// Creates a router with an explorer of the tools of `provider`, below `prefix`.
///
/// `provider` is a vector of tools, a closure that returns a vector or a future of one, or a
/// [`Gateway`](toolcrib_gateway::Gateway). Every request calls it anew; its tools are not cached. A
/// gateway authenticates callers by its keys, shows the tools that they may use, and runs their
/// calls through its gate. The handler, authenticator and timeout of `config` are then ignored.
///
/// Merge the router into another one, or nest it. `prefix` is a plain path such as `/explorer`. `/`
/// is the root; a router for the root responds to every path. The page is served with and without a
/// trailing slash.
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
        Some(gateway) => Arc::new(GatewayHost(gateway.clone())),
        None => Arc::new(ProgramHost::new(&config)),
    };
    let max_body = config.max_body_bytes;
    let page = config::ExplorerConfig { prefix: prefix.clone(), ..config.page };
    let explorer = Explorer { provider, host, max_body, page: Page::new(page, false, max_body) };
    // Nesting strips the prefix, so that handlers and hooks see the path below it.
    let routes: OpenApiRouter = routes(explorer, "");
    let (routes, _) = routes.split_for_parts();
    // The embedding program owns the listener, so only part of the server's settings apply.
    let mut server = ServerConfig::default();
    server.allowed_hosts = config.allowed_hosts;
    server.allowed_origins = config.allowed_origins;
    let tracer = gateway.as_ref().map(|gateway| gateway.tracer().clone()).unwrap_or_default();
    let host = HttpHost {
        gateway,
        memory: Memory::new(server.max_body_total_bytes.max(max_body), max_body),
        any_host: server.allowed_hosts.is_empty(),
        server: Arc::new(server),
        challenge: Arc::new(Challenge::of(None)),
        logs_access: false,
        tracer,
    };
    let routes = middleware::complete(routes, (), &host);
    let guarded = middleware::guarded(vec![routes], Vec::new(), mount(""), host).into_router();
    match prefix.as_str() {
        "" => guarded,
        prefix => Router::new().nest_service(prefix, guarded),
    }
}
