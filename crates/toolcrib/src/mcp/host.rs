//! The state that all MCP requests of one server share.

use std::sync::Arc;

use toolcrib_config::McpConfig;
use toolcrib_core::principal::Principal;
use toolcrib_gateway::{
    CatalogScope, Gateway,
    listeners::{ListenerPermit, Listeners},
};

use super::session::{Session, Sessions};

/// The MCP dialect over one gateway, with its settings.
pub(super) struct Host {
    pub(super) gateway: Gateway,
    pub(super) config: McpConfig,
    pub(super) sessions: Sessions,
    /// The subscriptions.
    listeners: Listeners,
}

/// The caller of a request.
#[derive(Clone)]
pub(super) struct Client {
    pub(super) host: Arc<Host>,
    pub(super) principal: Arc<Principal>,
    /// The part of the catalog that the caller is connected to.
    pub(super) within: CatalogScope,
}

/// The caller of a request, with its connection.
#[derive(Clone, Copy)]
pub(super) struct RequestContext<'a> {
    pub(super) client: &'a Client,
    /// The handshake session that the request belongs to.
    pub(super) session: Option<&'a Arc<Session>>,
    /// Whether a handshake client can be notified of changes.
    pub(super) notifies_changes: bool,
    /// Whether the client reads structured content.
    pub(super) reads_structured: bool,
}

// === impl Host ===

impl Host {
    /// Creates the dialect over `gateway`.
    pub(super) fn new(gateway: Gateway, config: McpConfig) -> Arc<Self> {
        let sessions = Sessions::new(gateway.clone(), &config);
        let of_one = config.max_listeners_per_principal.get();
        let listeners = Listeners::new(config.max_sessions.get(), of_one);
        Arc::new(Self { gateway, config, sessions, listeners })
    }

    /// Returns a permit for one more subscription of `principal`, if there is room.
    pub(super) fn subscribe(&self, principal: &Principal) -> Option<ListenerPermit> {
        self.listeners.add(principal).ok()
    }
}
