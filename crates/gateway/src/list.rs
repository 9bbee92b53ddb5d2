//! What a caller sees.
//!
//! Invariant (I-7): every answer here is made of the same decision that [`call`](mod@crate::call)
//! makes. Invariant (I-24): a list costs a few look-ups, however large the catalog.
//! Invariant (I-9, I-81): a name is looked up in what its caller sees, and in nothing else before that.
//! Finding a hidden tool, a foreign tool or no tool takes the same steps.

use std::sync::Arc;

use toolcrib_core::{
    authorize::Authorizer as _,
    catalog::{Body, Catalog, Entry, ListFormat, Toolset, View},
    descriptor::SourceKind,
    id::TenantId,
    principal::Principal,
    quota::{Quota, QuotaKey},
    source::Source,
};

use crate::{
    Gateway, Snapshot,
    breaker::Breaker,
    probe::Probe,
    quota::quotas_of,
    record::{Miss, MissedCall, READ},
};

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
pub struct CatalogScope(Option<Arc<str>>);

impl CatalogScope {
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

    /// The name as it was sent.
    fn text(&self) -> &str {
        match self {
            Self::Id(text) | Self::Wire(text) | Self::Otc { name: text, .. } => text,
            Self::Probe(probe) => probe.entry().id.as_str(),
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

impl Snapshot {
    /// What `principal` may see, and so may call.
    pub(crate) fn view(&self, principal: &Principal) -> Arc<View> {
        self.catalog.view(&self.decider, principal.subject())
    }

    /// The tool of that name in a part of the catalog, if `principal` sees it.
    ///
    /// # Errors
    /// It does not. Says whether there is such a tool, which only the record may depend on, and what
    /// the configuration lets callers know.
    pub(crate) fn find(
        self: &Arc<Self>,
        principal: &Principal,
        tool: ToolRef<'_>,
        within: &CatalogScope,
        call: Option<MissedCall>,
    ) -> Result<Arc<Entry>, Miss> {
        let entry = tool.resolve(&self.catalog, &principal.tenant);
        let entry = entry.filter(|entry| within.holds(&self.catalog, entry));
        let seen = match (tool, entry) {
            // A probe is in no catalog.
            (ToolRef::Probe(_), Some(probe)) => {
                Some(probe).filter(|it| self.decider.authorize(principal.subject(), it).is_ok())
            }
            (_, entry) => self.view(principal).check(entry, tool.text()),
        };
        match seen {
            Some(entry) => Ok(Arc::clone(entry)),
            None => Err(Miss {
                snapshot: Arc::clone(self),
                scopes: principal.scopes.clone(),
                entry: entry.cloned(),
                call,
            }),
        }
    }
}

impl Gateway {
    /// What `principal` may see, and so may call.
    pub fn view(&self, principal: &Principal) -> Arc<View> {
        self.snapshot().view(principal)
    }

    /// What `principal` may see of a part of the catalog; `None` when there is no such part.
    pub fn view_within(&self, principal: &Principal, within: &CatalogScope) -> Option<Arc<View>> {
        let snapshot = self.snapshot();
        let Some(name) = within.name() else { return Some(snapshot.view(principal)) };
        let toolset = snapshot.catalog.toolset(name)?;
        Some(snapshot.catalog.view_within(&snapshot.decider, principal.subject(), toolset))
    }

    /// The toolset that `within` is; `None` for the whole catalog, and for a part that there is not.
    pub fn toolset(&self, within: &CatalogScope) -> Option<Arc<Toolset>> {
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
        within: &CatalogScope,
        format: &ListFormat,
        source: Option<SourceKind>,
    ) -> Option<Arc<Body>> {
        self.view_within(principal, within).map(|view| view.body(format, source))
    }

    /// The versions of `Toolkit.Tool` that `principal` may use, the highest first. Records nothing:
    /// it is asked to explain a refusal that is recorded already.
    pub fn otc_versions(&self, principal: &Principal, name: &str) -> Vec<Arc<Entry>> {
        let snapshot = self.snapshot();
        let view = snapshot.view(principal);
        let versions = snapshot.catalog.otc_versions(&principal.tenant, name);
        versions.filter(|entry| view.check(Some(*entry), name).is_some()).cloned().collect()
    }

    /// One tool, if `principal` may use it. Unknown, hidden and foreign tools are all `None`; the
    /// refusal is recorded without making the caller wait.
    pub fn find(&self, principal: &Principal, tool: ToolRef<'_>) -> Option<Arc<Entry>> {
        self.find_within(principal, tool, &CatalogScope::default())
    }

    /// As [`find`](Self::find), in a part of the catalog: what is not in it is unknown, too.
    pub fn find_within(
        &self,
        principal: &Principal,
        tool: ToolRef<'_>,
        within: &CatalogScope,
    ) -> Option<Arc<Entry>> {
        match self.snapshot().find(principal, tool, within, None) {
            Ok(entry) => Some(entry),
            Err(miss) => {
                self.record().missed(principal, READ, miss);
                None
            }
        }
    }

    /// As [`find_within`](Self::find_within), for a request that looks the tool up again: records
    /// nothing.
    pub fn peek_within(
        &self,
        principal: &Principal,
        tool: ToolRef<'_>,
        within: &CatalogScope,
    ) -> Option<Arc<Entry>> {
        self.snapshot().find(principal, tool, within, None).ok()
    }
}
