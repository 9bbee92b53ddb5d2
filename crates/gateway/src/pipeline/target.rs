//! The target of a call, resolved once.

use std::sync::Arc;

use toolcrib_core::{
    catalog::Entry,
    offer::OfferKind,
    principal::Principal,
    quota::{Quota, QuotaKey},
    source::Source,
};

use crate::{
    breaker::Breaker,
    limits::quota::quotas_of,
    snapshot::{Miss, Snapshot},
    tool_ref::{CatalogScope, ToolRef},
};

/// An offer of one snapshot with everything that a call of it uses (I-23).
pub(crate) struct Target {
    pub(crate) snapshot: Arc<Snapshot>,
    pub(crate) entry: Arc<Entry>,
    /// The source that serves it; `None` if it is not running.
    pub(crate) source: Option<Arc<dyn Source>>,
    pub(crate) breaker: Option<Arc<Breaker>>,
    /// The quotas that count a call of this principal.
    pub(crate) quotas: Vec<(QuotaKey, Quota)>,
}

impl Target {
    /// Resolves `name` among the offers of `kind` in `scope` that `principal` may use.
    ///
    /// # Errors
    /// [`Miss`]: an unknown, a hidden or a foreign offer.
    pub(crate) fn resolve(
        snapshot: Arc<Snapshot>,
        kind: OfferKind,
        principal: &Principal,
        name: ToolRef<'_>,
        scope: &CatalogScope,
    ) -> Result<Self, Miss> {
        let entry = snapshot.find_offer(kind, principal, name, scope)?;
        Ok(Self::new(snapshot, principal, entry))
    }

    /// Finds the same tool in `snapshot`, the snapshot of the authorization after a wait for
    /// approval.
    pub(crate) fn reloaded(self, snapshot: Arc<Snapshot>, principal: &Principal) -> Self {
        Self::new(snapshot, principal, self.entry)
    }

    fn new(snapshot: Arc<Snapshot>, principal: &Principal, entry: Arc<Entry>) -> Self {
        let source = snapshot.sources.get(&entry.source).map(Arc::clone);
        let breaker = snapshot.breakers.get(&entry.source).map(Arc::clone);
        let quotas = quotas_of(&snapshot.gate, principal, &entry);
        Self { snapshot, entry, source, breaker, quotas }
    }
}
