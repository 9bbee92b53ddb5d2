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
};

use crate::Gateway;

/// How a tool is named in a request. Names are looked up, never taken apart.
#[derive(Debug, Clone, Copy)]
pub enum ToolRef<'a> {
    /// By tool id.
    Id(&'a str),
    /// By wire name.
    Wire(&'a str),
    /// By `Toolkit.Tool`, the OTC name without version.
    Otc(&'a str),
}

impl ToolRef<'_> {
    /// The entry of that name, whoever may use it.
    pub(crate) fn resolve(self, catalog: &Catalog) -> Option<&Arc<Entry>> {
        match self {
            Self::Id(id) => catalog.by_id(id),
            Self::Wire(name) => catalog.by_wire(name),
            Self::Otc(name) => catalog.by_otc(name),
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

    /// One tool, if `principal` may use it. Unknown, hidden and foreign tools are all `None`; the
    /// refusal is recorded without making the caller wait.
    pub fn find(&self, principal: &Principal, tool: ToolRef<'_>) -> Option<Arc<Entry>> {
        let snapshot = self.snapshot();
        let decision = match tool.resolve(&snapshot.catalog) {
            Some(entry) => match self.authorizer().authorize(principal.subject(), entry) {
                Ok(()) => return Some(Arc::clone(entry)),
                Err(denied) => Some((entry, denied)),
            },
            None => None,
        };
        let (resource, reason) = match &decision {
            Some((entry, denied)) => (entry.id.as_str(), Denied::reason(denied)),
            None => ("unknown", "unknown"),
        };
        self.record().denied_quietly(principal, "tools:read", resource, reason);
        None
    }
}
