//! What every handler shares.

use std::sync::Arc;

use toolcrib_gateway::{
    Gateway,
    config::{
        Config, ExplorerConfig, McpConfig, MountConfig, OpenWopConfig, OxpConfig, ResourceConfig,
        ServerConfig,
    },
};

use crate::{
    mcp,
    middleware::{Challenge, Memory},
};

/// Cheap to clone; handlers take it as axum `State`. The caller arrives as `middleware::Caller`.
#[derive(Clone)]
pub(crate) struct AppState {
    /// Lists and calls.
    pub(crate) gateway: Gateway,
    /// How the surfaces are set up.
    pub(crate) surfaces: Arc<Surfaces>,
    /// What MCP requests share.
    pub(crate) mcp: Arc<mcp::Host>,
    /// What the bodies of requests may take.
    pub(crate) memory: Memory,
}

/// The configuration of the listener and its mounts.
pub(crate) struct Surfaces {
    pub(crate) server: ServerConfig,
    pub(crate) openwop: OpenWopConfig,
    pub(crate) otc: MountConfig,
    pub(crate) oxp: OxpConfig,
    pub(crate) explorer: ExplorerConfig,
    pub(crate) mcp: McpConfig,
    pub(crate) resource: Option<ResourceConfig>,
    pub(crate) test_routes: bool,
    /// What a refused caller is told about credentials.
    pub(crate) challenge: Challenge,
}

impl AppState {
    pub(crate) fn new(gateway: Gateway, config: &Config) -> Self {
        let mcp = mcp::Host::new(gateway.clone(), config.mcp.clone());
        let surfaces = Arc::new(Surfaces::of(config));
        let server = &config.server;
        let memory = Memory::new(server.max_body_total_bytes, server.max_body_bytes);
        Self { gateway, surfaces, mcp, memory }
    }
}

impl Surfaces {
    pub(crate) fn of(config: &Config) -> Self {
        Self {
            server: config.server.clone(),
            openwop: config.openwop,
            otc: config.otc,
            oxp: config.oxp,
            explorer: config.explorer.clone(),
            mcp: config.mcp.clone(),
            resource: config.resource.clone(),
            test_routes: config.test_seams,
            challenge: Challenge::of(config.resource.as_ref()),
        }
    }
}
