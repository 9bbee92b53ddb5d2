//! Limits the rights that the claims of a token can give.
//!
//! Invariant (I-100): a claim gives scopes of tools of the token's tenant, and the scopes that the
//! configuration lists for the issuer. It never gives a right that extends beyond the tenant, and a
//! wildcard of the configuration only covers rights on tools.

use std::collections::{BTreeSet, HashMap};

use toolcrib_config::{Config, JwtConfig, scopes::RouteScope};
use toolcrib_core::{
    catalog::Tenants,
    id::TenantId,
    scope::{Grant, Scope},
};

use crate::assembly::classify::narrowed;

/// The uses of the scopes of one configuration.
pub(super) struct ScopeUses {
    /// The tenants with a tool that requires the scope.
    tools: HashMap<String, Vec<Tenants>>,
    /// The scopes of approvers.
    approvals: BTreeSet<String>,
}

// === impl ScopeUses ===

impl ScopeUses {
    pub(super) fn new(config: &Config) -> Self {
        let mut tools: HashMap<String, Vec<Tenants>> = HashMap::new();
        let mut approvals = BTreeSet::from([config.approvals.respond_scope.to_string()]);
        for source in &config.sources {
            let mut note = |scope: &Scope, tenants: Tenants| {
                let known = tools.entry(scope.to_string()).or_default();
                if !known.contains(&tenants) {
                    known.push(tenants);
                }
            };
            if let Ok(usual) = source.default_scope() {
                note(&usual, source.tenants.clone());
            }
            for rule in &source.rules {
                let tenants = narrowed(source, rule.set.tenants.as_ref());
                for scope in rule.set.scopes.iter().flatten() {
                    note(scope, tenants.clone());
                }
            }
            let of_rules = source.rules.iter().filter_map(|rule| rule.set.approval_scope.as_ref());
            approvals.extend(of_rules.map(ToString::to_string));
        }
        Self { tools, approvals }
    }

    /// The part of `claimed` that a token of `issuer` has in `tenant`.
    pub(super) fn admitted(
        &self,
        issuer: &JwtConfig,
        tenant: &TenantId,
        claimed: &[Grant],
    ) -> Vec<Grant> {
        let most = issuer.scopes.as_ref();
        let is_named =
            |text: &str| most.is_some_and(|most| most.iter().any(|grant| grant.as_str() == text));
        let is_admitted = |grant: &&Grant| {
            let text = grant.as_str();
            if RouteScope::named(text).is_some() || self.approvals.contains(text) {
                return is_named(text);
            }
            match most {
                Some(most) => most.includes(grant),
                None => self.is_of_tools(text, tenant),
            }
        };
        claimed.iter().filter(is_admitted).cloned().collect()
    }

    /// Whether a tool of `tenant` requires the scope `text`.
    fn is_of_tools(&self, text: &str, tenant: &TenantId) -> bool {
        self.tools.get(text).is_some_and(|uses| uses.iter().any(|tenants| tenants.admits(tenant)))
    }
}

/// The part of `claimed` that claims may give at all. Otherwise a token could use the wildcard of a
/// role or of an issuer to name a right that the wildcard does not give.
pub(super) fn claimable(claimed: &[Grant]) -> Vec<Grant> {
    let may_be_claimed =
        |grant: &&Grant| RouteScope::named(grant.as_str()).is_none_or(RouteScope::may_be_claimed);
    claimed.iter().filter(may_be_claimed).cloned().collect()
}
