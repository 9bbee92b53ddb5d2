//! Roles from named tools.
//!
//! Several tools can require the same scopes, so a role with the scopes of some tools also reaches
//! others. The others are reported, and the change is written only after a person has seen them.

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, json};
use toolcrib_config::{
    Config, ToolPattern,
    edit::{Change, ChangeKind, EditAction, EditError},
};
use toolcrib_core::{
    catalog::Entry,
    id::{SourceId, TenantId},
    scope::{Grant, Scope, ScopeSet},
    source::UpstreamSpec,
};

use crate::{gateway::Gateway, supply::own_scope_rules};

/// The most names of a list.
const MAX_NAMES: usize = 1_000;

/// The reach of a role from named tools.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RoleReach {
    /// The role.
    pub role: String,
    /// The named tools.
    pub named: Vec<String>,
    /// Other tools that it would reach, because they require the same scopes. At most 1 000.
    pub others: Vec<String>,
    /// Changes that make the role reach only the named tools: rules give these a separate scope,
    /// and roles that reach them keep them. Empty without other tools, and if rules cannot do that.
    pub suggestion: Vec<Change>,
}

fn required(entry: &Entry) -> &[Scope] {
    entry.tool.required_scopes().unwrap_or_default()
}

/// Whether a holder of `scopes` reaches `entry`, policies aside.
fn reaches(scopes: &ScopeSet, entry: &Entry) -> bool {
    entry.tool.required_scopes().is_some_and(|required| scopes.missing(required).next().is_none())
}

impl Gateway {
    /// Replaces the tools of each change by their required scopes, and returns the reach of the
    /// roles. With `tenant`, only its tools can be named. The other tools include those of every
    /// tenant, and quarantined ones, which the role reaches after their approval.
    ///
    /// # Errors
    /// Fails if a change names an unknown tool, or is not about a role.
    pub fn resolve_tools(
        &self,
        config: &Config,
        tenant: Option<&TenantId>,
        changes: Vec<Change>,
    ) -> Result<(Vec<Change>, Vec<RoleReach>), EditError> {
        let snapshot = self.snapshot();
        let offered = snapshot.catalog.entries().iter().map(|entry| &**entry);
        let named = offered
            .clone()
            .filter(|entry| tenant.is_none_or(|tenant| entry.tenants.admits(tenant)));
        let named: Vec<&Entry> = named.collect();
        let quarantined = snapshot.quarantined.entries().iter().map(|entry| &**entry);
        let all: Vec<&Entry> = offered.chain(quarantined).collect();
        let mut reached = Vec::new();
        let mut resolved = Vec::new();
        for (at, change) in changes.into_iter().enumerate() {
            if change.tools.is_empty() {
                resolved.push(change);
                continue;
            }
            let role = RoleOfTools::new(config, &named, &all, change);
            let (change, reach) = role.map_err(|error| error.of_change(at))?.resolve();
            resolved.push(change);
            reached.push(reach);
        }
        Ok((resolved, reached))
    }
}

struct RoleOfTools<'a> {
    config: &'a Config,
    change: Change,
    /// The scopes that it has without the tools.
    base: Vec<Grant>,
    named: Vec<&'a Entry>,
    others: Vec<&'a Entry>,
}

// === impl RoleOfTools ===

impl<'a> RoleOfTools<'a> {
    fn new(
        config: &'a Config,
        entries: &[&'a Entry],
        all: &[&'a Entry],
        mut change: Change,
    ) -> Result<Self, EditError> {
        if change.kind != ChangeKind::Role || change.action == EditAction::Remove {
            return Err(EditError::of_key("tools", "is only for adding or changing a role"));
        }
        let mut named: Vec<&Entry> = Vec::new();
        for glob in std::mem::take(&mut change.tools) {
            let pattern = ToolPattern::new(&glob);
            let pattern = pattern.map_err(|error| {
                EditError::of_key("tools", format!("{glob}: is not a glob: {}", error.kind()))
            })?;
            let matching: Vec<_> = entries.iter().filter(|entry| pattern.matches(entry)).collect();
            if matching.is_empty() {
                return Err(EditError::of_key("tools", format!("no tool matches {glob}")));
            }
            for entry in matching {
                if !named.iter().any(|tool| tool.id == entry.id) {
                    named.push(entry);
                }
            }
        }
        let base = base_scopes(config, &change)?;
        let mut role = Self { config, change, base, named, others: Vec::new() };
        let before = ScopeSet::new(role.base.iter().cloned());
        let after = role.scopes_with(role.named.iter().flat_map(|tool| required(tool)).cloned());
        let is_other = |entry: &&&Entry| {
            reaches(&after, entry)
                && !reaches(&before, entry)
                && !role.named.iter().any(|tool| tool.id == entry.id)
        };
        role.others = all.iter().filter(is_other).copied().collect();
        Ok(role)
    }

    fn resolve(self) -> (Change, RoleReach) {
        let names = |entries: &[&Entry]| -> Vec<String> {
            let mut names: Vec<_> = entries.iter().map(|entry| entry.names.wire.clone()).collect();
            names.sort();
            names.truncate(MAX_NAMES);
            names
        };
        let reach = RoleReach {
            role: self.change.name.clone(),
            named: names(&self.named),
            others: names(&self.others),
            suggestion: match self.others.is_empty() {
                true => Vec::new(),
                false => self.suggestion().unwrap_or_default(),
            },
        };
        let scopes = self.named.iter().flat_map(|entry| required(entry)).cloned().collect();
        (self.with_scopes(scopes), reach)
    }

    /// The base scopes and `more` as a set.
    fn scopes_with(&self, more: impl IntoIterator<Item = Scope>) -> ScopeSet {
        let more = more.into_iter().filter_map(|scope| Grant::parse(scope.as_str()).ok());
        ScopeSet::new(self.base.iter().cloned().chain(more))
    }

    /// The change of the role with `more` scopes.
    fn with_scopes(&self, more: Vec<Scope>) -> Change {
        let mut scopes: Vec<String> = self.base.iter().map(ToString::to_string).collect();
        for scope in more.into_iter().map(|scope| scope.to_string()).collect::<BTreeSet<_>>() {
            if !scopes.contains(&scope) {
                scopes.push(scope);
            }
        }
        let mut change = self.change.clone();
        change.settings.insert("scopes".to_owned(), json!(scopes));
        change
    }

    /// The changes that make the role reach only the named tools; `None` if rules cannot do that.
    fn suggestion(&self) -> Option<Vec<Change>> {
        let mut taken: BTreeSet<String> =
            self.config.known_scopes().iter().map(ToString::to_string).collect();
        let mut groups: BTreeMap<(SourceId, Vec<Scope>), Vec<&Entry>> = BTreeMap::new();
        for entry in &self.named {
            groups.entry((entry.source.clone(), required(entry).to_vec())).or_default().push(entry);
        }
        let (mut changes, mut scopes) = (Vec::new(), Vec::new());
        let mut roles: BTreeMap<&String, Vec<String>> = BTreeMap::new();
        for ((source, required), tools) in groups {
            let with = self.scopes_with(required.iter().cloned());
            if !self.others.iter().any(|other| reaches(&with, other)) {
                scopes.extend(required);
                continue;
            }
            let source = self.config.source(&source)?;
            // Workflows also require the scopes of their steps, and natives are not in the file.
            if source.kind.traits().is_in_gateway || source.spec.upstream == UpstreamSpec::Native {
                return None;
            }
            let own = own_scope(required.first()?, &self.change.name, &mut taken)?;
            let tools = tools.iter().map(|entry| entry.upstream_name.clone()).collect();
            changes.extend(own_scope_rules(source, tools, &own));
            for (role, grants) in &self.config.roles {
                let held = ScopeSet::new(grants.iter().cloned());
                if *role != self.change.name
                    && held.missing(&required).next().is_none()
                    && !held.covers(&own)
                {
                    let usual = || grants.iter().map(ToString::to_string).collect();
                    roles.entry(role).or_insert_with(usual).push(own.to_string());
                }
            }
            scopes.push(own);
        }
        changes.extend(roles.into_iter().map(|(role, scopes)| {
            let settings = Map::from_iter([("scopes".to_owned(), json!(scopes))]);
            Change::new(EditAction::Set, ChangeKind::Role, role, settings)
        }));
        changes.push(self.with_scopes(scopes));
        Some(changes)
    }
}

/// The scopes in a change, or otherwise those of its role.
fn base_scopes(config: &Config, change: &Change) -> Result<Vec<Grant>, EditError> {
    let Some(stated) = change.settings.get("scopes") else {
        return Ok(match change.action {
            EditAction::Set => config.roles.get(&change.name).cloned().unwrap_or_default(),
            EditAction::Add | EditAction::Remove => Vec::new(),
        });
    };
    let parsed = stated.as_array().and_then(|texts| {
        texts.iter().map(|text| Grant::parse(text.as_str()?).ok()).collect::<Option<Vec<_>>>()
    });
    parsed.ok_or_else(|| EditError::of_key("scopes", "expected an array of scopes"))
}

/// An unused scope below `shared`, named after `role`.
fn own_scope(shared: &Scope, role: &str, taken: &mut BTreeSet<String>) -> Option<Scope> {
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    let role: String = role.chars().map(|c| if is_allowed(c) { c } else { '-' }).collect();
    let names =
        std::iter::once(role.clone()).chain((2..100).map(|number| format!("{role}-{number}")));
    let mut scopes = names.filter_map(|name| Scope::parse(&format!("{shared}:{name}")).ok());
    let own = scopes.find(|scope| !taken.contains(scope.as_str()))?;
    taken.insert(own.to_string());
    Some(own)
}
