//! The tools that a role sees in one tenant.
//!
//! Invariant (I-9): an answer never contains data of another tenant. If the grants of a role match
//! no tool or route of the tenant, the role is unknown to it, because its name or grants may be
//! about another tenant. The approvals of a tool of the tenant make a role known, too.

use std::{collections::BTreeSet, sync::Arc};

use serde::Serialize;
use toolcrib_config::scopes::RouteScope;
use toolcrib_core::{
    catalog::{Entry, View},
    id::{TenantId, ToolId},
    scope::{Grant, Scope},
};

use crate::{gateway::Gateway, snapshot::Snapshot, supply::role_holder};

/// A role, as far as one tenant may see it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct RoleReport {
    /// The name in the configuration.
    pub name: String,
    /// The grants that match a tool of the tenant or a route.
    pub scopes: Vec<String>,
    /// The scopes of routes that it has, such as `audit:read`.
    pub may: Vec<&'static str>,
    /// The number of tools that it sees.
    pub tools: usize,
}

/// A tool that a role sees.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RoleTool {
    /// The wire name.
    pub name: String,
    /// The id.
    pub tool_id: ToolId,
    /// The source.
    pub source: String,
    /// The tier.
    pub safety_tier: String,
    /// Whether its upstream declares that it may delete or overwrite data.
    pub destructive: bool,
    /// Whether a person must consent.
    pub approval: String,
}

impl Gateway {
    /// Returns the roles with grants in `tenant`, sorted by name.
    pub fn roles_in(&self, tenant: &TenantId) -> Vec<RoleReport> {
        let snapshot = self.snapshot();
        let needs = self.needs_of(&snapshot, tenant);
        let roles = self.authenticator().roles();
        let reports = roles.iter().filter_map(|(name, grants)| {
            report(&snapshot, tenant, &needs, name, grants).map(|(report, _)| report)
        });
        reports.collect()
    }

    /// Returns the role `name` and the tools that it sees in `tenant`; `None` if it has no grants
    /// there.
    pub fn role_in(&self, tenant: &TenantId, name: &str) -> Option<(RoleReport, Vec<RoleTool>)> {
        let snapshot = self.snapshot();
        let needs = self.needs_of(&snapshot, tenant);
        let roles = self.authenticator().roles();
        let (report, view) = report(&snapshot, tenant, &needs, name, roles.get(name)?)?;
        let word = |value: serde_json::Value| value.as_str().unwrap_or_default().to_owned();
        let tool = |entry: &Arc<Entry>| RoleTool {
            name: entry.names.wire.clone(),
            tool_id: entry.id.clone(),
            source: entry.source.to_string(),
            safety_tier: word(serde_json::to_value(entry.tool.safety_tier).unwrap_or_default()),
            destructive: entry.is_said_destructive(),
            approval: word(serde_json::to_value(entry.tool.approval).unwrap_or_default()),
        };
        Some((report, view.entries().iter().map(tool).collect()))
    }

    /// The requirements of the tools and approvals in `tenant`, without the scopes of routes.
    fn needs_of(&self, snapshot: &Snapshot, tenant: &TenantId) -> TenantRequirements {
        let entries = snapshot.catalog.entries().iter();
        let entries = entries.filter(|entry| entry.tenants.admits(tenant));
        let mut needs = TenantRequirements::default();
        for entry in entries {
            let required = entry.tool.required_scopes().unwrap_or_default();
            needs.scopes.extend(required.iter().chain(&entry.consent.scope).cloned());
            needs.roles.extend(entry.consent.role.clone());
        }
        needs.scopes.insert(self.config().approvals.respond_scope.clone());
        needs
    }
}

/// The scopes that tools of a tenant require, and the roles that their approvals require.
#[derive(Default)]
struct TenantRequirements {
    scopes: BTreeSet<Scope>,
    roles: BTreeSet<String>,
}

fn report(
    snapshot: &Snapshot,
    tenant: &TenantId,
    needs: &TenantRequirements,
    name: &str,
    grants: &[Grant],
) -> Option<(RoleReport, Arc<View>)> {
    let principal = role_holder(tenant, name, grants)?;
    let view = snapshot.shared_view(&principal);
    let may: Vec<RouteScope> =
        RouteScope::ALL.iter().copied().filter(|route| route.is_held_by(&principal)).collect();
    let matches = |grant: &&Grant| {
        let is_covered = |route: &RouteScope| {
            Scope::parse(route.as_str()).is_ok_and(|scope| grant.covers(&scope))
        };
        needs.scopes.iter().any(|scope| grant.covers(scope)) || may.iter().any(is_covered)
    };
    let scopes: Vec<String> = grants.iter().filter(matches).map(ToString::to_string).collect();
    if scopes.is_empty() && !needs.roles.contains(name) {
        return None;
    }
    let may = may.iter().map(|scope| scope.as_str()).collect();
    let report = RoleReport { name: name.to_owned(), scopes, may, tools: view.entries().len() };
    Some((report, view))
}
