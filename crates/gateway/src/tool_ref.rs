//! The name of a tool in a request, and the part of the catalog for its lookup.

use std::sync::Arc;

use toolcrib_core::{
    catalog::{Catalog, Entry},
    id::TenantId,
};

/// The name of a tool in a request. Names are looked up, never parsed (I-16).
#[derive(Debug, Clone, Copy)]
pub enum ToolRef<'a> {
    /// A tool id.
    Id(&'a str),
    /// A wire name.
    Wire(&'a str),
    /// `Toolkit.Tool`, the name of Open Tool Calling, in one version or in the highest.
    Otc {
        /// `Toolkit.Tool`.
        name: &'a str,
        /// `[major, minor, patch]`.
        version: Option<[u64; 3]>,
    },
}

/// The part of the catalog for a request: all of it, or one toolset. A toolset narrows (I-76).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CatalogScope(Option<Arc<str>>);

// === impl ToolRef ===

impl<'a> ToolRef<'a> {
    /// Returns the entry of `tenant` with this name, regardless of permissions. If it has no such
    /// entry, returns that of another tenant, which every decision denies.
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
        }
    }

    /// The name as the caller sent it.
    pub(crate) fn text(&self) -> &'a str {
        match self {
            Self::Id(text) | Self::Wire(text) | Self::Otc { name: text, .. } => text,
        }
    }
}

// === impl CatalogScope ===

impl CatalogScope {
    /// The toolset `name`, which may not exist.
    pub fn toolset(name: &str) -> Self {
        Self(Some(name.into()))
    }

    /// The toolset's name; `None` means the whole catalog.
    pub fn name(&self) -> Option<&str> {
        self.0.as_deref()
    }

    /// Whether this scope contains `entry`. A missing toolset is empty.
    pub(crate) fn contains(&self, catalog: &Catalog, entry: &Entry) -> bool {
        match self.name() {
            None => true,
            Some(name) => catalog.toolset(name).is_some_and(|toolset| toolset.holds(entry)),
        }
    }
}
