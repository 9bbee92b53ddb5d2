//! What a caller sees.
//!
//! Invariant (I-7): every answer here is made of the same decision that [`call`](mod@crate::call)
//! makes. Invariant (I-24): a list costs a few look-ups, however large the catalog.

use std::sync::Arc;

use toolcrib_core::{
    authorize::Denied,
    catalog::{Body, Catalog, Entry, ListFormat, View},
    descriptor::SourceKind,
    principal::Principal,
    source::Source,
};

use crate::{Gateway, Snapshot, breaker::Breaker, probe::Probe};

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

impl<'a> ToolRef<'a> {
    /// The entry of that name, whoever may use it.
    pub(crate) fn resolve<'c>(self, catalog: &'c Catalog) -> Option<&'c Arc<Entry>>
    where
        'a: 'c,
    {
        match self {
            Self::Id(id) => catalog.by_id(id),
            Self::Wire(name) => catalog.by_wire(name),
            Self::Otc { name, version: None } => catalog.by_otc(name),
            Self::Otc { name, version: Some(version) } => catalog.by_otc_version(name, version),
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
        self.snapshot().catalog.view(self.authorizer(), principal.subject())
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

    /// The versions of `Toolkit.Tool` that `principal` may use, the highest first. Records nothing:
    /// it is asked to explain a refusal that is recorded already.
    pub fn otc_versions(&self, principal: &Principal, name: &str) -> Vec<Arc<Entry>> {
        let snapshot = self.snapshot();
        let usable =
            |entry: &&Arc<Entry>| self.authorizer().authorize(principal.subject(), entry).is_ok();
        snapshot.catalog.otc_versions(name).filter(usable).cloned().collect()
    }

    /// One tool, if `principal` may use it. Unknown, hidden and foreign tools are all `None`; the
    /// refusal is recorded without making the caller wait.
    pub fn find(&self, principal: &Principal, tool: ToolRef<'_>) -> Option<Arc<Entry>> {
        let snapshot = self.snapshot();
        let Some(entry) = tool.resolve(&snapshot.catalog) else {
            self.record().unknown(principal, "tools:read");
            return None;
        };
        match self.authorizer().authorize(principal.subject(), entry) {
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
