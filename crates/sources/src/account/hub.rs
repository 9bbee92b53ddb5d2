//! What the connector, the resolver and the sources of one factory share about accounts.

use std::{collections::HashMap, sync::Arc, time::Duration};

use chrono::TimeDelta;
use parking_lot::Mutex;
use tokio::sync::broadcast;
use toolcrib_core::{
    clock::{Clock, Timestamp},
    credential::GrantStore,
    id::{CredentialId, SourceId},
    source::SourceSpec,
};

use super::reach::Reach;
use crate::egress::Network;

/// Removed grants that a slow receiver can miss without a loss: their sessions then end when they
/// are idle.
const REMOVALS: usize = 64;

/// The store of grants, and what is known about the sources that use them.
pub(crate) struct Hub {
    pub(crate) network: Arc<Network>,
    pub(crate) clock: Arc<dyn Clock>,
    /// Without it, no account is connected.
    pub(crate) store: Option<Arc<dyn GrantStore>>,
    /// By source; the last one that was built counts.
    reaches: Mutex<HashMap<SourceId, Reach>>,
    removals: broadcast::Sender<CredentialId>,
    /// Held during the registration of a client, so that two requests register one client.
    pub(super) registering: tokio::sync::Mutex<()>,
}

/// The end of a token that was requested `asked_at`; `None` for one beyond all time.
pub(crate) fn token_end(asked_at: Timestamp, lifetime: Duration) -> Option<Timestamp> {
    asked_at.checked_add_signed(TimeDelta::from_std(lifetime).ok()?)
}

// === impl Hub ===

impl Hub {
    pub(crate) fn new(
        network: Arc<Network>,
        clock: Arc<dyn Clock>,
        store: Option<Arc<dyn GrantStore>>,
    ) -> Arc<Self> {
        Arc::new(Self {
            network,
            clock,
            store,
            reaches: Mutex::default(),
            removals: broadcast::Sender::new(REMOVALS),
            registering: tokio::sync::Mutex::default(),
        })
    }

    /// Remembers the addresses of a source with accounts.
    pub(crate) fn serve(&self, spec: &SourceSpec) {
        if spec.account.is_some() {
            self.reaches.lock().insert(spec.id.clone(), Reach::of(spec));
        }
    }

    /// The addresses of a source. For an unknown one, all of them must be public.
    pub(crate) fn reach(&self, source: &SourceId) -> Reach {
        self.reaches.lock().get(source).cloned().unwrap_or_default()
    }

    /// Informs the sources about a removed grant.
    pub(crate) fn removed(&self, grant: &CredentialId) {
        // No source has to listen.
        self.removals.send(grant.clone()).ok();
    }

    /// The ids of grants, from now on, when they are removed.
    pub(crate) fn removals(&self) -> broadcast::Receiver<CredentialId> {
        self.removals.subscribe()
    }
}
