//! Finding the tools of a snapshot by their names.
//!
//! Invariant (I-9): a lookup finds the tenant's own tool first. Otherwise it finds another tenant's
//! tool, which no decision permits; the denial is then recorded.

use std::{collections::BTreeSet, sync::Arc};

use super::{
    Catalog,
    entry::Entry,
    names::{Holders, Versions},
};
use crate::id::TenantId;

impl Catalog {
    /// Finds a tool by tool id.
    pub fn by_id(&self, tenant: &TenantId, id: &str) -> Option<&Arc<Entry>> {
        self.entries.get(self.names.ids.get(id)?.of_tenant(tenant))
    }

    /// Finds a tool by wire name.
    pub fn by_wire(&self, tenant: &TenantId, name: &str) -> Option<&Arc<Entry>> {
        self.entries.get(self.names.wires.get(name)?.of_tenant(tenant))
    }

    /// Finds the highest version of `Toolkit.Tool`.
    pub fn by_otc(&self, tenant: &TenantId, name: &str) -> Option<&Arc<Entry>> {
        own_or_first(tenant, self.all_by_otc(name))
    }

    /// Finds one version of `Toolkit.Tool`.
    pub fn by_otc_version(
        &self,
        tenant: &TenantId,
        name: &str,
        version: [u64; 3],
    ) -> Option<&Arc<Entry>> {
        let versions = self.all_by_otc(name);
        own_or_first(tenant, versions.filter(|entry| entry.names.is_version(version)))
    }

    /// Every version of `Toolkit.Tool` that exists for `tenant`, highest first.
    pub fn otc_versions(&self, tenant: &TenantId, name: &str) -> impl Iterator<Item = &Arc<Entry>> {
        self.all_by_otc(name).filter(|entry| entry.tenants.admits(tenant))
    }

    /// Finds a tool by any name: tool id, wire name, or `Toolkit.Tool` with or without a version.
    pub fn find(&self, tenant: &TenantId, name: &str) -> Option<&Arc<Entry>> {
        let versions = self.all_by_otc(without_version(name));
        let versioned = versions.filter(|entry| entry.names.otc_id() == name);
        let found = [
            self.by_id(tenant, name),
            self.by_wire(tenant, name),
            self.by_otc(tenant, name),
            own_or_first(tenant, versioned),
        ];
        own_or_first(tenant, found.into_iter().flatten())
    }

    /// Every tool that [`find`](Self::find) could return for `name`, of all tenants. For operators.
    pub fn find_all(&self, name: &str) -> Vec<&Arc<Entry>> {
        let is = |entry: &Arc<Entry>| entry.names.otc == name || entry.names.otc_id() == name;
        let holders = [self.names.ids.get(name), self.names.wires.get(name)];
        let otc = self.names.otc.get(without_version(name));
        let otc = otc.into_iter().flat_map(Versions::positions).copied();
        let otc = otc.filter(|position| self.entries.get(*position).is_some_and(is));
        self.at(holders.into_iter().flatten().flat_map(Holders::all).chain(otc))
    }

    /// Returns every tool with id `id`, of all tenants.
    pub fn all_by_id(&self, id: &str) -> Vec<&Arc<Entry>> {
        self.at(self.names.ids.get(id).into_iter().flat_map(Holders::all))
    }

    /// The tools at `positions`, without repetition, in the order of the snapshot.
    fn at(&self, positions: impl Iterator<Item = usize>) -> Vec<&Arc<Entry>> {
        let positions: BTreeSet<usize> = positions.collect();
        positions.into_iter().filter_map(|position| self.entries.get(position)).collect()
    }

    /// Every version of `Toolkit.Tool`, highest first, of all tenants.
    fn all_by_otc(&self, name: &str) -> impl Iterator<Item = &Arc<Entry>> + Clone {
        let positions = self.names.otc.get(name).into_iter().flat_map(Versions::positions);
        positions.filter_map(|&position| self.entries.get(position))
    }
}

fn without_version(name: &str) -> &str {
    name.split_once('@').map_or(name, |(bare, _)| bare)
}

/// Finds the first of `entries` that exists for `tenant`, or else the first of all.
fn own_or_first<'c>(
    tenant: &TenantId,
    mut entries: impl Iterator<Item = &'c Arc<Entry>> + Clone,
) -> Option<&'c Arc<Entry>> {
    let own = entries.clone().find(|entry| entry.tenants.admits(tenant));
    own.or_else(|| entries.next())
}
