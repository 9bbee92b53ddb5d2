//! Entries of the allow-lists of toolsets that match no tool.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use parking_lot::Mutex;
use toolcrib_core::{
    catalog::{Generation, Toolset},
    id::{AgentId, TenantId},
};

use crate::{audit::Audit, snapshot::Snapshot};

/// Pairs of a toolset and an entry of its allow-list that matches no tool.
pub(super) type References = BTreeSet<(String, String)>;

/// The recorded references, each recorded once while it matches no tool.
#[derive(Debug, Default)]
pub(super) struct ReportedReferences(Mutex<(Generation, References)>);

impl ReportedReferences {
    /// Records the entries that match no tool of `snapshot` (RFC 0064: forbidden at load), each
    /// once. They belong to the server, not to a tenant.
    pub(super) async fn report(&self, snapshot: &Snapshot, audit: &Audit) {
        let generation = snapshot.catalog.generation();
        if self.0.lock().0 == generation {
            return;
        }
        let unresolved = unresolved(snapshot);
        let new = {
            let reported = self.0.lock();
            let mut new: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
            for pair @ (toolset, reference) in &unresolved {
                if !reported.1.contains(pair) {
                    new.entry(toolset).or_default().push(reference);
                }
            }
            new
        };
        let Ok(tenant) = TenantId::parse(TenantId::OPERATOR) else { return };
        for (toolset, references) in new {
            for reference in &references {
                tracing::warn!(toolset, reference, "an entry of an allow-list matches no tool");
            }
            let agent = AgentId::parse(format!("toolset.{toolset}"));
            let agent = agent.unwrap_or_else(|_| AgentId::system());
            if let Err(error) = audit.forbidden_at_load(&tenant, &agent, references).await {
                tracing::error!(%error, "entries that match no tool could not be recorded; retrying");
                return;
            }
        }
        *self.0.lock() = (generation, unresolved);
    }
}

pub(super) fn unresolved(snapshot: &Snapshot) -> References {
    let pairs = |toolset: &Arc<Toolset>| {
        let name = toolset.name().to_string();
        let references = toolset.unresolved.iter().cloned();
        references.map(|reference| (name.clone(), reference)).collect::<Vec<_>>()
    };
    snapshot.catalog.toolsets().flat_map(pairs).collect()
}
