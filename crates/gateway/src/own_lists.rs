//! The lists of tools that the accounts of callers have at their upstreams.
//!
//! Invariant (I-119): a list of an account only removes tools from what its own principal is offered,
//! and only while the principal has this account.
//! Invariant: no request waits for such a list. Until it is read, the list of the tenant applies.
//! Invariant: what one request uses never changes, so that a view never mixes two lists.

mod look;
mod table;
mod tools;

use std::{collections::HashMap, sync::Arc, time::Duration};

use parking_lot::Mutex;
use tokio::sync::{mpsc, watch};
use toolcrib_core::{
    catalog::Generation,
    credential::{CredentialResolver, GrantPlace},
    id::{CredentialId, SourceId},
    principal::{AuthMethod, Principal, PrincipalKey},
    source::Source,
};

use self::table::{Look, OwnSource, Table};
pub(crate) use self::tools::OwnTools;
use crate::background::Services;

/// How often unused lists are removed.
const SWEEP: Duration = Duration::from_secs(10 * 60);

/// The lists of all callers.
pub(crate) struct OwnLists {
    services: Services,
    credentials: Arc<dyn CredentialResolver>,
    table: Mutex<Table>,
    looks: mpsc::UnboundedSender<Look>,
    /// Notified when the list of a caller may have changed.
    changed: watch::Sender<Generation>,
}

/// The lists of callers, for the sources of one snapshot.
#[derive(Default)]
pub(crate) struct CallerLists {
    lists: Option<Arc<OwnLists>>,
    sources: Vec<OwnSource>,
}

/// The requests for lists, for the one task that serves them.
pub(crate) type Looks = mpsc::UnboundedReceiver<Look>;

// === impl OwnLists ===

impl OwnLists {
    /// Creates a table without lists, and the requests for [`start`](Self::start).
    pub(crate) fn new(
        services: Services,
        credentials: Arc<dyn CredentialResolver>,
        changed: watch::Sender<Generation>,
    ) -> (Arc<Self>, Looks) {
        // The table is bounded, and each of its states has at most one request.
        let (looks, receiver) = mpsc::unbounded_channel();
        let lists = Self { services, credentials, table: Mutex::new(Table::new()), looks, changed };
        (Arc::new(lists), receiver)
    }

    /// Starts the task that reads lists, and the one that removes unused ones.
    pub(crate) fn start(self: &Arc<Self>, looks: Looks) {
        let (lists, looks) = (Arc::clone(self), Arc::new(tokio::sync::Mutex::new(looks)));
        self.services.background.until_done("own-lists", move || {
            let (lists, looks) = (Arc::clone(&lists), Arc::clone(&looks));
            async move { lists.serve(&mut *looks.lock().await).await }
        });
        let lists = Arc::downgrade(self);
        self.services.background.every("own-lists/sweep", SWEEP, move || {
            let lists = lists.clone();
            async move {
                if let Some(lists) = lists.upgrade() {
                    let now = lists.services.clock.monotonic_nanos();
                    lists.table.lock().sweep(now);
                }
            }
        });
    }

    /// The lists for a snapshot with these sources.
    pub(crate) fn over(
        self: &Arc<Self>,
        sources: &HashMap<SourceId, Arc<dyn Source>>,
    ) -> CallerLists {
        let sources = sources.values().filter_map(OwnSource::of).collect();
        CallerLists { lists: Some(Arc::clone(self)), sources }
    }

    /// Requests that a list is read.
    fn request(&self, look: Look) {
        // The receiver lives as long as the gateway.
        self.looks.send(look).ok();
    }

    fn announce(&self) {
        self.changed.send_modify(|_generation| ());
    }
}

// === impl CallerLists ===

impl CallerLists {
    /// The tools that the accounts of `principal` have, as far as they are known. Missing and old
    /// lists are read in the background.
    pub(crate) fn of(&self, principal: &Principal) -> Option<Arc<OwnTools>> {
        let lists = self.lists.as_ref()?;
        let has_own = self.sources.iter().any(|source| source.tenant == principal.tenant);
        // Callers without credentials are all one principal, which has no account.
        if !has_own || matches!(principal.auth, AuthMethod::Anonymous) {
            return None;
        }
        let now = lists.services.clock.monotonic_nanos();
        let key = PrincipalKey::of(principal);
        let (tools, due) = lists.table.lock().used(&key, &self.sources, now)?;
        due.into_iter().for_each(|look| lists.request(look));
        tools
    }

    /// As [`of`](Self::of), without reading anything.
    pub(crate) fn known(&self, principal: &Principal) -> Option<Arc<OwnTools>> {
        let lists = self.lists.as_ref().filter(|_| !self.sources.is_empty())?;
        lists.table.lock().known(&PrincipalKey::of(principal))
    }

    /// Notes that the account at `place` was connected, and requests its list.
    pub(crate) fn connected(&self, place: &GrantPlace) {
        self.disconnected(place);
        let Some((lists, key)) = self.lists.as_ref().zip(key_of(place)) else { return };
        if !self.sources.iter().any(|source| source.tenant == key.tenant) {
            return;
        }
        let now = lists.services.clock.monotonic_nanos();
        let begun = lists.table.lock().used(&key, &self.sources, now);
        begun.into_iter().flat_map(|(_, due)| due).for_each(|look| lists.request(look));
    }

    /// Removes the list of the account at `place`.
    pub(crate) fn disconnected(&self, place: &GrantPlace) {
        let Some((lists, key)) = self.lists.as_ref().zip(key_of(place)) else { return };
        if lists.table.lock().forget(&key, &place.source) {
            lists.announce();
        }
    }

    /// Removes a list of `principal` that does not belong to `grant`, the account that it has now.
    pub(crate) fn confirm(
        &self,
        principal: &Principal,
        source: &SourceId,
        grant: Option<&CredentialId>,
    ) {
        let Some(lists) = &self.lists else { return };
        if lists.table.lock().confirm(&PrincipalKey::of(principal), source, grant) {
            lists.announce();
        }
    }
}

fn key_of(place: &GrantPlace) -> Option<PrincipalKey> {
    let principal = place.owner.principal.clone()?;
    Some(PrincipalKey { tenant: place.owner.tenant.clone(), principal })
}
