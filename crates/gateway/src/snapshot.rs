//! One immutable state of the catalog and its related parts, for a request.
//!
//! Invariant (I-23): a request loads one snapshot and passes it on, in a
//! [`CallRequest`](crate::CallRequest) and in a [`Miss`]. Invariant (I-7): every view uses the
//! decision that also authorizes calls: that of the snapshot for the caller. Invariant (I-24): a list costs a few look-ups, however
//! large the catalog is. Invariant (I-9, I-81): a name is looked up in the caller's view, so hidden
//! tools, foreign tools and unknown names take the same steps.

use std::{collections::HashMap, sync::Arc};

use arc_swap::ArcSwap;
use serde::{Deserialize, Serialize};
use tokio::sync::watch;
use toolcrib_config::{DeniedCalls, GateConfig};
use toolcrib_core::{
    authorize::{Authorizer as _, DenialReason},
    catalog::{Body, Catalog, Collision, Entry, Generation, ListFormat, Toolset, View},
    clock::Clock,
    descriptor::SourceKind,
    id::SourceId,
    offer::OfferKind,
    principal::Principal,
    scope::ScopeSet,
    source::Source,
};

use crate::{
    breaker::Breaker,
    freshness::Confirmation,
    own_lists::{CallerLists, OwnTools},
    policy::{CallerDecider, Decider},
    tool_ref::{CatalogScope, ToolRef},
    workflow_definition::offer::SnapshotWorkflows,
};

/// The state that a request depends on, loaded once per request (I-23).
pub struct Snapshot {
    /// The tools on offer.
    pub catalog: Catalog,
    pub(crate) others: OtherOffers,
    /// The sources that run them.
    pub sources: HashMap<SourceId, Arc<dyn Source>>,
    /// Defaults of the gate.
    pub gate: GateConfig,
    /// Tools whose current form is not approved. They are neither listed nor called.
    pub quarantined: Catalog,
    /// The decision without regard to accounts, for roles. Callers have [`Snapshot::decider_for`].
    pub(crate) decider: Decider,
    /// The lists of callers' accounts.
    pub(crate) own: CallerLists,
    pub(crate) workflows: SnapshotWorkflows,
    pub(crate) breakers: HashMap<SourceId, Arc<Breaker>>,
}

/// The catalogs of the offers that are no tools.
pub(crate) struct OtherOffers {
    prompts: Catalog,
    resources: Catalog,
}

/// The current snapshot.
pub(crate) struct Snapshots {
    current: ArcSwap<Snapshot>,
    generation: watch::Sender<Generation>,
    /// The last confirmation by the store of the pins for snapshots.
    pub(crate) pins: Confirmation,
}

/// A name without a tool that the caller may use.
#[derive(Clone)]
pub struct Miss {
    pub(crate) snapshot: Arc<Snapshot>,
    pub(crate) scopes: ScopeSet,
    /// The tools of the caller's accounts.
    pub(crate) own: Option<Arc<OwnTools>>,
    /// The tool of that name, if it exists.
    pub(crate) entry: Option<Arc<Entry>>,
}

/// The state of one toolset, for operators.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ToolsetReport {
    /// Its name.
    pub name: String,
    /// A title for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// The number of its tools that the caller may use.
    pub tools: usize,
    /// The number of entries of its allow-list that match no tool. The entries themselves may name
    /// tools of other tenants.
    pub unresolved: usize,
}

// === impl Snapshot ===

impl Snapshot {
    /// A snapshot without tools.
    pub(crate) fn empty(gate: GateConfig, decider: Decider) -> Self {
        Self {
            catalog: Catalog::empty(),
            others: OtherOffers::build(Generation(0), Vec::new()).0,
            sources: HashMap::new(),
            gate,
            quarantined: Catalog::empty(),
            decider,
            own: CallerLists::default(),
            workflows: SnapshotWorkflows::default(),
            breakers: HashMap::new(),
        }
    }

    /// A snapshot of one tool, under the decisions of this one and without quotas. It is
    /// independent of all others.
    pub(crate) fn with_only(&self, entry: Arc<Entry>, source: Arc<dyn Source>) -> Self {
        let mut gate = self.gate.clone();
        gate.quota = None;
        gate.role_quotas.clear();
        let sources = HashMap::from([(entry.source.clone(), source)]);
        let (catalog, _) = Catalog::build(self.catalog.generation(), vec![entry]);
        Self { catalog, sources, ..Self::empty(gate, self.decider.clone()) }
    }

    /// The catalog of the offers of one kind. Names and ids are unique within it.
    pub fn offers(&self, kind: OfferKind) -> &Catalog {
        match kind {
            OfferKind::Tool => &self.catalog,
            OfferKind::Prompt => &self.others.prompts,
            OfferKind::Resource => &self.others.resources,
        }
    }

    /// The decision about offers of one kind for `principal`. Only tools depend on its accounts.
    pub(crate) fn decider_for(&self, kind: OfferKind, principal: &Principal) -> CallerDecider {
        let own = match kind {
            OfferKind::Tool => self.own.of(principal),
            OfferKind::Prompt | OfferKind::Resource => None,
        };
        CallerDecider { decider: self.decider.clone(), own }
    }

    /// The decision about tools for `principal`, for explanations: no account is looked at.
    pub(crate) fn explained_decider(&self, principal: &Principal) -> CallerDecider {
        CallerDecider { decider: self.decider.clone(), own: self.own.known(principal) }
    }

    /// The tools that `principal` may use without regard to its accounts.
    pub(crate) fn shared_view(&self, principal: &Principal) -> Arc<View> {
        self.catalog.view(&self.decider, principal.subject())
    }

    /// The offers of one kind that `principal` may see and use.
    pub fn view_of(&self, kind: OfferKind, principal: &Principal) -> Arc<View> {
        self.offers(kind).view(&self.decider_for(kind, principal), principal.subject())
    }

    /// Returns the tools that `principal` may see and call.
    pub fn view(&self, principal: &Principal) -> Arc<View> {
        self.view_of(OfferKind::Tool, principal)
    }

    /// The tools of `scope` that `principal` may see and call; `None` if the toolset does not
    /// exist.
    pub fn view_within(&self, principal: &Principal, scope: &CatalogScope) -> Option<Arc<View>> {
        let toolset = match scope.name() {
            Some(name) => Some(&**self.catalog.toolset(name)?),
            None => None,
        };
        let decider = self.decider_for(OfferKind::Tool, principal);
        Some(self.catalog.view_within(&decider, principal.subject(), toolset))
    }

    /// The list of the tools of `scope` that `principal` may see, in `format`, of one kind of
    /// source or of all; `None` if the toolset does not exist.
    pub fn list(
        &self,
        principal: &Principal,
        scope: &CatalogScope,
        format: &ListFormat,
        source: Option<SourceKind>,
    ) -> Option<Arc<Body>> {
        self.view_within(principal, scope).map(|view| view.body(format, source))
    }

    /// Whether `scope` exists.
    pub fn has(&self, scope: &CatalogScope) -> bool {
        scope.name().is_none_or(|name| self.catalog.toolset(name).is_some())
    }

    /// The toolset of `scope`; `None` for the whole catalog and for a toolset that does not exist.
    pub fn toolset(&self, scope: &CatalogScope) -> Option<Arc<Toolset>> {
        self.catalog.toolset(scope.name()?).map(Arc::clone)
    }

    /// Returns every toolset, with the number of tools that `principal` may use.
    pub fn toolsets(&self, principal: &Principal) -> Vec<ToolsetReport> {
        let decider = self.decider_for(OfferKind::Tool, principal);
        let report = |toolset: &Arc<Toolset>| ToolsetReport {
            name: toolset.name().to_string(),
            title: toolset.title.clone(),
            tools: self
                .catalog
                .view_within(&decider, principal.subject(), Some(toolset))
                .entries()
                .len(),
            unresolved: toolset.unresolved.len(),
        };
        self.catalog.toolsets().map(report).collect()
    }

    /// Returns the versions of `Toolkit.Tool` that `principal` may use, the highest first.
    pub fn otc_versions(&self, principal: &Principal, name: &str) -> Vec<Arc<Entry>> {
        let view = self.view(principal);
        let versions = self.catalog.otc_versions(&principal.tenant, name);
        versions.filter(|entry| view.check(Some(*entry), name).is_some()).cloned().collect()
    }

    /// Returns the tool of that name in `scope`, if `principal` may use it, without a record; see
    /// [`Gateway::find`](crate::Gateway::find).
    ///
    /// # Errors
    /// [`Miss`]: the same for an unknown, a hidden and a foreign tool.
    pub fn find(
        self: &Arc<Self>,
        principal: &Principal,
        tool: ToolRef<'_>,
        scope: &CatalogScope,
    ) -> Result<Arc<Entry>, Miss> {
        self.find_offer(OfferKind::Tool, principal, tool, scope)
    }

    /// As [`find`](Self::find), among the offers of one kind.
    pub(crate) fn find_offer(
        self: &Arc<Self>,
        kind: OfferKind,
        principal: &Principal,
        name: ToolRef<'_>,
        scope: &CatalogScope,
    ) -> Result<Arc<Entry>, Miss> {
        let catalog = self.offers(kind);
        let entry = name.resolve(catalog, &principal.tenant);
        let entry = entry.filter(|entry| scope.contains(catalog, entry));
        let decider = self.decider_for(kind, principal);
        match catalog.view(&decider, principal.subject()).check(entry, name.text()) {
            Some(entry) => Ok(Arc::clone(entry)),
            None => Err(Miss {
                scopes: principal.scopes.clone(),
                own: decider.own,
                entry: entry.cloned(),
                snapshot: Arc::clone(self),
            }),
        }
    }
}

// === impl OtherOffers ===

impl OtherOffers {
    /// Builds the catalogs of `entries`; see [`Catalog::build`].
    pub(crate) fn build(
        generation: Generation,
        entries: Vec<Arc<Entry>>,
    ) -> (Self, Vec<Collision>) {
        let (prompts, resources): (Vec<_>, Vec<_>) =
            entries.into_iter().partition(|entry| entry.offer.kind() == OfferKind::Prompt);
        let (prompts, mut collisions) = Catalog::build(generation, prompts);
        let (resources, more) = Catalog::build(generation, resources);
        collisions.extend(more);
        (Self { prompts, resources }, collisions)
    }
}

// === impl Snapshots ===

impl Snapshots {
    pub(crate) fn new(first: Snapshot, clock: Arc<dyn Clock>) -> Self {
        let generation = watch::Sender::new(Generation(0));
        let pins = Confirmation::new(clock);
        Self { current: ArcSwap::from_pointee(first), generation, pins }
    }

    /// The current snapshot. A request loads it once (I-23).
    pub(crate) fn load(&self) -> Arc<Snapshot> {
        self.current.load_full()
    }

    /// Makes `snapshot` the current one and announces its generation.
    pub(crate) fn publish(&self, snapshot: Snapshot) {
        let generation = snapshot.catalog.generation();
        self.current.store(Arc::new(snapshot));
        self.generation.send_replace(generation);
    }

    /// Releases the sources. A source of workflows refers to the snapshots, so otherwise this cycle
    /// would never be freed.
    pub(crate) fn clear(&self) {
        let last = self.load();
        let empty = Snapshot::empty(last.gate.clone(), last.decider.clone());
        self.current.store(Arc::new(empty));
    }

    /// The sender of [`changes`](Self::changes), for lists that change without a new snapshot.
    pub(crate) fn announcer(&self) -> watch::Sender<Generation> {
        self.generation.clone()
    }

    /// Notifies of each published generation, and of changed lists of accounts.
    pub(crate) fn changes(&self) -> watch::Receiver<Generation> {
        self.generation.subscribe()
    }
}

// === impl Miss ===

impl Miss {
    /// The decision that the caller got.
    pub(crate) fn decider(&self) -> CallerDecider {
        CallerDecider { decider: self.snapshot.decider.clone(), own: self.own.clone() }
    }

    /// The reason of the denial, if `principal` may know it: the tool belongs to its tenant, and
    /// the configuration does not make denials look like unknown names (I-81).
    pub(crate) fn disclosed(&self, principal: &Principal) -> Option<DenialReason> {
        match self.snapshot.gate.denied_calls {
            DeniedCalls::NotFound => return None,
            DeniedCalls::Forbidden => {}
        }
        let entry = self.entry.as_ref().filter(|entry| entry.tenants.admits(&principal.tenant))?;
        let denied = self.decider().authorize(principal.subject(), entry.resource()).err()?;
        (denied != DenialReason::Tenant).then_some(denied)
    }
}
