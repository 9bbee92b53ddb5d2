//! Toolsets: how they are, and what of their allow-lists reaches no tool.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use parking_lot::Mutex;
use serde::Serialize;
use toolcrib_core::{
    catalog::{Generation, Toolset},
    id::{AgentId, TenantId},
    principal::Principal,
};

use crate::{Gateway, list::CatalogScope};

/// How one toolset is, for operators.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolsetReport {
    /// Its name.
    pub name: String,
    /// For people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// How many of its tools whoever asks may use.
    pub tools: usize,
    /// How many entries of its allow-list reach no tool. The entries themselves may name what other
    /// tenants have.
    pub unresolved: usize,
}

/// Which entries of allow-lists have been told of, so that each is told once.
#[derive(Debug, Default)]
pub(crate) struct Told(Mutex<(Generation, BTreeSet<(String, String)>)>);

impl Gateway {
    /// Every toolset as `principal` has it.
    pub fn toolsets(&self, principal: &Principal) -> Vec<ToolsetReport> {
        let snapshot = self.snapshot();
        let toolsets = snapshot.catalog.toolsets();
        toolsets
            .map(|toolset| ToolsetReport {
                name: toolset.name().to_string(),
                title: toolset.title.clone(),
                tools: snapshot
                    .catalog
                    .view_within(&snapshot.decider, principal.subject(), toolset)
                    .entries()
                    .len(),
                unresolved: toolset.unresolved.len(),
            })
            .collect()
    }

    /// Entries of allow-lists that reach no tool, as `toolset "NAME": ENTRY`. Only telling once every
    /// source has told its tools ([`Gateway::settle`]).
    pub fn unresolved_references(&self) -> Vec<String> {
        let of = |(toolset, reference)| format!("toolset \"{toolset}\": {reference}");
        self.unresolved().into_iter().map(of).collect()
    }

    /// Whether there is such a part of the catalog.
    pub fn has(&self, within: &CatalogScope) -> bool {
        within.name().is_none_or(|name| self.snapshot().catalog.toolset(name).is_some())
    }

    /// Records entries of allow-lists that reach no tool (RFC 0064: forbidden at load), each once as
    /// long as it reaches none. They belong to no tenant.
    pub(crate) async fn tell_unresolved(&self, told: &Told) {
        let now = self.snapshot().catalog.generation();
        if told.0.lock().0 == now {
            return;
        }
        let unresolved = self.unresolved();
        let news = {
            let told = told.0.lock();
            let mut news: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
            for pair @ (toolset, reference) in &unresolved {
                if !told.1.contains(pair) {
                    news.entry(toolset).or_default().push(reference);
                }
            }
            news
        };
        let Ok(tenant) = TenantId::parse(TenantId::OPERATOR) else { return };
        for (toolset, references) in news {
            for reference in &references {
                tracing::warn!(toolset, reference, "an entry of an allow-list reaches no tool");
            }
            let agent = AgentId::parse(format!("toolset.{toolset}"));
            let agent = agent.unwrap_or_else(|_| AgentId::system());
            if let Err(error) = self.record_forbidden_at_load(&tenant, &agent, references).await {
                tracing::error!(%error, "what reaches no tool could not be recorded; it is tried again");
                return;
            }
        }
        *told.0.lock() = (now, unresolved);
    }

    fn unresolved(&self) -> BTreeSet<(String, String)> {
        let snapshot = self.snapshot();
        let of = |toolset: &Arc<Toolset>| {
            let name = toolset.name().to_string();
            let references = toolset.unresolved.iter().cloned();
            references.map(|reference| (name.clone(), reference)).collect::<Vec<_>>()
        };
        snapshot.catalog.toolsets().flat_map(of).collect()
    }
}
