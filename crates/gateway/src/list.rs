//! What a caller sees.
//!
//! Invariant (I-7): every answer here is made of the same decision that [`call`](mod@crate::call)
//! makes. Invariant (I-24): a list costs a few look-ups, however large the catalog.

use std::sync::Arc;

use toolcrib_core::{
    authorize::{Authorizer as _, Denied},
    catalog::{Body, Catalog, Entry, ListFormat, Toolset, View},
    descriptor::SourceKind,
    id::TenantId,
    principal::Principal,
    quota::{Quota, QuotaKey},
    source::Source,
};

use crate::{Gateway, Snapshot, breaker::Breaker, probe::Probe, quota::quotas_of};

/// How a tool is named in a request. Names are looked up, never taken apart.
#[derive(Debug, Clone, Copy)]
pub enum ToolRef<'a> {
    /// By tool id.
    Id(&'a str),
    /// By wire name.
    Wire(&'a str),
    /// By `Toolkit.Tool`, the OTC name, in one version or in the highest.
    Otc {
        /// `Toolkit.Tool`.
        name: &'a str,
        /// `[x, y, z]`.
        version: Option<[u64; 3]>,
    },
    /// A tool of the test seams, which stands in no catalog.
    Probe(&'a Probe),
}

/// Which part of the catalog a request is about: all of it, or one toolset. A toolset narrows (I-76).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Within(Option<Arc<str>>);

impl Within {
    /// The toolset called `name`, whether or not there is one.
    pub fn toolset(name: &str) -> Self {
        Self(Some(name.into()))
    }

    /// The toolset's name; `None` means the whole catalog.
    pub fn name(&self) -> Option<&str> {
        self.0.as_deref()
    }

    /// Whether `entry` is in that part of `catalog`. Nothing is in a toolset that is not there.
    pub(crate) fn holds(&self, catalog: &Catalog, entry: &Entry) -> bool {
        match self.name() {
            None => true,
            Some(name) => catalog.toolset(name).is_some_and(|toolset| toolset.holds(entry)),
        }
    }
}

impl<'a> ToolRef<'a> {
    /// The entry that `tenant` has under that name, whoever of it may use it; when it has none,
    /// another tenant's, which no decision lets it use.
    pub(crate) fn resolve<'c>(
        self,
        catalog: &'c Catalog,
        tenant: &TenantId,
    ) -> Option<&'c Arc<Entry>>
    where
        'a: 'c,
    {
        match self {
            Self::Id(id) => catalog.by_id(tenant, id),
            Self::Wire(name) => catalog.by_wire(tenant, name),
            Self::Otc { name, version: None } => catalog.by_otc(tenant, name),
            Self::Otc { name, version: Some(version) } => {
                catalog.by_otc_version(tenant, name, version)
            }
            Self::Probe(probe) => Some(probe.entry()),
        }
    }

    /// What runs `entry`, which this name resolved to.
    pub(crate) fn source(self, snapshot: &Snapshot, entry: &Entry) -> Option<Arc<dyn Source>> {
        match self {
            Self::Probe(probe) => Some(probe.source()),
            Self::Id(_) | Self::Wire(_) | Self::Otc { .. } => {
                snapshot.sources.get(&entry.source).map(Arc::clone)
            }
        }
    }

    /// The quotas that a call of `entry` by `principal` falls under; probes have none.
    pub(crate) fn quotas(
        self,
        snapshot: &Snapshot,
        principal: &Principal,
        entry: &Entry,
    ) -> Vec<(QuotaKey, Quota)> {
        match self {
            Self::Probe(_) => Vec::new(),
            Self::Id(_) | Self::Wire(_) | Self::Otc { .. } => {
                quotas_of(&snapshot.gate, principal, entry)
            }
        }
    }

    /// What keeps calls of `entry` from a source that fails; a probe has none.
    pub(crate) fn breaker(self, snapshot: &Snapshot, entry: &Entry) -> Option<Arc<Breaker>> {
        match self {
            Self::Probe(_) => None,
            Self::Id(_) | Self::Wire(_) | Self::Otc { .. } => {
                snapshot.breakers.get(&entry.source).map(Arc::clone)
            }
        }
    }
}

impl Gateway {
    /// What `principal` may see, and so may call.
    pub fn view(&self, principal: &Principal) -> Arc<View> {
        let snapshot = self.snapshot();
        snapshot.catalog.view(&snapshot.decider, principal.subject())
    }

    /// What `principal` may see of a part of the catalog; `None` when there is no such part.
    pub fn view_within(&self, principal: &Principal, within: &Within) -> Option<Arc<View>> {
        let Some(name) = within.name() else { return Some(self.view(principal)) };
        let snapshot = self.snapshot();
        let toolset = snapshot.catalog.toolset(name)?;
        Some(snapshot.catalog.view_within(&snapshot.decider, principal.subject(), toolset))
    }

    /// The toolset that `within` is; `None` for the whole catalog, and for a part that there is not.
    pub fn toolset(&self, within: &Within) -> Option<Arc<Toolset>> {
        self.snapshot().catalog.toolset(within.name()?).map(Arc::clone)
    }

    /// The list of what `principal` may see, in `format`, of one kind of source or of all.
    pub fn list(
        &self,
        principal: &Principal,
        format: &ListFormat,
        source: Option<SourceKind>,
    ) -> Arc<Body> {
        self.view(principal).body(format, source)
    }

    /// As [`list`](Self::list), of a part of the catalog; `None` when there is no such part.
    pub fn list_within(
        &self,
        principal: &Principal,
        within: &Within,
        format: &ListFormat,
        source: Option<SourceKind>,
    ) -> Option<Arc<Body>> {
        self.view_within(principal, within).map(|view| view.body(format, source))
    }

    /// The versions of `Toolkit.Tool` that `principal` may use, the highest first. Records nothing:
    /// it is asked to explain a refusal that is recorded already.
    pub fn otc_versions(&self, principal: &Principal, name: &str) -> Vec<Arc<Entry>> {
        let snapshot = self.snapshot();
        let usable =
            |entry: &&Arc<Entry>| snapshot.decider.authorize(principal.subject(), entry).is_ok();
        snapshot.catalog.otc_versions(&principal.tenant, name).filter(usable).cloned().collect()
    }

    /// One tool, if `principal` may use it. Unknown, hidden and foreign tools are all `None`; the
    /// refusal is recorded without making the caller wait.
    pub fn find(&self, principal: &Principal, tool: ToolRef<'_>) -> Option<Arc<Entry>> {
        self.find_within(principal, tool, &Within::default())
    }

    /// As [`find`](Self::find), in a part of the catalog: what is not in it is unknown, too.
    pub fn find_within(
        &self,
        principal: &Principal,
        tool: ToolRef<'_>,
        within: &Within,
    ) -> Option<Arc<Entry>> {
        let snapshot = self.snapshot();
        let entry = tool.resolve(&snapshot.catalog, &principal.tenant);
        let Some(entry) = entry.filter(|entry| within.holds(&snapshot.catalog, entry)) else {
            self.record().unknown(principal, "tools:read");
            return None;
        };
        match snapshot.decider.authorize(principal.subject(), entry) {
            Ok(()) => return Some(Arc::clone(entry)),
            Err(Denied::Tenant) => self.record().foreign(principal, "tools:read", entry),
            Err(denied) => {
                let resource = entry.id.as_str();
                self.record().denied(principal, "tools:read", resource, denied.reason());
            }
        }
        None
    }
}
