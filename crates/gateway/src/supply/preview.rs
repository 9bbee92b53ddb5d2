//! The effect of another configuration on each role: the tools that appear and disappear.
//!
//! Invariant: a preview has no effect. The sources that it connects have no slot, and are closed at
//! its end; the tools of all others come from their last discovery.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
    time::Duration,
};

use schemars::JsonSchema;
use serde::Serialize;
use toolcrib_config::{Config, PinFirst, PinMode, SourceConfig};
use toolcrib_core::{
    canonical::Digest,
    catalog::{Catalog, Entry, Generation},
    id::{PrincipalId, SourceId, TenantId},
    principal::{AuthMethod, Principal},
    scope::{Grant, ScopeSet},
    source::{InvalidSource, Source, SourceListener, SourceState},
};

use super::{
    Supply,
    proposals::{RuleProposal, Statement, proposals, statement},
    slots::SourceOffers,
};
use crate::{
    assembly::{
        assemble::{Assembler, EntryCache},
        classify::idle_patterns,
        listed::{ListedOffer, OfferList},
        pinned::SourcePins,
    },
    policy::Decider,
    workflow_definition::offer::{Flow, Flows, offer},
};

/// The most tools of a list in a preview.
const MAX_TOOLS: usize = 1_000;
/// How often a source that connects is checked.
const CONNECT_INTERVAL: Duration = Duration::from_millis(20);
/// Longest description of a tool in a preview, in characters.
const MAX_DESCRIPTION: usize = 300;

/// The effect of another configuration.
#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Preview {
    /// The roles before and after, by name and tenant.
    pub roles: Vec<RoleChange>,
    /// Sources with unknown tools, which are missing in the lists.
    pub unknown: Vec<UnknownTools>,
    /// The sources that were connected for the preview.
    pub sources: Vec<PreviewedSource>,
    /// Rules that match no tool now, but matched one or did not exist before.
    pub idle_rules: Vec<IdleRule>,
}

/// A rule that matches no tool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct IdleRule {
    /// The source.
    #[schemars(with = "String")]
    pub source: SourceId,
    /// Its pattern.
    pub pattern: String,
}

/// The tools of a role before and after. Each list has at most 1 000 names.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RoleChange {
    /// The role.
    pub role: String,
    /// The tenant whose tools they are.
    #[schemars(with = "String")]
    pub tenant: TenantId,
    /// The number of tools before.
    pub before: usize,
    /// The number of tools after.
    pub after: usize,
    /// The tools that would become visible to the role.
    pub appears: Vec<String>,
    /// The tools that would become hidden from the role.
    pub disappears: Vec<String>,
    /// The tools that stay visible, with other requirements.
    pub changes: Vec<ToolChange>,
}

/// A tool with other requirements.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ToolChange {
    /// The tool.
    pub tool: String,
    /// The differences, such as `approval: never → always`.
    pub what: Vec<String>,
}

/// A source with unknown tools.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct UnknownTools {
    /// The source.
    #[schemars(with = "String")]
    pub source: SourceId,
    /// The reason.
    pub reason: String,
}

/// A source that this preview connected.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PreviewedSource {
    /// The source.
    #[schemars(with = "String")]
    pub source: SourceId,
    /// Its tools, at most 1 000.
    pub tools: Vec<PreviewedTool>,
    /// Whether its tools stay hidden until they are approved.
    pub requires_approval: bool,
    /// Its tools whose form differs from the known one, and that would be quarantined until the new
    /// form is approved; at most 1 000.
    pub quarantined: Vec<String>,
    /// Rules that match the words of its tools.
    pub proposals: Vec<RuleProposal>,
}

/// A tool of a source that this preview connected. Its texts are the upstream's.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PreviewedTool {
    /// The source's own name of the tool.
    pub name: String,
    /// The start of its description.
    pub description: String,
    /// The effect according to its own words.
    pub statement: Statement,
}

/// Why there is no preview.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PreviewError {
    /// Another preview is connecting sources.
    #[error("another preview connects sources at this moment; try again")]
    Busy,
    /// A source can never work.
    #[error(transparent)]
    Invalid(#[from] InvalidSource),
}

/// The tools of a source under another configuration.
struct SourceTools {
    config: Arc<SourceConfig>,
    listed: Arc<OfferList>,
    pins: Option<Arc<SourcePins>>,
}

/// Ignores notifications: a preview discovers once.
struct NoopListener;

impl SourceListener for NoopListener {
    fn changed(&self, _: &SourceId) {}
}

impl Supply {
    /// Previews the effect of `config` on the roles in `tenants`. With `connect`, missing sources
    /// are started for it, under their usual limits.
    ///
    /// # Errors
    /// [`PreviewError`].
    pub async fn preview(
        self: &Arc<Self>,
        config: &Config,
        roles_before: &BTreeMap<String, Vec<Grant>>,
        tenants: &[TenantId],
        connect: bool,
    ) -> Result<Preview, PreviewError> {
        let config = self.with_natives(config.clone())?;
        for source in &config.sources {
            self.factory.check(&source.spec)?;
        }
        let (mut known, mut unknown) = (Vec::new(), Vec::new());
        let mut new: Vec<(Arc<SourceConfig>, Option<Arc<OfferList>>)> = Vec::new();
        {
            let mut slots = self.slots.lock();
            for source in &config.sources {
                let slot = slots.find(&source.spec.id);
                let before = slot.as_ref().and_then(|slot| slot.listed.clone());
                let config = Arc::new(source.clone());
                let same =
                    slot.filter(|slot| slot.config.spec.upstream.is_same(&source.spec.upstream));
                match (same, before) {
                    (Some(slot), Some(listed)) => {
                        let pins = slot.pins.clone();
                        known.push(SourceTools { config, listed, pins });
                    }
                    (_, before) => new.push((config, before)),
                }
            }
        }
        let mut sources = Vec::new();
        if connect && !new.is_empty() {
            let permit = Arc::clone(&self.previewing).try_acquire_owned();
            let permit = permit.map_err(|_| PreviewError::Busy)?;
            let supply = Arc::clone(self);
            // Runs on if its request is cancelled, so that every source is closed.
            let connected = self.services.background.spawn(async move {
                let connected = new.iter().map(|(config, _)| supply.connect(config));
                let found = futures_util::future::join_all(connected).await;
                drop(permit);
                new.into_iter().zip(found).collect::<Vec<_>>()
            });
            for ((config, before), found) in connected.await.unwrap_or_default() {
                match found {
                    Ok(listed) => {
                        sources.push(previewed(&config, &listed, before.as_deref()));
                        known.push(SourceTools { config, listed: Arc::new(listed), pins: None });
                    }
                    Err(reason) => {
                        unknown.push(UnknownTools { source: config.spec.id.clone(), reason });
                    }
                }
            }
        } else {
            let reason = "its tools are not known until it is connected";
            unknown.extend(new.iter().map(|(config, _)| UnknownTools {
                source: config.spec.id.clone(),
                reason: reason.to_owned(),
            }));
        }
        let idle_rules = self.newly_idle(&known);
        let supply = Arc::clone(self);
        let (before, tenants) = (roles_before.clone(), tenants.to_vec());
        let roles =
            tokio::task::spawn_blocking(move || supply.compare(&config, &known, &before, &tenants));
        let roles = roles.await.unwrap_or_default();
        Ok(Preview { roles, unknown, sources, idle_rules })
    }

    /// The rules of `known` that match no tool, without those that match no tool already.
    fn newly_idle(&self, known: &[SourceTools]) -> Vec<IdleRule> {
        let mut slots = self.slots.lock();
        let mut found = Vec::new();
        for SourceTools { config, listed, .. } in known {
            let slot = slots.find(&config.spec.id).map(|slot| &*slot);
            let before: Vec<&str> =
                match slot.and_then(|slot| slot.listed.as_deref().zip(Some(slot))) {
                    Some((listed, slot)) => idle_patterns(&slot.config, listed).collect(),
                    None => Vec::new(),
                };
            let idle = idle_patterns(config, listed).filter(|pattern| !before.contains(pattern));
            found.extend(idle.map(|pattern| IdleRule {
                source: config.spec.id.clone(),
                pattern: pattern.to_owned(),
            }));
        }
        found
    }

    /// Starts the source, lists its tools and closes it. The error is a message for people.
    async fn connect(&self, config: &SourceConfig) -> Result<OfferList, String> {
        let source = self.factory.build(&config.spec, Arc::new(NoopListener));
        let source = source.map_err(|invalid| invalid.problem)?;
        let limit = config.spec.limits.connect_timeout;
        let found = tokio::select! {
            found = discovered(&source, limit) => found,
            () = self.services.background.ended().cancelled() => Err("the server is stopping".to_owned()),
        };
        source.close().await;
        found
    }

    fn compare(
        &self,
        config: &Config,
        known: &[SourceTools],
        roles_before: &BTreeMap<String, Vec<Grant>>,
        tenants: &[TenantId],
    ) -> Vec<RoleChange> {
        let current = self.snapshots.load();
        let after = self.catalog_of(config, known);
        let base = Arc::clone(&self.authorizer);
        let decider = Decider { base, policies: config.policies.clone() };
        let view = |catalog: &Catalog,
                    decider: &Decider,
                    tenant: &TenantId,
                    role: &str,
                    grants: Option<&Vec<Grant>>| {
            let Some(principal) = grants.and_then(|grants| holder(tenant, role, grants)) else {
                return Vec::new();
            };
            catalog.view(decider, principal.subject()).entries().to_vec()
        };
        let names: std::collections::BTreeSet<&String> =
            roles_before.keys().chain(config.roles.keys()).collect();
        let mut changes = Vec::new();
        for tenant in tenants {
            for role in &names {
                let old = roles_before.get(*role);
                let old = view(&current.catalog, &current.decider, tenant, role, old);
                let new = view(&after, &decider, tenant, role, config.roles.get(*role));
                changes.push(change(role, tenant, &old, &new));
            }
        }
        changes
    }

    /// The tools of `known` under the rules of `config`.
    fn catalog_of(&self, config: &Config, known: &[SourceTools]) -> Catalog {
        let validators = Arc::clone(&self.slots.lock().validators);
        let mut entries: Vec<Arc<Entry>> = Vec::new();
        let mut flows: Vec<(Arc<SourceConfig>, Vec<Arc<Flow>>)> = Vec::new();
        for SourceTools { config: source, listed, pins } in known {
            // Without earlier pins, all tools are approved at the first discovery.
            let is_trusted = pins.is_none() && source.pins.first == PinFirst::Trust;
            let source = match is_trusted {
                true => {
                    let mut source = SourceConfig::clone(source);
                    source.pins.mode = PinMode::Off;
                    Arc::new(source)
                }
                false => Arc::clone(source),
            };
            let assembler = Assembler::new(&source, &config.gate, &validators);
            let made =
                SourceOffers::new(&assembler, listed, pins.as_deref(), &EntryCache::default());
            entries.extend(made.assembled.entries);
            flows.push((source, made.flows));
        }
        if flows.iter().any(|(_, flows)| !flows.is_empty()) {
            let (catalog, _) = Catalog::build(Generation(0), entries.clone());
            let flows: Vec<_> =
                flows.iter().map(|(config, flows)| Flows { config, flows }).collect();
            entries.extend(offer(&flows, &config.gate, &validators, &catalog).entries);
        }
        Catalog::build(Generation(0), entries).0
    }
}

/// Waits until `source` is connected, and lists its tools.
async fn discovered(source: &Arc<dyn Source>, limit: Duration) -> Result<OfferList, String> {
    let connected = async {
        loop {
            let status = source.status();
            match status.state {
                SourceState::Ready => return Ok(()),
                SourceState::Starting if status.detail.is_none() => {}
                SourceState::Starting | SourceState::Degraded | SourceState::Stopped => {
                    let detail = status.detail.unwrap_or_else(|| "no reason is known".to_owned());
                    return Err(format!("it could not be connected: {detail}"));
                }
            }
            tokio::time::sleep(CONNECT_INTERVAL).await;
        }
    };
    let late = |_| "it did not answer in time".to_owned();
    tokio::time::timeout(limit, connected).await.map_err(late)??;
    let discovered = tokio::time::timeout(limit, source.discover()).await.map_err(late)?;
    let discovered = discovered.map_err(|error| {
        format!("it is connected, but its tools could not be listed: {}", error.detail)
    })?;
    Ok(OfferList::new(discovered, None).0)
}

/// The tools of `listed` whose form differs in `before`, if changes are quarantined.
fn quarantined(
    config: &SourceConfig,
    listed: &OfferList,
    before: Option<&OfferList>,
) -> Vec<String> {
    if config.pins.mode != PinMode::Enforce {
        return Vec::new();
    }
    let known = before.iter().flat_map(|listed| &listed.offers);
    let known: HashMap<_, Digest> = known.map(|tool| (tool.key(), tool.digest)).collect();
    let is_changed = |tool: &&Arc<ListedOffer>| {
        known.get(&tool.key()).is_some_and(|before| *before != tool.digest)
    };
    let changed = listed.offers.iter().filter(is_changed);
    changed.take(MAX_TOOLS).map(|tool| tool.name.clone()).collect()
}

fn previewed(
    config: &SourceConfig,
    listed: &OfferList,
    before: Option<&OfferList>,
) -> PreviewedSource {
    let tools = listed.discovered().take(MAX_TOOLS).map(|tool| {
        let seen = |text: &str| -> String {
            text.chars().filter(|c| !toolcrib_core::text::is_hidden(*c)).collect()
        };
        let description = tool.description.as_deref().map(seen).unwrap_or_default();
        PreviewedTool {
            statement: statement(&tool),
            name: seen(&tool.name),
            description: description.chars().take(MAX_DESCRIPTION).collect(),
        }
    });
    PreviewedSource {
        source: config.spec.id.clone(),
        tools: tools.collect(),
        requires_approval: config.pins.mode == PinMode::Enforce
            && config.pins.first == PinFirst::Approve,
        quarantined: quarantined(config, listed, before),
        proposals: proposals(config, listed, None),
    }
}

/// A caller with only the role `role`.
pub(crate) fn holder(tenant: &TenantId, role: &str, grants: &[Grant]) -> Option<Principal> {
    Some(Principal {
        id: PrincipalId::parse("preview").ok()?,
        tenant: tenant.clone(),
        scopes: ScopeSet::new(grants.iter().cloned()),
        roles: vec![role.to_owned()],
        makers: Vec::new(),
        session: None,
        auth: AuthMethod::Anonymous,
    })
}

fn change(role: &str, tenant: &TenantId, old: &[Arc<Entry>], new: &[Arc<Entry>]) -> RoleChange {
    let by_name = |entries: &[Arc<Entry>]| -> BTreeMap<String, Arc<Entry>> {
        entries.iter().map(|entry| (entry.names.wire.clone(), Arc::clone(entry))).collect()
    };
    let (before, after) = (by_name(old), by_name(new));
    let without = |one: &BTreeMap<String, Arc<Entry>>, other: &BTreeMap<String, Arc<Entry>>| {
        let names = one.keys().filter(|name| !other.contains_key(*name));
        names.take(MAX_TOOLS).cloned().collect()
    };
    let changes = after.iter().filter_map(|(tool, after)| {
        let what = differences(before.get(tool)?, after);
        (!what.is_empty()).then(|| ToolChange { tool: tool.clone(), what })
    });
    RoleChange {
        role: role.to_owned(),
        tenant: tenant.clone(),
        before: old.len(),
        after: new.len(),
        appears: without(&after, &before),
        disappears: without(&before, &after),
        changes: changes.take(MAX_TOOLS).collect(),
    }
}

/// The differences that callers notice.
fn differences(before: &Entry, after: &Entry) -> Vec<String> {
    let word = |value: serde_json::Value| value.as_str().unwrap_or("none").to_owned();
    let words = |entry: &Entry| {
        let tool = &entry.tool;
        let limit = entry.rate.map_or_else(|| "off".to_owned(), |rate| rate.to_string());
        [
            ("tier", word(serde_json::to_value(tool.safety_tier).unwrap_or_default())),
            ("approval", word(serde_json::to_value(tool.approval).unwrap_or_default())),
            ("rate", limit),
        ]
    };
    let pairs = words(before).into_iter().zip(words(after));
    let differing = pairs.filter(|(one, other)| one.1 != other.1);
    differing.map(|((name, one), (_, other))| format!("{name}: {one} → {other}")).collect()
}
