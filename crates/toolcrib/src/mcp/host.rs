//! The state that all MCP requests of one server share.

use std::{
    collections::HashMap,
    sync::{Arc, Weak},
};

use parking_lot::Mutex;
use toolcrib_core::principal::Principal;
use toolcrib_gateway::{CatalogScope, Gateway, config::McpConfig};

use super::session::{Session, Sessions, Who, who};

/// The MCP dialect over one gateway, with its settings.
pub(super) struct Host {
    pub(super) gateway: Gateway,
    pub(super) config: McpConfig,
    pub(super) sessions: Sessions,
    listeners: Arc<Listeners>,
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
}

/// Counts the subscriptions of each principal.
#[derive(Default)]
struct Listeners(Mutex<HashMap<Who, usize>>);

/// Permission for one open subscription, released when it is dropped.
pub(super) struct Place {
    listeners: Weak<Listeners>,
    who: Who,
}

// === impl Host ===

impl Host {
    /// Creates the dialect over `gateway`.
    pub(super) fn new(gateway: Gateway, config: McpConfig) -> Arc<Self> {
        let sessions = Sessions::new(gateway.clone(), &config);
        Arc::new(Self { gateway, config, sessions, listeners: Arc::default() })
    }

    /// Returns a permission for one more subscription of `principal`, if it is below the limit.
    pub(super) fn place(&self, principal: &Principal) -> Option<Place> {
        let who = who(principal);
        let mut open = self.listeners.0.lock();
        let count = open.entry(who.clone()).or_default();
        if *count >= self.config.max_listeners_per_principal.get() {
            return None;
        }
        *count += 1;
        Some(Place { listeners: Arc::downgrade(&self.listeners), who })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let Some(listeners) = self.listeners.upgrade() else { return };
        let mut open = listeners.0.lock();
        if let Some(count) = open.get_mut(&self.who) {
            *count = count.saturating_sub(1);
            if *count == 0 {
                open.remove(&self.who);
            }
        }
    }
}
